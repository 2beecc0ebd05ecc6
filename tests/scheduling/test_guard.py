"""What missed a pod is not bought for it again, and others may still buy it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.scheduling.decision import message
from nodewright_controller.scheduling.guard import PATIENCE, Bar, Finding, Miss, Misses, judge_node
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.solver import solve

from tests.builders import NOW, daemon, instance_type, node, node_claim, nodepool, pod, world

SMALL, LARGE = instance_type("m.large", cpu=2), instance_type("m.xlarge", cpu=3, zones={"a": 0.3})


def bar(**fields: Any) -> Bar:
    """A bar on the pool general."""
    defaults: dict[str, Any] = {
        "node_pool": "general",
        "miss": Miss.TOO_SMALL,
        "detail": "it lacks 1 GiB",
        "times": 1,
        "until": NOW + timedelta(minutes=10),
    }
    return Bar(**(defaults | fields))


def with_bars(problem: Problem, **barred: Bar) -> Problem:
    """The problem with one bar per pod, by bare name."""
    return replace(problem, barred={f"default/{name}": (one,) for name, one in barred.items()})


def test_a_type_that_missed_is_passed_over_for_that_pod_alone() -> None:
    problem = world(nodepool(), SMALL, LARGE, pod("web", cpu="2"), pod("other", cpu="1900m"))

    decision = solve(with_bars(problem, web=bar(instance_type="m.large")))

    assert decision.new_node("web").instance_types == ("m.xlarge",)
    assert "m.large" in decision.new_node("other").instance_types


def test_a_barred_pod_does_not_ride_along_on_the_barred_type_either() -> None:
    problem = world(nodepool(), SMALL, LARGE, pod("big", cpu=1), pod("web", cpu="500m"))

    decision = solve(with_bars(problem, web=bar(instance_type="m.large")))

    assert "m.large" not in decision.new_node("web").instance_types


def test_when_nothing_else_is_left_the_line_says_what_missed_and_when_it_is_tried_again() -> None:
    problem = world(nodepool(), SMALL, pod("web"))

    decision = solve(with_bars(problem, web=bar(instance_type="m.large", times=2)))

    text = message(decision.unschedulable[0])
    assert "held: pool general: m.large was bought for it 2 times" in text
    assert "it lacks 1 GiB" in text
    assert "→ not again before 10:10:00 UTC  [P505]" in text


def test_a_pool_whose_claims_died_gives_way_to_the_next_pool() -> None:
    problem = world(nodepool("general", weight=10), nodepool("spare"), SMALL, pod("web"))

    decision = solve(with_bars(problem, web=bar(miss=Miss.DIED)))

    assert decision.new_node("web").node_pool == "spare"


def test_a_pool_whose_claims_died_and_no_other_holds_the_pod() -> None:
    decision = solve(with_bars(world(nodepool(), SMALL, pod("web")), web=bar(miss=Miss.DIED)))

    assert decision.unschedulable[0].code == "P506"


def test_an_existing_node_still_takes_a_barred_pod() -> None:
    problem = world(nodepool(), SMALL, node("n1"), pod("web"))

    assert solve(with_bars(problem, web=bar())).placements == {"default/web": "n1"}


def state(**fields: Any) -> StateNode:
    found = node("n1", pool="general", **fields)
    return StateNode(node=found, node_claim=node_claim(node=found))


def test_a_node_that_is_too_small_when_empty_is_judged_so() -> None:
    small = state(memory="7Gi")

    found = judge_node(small, pod("web", memory="7.5Gi"))

    assert found.miss is Miss.TOO_SMALL
    assert "512 MiB memory" in found.detail


def test_what_daemons_take_does_not_count_as_room() -> None:
    found = node("n1", pool="general", cpu=2)
    busy = StateNode(node=found, node_claim=node_claim(node=found), pods=(daemon("d", cpu="500m"),))

    assert judge_node(busy, pod("web", cpu="1800m")).miss is Miss.TOO_SMALL


def test_a_taint_that_nobody_declared_is_judged_so() -> None:
    found = judge_node(state(taints=["agent:NoSchedule"]), pod("web"))

    assert found.miss is Miss.TAINTED
    assert "agent:NoSchedule, not declared in startupTaints" in found.detail


def test_a_node_that_others_took_says_little_the_first_time() -> None:
    misses = Misses()
    finding = judge_node(state(), pod("web"))

    misses.record("default/web", "general", "m.large", finding, NOW)
    assert misses.bars(NOW) == {}

    misses.record("default/web", "general", "m.large", finding, NOW)
    assert misses.bars(NOW)["default/web"][0].instance_type == "m.large"


@pytest.mark.parametrize("miss", Miss)
def test_the_wait_doubles_up_to_its_longest(miss: Miss) -> None:
    patience = PATIENCE[miss]
    waits = [patience.after(times) for times in range(1, 60)]
    barred = [wait for wait in waits if wait]

    assert waits[: patience.free] == [timedelta()] * patience.free
    assert barred[0] == patience.first
    assert barred[1] == 2 * patience.first
    assert barred[-1] == patience.longest
    assert barred == sorted(barred)


def test_bars_end_and_pods_that_wait_no_longer_are_forgotten() -> None:
    misses = Misses()
    misses.record("default/web", "general", "m.large", Finding(Miss.TOO_SMALL), NOW)

    assert misses.bars(NOW + timedelta(minutes=11)) == {}

    misses.keep_only(())
    misses.record("default/web", "general", "m.large", Finding(Miss.TOO_SMALL), NOW)
    assert misses.bars(NOW)["default/web"][0].times == 1
