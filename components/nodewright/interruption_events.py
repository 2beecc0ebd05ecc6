"""Which AWS events the controller wants to hear, and who may put them into its queue. Pure."""

from dataclasses import dataclass
from typing import Any

from nodewright.iam_documents import Document, document


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionRule:
    """One EventBridge rule."""

    name: str
    """Kebab-case, part of the resource's name."""
    description: str
    source: str
    detail_type: str

    @property
    def pattern(self) -> dict[str, Any]:
        """The event pattern of the rule."""
        return {"source": [self.source], "detail-type": [self.detail_type]}


RULES: tuple[InterruptionRule, ...] = (
    InterruptionRule(
        name="scheduled-change",
        description="AWS Health: an instance will be changed or retired",
        source="aws.health",
        detail_type="AWS Health Event",
    ),
    InterruptionRule(
        name="spot-interruption",
        description="EC2 takes a Spot Instance back in two minutes",
        source="aws.ec2",
        detail_type="EC2 Spot Instance Interruption Warning",
    ),
    InterruptionRule(
        name="rebalance",
        description="EC2 sees a raised risk of interruption",
        source="aws.ec2",
        detail_type="EC2 Instance Rebalance Recommendation",
    ),
    InterruptionRule(
        name="state-change",
        description="An instance stops or ends",
        source="aws.ec2",
        detail_type="EC2 Instance State-change Notification",
    ),
    InterruptionRule(
        name="reservation-interruption",
        description="EC2 takes an interruptible capacity reservation back",
        source="aws.ec2",
        detail_type="EC2 Capacity Reservation Instance Interruption Warning",
    ),
)

TARGET_ID = "KarpenterInterruptionQueueTarget"
MESSAGE_RETENTION_SECONDS = 300
"""A warning older than the two minutes it announces is of no use."""


def queue_policy(queue_arn: str) -> Document:
    """Let EventBridge write to the queue, and refuse every request without TLS."""
    return document(
        [
            {
                "Sid": "EC2InterruptionPolicy",
                "Effect": "Allow",
                "Principal": {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]},
                "Action": "sqs:SendMessage",
                "Resource": queue_arn,
            },
            {
                "Sid": "DenyHTTP",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sqs:*",
                "Resource": queue_arn,
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ]
    )
