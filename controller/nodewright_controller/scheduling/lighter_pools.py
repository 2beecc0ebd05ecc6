"""Whether a pool of less weight would have been cheaper for the pods of a planned claim.

Pools are tried by weight, so a dear pool that comes first hides a cheap one. That is found as fixes
are: by asking the same solver, with only those pods and only the lighter pools. What cannot be
cheaper is not asked, claims that are alike are asked about once, and the number of questions per
round is bounded, so that a round is not held up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scheduling.decision import PlannedClaim
from nodewright_controller.scheduling.problem import PoolOffer, Problem
from nodewright_controller.scheduling.solver import solve

MOST_QUESTIONS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Lighter:
    """A pool of less weight, and what it would have taken for the same pods."""

    node_pool: str
    usd_per_hour: float


class LighterPools:
    """Answers for the claims of one round."""

    def __init__(self, problem: Problem, most_questions: int = MOST_QUESTIONS) -> None:
        self._problem = problem
        self._left = most_questions
        self._weights: Mapping[str, int] = {
            offer.node_pool.name: offer.node_pool.spec.weight or 0 for offer in problem.node_pools
        }
        self._known: dict[tuple[str, Resources, tuple[str, ...]], Lighter | None] = {}

    def cheaper(self, planned: PlannedClaim) -> Lighter | None:
        """Return the lighter pool that is cheaper for the pods of a claim, if there is one."""
        lighter = self._below(self._weights[planned.node_pool])
        if not lighter:
            return None
        alike = (planned.node_pool, planned.requests, planned.instance_types)
        if alike not in self._known:
            if self._left <= 0 or not _may_be_cheaper(lighter, planned):
                return None
            self._left -= 1
            self._known[alike] = self._ask(planned, lighter)
        return self._known[alike]

    def _below(self, weight: int) -> tuple[PoolOffer, ...]:
        return tuple(
            offer
            for offer in self._problem.node_pools
            if self._weights[offer.node_pool.name] < weight and not offer.unready
        )

    def _ask(self, planned: PlannedClaim, lighter: tuple[PoolOffer, ...]) -> Lighter | None:
        wanted = frozenset(planned.pods)
        problem = self._problem
        # Nodes take none of the pods here, and yet the pods on them still count for topology.
        question = replace(
            problem,
            pods=tuple(pod for pod in problem.pods if pod.key in wanted),
            nodes=(),
            leaving=(*problem.leaving, *problem.nodes),
            node_pools=lighter,
        )
        answer = solve(question)
        if answer.unschedulable or answer.deferred or not answer.new_claims:
            return None
        if answer.usd_per_hour >= planned.usd_per_hour:
            return None
        pool = answer.new_claims[0].node_pool
        return Lighter(node_pool=pool, usd_per_hour=answer.usd_per_hour)


def _may_be_cheaper(lighter: tuple[PoolOffer, ...], planned: PlannedClaim) -> bool:
    """Whether the pools sell anything at all for less than the claim costs."""
    return any(
        offering.launchable and offering.usd_per_hour < planned.usd_per_hour
        for offer in lighter
        for found in offer.instance_types
        for offering in found.offerings
    )
