"""Our decision beside Karpenter's on the same world, and whether ours may stand.

Placing: what Karpenter places, we place. Cost: compared on the pods that both place; where we place
more, our solver is asked again with Karpenter's pods only. Both decisions go before the judge.
Karpenter breaks ties between zones by chance, so it decides each world several times; what it ever
places counts, and the run of median cost stands for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Final

from nodewright_controller.scheduling.decision import Decision
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.solver import solve

from tests.parity.wire import KarpenterDecision, as_decision, ask, question
from tests.parity.worlds import ParityWorld
from tests.scheduling.judge import judge

TOLERANCE: Final = 1.02
"""How much more a single world may cost without a written reason."""

RUNS: Final = 9
"""How often Karpenter decides each world."""

_HEAVIER_POOL: Final = (
    "a heavier pool is used up to its limit; Karpenter counts each claim at its largest candidate "
    "and goes on to the lighter pool, which is cheaper here, while there is room"
)
REASONS: Final[Mapping[str, str]] = {
    "limits-5": _HEAVIER_POOL,
    "everything-3": _HEAVIER_POOL,
}
"""World to the reason for which its difference is accepted."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One world, decided twice."""

    world: ParityWorld
    ours: Decision
    runs: tuple[KarpenterDecision, ...]
    """Karpenter's decisions; at least one."""
    seconds: float
    fair_usd_per_hour: float
    """Our cost of the pods that Karpenter places."""
    faults: tuple[str, ...]
    """Rules that our decision breaks."""
    their_faults: tuple[str, ...]
    """Rules that Karpenter's decision breaks."""

    @property
    def theirs(self) -> KarpenterDecision:
        """The run that stands for Karpenter."""
        return typical(self.runs)

    @property
    def missed(self) -> tuple[str, ...]:
        """Pods that Karpenter places in some run and we do not."""
        ever = frozenset().union(*(run.placed for run in self.runs))
        return tuple(sorted(ever - placed(self.ours)))

    @property
    def gained(self) -> int:
        """How many pods we place and Karpenter does not."""
        return len(placed(self.ours) - self.theirs.placed)

    @property
    def ratio(self) -> float:
        """Our cost of its pods over Karpenter's; 1 when both are free."""
        theirs = self.theirs.usd_per_hour
        return (
            self.fair_usd_per_hour / theirs
            if theirs
            else float(self.fair_usd_per_hour == 0) or 9.99
        )

    @property
    def reason(self) -> str:
        """Why a difference in Karpenter's favour is accepted; empty when it is not."""
        if self.their_faults:
            return f"Karpenter breaks a rule: {self.their_faults[0]}"
        return REASONS.get(self.world.name, "")

    @property
    def problems(self) -> tuple[str, ...]:
        """What must not be; empty when the world passes."""
        found = [f"we break a rule: {fault}" for fault in self.faults]
        if self.theirs.failure:
            found.append(f"Karpenter failed: {self.theirs.failure}")
        if self.missed and not self.reason:
            found.append(f"{len(self.missed)} pods placed by Karpenter only: {self.missed[0]}, …")
        if self.ratio > TOLERANCE and not self.reason:
            found.append(f"costs {self.ratio:.1%} of Karpenter's")
        return tuple(found)


def typical(runs: Sequence[KarpenterDecision]) -> KarpenterDecision:
    """Return the run of median cost among those that place the most pods."""
    most = max(len(run.placed) for run in runs)
    best = sorted(
        (run for run in runs if len(run.placed) == most), key=lambda run: run.usd_per_hour
    )
    return best[(len(best) - 1) // 2]


def placed(decision: Decision) -> frozenset[str]:
    """Return the keys of the pods that got a place."""
    new = (key for claim in decision.new_claims for key in claim.pods)
    return frozenset((*decision.placements, *new))


def compare(program: Path, worlds: Iterable[ParityWorld], runs: int = RUNS) -> list[Comparison]:
    """Return the comparison of each world, in order."""
    listed = list(worlds)
    answers = ask(program, (question(one.name, one.problem, runs) for one in listed))
    return [
        _compare(one, tuple(answers[number * runs : (number + 1) * runs]))
        for number, one in enumerate(listed)
    ]


def _compare(world: ParityWorld, runs: tuple[KarpenterDecision, ...]) -> Comparison:
    theirs = typical(runs)
    begun = time.perf_counter()
    ours = solve(world.problem)
    seconds = time.perf_counter() - begun
    return Comparison(
        world=world,
        ours=ours,
        runs=runs,
        seconds=seconds,
        fair_usd_per_hour=_fair(world.problem, ours, theirs),
        faults=tuple(judge(world.problem, ours)),
        their_faults=tuple(
            fault
            for fault in judge(world.problem, as_decision(world.problem, theirs))
            if not fault.startswith("not every pod")  # its refusals are prose, so they are left out
        ),
    )


def _fair(problem: Problem, ours: Decision, theirs: KarpenterDecision) -> float:
    if placed(ours) <= theirs.placed:
        return ours.usd_per_hour
    fewer = tuple(pod for pod in problem.pods if pod.key in theirs.placed)
    return solve(replace(problem, pods=fewer)).usd_per_hour


# The table.

_HEAD: Final = (
    f"{'family':<20}{'worlds':>7}{'pods':>6} |{'placed':>7}{'Karp.':>7} |{'nodes':>6}{'Karp.':>6} |"
    f"{'$/h':>9}{'Karp.':>9}{'ratio':>7}{'worst':>7} |{'ms':>7}{'Karp.':>8}"
)


def table(found: Sequence[Comparison]) -> str:
    """Return a table by family with a line of totals, then every world that needs a word."""
    lines = [_HEAD, "-" * len(_HEAD)]
    for family, group in groupby(found, key=lambda one: one.world.family):
        lines.append(_row(family, list(group)))
    lines += ["-" * len(_HEAD), _row("all", found), ""]
    for one in found:
        lines += [f"✗ {one.world.name}: {problem}" for problem in one.problems]
        if not one.problems and (one.missed or one.ratio > TOLERANCE):
            lines.append(f"· {one.world.name}: {one.ratio:.1%}, accepted: {one.reason}")
        elif one.their_faults:
            lines.append(f"· {one.world.name}: {one.reason}")
        if one.gained:
            lines.append(f"+ {one.world.name}: {one.gained} pods placed by us only")
    return "\n".join(lines)


def _row(title: str, group: Sequence[Comparison]) -> str:
    ours = sum(one.fair_usd_per_hour for one in group)
    theirs = sum(one.theirs.usd_per_hour for one in group)
    ratio = ours / theirs if theirs else 1.0
    return (
        f"{title:<20}{len(group):>7}{sum(len(o.world.problem.pods) for o in group):>6} |"
        f"{sum(len(placed(o.ours)) for o in group):>7}{sum(len(o.theirs.placed) for o in group):>7} |"
        f"{sum(len(o.ours.new_claims) for o in group):>6}"
        f"{sum(len(o.theirs.claims or ()) for o in group):>6} |"
        f"{ours:>9.3f}{theirs:>9.3f}{ratio:>7.3f}{max(o.ratio for o in group):>7.3f} |"
        f"{1000 * sum(o.seconds for o in group):>7.0f}"
        f"{1000 * sum(o.theirs.solve_seconds for o in group):>8.0f}"
    )
