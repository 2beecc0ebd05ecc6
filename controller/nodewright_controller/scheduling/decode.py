"""From masks back to plain values: what the round decided, as a `Decision`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nodewright_controller.api.labels import (
    CAPACITY_RESERVATION_ID,
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    REGISTERED,
    RESERVED,
    ZONE,
)
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scheduling.bins import Bins, Claim
from nodewright_controller.scheduling.claims import template_labels
from nodewright_controller.scheduling.compiled import Compiled, PodClass, QueuedPod
from nodewright_controller.scheduling.decision import (
    Decision,
    Offer,
    PlannedClaim,
    Refusal,
    Unschedulable,
)
from nodewright_controller.scheduling.explain import Explainer
from nodewright_controller.scheduling.pools import CompiledPool
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.states import State

_SIMULATED = (HOSTNAME, REGISTERED, INITIALIZED)


@dataclass(frozen=True, slots=True, eq=False)
class _Options:
    """The types that a claim lists, and what follows from them."""

    numbers: tuple[int, ...]
    """Cheapest first."""
    names: tuple[str, ...]
    mask: int
    overhead: Resources


class Decoder:
    """Turns claims into values; claims that came to the same share the work."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._most = compiled.problem.options.max_instance_types
        self._options: dict[tuple[CompiledPool, int, int], _Options] = {}
        self._final: dict[tuple[State, _Options, frozenset[str]], Requirements] = {}
        self._offers: dict[tuple[CompiledPool, int, int], Offer] = {}
        self._labels: dict[CompiledPool, dict[str, str]] = {}

    def options(self, claim: Claim) -> _Options:
        """Return the types to list on a claim."""
        identity = (claim.pool, claim.candidates, claim.state.kinds)
        found = self._options.get(identity)
        if found is None:
            found = self._options[identity] = self._find_options(claim)
        return found

    def _find_options(self, claim: Claim) -> _Options:
        index = claim.pool.index
        ranked = [
            (price, number)
            for price, number in index.by_price(claim.state.kinds)
            if claim.candidates >> number & 1
        ]
        # Types of which none can be had now are listed only when there is nothing else.
        launchable = [row for row in ranked if row[0] != float("inf")] or ranked
        numbers = tuple(number for _, number in launchable[: self._most])
        mask = _mask(numbers)
        names = tuple(index.types[number].name for number in numbers)
        return _Options(numbers, names, mask, claim.pool.overhead(mask))

    def claim(self, claim: Claim) -> PlannedClaim:
        """Return the plan of a claim."""
        pool, options = claim.pool, self.options(claim)
        overhead = options.overhead
        totals = Resources(
            (name, amount)
            for name, amount in zip(self._compiled.resources, claim.totals, strict=True)
            if amount
        )
        if pool not in self._labels:
            self._labels[pool] = template_labels(pool.node_pool)
        return PlannedClaim(
            node_pool=pool.name,
            pods=tuple(queued.pod.key for queued in claim.pods),
            requirements=self._requirements(claim, options),
            instance_types=options.names,
            cheapest=self._offer(claim, options.numbers[0]),
            requests=totals + overhead if overhead else totals,
            daemon_overhead=overhead,
            labels=self._labels[pool],
            taints=pool.taints,
            min_values_relaxed=claim.min_values_relaxed,
            reservations=tuple(sorted(claim.reserved)),
        )

    def _requirements(self, claim: Claim, options: _Options) -> Requirements:
        identity = (claim.state, options, claim.reserved)
        found = self._final.get(identity)
        if found is None:
            found = self._find_requirements(claim, options.mask)
            self._final[identity] = found
        return found

    def _find_requirements(self, claim: Claim, mask: int) -> Requirements:
        """Return the claim's requirements, with the capacity types that its types can have."""
        state = claim.state
        plain = state.requirements.without(*_SIMULATED)
        if claim.min_values_relaxed:
            # A launch asks for no more values than there are; it would refuse the claim otherwise.
            short = claim.pool.unmet_min_values(state, mask)
            plain = Requirements(
                replace(found, min_values=short[key]) if key in short else found
                for key, found in plain.items()
            )
        if claim.reserved:
            return plain.merged(
                [
                    Requirement(CAPACITY_TYPE, False, frozenset((RESERVED,))),
                    Requirement(CAPACITY_RESERVATION_ID, False, claim.reserved),
                ]
            )
        capacity_types: set[str] = set()
        for position, kind in enumerate(state.index.kinds):
            usable = kind.launchable or kind.available
            if state.kinds >> position & 1 and usable & mask:
                capacity_types.update(kind.requirements.of(CAPACITY_TYPE).values)
        if not capacity_types:
            return plain
        return plain.merged([Requirement(CAPACITY_TYPE, False, frozenset(capacity_types))])

    def _offer(self, claim: Claim, number: int) -> Offer:
        identity = (claim.pool, number, claim.state.kinds)
        found = self._offers.get(identity)
        if found is None:
            index = claim.pool.index
            name = index.types[number].name
            way = index.cheapest_kind(number, claim.state.kinds)
            if way is None:
                found = Offer(
                    instance_type=name, zone="", capacity_type="", usd_per_hour=float("inf")
                )
            else:
                price, kind = way
                found = Offer(
                    instance_type=name,
                    zone=kind.requirements.of(ZONE).any_value(),
                    capacity_type=kind.requirements.of(CAPACITY_TYPE).any_value(),
                    usd_per_hour=price,
                )
            self._offers[identity] = found
        return found


def decode(
    compiled: Compiled,
    bins: Bins,
    waiting: Iterable[QueuedPod],
    unplaced: Iterable[QueuedPod],
    unasked: Iterable[QueuedPod],
    explainer: Explainer,
) -> Decision:
    """Return the decision of a finished round."""
    decoder = Decoder(compiled)
    pools = len(compiled.pools)
    placements = {
        queued.pod.key: compiled.nodes.nodes[number].name
        for number, placed in enumerate(bins.on_node)
        for queued in placed
    }
    standing: dict[PodClass, str] = {}
    for queued in unplaced:
        known = standing.get(queued.pod_class)
        if known is None or queued.pod.key < known:
            standing[queued.pod_class] = queued.pod.key
    failed = [
        Unschedulable(
            pod=queued.pod.key,
            refusals=explainer.refusals(queued.pod_class),
            pools=pools,
            like=standing[queued.pod_class],
        )
        for queued in unplaced
    ]
    failed.extend(
        Unschedulable(pod=key, refusals=(refusal,), like=key)
        for key, refusal in compiled.rejected.items()
    )
    deferred = [_deferred(queued, Reason.RESERVATION_PENDING) for queued in waiting]
    deferred.extend(_deferred(queued, Reason.OUT_OF_TIME) for queued in unasked)
    return Decision(
        placements=dict(sorted(placements.items())),
        new_claims=tuple(decoder.claim(claim) for claim in bins.claims),
        unschedulable=tuple(sorted(failed, key=lambda one: one.pod)),
        deferred=tuple(sorted(deferred, key=lambda one: one.pod)),
    )


def _deferred(queued: QueuedPod, reason: Reason) -> Unschedulable:
    return Unschedulable(pod=queued.pod.key, refusals=(Refusal(reason=reason),))


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask
