"""Proven fixes: the smallest changes after which the same solver places a pod.

What might help is proposed by each failed check (`Refusal.edits`). Every proposal is applied to the
problem and solved; only what places the pod is kept. Single changes come first, pairs only when no
single one helps, so no fix asks for more than it must. One search serves all pods that are equal.

The search is bounded by counting what it solves, not by a clock, so the same snapshot gives the same
fixes; what is beyond the bound is left without (`fixes` stays None).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from nodewright_controller.scheduling.decision import Decision, Fix, Refusal, Unschedulable
from nodewright_controller.scheduling.edits import Edit
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.reasons import Verdict
from nodewright_controller.scheduling.solver import places

MOST_FIXES: Final = 3
_MOST_SINGLES: Final = 16
_MOST_PAIRS: Final = 40
_IMPROVABLE: Final = (Verdict.BLOCKED, Verdict.STARVED)

DEFAULT_BUDGET: Final = 30_000
"""How many pods, nodes and instance types may be solved over in all; roughly a second's work."""


def with_fixes(problem: Problem, decision: Decision, budget: int = DEFAULT_BUDGET) -> Decision:
    """Return the decision with proven fixes for pods that are blocked or starved.

    `decision` must be the solver's answer to `problem`. `options.stop` is asked before every proof;
    classes that it or the budget cuts off keep `fixes` None.
    """
    search = _Search(problem, budget)
    found: dict[str, tuple[Fix, ...] | None] = {}
    alike = _alike(decision.unschedulable)
    told = []
    for refused in decision.unschedulable:
        if refused.reason.verdict in _IMPROVABLE and refused.like:
            if refused.like not in found:
                found[refused.like] = search.fixes(refused, alike[refused.like])
            refused = replace(refused, fixes=found[refused.like])
        told.append(refused)
    return replace(decision, unschedulable=tuple(told))


class FixMemory:
    """Keeps what was proven while a pod's refusals stay the same, so that waiting costs nothing."""

    def __init__(self) -> None:
        self._known: dict[str, Unschedulable] = {}

    def recall(self, refused: Unschedulable) -> tuple[Fix, ...] | None:
        """Return what was proven while the same refusals stood; None when nothing was."""
        known = self._known.get(refused.like)
        return known.fixes if known is not None and known.refusals == refused.refusals else None

    def with_fixes(
        self, problem: Problem, decision: Decision, budget: int = DEFAULT_BUDGET
    ) -> Decision:
        """Return the decision with fixes, proven now or while the same refusals stood before."""
        fresh, kept = [], []
        for refused in decision.unschedulable:
            known = self.recall(refused)
            if known is not None:
                kept.append(replace(refused, fixes=known))
            else:
                fresh.append(refused)
        searched = with_fixes(problem, replace(decision, unschedulable=tuple(fresh)), budget)
        told = sorted((*kept, *searched.unschedulable), key=lambda one: one.pod)
        self._known = {one.like: one for one in told if one.fixes is not None}
        return replace(decision, unschedulable=tuple(told))


def _alike(refused: Iterable[Unschedulable]) -> dict[str, set[str]]:
    """Return each representative with the keys of all pods that it stands for."""
    alike: dict[str, set[str]] = {}
    for one in refused:
        alike.setdefault(one.like, set()).add(one.pod)
    return alike


def edited(problem: Problem, edits: Iterable[Edit], pods: Collection[str]) -> Problem:
    """Return the problem with the edits made to these pods, by key, and to the pools they name."""
    for edit in edits:
        problem = replace(
            problem,
            pods=tuple(edit.pod(pod) if pod.key in pods else pod for pod in problem.pods),
            node_pools=tuple(edit.offer(offer) for offer in problem.node_pools),
        )
    return problem


@dataclass(slots=True)
class _Spent(Exception):
    """The budget is used up, or the caller wants to stop."""


class _Search:
    """Looks for fixes, one class of pods after the other, within one budget."""

    def __init__(self, problem: Problem, budget: int) -> None:
        self._problem = problem
        self._left = budget
        types = {id(t) for offer in problem.node_pools for t in offer.instance_types}
        self._price = len(problem.pods) + len(problem.nodes) + len(types) // 4 + 10

    def fixes(self, refused: Unschedulable, pods: Collection[str]) -> tuple[Fix, ...] | None:
        """Return up to three proven fixes; None when the search could not be finished."""
        try:
            found = list(self._proven(refused.like, pods, _singles(refused.refusals)))
            if not found:
                found = list(self._proven(refused.like, pods, _pairs(refused.refusals)))
        except _Spent:
            return None
        return tuple(found)

    def _proven(
        self, pod: str, pods: Collection[str], proposals: Iterable[tuple[Edit, ...]]
    ) -> Iterator[Fix]:
        told: set[frozenset[tuple[str, ...]]] = set()
        for edits in proposals:
            subjects = frozenset(edit.subject for edit in edits)
            if subjects not in told and self._helps(pod, pods, edits):
                yield Fix(edits=edits)
                told.add(subjects)
                if len(told) == MOST_FIXES:
                    return

    def _helps(self, pod: str, pods: Collection[str], edits: tuple[Edit, ...]) -> bool:
        stop = self._problem.options.stop
        self._left -= self._price
        if self._left < 0 or (stop is not None and stop()):
            raise _Spent
        try:
            question = edited(self._problem, edits, pods)
        except ValueError:
            return False  # the pod cannot be read at all
        return places(question, pod)


def _singles(refusals: Iterable[Refusal]) -> list[tuple[Edit, ...]]:
    """Return every proposed change by itself, those of near misses first."""
    edits = dict.fromkeys(edit for refusal in refusals for edit in refusal.edits)
    found: list[tuple[Edit, ...]] = [(edit,) for edit in edits]
    return found[:_MOST_SINGLES]


def _pairs(refusals: Iterable[Refusal]) -> list[tuple[Edit, ...]]:
    """Return pairs of changes for different checks of one pool, near misses first."""
    by_pool: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        by_pool.setdefault(refusal.node_pool, []).append(refusal)
    pairs: dict[frozenset[Edit], tuple[Edit, ...]] = {}
    for found in by_pool.values():
        for one, other in combinations(found, 2):
            for first in one.edits:
                for second in other.edits:
                    if first != second:
                        pairs.setdefault(frozenset((first, second)), (first, second))
    return list(pairs.values())[:_MOST_PAIRS]
