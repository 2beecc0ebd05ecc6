"""What EventBridge tells about our instances: one frozen value per message. Pure.

Upstream: pkg/controllers/interruption/messages.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from nodewright_controller.kernel.timing import parse_instant


class MessageKind(enum.StrEnum):
    """What a message is about; values are the labels of the metric."""

    SPOT_INTERRUPTED = "spot_interrupted"
    REBALANCE = "rebalance_recommendation"
    SCHEDULED_CHANGE = "scheduled_change"
    STOPPED = "instance_stopped"
    TERMINATED = "instance_terminated"
    RESERVATION_INTERRUPTED = "capacity_reservation_interrupted"
    NO_OP = "no_op"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message that is about instances of EC2."""

    kind: MessageKind
    instance_ids: tuple[str, ...] = ()
    sent: datetime | None = None


NO_OP: Final = Message(kind=MessageKind.NO_OP)
_STOPPED: Final = frozenset({"stopping", "stopped"})
_TERMINATED: Final = frozenset({"shutting-down", "terminated"})


def parse_message(body: str) -> Message:
    """Read the body of a queue message; what is none of our business is a `NO_OP`.

    Raises:
        ValueError: the body is no EventBridge event.

    """
    try:
        event = json.loads(body)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(event, dict) or "detail-type" not in event:
        raise ValueError("not an EventBridge event")
    parser = _PARSERS.get((event.get("source", ""), event["detail-type"]))
    if parser is None or str(event.get("version", "0")) != "0":
        return NO_OP
    kind, instance_ids = parser(event.get("detail") or {})
    sent = event.get("time")
    if kind is MessageKind.NO_OP or not instance_ids:
        return NO_OP
    return Message(kind=kind, instance_ids=instance_ids, sent=parse_instant(sent) if sent else None)


Parsed = tuple[MessageKind, tuple[str, ...]]


def _instance(detail: Mapping[str, Any]) -> tuple[str, ...]:
    found = detail.get("instance-id")
    return (str(found),) if found else ()


def _always(kind: MessageKind) -> Callable[[Mapping[str, Any]], Parsed]:
    return lambda detail: (kind, _instance(detail))


def _state_change(detail: Mapping[str, Any]) -> Parsed:
    state = str(detail.get("state", "")).lower()
    if state in _STOPPED:
        return MessageKind.STOPPED, _instance(detail)
    if state in _TERMINATED:
        return MessageKind.TERMINATED, _instance(detail)
    return MessageKind.NO_OP, ()


def _health(detail: Mapping[str, Any]) -> Parsed:
    if detail.get("service") != "EC2" or detail.get("eventTypeCategory") != "scheduledChange":
        return MessageKind.NO_OP, ()
    values = (str(entity.get("entityValue", "")) for entity in detail.get("affectedEntities") or ())
    return MessageKind.SCHEDULED_CHANGE, tuple(each for each in values if each.startswith("i-"))


_PARSERS: Final[Mapping[tuple[str, str], Callable[[Mapping[str, Any]], Parsed]]] = {
    ("aws.ec2", "EC2 Spot Instance Interruption Warning"): _always(MessageKind.SPOT_INTERRUPTED),
    ("aws.ec2", "EC2 Instance Rebalance Recommendation"): _always(MessageKind.REBALANCE),
    ("aws.ec2", "EC2 Instance State-change Notification"): _state_change,
    ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"): _always(
        MessageKind.RESERVATION_INTERRUPTED
    ),
    ("aws.health", "AWS Health Event"): _health,
}


@dataclass(frozen=True, slots=True)
class Reaction:
    """What a kind of message leads to."""

    event_reason: str
    text: str
    deletes: bool
    warning: bool = True


REACTIONS: Final[Mapping[MessageKind, Reaction]] = {
    MessageKind.SPOT_INTERRUPTED: Reaction(
        "SpotInterrupted", "Spot interruption warning was triggered", deletes=True
    ),
    MessageKind.REBALANCE: Reaction(
        "SpotRebalanceRecommendation",
        "Spot rebalance recommendation was triggered",
        deletes=False,
        warning=False,
    ),
    MessageKind.SCHEDULED_CHANGE: Reaction(
        "InstanceUnhealthy", "An unhealthy warning was triggered for the instance", deletes=True
    ),
    MessageKind.STOPPED: Reaction("InstanceStopping", "Instance is stopping", deletes=True),
    MessageKind.TERMINATED: Reaction(
        "InstanceTerminating", "Instance is terminating", deletes=True
    ),
    MessageKind.RESERVATION_INTERRUPTED: Reaction(
        "CapacityReservationInstanceInterrupted",
        "Capacity reservation interruption warning was triggered",
        deletes=True,
    ),
}
