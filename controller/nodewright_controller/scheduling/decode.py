"""From masks back to plain values: what the round decided, as a `Decision`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nodewright_controller.api.labels import (
    CAPACITY_RESERVATION_ID,
    CAPACITY_TYPE,
    RESERVED,
    ZONE,
)
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scheduling.bins import Bins, Claim
from nodewright_controller.scheduling.claims import SIMULATED, template_labels
from nodewright_controller.scheduling.classes import PodClass, QueuedPod
from nodewright_controller.scheduling.compiled import Compiled
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


@dataclass(frozen=True, slots=True, eq=False)
class _Options:
    """The types that a claim lists, and what follows from them."""

    numbers: Sequence[int]
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
        self._offers: dict[tuple[CompiledPool, int, int], Offer] = {}
        self._labels: dict[CompiledPool, dict[str, str]] = {}

    def options(self, claim: Claim) -> _Options:
        """Return the types to list on a claim."""
        identity = (claim.pool, claim.candidates, claim.kinds)
        found = self._options.get(identity)
        if found is None:
            found = self._options[identity] = self._find_options(claim)
        return found

    def _find_options(self, claim: Claim) -> _Options:
        index, kinds = claim.pool.index, claim.kinds
        candidates = claim.candidates
        if claim.reserved:
            candidates &= index.offered(kinds)
        # Types of which none can be had now are listed only when there is nothing else.
        mask = candidates & index.launchable(kinds) or candidates
        numbers = _chosen(index.by_price(kinds), mask)
        if len(numbers) > self._most:
            numbers = numbers[: self._most]
            mask = _mask(numbers)
        if claim.pool.min_values and claim.pool.unmet_min_values(claim.state, mask, kinds):
            numbers = self._broad(claim, _chosen(index.by_price(kinds), candidates))
            mask = _mask(numbers)
        all_names = index.names
        names = tuple([all_names[number] for number in numbers])
        return _Options(numbers, names, mask, claim.pool.overhead(mask))

    def _broad(self, claim: Claim, ranked: Sequence[int]) -> list[int]:
        """Return the cheapest types that keep the pool's minValues; dearer ones give way.

        Types that bring new values of most labels come first, so that few are needed for it.
        """
        chosen = dict.fromkeys(_covering(claim, ranked, claim.kinds, self._most))
        for number in ranked:
            if len(chosen) >= self._most:
                break
            chosen[number] = None
        return [number for number in ranked if number in chosen]

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
        if claim.reserved or claim.min_values_relaxed:
            return self._special_requirements(claim, options.mask)
        state = claim.state
        kinds = state.index.listable(state.kinds, options.mask)
        found = state.told.get(kinds)
        if found is None:
            found = state.told[kinds] = _with_capacity_types(state, _plain(state), kinds)
        return found

    def _special_requirements(self, claim: Claim, mask: int) -> Requirements:
        """Return the requirements of a claim that holds reservations or asks for fewer values."""
        state = claim.state
        plain = _plain(state)
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
        return _with_capacity_types(state, plain, state.index.listable(state.kinds, mask))

    def _offer(self, claim: Claim, number: int) -> Offer:
        kinds = claim.kinds
        identity = (claim.pool, number, kinds)
        found = self._offers.get(identity)
        if found is None:
            index = claim.pool.index
            name = index.types[number].name
            way = index.cheapest_kind(number, kinds)
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


def _plain(state: State) -> Requirements:
    return state.requirements.without(*SIMULATED)


def _with_capacity_types(state: State, asked: Requirements, kinds: int) -> Requirements:
    """Return the requirements with the capacity types of these kinds, if there are any."""
    capacity_types: set[str] = set()
    for position, kind in enumerate(state.index.kinds):
        if kinds >> position & 1:
            capacity_types.update(kind.requirements.of(CAPACITY_TYPE).values)
    if not capacity_types:
        return asked
    return asked.merged([Requirement(CAPACITY_TYPE, False, frozenset(capacity_types))])


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
            until=_until(queued.pod_class, explainer.refusals(queued.pod_class)),
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


def _until(pod_class: PodClass, refusals: Iterable[Refusal]) -> str:
    """Return when the first shape that missed the pods may be bought again, if that is the cause."""
    if not any(refusal.reason in (Reason.NOT_TAKEN, Reason.NEVER_JOINED) for refusal in refusals):
        return ""
    return f"not again before {min(bar.until for bar in pod_class.bars):%H:%M:%S} UTC"


def _deferred(queued: QueuedPod, reason: Reason) -> Unschedulable:
    return Unschedulable(pod=queued.pod.key, refusals=(Refusal(reason=reason),))


def _covering(claim: Claim, ranked: Sequence[int], kinds: int, most: int) -> list[int]:
    """Return types, at most so many, that together have enough values of every counted label."""
    pool, types = claim.pool, _mask(ranked)
    missing = dict(pool.min_values)
    unseen = {
        key: {
            value: mask
            for value, mask in (pool.index.values_of(key, types, kinds) or {}).items()
            if claim.state.requirements.of(key).has(value)
        }
        for key in missing
    }

    def gain(number: int) -> int:
        return sum(
            any(mask >> number & 1 for mask in unseen[key].values())
            for key, count in missing.items()
            if count > 0
        )

    found: list[int] = []
    while any(count > 0 for count in missing.values()) and len(found) < most:
        best = max(ranked, key=gain)  # the first, which is the cheapest, of those with most
        if not gain(best):
            break
        found.append(best)
        for key, values in unseen.items():
            for value in [value for value, mask in values.items() if mask >> best & 1]:
                del values[value]
                missing[key] -= 1
    return found


def _chosen(ranked: Iterable[int], mask: int) -> list[int]:
    """Return the members of a mask in the order of a ranking of all types."""
    bits = f"{mask:b}"[::-1]
    there = len(bits)
    return [number for number in ranked if number < there and bits[number] == "1"]


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask
