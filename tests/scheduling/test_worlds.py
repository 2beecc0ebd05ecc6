"""Decisions on generated worlds, judged by rules that share no code with the solver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nodewright_controller.scheduling.compiled import Compiled
from nodewright_controller.scheduling.decision import Decision, message
from nodewright_controller.scheduling.fitting import Guesses
from nodewright_controller.scheduling.fixes import edited, with_fixes
from nodewright_controller.scheduling.look import Look
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.solver import places, solve

from tests.builders import shuffled
from tests.scheduling.judge import judge
from tests.strategies import worlds

_SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.timeout(120)
@_SLOW
@given(worlds())
def test_every_decision_keeps_every_rule_of_kubernetes(problem: Problem) -> None:
    decision = solve(problem)

    assert judge(problem, decision) == []


@pytest.mark.timeout(120)
@_SLOW
@given(worlds(), st.lists(st.integers(0, 99), min_size=1, max_size=8))
def test_the_order_of_the_input_does_not_change_the_outcome(
    problem: Problem, order: list[int]
) -> None:
    assert solve(problem) == solve(shuffled(problem, order))


@pytest.mark.timeout(120)
@_SLOW
@given(worlds(), st.booleans())
def test_a_second_look_is_not_coloured_by_the_first(problem: Problem, latest_first: bool) -> None:
    used = Compiled(problem)
    Look(used).run()
    used.rewind()

    assert not any(_marks(used))
    assert _look(used, latest_first) == _look(Compiled(problem), latest_first)


def _marks(compiled: Compiled) -> Iterator[object]:
    """Yield what a look has found out about bins that the next one will fill in another way."""
    for queued in compiled.queue:
        yield queued.pod_class.size.full
        for known in queued.pod_class.levels:
            yield from (known.dead, known.dead_in, known.shape_level.dead)


def _look(compiled: Compiled, latest_first: bool) -> Decision:
    look = Look(compiled, Guesses(latest_first=latest_first))
    look.run()
    return look.decision()


@pytest.mark.timeout(120)
@_SLOW
@given(worlds())
def test_every_refusal_has_a_line_that_a_person_can_read(problem: Problem) -> None:
    for refused in solve(problem).unschedulable:
        line = message(refused)

        assert line.startswith(f"pod/{refused.pod} ")
        assert line.endswith(f"[{refused.code}]")
        assert len(line.encode()) <= 1000
        assert "{" not in line


@pytest.mark.timeout(120)
@_SLOW
@given(worlds())
def test_every_fix_that_is_told_places_the_pod(problem: Problem) -> None:
    decision = with_fixes(problem, solve(problem))

    for refused in decision.unschedulable:
        alike = {one.pod for one in decision.unschedulable if one.like == refused.like}
        for fix in refused.fixes or ():
            assert places(edited(problem, fix.edits, alike), refused.like)
            assert len(fix.edits) <= 2
