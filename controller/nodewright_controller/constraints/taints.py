"""Which taints a pod puts up with, and which taints do not count while a node is starting.

Upstream: pkg/scheduling/taints.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodewright_controller.api.labels import UNREGISTERED_TAINT
from nodewright_controller.api.node import Taint
from nodewright_controller.api.pod import Toleration
from nodewright_controller.constraints.requirement import integer

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"

REBOOTING_TAINT: Final = "karpenter.sh/rebooting"

TOLERATE_PREFERENCES: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)
"""What a pod is given when its wish to avoid `PreferNoSchedule` is dropped."""

_EPHEMERAL: Final = frozenset(
    {
        ("node.kubernetes.io/not-ready", "", NO_SCHEDULE),
        ("node.kubernetes.io/not-ready", "", NO_EXECUTE),
        ("node.kubernetes.io/unreachable", "", NO_SCHEDULE),
        ("node.cloudprovider.kubernetes.io/uninitialized", "true", NO_SCHEDULE),
        (UNREGISTERED_TAINT, "", NO_EXECUTE),
    }
)
_EPHEMERAL_PREFIX: Final = "readiness.k8s.io/"


def is_ephemeral(taint: Taint) -> bool:
    """Whether the taint goes away by itself while a node starts."""
    if taint.key.startswith(_EPHEMERAL_PREFIX):
        return True
    return (taint.key, taint.value, taint.effect) in _EPHEMERAL


def same_taint(one: Taint, other: Taint) -> bool:
    """Whether two taints have the same key and effect, which is what identifies a taint."""
    return one.key == other.key and one.effect == other.effect


def tolerates_taint(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration covers the taint, by the rules of kube-scheduler.

    `Lt` and `Gt` compare integers: the taint's value must be below or above the toleration's.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Equal" | "":
            return bool(toleration.key) and toleration.value == taint.value
        case "Lt" | "Gt":
            mine, theirs = integer(toleration.value), integer(taint.value)
            if mine is None or theirs is None:
                return False
            return theirs < mine if toleration.operator == "Lt" else theirs > mine
        case _:
            return False


def untolerated(
    tolerations: Sequence[Toleration], taints: Iterable[Taint], *, ignore_preferences: bool = False
) -> tuple[Taint, ...]:
    """Return the taints that no toleration covers.

    `PreferNoSchedule` counts like the others (a new node should not be one to avoid) unless
    `ignore_preferences` is set.
    """
    return tuple(
        taint
        for taint in taints
        if not (ignore_preferences and taint.effect == PREFER_NO_SCHEDULE)
        and not any(tolerates_taint(toleration, taint) for toleration in tolerations)
    )


def format_taint(taint: Taint) -> str:
    """Return `key=value:effect` as kubectl writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
