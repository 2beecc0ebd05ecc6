"""Limits of pools within one round: what claims count, and how they make room for one more.

A claim counts the largest machine it may become, so that no launch breaks a limit. Under a tight
limit that would leave pods out which small machines could hold; then claims of the same round give
up their largest types, only as far as it takes. Upstream leaves such pods to a later round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nodewright_controller.scheduling.bins import Claim
from nodewright_controller.scheduling.edits import NODES
from nodewright_controller.scheduling.pools import CompiledPool


@dataclass(frozen=True, slots=True)
class _Cut:
    """What a claim would keep, and what it would count then."""

    claim: Claim
    types: int
    counted: Mapping[str, int]


class Limits:
    """Keeps the books of every pool that has limits."""

    def __init__(self) -> None:
        self._loose: dict[CompiledPool, list[Claim]] = {}
        """Claims that may still give something up, oldest first."""

    def count(self, claim: Claim) -> None:
        """Count a new claim against its pool."""
        pool = claim.pool
        claim.counted = pool.largest_capacity(claim.candidates)
        for resource, amount in claim.counted.items():
            pool.limits_left[resource] -= amount
        self._loose.setdefault(pool, []).append(claim)

    def allowing(self, pool: CompiledPool, types: int) -> int:
        """Return those of the types that the pool may still buy one of, made room for if need be."""
        found = types & pool.within_limits()
        if found or not types or pool.limits_left.get(NODES, 1) < 1:
            return found
        self._make_room(pool, types)
        return types & pool.within_limits()

    def _make_room(self, pool: CompiledPool, types: int) -> None:
        needed = {
            resource: lacking
            for resource, left in pool.limits_left.items()
            if resource != NODES and (lacking := pool.smallest_capacity(types, resource) - left) > 0
        }
        cuts, kept = [], []
        for claim in reversed(self._loose.get(pool, [])):
            if any(lacking > 0 for lacking in needed.values()):
                cut = _cut(claim, needed)
                if cut is not None:
                    cuts.append(cut)
                    for resource in needed:
                        needed[resource] -= claim.counted[resource] - cut.counted[resource]
                elif _is_tight(claim):
                    continue
            kept.append(claim)
        self._loose[pool] = kept[::-1]
        if any(lacking > 0 for lacking in needed.values()):
            return
        for cut in cuts:
            for resource, amount in cut.claim.counted.items():
                pool.limits_left[resource] += amount - cut.counted[resource]
            cut.claim.types &= cut.types
            cut.claim.counted = dict(cut.counted)


def _is_tight(claim: Claim) -> bool:
    pool, types = claim.pool, claim.candidates
    return all(
        resource == NODES or amount <= pool.smallest_capacity(types, resource)
        for resource, amount in claim.counted.items()
    )


def _cut(claim: Claim, needed: Mapping[str, int]) -> _Cut | None:
    """Return the claim without its largest types, as far as what is needed asks for it."""
    pool, types = claim.pool, claim.candidates
    kept = types
    for resource, lacking in needed.items():
        if lacking > 0:
            least = pool.smallest_capacity(types, resource)
            most = max(least, claim.counted[resource] - lacking)
            kept &= pool.up_to(resource, most)
    if not kept or claim.reserved or (pool.min_values and not _still_broad(claim, kept)):
        return None
    counted = pool.largest_capacity(kept)
    if all(counted[resource] >= claim.counted[resource] for resource in needed):
        return None
    return _Cut(claim, kept, counted)


def _still_broad(claim: Claim, types: int) -> bool:
    return claim.min_values_relaxed or not claim.pool.unmet_min_values(claim.state, types)
