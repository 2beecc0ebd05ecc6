"""On generated worlds: every pod and every new claim has an explanation, and it fits the decision."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from nodewright_controller.scheduling.explanations import PodExplanation
from nodewright_controller.scheduling.pod_why import decided
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.solver import solve
from nodewright_controller.scheduling.type_choice import explain_type
from nodewright_controller.scheduling.type_plan import plans_of
from nodewright_controller.scheduling.type_reasons import TypeReason
from nodewright_controller.scheduling.why_text import as_tree

from tests.builders import NOW
from tests.strategies import worlds

_SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
_WITHOUT = ("blocked", "starved", "held", "not ours")


@pytest.mark.timeout(120)
@_SLOW
@given(worlds())
def test_a_pod_is_told_that_it_waits_exactly_if_the_solver_leaves_it_out(problem: Problem) -> None:
    decision = solve(problem)
    left_out = {one.pod for one in (*decision.unschedulable, *decision.deferred)}

    for pod in problem.pods:
        found = decided(pod, problem, decision, budget=500)
        assert (found.verdict in _WITHOUT) == (pod.key in left_out), found.line
        assert found.code
        assert len(found.line.encode()) <= 1000
        assert list(as_tree(found))
        assert msgspec.json.decode(msgspec.json.encode(found), type=PodExplanation) == found


@pytest.mark.timeout(120)
@_SLOW
@given(worlds())
def test_every_new_claim_has_a_reason_for_its_type(problem: Problem) -> None:
    decision = solve(problem)
    codes = {reason.code for reason in TypeReason}

    plans = plans_of(problem, decision)

    assert len(plans) == len(decision.new_claims)
    for number, (claim, plan) in enumerate(zip(decision.new_claims, plans, strict=True)):
        found = explain_type(f"{claim.node_pool}-{number}", plan, None, NOW)
        assert found.code in codes
        assert found.more_usd_per_hour >= 0
        assert found.instance_type in claim.instance_types
        assert list(as_tree(found))
