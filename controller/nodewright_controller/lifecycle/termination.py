"""How a node is drained: which pods must go, in which order, and by what means.

Upstream: pkg/controllers/node/termination/terminator.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from nodewright_controller.api import labels
from nodewright_controller.api.node import Node, Taint
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.pod import Pod
from nodewright_controller.api.policy import VolumeAttachment
from nodewright_controller.cluster.pods import (
    is_drainable,
    is_evictable,
    is_owned_by_daemon_set,
    is_terminal,
)
from nodewright_controller.kernel.timing import parse_duration, parse_instant

MIN_DRAIN_TIME: Final = timedelta(seconds=5)
_CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})
_DEFAULT_GRACE: Final = 30


class Means(enum.Enum):
    """How a pod is made to go."""

    EVICT = "evict"
    FORCE_DELETE = "force-delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One pod that must go now."""

    pod: Pod
    means: Means
    grace_seconds: int | None = None
    """For forced deletion: the seconds that are left to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """What to do next for the pods of a node."""

    waiting: tuple[Pod, ...]
    """Every pod that the drain still waits for."""
    removals: tuple[Removal, ...]
    """Those that must be asked to go now."""

    @property
    def finished(self) -> bool:
        """Whether no pod is left to wait for."""
        return not self.waiting


def termination_time(node_claim: NodeClaim | None) -> datetime | None:
    """Return when the claim's grace period ends, or None when it has none (or an unreadable one)."""
    text = (node_claim.annotations if node_claim else {}).get(labels.TERMINATION_TIMESTAMP)
    if not text:
        return None
    try:
        return parse_instant(text)
    except ValueError:
        return None


def deadline_of(node_claim: NodeClaim) -> datetime | None:
    """Return deletion time plus terminationGracePeriod, or None without one.

    Raises:
        ValueError: the grace period cannot be read.
    """
    period = node_claim.spec.termination_grace_period
    deleted = node_claim.metadata.deletion_timestamp
    return None if period is None or deleted is None else deleted + parse_duration(period)


def disrupted_taints(node: Node) -> list[Taint] | None:
    """Return the taints of a node that is leaving, or None when it carries them already."""
    current = list(node.spec.taints or ())
    wanted = Taint(key=labels.DISRUPTED_TAINT, effect="NoSchedule")
    if any(t.key == wanted.key and t.effect == wanted.effect for t in current):
        return None
    return [*(t for t in current if t.key != wanted.key), wanted]


def plan_drain(pods: Iterable[Pod], now: datetime, deadline: datetime | None) -> Drain:
    """Decide which pods go now. Tiers leave one after the other; forced deletions do not wait."""
    ordered = sorted(pods, key=lambda pod: pod.key)
    waiting = tuple(p for p in ordered if not is_terminal(p) and is_drainable(p, now))
    removals: list[Removal] = []
    for pod in waiting:
        grace = forced_grace_seconds(pod, now, deadline)
        if grace is not None:
            removals.append(Removal(pod=pod, means=Means.FORCE_DELETE, grace_seconds=grace))
    forced = {removal.pod.uid for removal in removals}
    removals.extend(
        Removal(pod=pod, means=Means.EVICT)
        for pod in _first_tier([pod for pod in waiting if pod.uid not in forced])
        if not pod.deleting and is_evictable(pod, now)
    )
    return Drain(waiting=waiting, removals=tuple(removals))


def _first_tier(pods: Sequence[Pod]) -> list[Pod]:
    if not pods:
        return []
    tiers = {pod.uid: _tier(pod) for pod in pods}
    first = min(tiers.values())
    return [pod for pod in pods if tiers[pod.uid] == first]


def _tier(pod: Pod) -> tuple[bool, bool]:
    return (pod.spec.priority_class_name in _CRITICAL, is_owned_by_daemon_set(pod))


def forced_grace_seconds(pod: Pod, now: datetime, deadline: datetime | None) -> int | None:
    """Return the grace with which the pod must be deleted now, or None if eviction still has time.

    A pod is deleted early enough that its own grace period ends before the node's deadline.
    """
    if deadline is None:
        return None
    left = max(1, int((deadline - now).total_seconds()))
    if pod.metadata.deletion_timestamp is not None:
        return left if pod.metadata.deletion_timestamp > deadline else None
    own = pod.spec.termination_grace_period_seconds
    start = deadline - timedelta(seconds=_DEFAULT_GRACE if own is None else own)
    return left if now > start else None


def awaited_attachments(
    attachments: Iterable[VolumeAttachment], node_name: str, undrainable_volumes: frozenset[str]
) -> tuple[VolumeAttachment, ...]:
    """Return the volume attachments that must be gone before the instance may be stopped.

    Those of pods that the drain leaves alone, and those without a volume, are not waited for.
    """
    return tuple(
        attachment
        for attachment in attachments
        if attachment.spec.node_name == node_name
        and attachment.spec.source.persistent_volume_name
        and attachment.spec.source.persistent_volume_name not in undrainable_volumes
    )
