"""What a round of scheduling decided, as plain values: placements, claims to make, and refusals.

A decision can be printed, counted, compared and replayed; it says nothing about how it is carried
out. Its one-line texts follow the grammar
`pod/NAMESPACE/NAME VERDICT: CAUSE (SCOPE) → NEXT  [CODE]`, where NEXT is a fix that was proven, an
event that is awaited, or a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from nodewright_controller.api.node import Taint
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import EMPTY, Resources
from nodewright_controller.kernel.text import shorten
from nodewright_controller.scheduling.edits import Edit, joined
from nodewright_controller.scheduling.reasons import AWAITED, NOT_MEANT, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One check that one pool (or the pod itself) does not pass."""

    reason: Reason
    parameters: Mapping[str, str] = field(default_factory=dict)
    node_pool: str = ""
    """The pool that refuses; empty when no pool is involved."""
    edits: tuple[Edit, ...] = ()
    """Changes that might lift it, likely ones first; not proven."""

    @property
    def code(self) -> str:
        """The code of the cause."""
        return self.reason.code

    @property
    def text(self) -> str:
        """The cause as a sentence without its pool."""
        return self.reason.template.format(**self.parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """Changes after which the solver places the pod; leaving one of them out does not do."""

    edits: tuple[Edit, ...]

    @property
    def text(self) -> str:
        """The changes as one text."""
        return joined(self.edits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unschedulable:
    """A pod that got no place, and every check that stood in the way."""

    pod: str
    """`namespace/name`."""
    refusals: tuple[Refusal, ...]
    """Nearest misses first: pools with few failed checks, then by weight; never empty."""
    pools: int = 0
    """How many pools were asked."""
    like: str = ""
    """The pod that stands for all that are equal to this one; itself if it is the only one."""
    fixes: tuple[Fix, ...] | None = None
    """Proven fixes, at most three; None when none were looked for."""
    until: str = ""
    """When it is looked at again, where that is known, as a text such as `after 10:04:30`."""

    @property
    def reason(self) -> Reason:
        """The foremost cause."""
        return self.refusals[0].reason

    @property
    def code(self) -> str:
        """The code of the foremost cause."""
        return self.reason.code


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An instance type as it can be bought."""

    instance_type: str
    zone: str
    capacity_type: str
    usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClaim:
    """A node to ask for."""

    node_pool: str
    pods: tuple[str, ...]
    """Keys of the pods planned onto it, in the order in which they were placed."""
    requirements: Requirements
    """What the node must be: pool, pods, volumes and topology together; without instance types."""
    instance_types: tuple[str, ...]
    """Names of the types that fit, cheapest first."""
    cheapest: Offer
    """The cheapest way to get it now."""
    requests: Resources
    """What its pods and daemons take, `pods` included."""
    daemon_overhead: Resources = EMPTY
    """The daemons' part of it; the least over the types, where they differ."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the pool's template, with pool and node class."""
    taints: tuple[Taint, ...] = ()
    min_values_relaxed: bool = False
    """Whether `minValues` was lowered to what could be had."""
    reservations: tuple[str, ...] = ()
    """Ids of the capacity reservations it may use."""

    @property
    def zone(self) -> str:
        """The zone of the cheapest offering."""
        return self.cheapest.zone

    @property
    def usd_per_hour(self) -> float:
        """The price of the cheapest offering."""
        return self.cheapest.usd_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Who goes where, what to make for the rest, and who goes nowhere."""

    placements: Mapping[str, str] = field(default_factory=dict)
    """Pod key to the name of the existing node, or of the claim in flight."""
    new_claims: tuple[PlannedClaim, ...] = ()
    unschedulable: tuple[Unschedulable, ...] = ()
    """By pod key."""
    deferred: tuple[Unschedulable, ...] = ()
    """Pods that wait for a later round by design; not failures."""

    def new_node(self, pod: str) -> PlannedClaim:
        """Return the new claim of a pod, given by key or by bare name.

        Raises:
            KeyError: the pod is on none.

        """
        for claim in self.new_claims:
            if any(key == pod or key.rpartition("/")[2] == pod for key in claim.pods):
                return claim
        raise KeyError(pod)

    @property
    def usd_per_hour(self) -> float:
        """What the new claims cost at their cheapest."""
        return sum(claim.usd_per_hour for claim in self.new_claims)


def message(unschedulable: Unschedulable) -> str:
    """Return the one line that tells a person why the pod has no place, and what would help.

    Refusals of the same pool are joined, pools follow in order. Pools that are not meant for the
    pod and miss it by more than that are only counted. It is cut to 1,000 bytes at a word.
    """
    first = unschedulable.refusals[0]
    by_pool: dict[str, list[Refusal]] = {}
    for refusal in unschedulable.refusals:
        by_pool.setdefault(refusal.node_pool, []).append(refusal)
    told = {
        pool: refusals
        for pool, refusals in by_pool.items()
        if pool == first.node_pool or not _is_far(refusals)
    }
    causes = "; ".join(_cause(pool, refusals) for pool, refusals in told.items())
    folded = len(by_pool) - len(told)
    if folded:
        causes += f"; +{folded} not meant for it"
    scope = f" (0/{unschedulable.pools} pools)" if unschedulable.pools else ""
    following = next_step(unschedulable)
    head = f"pod/{unschedulable.pod} {first.reason.verdict}: "
    tail = f"  [{first.code}]"
    if following:
        room = _LONGEST - _LEAST_FOR_CAUSES - len((head + scope + tail).encode())
        tail = f" → {shorten(following, room, _CUT)}{tail}"
    tail = scope + tail
    return head + shorten(causes, _LONGEST - len(head.encode()) - len(tail.encode()), _CUT) + tail


_CUT: Final = " …"
_LONGEST: Final = 1000
_LEAST_FOR_CAUSES: Final = 400


def next_step(unschedulable: Unschedulable) -> str:
    """Return the proven fixes, else what is awaited, else that nothing small helps."""
    parts = [fix.text for fix in unschedulable.fixes or ()]
    awaited = unschedulable.until or AWAITED.get(unschedulable.reason, "")
    if awaited:
        parts.append(awaited)
    if parts:
        return "; or ".join(parts)
    sought = unschedulable.fixes is not None
    return "no small change to pod or pool helps" if sought else ""


def _is_far(refusals: list[Refusal]) -> bool:
    return len(refusals) > 1 and any(refusal.reason in NOT_MEANT for refusal in refusals)


def _cause(pool: str, refusals: list[Refusal]) -> str:
    causes = " and ".join(dict.fromkeys(refusal.text for refusal in refusals))
    return f"pool {pool}: {causes}" if pool else causes
