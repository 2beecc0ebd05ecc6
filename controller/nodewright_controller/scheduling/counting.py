"""Pods of the round, counted into the tallies as they are placed.

On a claim whose domain is not certain yet a pod is counted as soon as it is.
"""

from __future__ import annotations

from nodewright_controller.scheduling.bins import Claim
from nodewright_controller.scheduling.classes import PodClass
from nodewright_controller.scheduling.compiled import Compiled
from nodewright_controller.scheduling.pools import CompiledPool
from nodewright_controller.scheduling.running_pods import tolerations_of
from nodewright_controller.scheduling.topology import EVERYWHERE, Tally


class Counting:
    """Counts within one look."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._eligible_pools: dict[tuple[Tally, CompiledPool], bool] = {}

    def on_node(self, pod_class: PodClass, number: int) -> None:
        """Count a pod of the class that was put on a node."""
        shape, bit = pod_class.shape, 1 << number
        for tally in shape.counted:
            if tally.eligible_nodes & bit:
                self._count_on_node(tally, number)
        for tally in shape.owned:
            self._count_on_node(tally, number)

    def _count_on_node(self, tally: Tally, number: int) -> None:
        if tally.by_host:
            tally.add_to_bin(1 << number)
            return
        value = self._compiled.nodes.value(number, tally.key)
        if value is not None:
            tally.add_to_domain(value)

    def on_claim(self, pod_class: PodClass, claim: Claim, *, narrowed: bool) -> None:
        """Count a pod of the class that was put on a claim, which may be narrower since."""
        if narrowed and claim.waiting:
            claim.waiting = [t for t in claim.waiting if not self._count_in_domain(t, claim)]
        shape = pod_class.shape
        for tally in shape.counted:
            if tally.eligibility is EVERYWHERE or self._counts_on(tally, claim):
                self._count_on_claim(tally, claim)
        for tally in shape.owned:
            self._count_on_claim(tally, claim)

    def _count_on_claim(self, tally: Tally, claim: Claim) -> None:
        if tally.by_host:
            tally.add_to_bin(claim.bit)
        elif not self._count_in_domain(tally, claim):
            claim.waiting.append(tally)

    def _count_in_domain(self, tally: Tally, claim: Claim) -> bool:
        """Count a pod of the claim if its domain is certain; whether it was."""
        values = claim.state.values(tally.key)
        if values is None or len(values) > 1:
            return False
        for value in values:
            tally.add_to_domain(value)
        return True

    def _counts_on(self, tally: Tally, claim: Claim) -> bool:
        eligibility = tally.eligibility
        if eligibility.alternatives is not None and not any(
            claim.state.step(alternative) for alternative in eligibility.alternatives
        ):
            return False
        if eligibility.tolerations is None:
            return True
        identity = (tally, claim.pool)
        found = self._eligible_pools.get(identity)
        if found is None:
            found = self._eligible_pools[identity] = claim.pool.tolerated(tolerations_of(tally))
        return found
