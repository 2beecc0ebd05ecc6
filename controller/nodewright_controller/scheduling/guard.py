"""No endless launches: what was bought for a pod and missed is not bought for it again at once.

A *miss* is a claim that was made for a pod and did not help it: the node came and is too small or
carries a taint that nobody declared, kube-scheduler did not use it, or the claim ended before its
node was ready. Each kind has a patience: how many misses are free, and how long the same shape is
then barred for that pod, doubling each time. A bar is about one pod; others may buy the shape.
Claims and clocks are watched in `reconcilers.loop_guard`.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.pods import held_by
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.constraints.taints import format_taint, untolerated
from nodewright_controller.kernel.resources import human_amount


class Miss(enum.Enum):
    """In which way a claim did not help its pod."""

    TOO_SMALL = enum.auto()
    """The pod does not fit on the node even while it is empty."""
    TAINTED = enum.auto()
    """The node has a taint that the pod does not tolerate and the pool does not declare."""
    NOT_USED = enum.auto()
    """By our reckoning the pod would fit, and yet it is not there."""
    DIED = enum.auto()
    """An instance was launched, and the claim ended before its node was ready."""
    UNSOLD = enum.auto()
    """Nothing was launched."""


@dataclass(frozen=True, slots=True)
class Patience:
    """What follows from repeated misses of one kind."""

    free: int
    """How many misses have no consequence."""
    first: timedelta
    """How long the shape is barred after the next one; doubled with each further one."""
    longest: timedelta

    def after(self, times: int) -> timedelta:
        """Return for how long the shape is barred after so many misses."""
        if times <= self.free:
            return timedelta()
        doublings = min(times - self.free - 1, 20)
        return min(self.longest, self.first * (1 << doublings))


PATIENCE: Final[Mapping[Miss, Patience]] = {
    # What a machine has does not change: the next try mostly proves that it was learned wrong.
    Miss.TOO_SMALL: Patience(0, timedelta(minutes=10), timedelta(hours=24)),
    # An agent takes its taint away when it is done; then the pod uses the node that is there.
    Miss.TAINTED: Patience(0, timedelta(minutes=1), timedelta(minutes=30)),
    # Others may have taken the place first, so the first time says little.
    Miss.NOT_USED: Patience(1, timedelta(minutes=2), timedelta(hours=1)),
    Miss.DIED: Patience(1, timedelta(minutes=2), timedelta(hours=1)),
    # Each failed launch rules out what was sold out; several in a row are a storm.
    Miss.UNSOLD: Patience(3, timedelta(seconds=10), timedelta(minutes=5)),
}
_OF_TYPE: Final = (Miss.TOO_SMALL, Miss.NOT_USED)
"""Misses that are about one instance type; others are about the whole pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A shape that is not bought for a pod for now."""

    node_pool: str
    instance_type: str = ""
    """Empty: any type of the pool."""
    miss: Miss
    detail: str = ""
    """What was wrong, for a person to read."""
    times: int = 0
    """How often it missed."""
    until: datetime


@dataclass(frozen=True, slots=True)
class Finding:
    """A miss, judged."""

    miss: Miss
    detail: str = ""


def judge_node(node: StateNode, pod: Pod) -> Finding:
    """Return why a node that was bought for a pod, and is ready, does not have it."""
    taints = untolerated(pod.spec.tolerations or (), node.taints, ignore_preferences=True)
    if taints:
        taint = format_taint(taints[0])
        return Finding(Miss.TAINTED, f"its node has taint {taint}, not declared in startupTaints")
    room = node.allocatable - node.daemon_requested
    for resource, amount in sorted(held_by(pod).items()):
        lacking = amount - room.get(resource, 0)
        if lacking > 0:
            what = f"{human_amount(resource, lacking)} {resource}"
            return Finding(Miss.TOO_SMALL, f"it lacks {what} beside daemons")
    return Finding(Miss.NOT_USED, "kube-scheduler did not use it")


@dataclass(slots=True)
class Misses:
    """What missed whom, and what is barred because of it."""

    _bars: dict[str, dict[tuple[str, str, Miss], Bar]] = field(default_factory=dict)

    def record(
        self, pod: str, node_pool: str, instance_type: str, finding: Finding, now: datetime
    ) -> Bar:
        """Count a miss; return what is known about that shape now."""
        miss = finding.miss
        of_type = instance_type if miss in _OF_TYPE else ""
        known = self._bars.setdefault(pod, {}).get((node_pool, of_type, miss))
        times = 1 + (known.times if known is not None else 0)
        bar = Bar(
            node_pool=node_pool,
            instance_type=of_type,
            miss=miss,
            detail=finding.detail,
            times=times,
            until=now + PATIENCE[miss].after(times),
        )
        self._bars[pod][(node_pool, of_type, miss)] = bar
        return bar

    def bars(self, now: datetime) -> Mapping[str, tuple[Bar, ...]]:
        """Return what is barred now, by pod key."""
        found = {}
        for pod, bars in self._bars.items():
            standing = tuple(bar for bar in bars.values() if bar.until > now)
            if standing:
                found[pod] = standing
        return found

    def keep_only(self, pods: Collection[str]) -> None:
        """Forget pods that wait no longer: they got a place, or are gone."""
        for pod in [pod for pod in self._bars if pod not in pods]:
            del self._bars[pod]
