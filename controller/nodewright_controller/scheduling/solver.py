"""Pending pods to placements: how often a problem is looked at, and which look counts.

One look (`scheduling.look`) places the pods one after the other, and some of its choices are
guesses. All but large batches are cheap to look at and dear to guess wrong, so they are looked at
again with other guesses, and the cheapest plan is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nodewright_controller.scheduling.compiled import Compiled
from nodewright_controller.scheduling.decision import Decision
from nodewright_controller.scheduling.fitting import NO_GUESSES, Guesses
from nodewright_controller.scheduling.look import Look
from nodewright_controller.scheduling.problem import Problem

_OTHER_ORDER_UP_TO: Final = 96
"""Pods up to which equally full claims are also filled in the other order: in a larger batch one
order is seldom better than the other."""
_OTHER_DOMAINS_UP_TO: Final = 1000
"""Pods up to which domains of different price are each tried; a look takes some 20 us per pod."""
_MOST_RIVALS: Final = 8


def solve(problem: Problem) -> Decision:
    """Return where every pod goes, which nodes to make for the rest, and who goes nowhere.

    The order of the problem's pods, nodes and pools never changes the outcome. When the options'
    `stop` turns true, pods not yet looked at are deferred and what was decided so far is kept.
    """
    compiled = Compiled(problem)
    best = _look(compiled, NO_GUESSES)
    if not best.bins.claims:
        return best.decision()
    # Why a pod is left out is read from the tables as they stand, and the next look uses them.
    decision = None if best.all_placed else best.decision()
    for guesses in _other_guesses(best, len(problem.pods)):
        compiled.rewind()
        other = _look(compiled, guesses)
        if other.is_better_than(best):
            best, decision = other, None if other.all_placed else other.decision()
    return best.decision() if decision is None else decision


def _look(compiled: Compiled, guesses: Guesses) -> Look:
    look = Look(compiled, guesses)
    look.run()
    return look


def _other_guesses(first: Look, pods: int) -> Iterator[Guesses]:
    rivals = sorted(first.rivals)
    if 1 < pods <= _OTHER_ORDER_UP_TO:
        yield Guesses(latest_first=True)
    if 1 < pods <= _OTHER_DOMAINS_UP_TO and rivals:
        yield Guesses(by_size=True)
        for rival in rivals[:_MOST_RIVALS]:
            yield Guesses(favourite=rival)


def places(problem: Problem, pod: str) -> bool:
    """Whether the pod, by key, gets a place. Quicker than `solve`: nothing is decoded or explained."""
    compiled = Compiled(problem)
    return pod not in compiled.rejected and _look(compiled, NO_GUESSES).placed(pod)
