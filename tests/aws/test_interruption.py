"""The interruption queue: messages understood, claims deleted, nothing lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.error_codes import AwsError
from nodewright_controller.aws.interruption import InterruptionQueue
from nodewright_controller.aws.messages import NO_OP, MessageKind, parse_message
from nodewright_controller.ports.errors import TooManyRequests

from tests.aws.world import World, node_claim
from tests.fakes.harness import FakeRecorder
from tests.fakes.kube import FakeKube


def event(kind: str, source: str = "aws.ec2", **detail: Any) -> str:
    return json.dumps(
        {
            "version": "0",
            "source": source,
            "detail-type": kind,
            "time": "2026-01-01T00:00:00Z",
            "detail": {key.replace("_", "-"): value for key, value in detail.items()},
        }
    )


WARNING = "EC2 Spot Instance Interruption Warning"
STATE = "EC2 Instance State-change Notification"


@pytest.mark.parametrize(
    ("body", "kind", "ids"),
    [
        (event(WARNING, instance_id="i-1"), MessageKind.SPOT_INTERRUPTED, ("i-1",)),
        (
            event("EC2 Instance Rebalance Recommendation", instance_id="i-1"),
            MessageKind.REBALANCE,
            ("i-1",),
        ),
        (event(STATE, instance_id="i-1", state="stopping"), MessageKind.STOPPED, ("i-1",)),
        (event(STATE, instance_id="i-1", state="stopped"), MessageKind.STOPPED, ("i-1",)),
        (event(STATE, instance_id="i-1", state="shutting-down"), MessageKind.TERMINATED, ("i-1",)),
        (event(STATE, instance_id="i-1", state="terminated"), MessageKind.TERMINATED, ("i-1",)),
        (event(STATE, instance_id="i-1", state="running"), MessageKind.NO_OP, ()),
        (event("EC2 Something New", instance_id="i-1"), MessageKind.NO_OP, ()),
        (
            event(
                "AWS Health Event",
                "aws.health",
                service="EC2",
                eventTypeCategory="scheduledChange",
                affectedEntities=[{"entityValue": "i-1"}, {"entityValue": "vol-1"}],
            ),
            MessageKind.SCHEDULED_CHANGE,
            ("i-1",),
        ),
        (
            event("AWS Health Event", "aws.health", service="RDS", eventTypeCategory="issue"),
            MessageKind.NO_OP,
            (),
        ),
    ],
)
def test_messages_are_understood(body: str, kind: MessageKind, ids: tuple[str, ...]) -> None:
    message = parse_message(body)

    assert (message.kind, message.instance_ids) == (kind, ids)


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON"):
        parse_message("hello")
    with pytest.raises(ValueError, match="not an EventBridge event"):
        parse_message("[]")
    assert parse_message(event(WARNING).replace('"0"', '"1"')) == NO_OP


class Site:
    """A queue reader over fakes; `i-1` runs for `claim-1`."""

    def __init__(self) -> None:
        self.world = World(more_options={"interruption_queue": "demo"})
        self.kube = FakeKube(self.world.clock.now)
        self.recorder = FakeRecorder()
        claim = node_claim()
        claim.metadata.finalizers = ["karpenter.sh/termination"]
        claim.metadata.labels = {
            **claim.labels,
            "node.kubernetes.io/instance-type": "m5.large",
            "topology.kubernetes.io/zone": "us-west-2a",
            "karpenter.sh/capacity-type": "spot",
        }
        claim.status.provider_id = "aws:///us-west-2a/i-1"
        self.kube.add(claim)
        self.queue = InterruptionQueue(
            self.world.provider,
            self.kube,
            self.recorder,
            node_claims=self.kube.store(NodeClaim),
            nodes=self.kube.store(Node),
        )

    def send(self, *bodies: str) -> None:
        self.world.aws.sqs.messages = [
            {"Body": body, "ReceiptHandle": str(index)} for index, body in enumerate(bodies)
        ]

    @property
    def deleting(self) -> bool:
        claim = self.kube.store(NodeClaim).get("claim-1")
        return claim is not None and claim.deleting

    @property
    def left(self) -> int:
        return len(self.world.aws.sqs.messages)


async def test_a_spot_warning_deletes_the_claim_and_remembers_the_pool() -> None:
    site = Site()
    site.send(event(WARNING, instance_id="i-1"))

    result = await site.queue.step()

    assert site.deleting
    assert site.left == 0
    assert site.world.provider.unavailable.is_unavailable("m5.large", "us-west-2a", "spot")
    assert site.recorder.reasons() == ["SpotInterrupted", "TerminatingOnInterruption"]
    assert result.requeue_after == 0


async def test_a_warning_about_a_reservation_deletes_the_claim_and_remembers_the_reservation() -> (
    None
):
    site = Site()
    reserved = {
        "karpenter.sh/capacity-type": "reserved",
        "karpenter.k8s.aws/capacity-reservation-id": "cr-1",
    }
    await site.kube.patch(NodeClaim, "claim-1", {"metadata": {"labels": reserved}})
    kind = "EC2 Capacity Reservation Instance Interruption Warning"
    site.send(event(kind, instance_id="i-1"))

    await site.queue.step()

    unavailable = site.world.provider.unavailable
    assert site.deleting
    assert unavailable.reservation_until("m5.large", "cr-1") is not None
    assert not unavailable.is_unavailable("m5.large", "us-west-2a", "on-demand")


async def test_a_rebalance_recommendation_is_only_told() -> None:
    site = Site()
    site.send(event("EC2 Instance Rebalance Recommendation", instance_id="i-1"))

    await site.queue.step()

    assert not site.deleting
    assert site.recorder.reasons() == ["SpotRebalanceRecommendation"]


async def test_messages_about_others_and_unreadable_ones_are_deleted() -> None:
    site = Site()
    site.send("nonsense", event(WARNING, instance_id="i-9"), event("EC2 Other"))

    await site.queue.step()

    assert site.left == 0
    assert not site.deleting
    assert site.recorder.events == []


async def test_a_message_that_could_not_be_handled_comes_again() -> None:
    site = Site()
    site.send(event(WARNING, instance_id="i-1"))
    site.kube.fail_next = [TooManyRequests("slow down")]

    await site.queue.step()
    assert site.left == 1
    await site.queue.step()

    assert site.left == 0
    assert site.deleting


async def test_the_same_news_twice_is_fine() -> None:
    site = Site()
    warning = event(WARNING, instance_id="i-1")
    site.send(warning, warning, event(STATE, instance_id="i-1", state="shutting-down"))

    await site.queue.step()

    assert site.left == 0
    assert site.recorder.reasons().count("TerminatingOnInterruption") >= 1


async def test_a_queue_that_was_made_anew_is_found_again() -> None:
    site = Site()
    await site.queue.step()
    sqs = site.world.aws.sqs
    sqs.refuse["receive_message"] = AwsError("AWS.SimpleQueueService.NonExistentQueue", "gone")
    with pytest.raises(AwsError):
        await site.queue.step()
    sqs.refuse.clear()

    await site.queue.step()

    assert len(sqs.requests("get_queue_url")) == 2
