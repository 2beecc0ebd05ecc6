"""What reconcilers do shows in the metrics that Karpenter's dashboards read."""

from __future__ import annotations

import asyncio

import pytest
from nodewright_controller.api.meta import Condition
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.reconcilers import provisioning
from nodewright_controller.scheduling.decision import Decision
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.type_plan import Plan

from tests.builders import instance_type, nodepool, pod
from tests.reconcilers.test_disruption import Quiet
from tests.reconcilers.test_nodeclaim import Lifecycle
from tests.reconcilers.test_provisioning import Stage
from tests.runtime.samples import sample, series

DEPTH = "karpenter_scheduler_queue_depth"
UNFINISHED = "karpenter_scheduler_unfinished_work_seconds"
IGNORED = "karpenter_scheduler_ignored_pods_count"
UNSCHEDULABLE = "karpenter_scheduler_unschedulable_pods_count"
EVALUATIONS = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"
PARTS = ("count", "sum")
INSTANCE_ENDS = "karpenter_nodeclaims_instance_termination_duration_seconds"


async def test_a_round_shows_its_pods_and_its_time_while_it_runs_and_then_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(instance_type("m5.large"))
    decide = provisioning._decide
    seen: list[tuple[float, float, str]] = []

    def watched(problem: Problem) -> tuple[Decision, tuple[Plan, ...]]:
        (about,) = series(DEPTH)
        seen.append((sample(DEPTH, **about), sample(UNFINISHED, **about), about["controller"]))
        return decide(problem)

    monkeypatch.setattr(provisioning, "_decide", watched)
    await stage.provision(nodepool(), pod("a"), pod("b"), pod("c"))

    ((depth, seconds, controller),) = seen
    assert (depth, controller) == (3, "provisioner")
    assert seconds > 0
    assert series(DEPTH) == series(UNFINISHED) == []


async def provision(stage: Stage, pool: NodePool, *pods: Pod) -> None:
    await stage.provision(pool, *pods, until=lambda: len(stage.told()) >= len(pods))


async def test_pods_that_cannot_be_used_are_ignored_and_others_unschedulable() -> None:
    stage = Stage(instance_type("m5.large"))
    unwanted = pod("unwanted", requires="karpenter.sh/nodepool absent")
    volume = pod("volume", claims=["data"])
    elsewhere = pod("elsewhere", requires="zone in nowhere")

    await provision(stage, nodepool(), unwanted, volume, elsewhere)

    assert sample(IGNORED) == 2
    assert sample(UNSCHEDULABLE, controller="provisioner") == 1


async def test_the_counts_go_when_nothing_waits_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(instance_type("m5.large"))
    await provision(stage, nodepool(), pod("elsewhere", requires="zone in nowhere"))
    assert sample(UNSCHEDULABLE, controller="provisioner") == 1
    monkeypatch.setattr(provisioning, "_RETRIGGER_SECONDS", 0.01)

    stage.kube.store(Pod).drop("default/elsewhere")
    running = asyncio.create_task(stage.provisioner.retrigger())
    async with asyncio.timeout(5):
        while sample(UNSCHEDULABLE, controller="provisioner"):  # noqa: ASYNC110 - a gauge has no event
            await asyncio.sleep(0.01)
    running.cancel()


async def test_nodes_that_may_go_because_they_are_empty_are_counted() -> None:
    quiet = Quiet()
    for name in ("a", "b", "c"):
        await quiet.add_node(name)
    quiet.pod_on("c")
    quiet.clock.move(minutes=5)
    await quiet.settle()
    evaluations = sample(f"{EVALUATIONS}_count", reason="empty", consolidation_type="empty")

    await quiet.loop.step()

    assert sample("karpenter_voluntary_disruption_eligible_nodes", reason="empty") == 2
    assert (
        sample(f"{EVALUATIONS}_count", reason="empty", consolidation_type="empty")
        == evaluations + 1
    )


async def test_the_end_of_an_instance_is_timed_from_when_it_was_asked_to_go() -> None:
    lifecycle = Lifecycle()
    lifecycle.ask()
    await lifecycle.reconcile()
    await lifecycle.writes.delete_claim(lifecycle.claim("general-1"))
    before = {part: sample(f"{INSTANCE_ENDS}_{part}", nodepool="general") for part in PARTS}
    await lifecycle.reconcile()
    terminating = lifecycle.condition("general-1", "InstanceTerminating")
    assert isinstance(terminating, Condition)

    lifecycle.clock.move(seconds=40)
    lifecycle.cloud.finish_terminations()
    await lifecycle.reconcile()

    after = {part: sample(f"{INSTANCE_ENDS}_{part}", nodepool="general") for part in PARTS}
    assert after["count"] - before["count"] == 1
    assert after["sum"] - before["sum"] == 40


async def test_a_claim_that_never_had_an_instance_ends_without_such_a_time() -> None:
    lifecycle = Lifecycle()
    lifecycle.ask()
    lifecycle.cloud.fail_next = [RuntimeError("no answer")]
    before = sample(f"{INSTANCE_ENDS}_count", nodepool="general")
    with pytest.raises(RuntimeError):
        await lifecycle.reconcile()

    await lifecycle.writes.delete_claim(lifecycle.claim("general-1"))
    await lifecycle.reconcile()

    assert lifecycle.world.node_claims.get("general-1") is None
    assert sample(f"{INSTANCE_ENDS}_count", nodepool="general") == before
