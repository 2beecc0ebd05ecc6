"""EC2's events on their way to queues: EventBridge rules decide, SQS receives.

moto keeps the rules and the queues but emits no EC2 events and delivers none; this is the missing
piece between them.
"""

import json
import logging
import uuid
from datetime import UTC, datetime
from typing import Any

from nodewright_local.aws import moto_access

log = logging.getLogger(__name__)

STATE_CHANGE = "EC2 Instance State-change Notification"
SPOT_WARNING = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"


def make_event(
    region: str, source: str, detail_type: str, resources: list[str], detail: dict[str, Any]
) -> dict[str, Any]:
    """Build an event in EventBridge's envelope, version 0."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": detail_type,
        "source": source,
        "account": moto_access.account(),
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": region,
        "resources": resources,
        "detail": detail,
    }


def instance_event(
    region: str, instance_id: str, detail_type: str, **detail: str
) -> dict[str, Any]:
    """Build an EC2 event about one instance."""
    resource = f"arn:aws:ec2:{region}:{moto_access.account()}:instance/{instance_id}"
    return make_event(
        region, "aws.ec2", detail_type, [resource], {"instance-id": instance_id, **detail}
    )


def publish(event: dict[str, Any]) -> int:
    """Deliver an event of an AWS service to the queues its rules name; return how many took it.

    AWS's own events arrive on the default bus. Targets other than SQS queues are passed over.
    """
    region = event["region"]
    bus = moto_access.events(region).event_buses["default"]
    delivered = 0
    for rule in list(bus.rules.values()):
        if rule.state != "ENABLED" or not rule.event_pattern.matches_event(event):
            continue
        for target in list(rule.targets):
            delivered += _deliver(target, event)
    return delivered


def _deliver(target: dict[str, Any], event: dict[str, Any]) -> int:
    arn = target["Arn"]
    if ":sqs:" not in arn:
        log.info("no delivery to a target that is not a queue: %s", arn)
        return 0
    _, _, _, region, _, queue = arn.split(":", 5)
    backend = moto_access.sqs(region)
    if queue not in backend.queues:
        log.warning("a rule names a queue that does not exist: %s", arn)
        return 0
    backend.send_message(queue_name=queue, message_body=_body(target, event))
    return 1


def _body(target: dict[str, Any], event: dict[str, Any]) -> str:
    constant = target.get("Input")
    return constant if constant else json.dumps(event)
