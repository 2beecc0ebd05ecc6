"""The leader explains pods and claims from its own memory, one question at a time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.ports.answers import NoAnswer, UnknownSubject
from nodewright_controller.reconcilers import answers as answers_module
from nodewright_controller.reconcilers.answers import LeaderAnswers
from nodewright_controller.reconcilers.nodeclaim import NodeClaimReconciler
from nodewright_controller.reconcilers.nominations import Nominations
from nodewright_controller.scheduling.decision import Decision
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.solver import solve

from tests.builders import instance_type, node, node_claim, nodepool, pod
from tests.fakes.cloud import FakeCloud
from tests.fakes.harness import Harness


class Stage(Harness):
    """A provisioner, the lifecycle of claims, and who explains both."""

    def __init__(self, *types: InstanceType) -> None:
        super().__init__()
        self.cloud = FakeCloud(self.clock.now(), types)
        self.nominations = Nominations()
        self.provisioner = self.make_provisioner(nominations=self.nominations)
        self.lifecycle = NodeClaimReconciler(
            world=self.world,
            writes=self.writes,
            cloud=self.cloud,
            recorder=self.recorder,
            clock=self.clock,
            nominations=self.nominations,
        )
        self.answers = LeaderAnswers(
            world=self.world,
            cloud=self.cloud,
            clock=self.clock,
            provisioner=self.provisioner,
            nominations=self.nominations,
        )

    def add(self, pool: NodePool, *pods: Pod) -> None:
        self.kube.add(pool)
        for one in pods:
            self.kube.add(one)

    @asynccontextmanager
    async def provisioning(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.provisioner.run())
        try:
            yield
        finally:
            running.cancel()

    async def round(self) -> None:
        """Let the provisioner look once."""
        seen = len(self.recorder.events)
        for one in self.world.pods.all():
            self.provisioner.trigger(one.uid)
        async with self.provisioning(), asyncio.timeout(10):
            while len(self.recorder.events) == seen:  # noqa: ASYNC110 - the fake only keeps a list
                await asyncio.sleep(0.01)


def stuck() -> Stage:
    """Return a stage with two pods for zone b, where the only pool may not go."""
    stage = Stage(instance_type("m5.large"))
    stage.add(
        nodepool(requires="zone in a"),
        pod("web", requires="zone in b"),
        pod("api", requires="zone in b"),
    )
    return stage


async def test_the_line_is_that_of_the_event() -> None:
    stage = stuck()
    await stage.round()

    answer = await stage.answers.pod("default/web")

    told = [event.message for event in stage.recorder.events if event.about.name == "web"]
    assert told == [f"Failed to schedule pod, {answer.line}"]
    assert answer.fixes


async def test_an_answer_tells_since_when_how_often_and_when_it_is_looked_at_next() -> None:
    stage = stuck()
    began = stage.clock.now()
    await stage.round()
    stage.clock.move(seconds=30)
    await stage.round()
    stage.clock.move(seconds=5)

    answer = await stage.answers.pod("default/web")

    assert (answer.since, answer.evaluated) == (began, 2)
    assert answer.as_of == began + timedelta(seconds=35)
    assert answer.look_by is not None
    assert timedelta(seconds=10) <= answer.look_by - answer.as_of <= timedelta(seconds=11)


async def test_a_reason_that_has_changed_since_the_last_round_begins_anew() -> None:
    stage = stuck()
    await stage.round()
    pool = stage.world.node_pools.get("general")
    assert pool is not None
    await stage.kube.delete(NodePool, "general")

    answer = await stage.answers.pod("default/web")

    assert (answer.code, answer.since, answer.evaluated) == ("P306", None, 0)


async def test_a_pod_that_no_round_has_looked_at_is_explained_all_the_same() -> None:
    answer = await stuck().answers.pod("default/web")

    assert (answer.verdict, answer.evaluated) == ("blocked", 0)


async def test_a_pod_waits_for_the_claim_that_was_made_for_it() -> None:
    stage = Stage(instance_type("m5.large"))
    stage.add(nodepool(), pod("web"))
    await stage.round()
    (claim,) = stage.world.node_claims.all()

    before = await stage.answers.pod("default/web")
    await stage.lifecycle.reconcile(claim.name)
    after = await stage.answers.pod("default/web")

    assert f"claim {claim.name} is being launched" in before.line
    assert f"claim {claim.name} is m5.large on-demand in zone-a" in after.line
    assert (after.code, after.node_claim) == ("P504", claim.name)


async def test_pods_of_a_claim_that_has_no_instance_yet_are_not_planned_twice() -> None:
    stage = Stage(instance_type("m5.large"))
    stage.add(nodepool(limits={"nodes": "1"}), pod("web", cpu=1))
    await stage.round()
    stage.kube.add(pod("late", cpu="1900m"))

    answer = await stage.answers.pod("default/late")

    assert (answer.verdict, answer.code) == ("starved", "P302")


async def test_an_unknown_pod_is_answered_with_those_like_it() -> None:
    with pytest.raises(UnknownSubject, match="no pod default/webb; there is default/web"):
        await stuck().answers.pod("default/webb")


class Counted:
    """Counts solves, and how many run at a time; off the event loop's thread only."""

    def __init__(self) -> None:
        self.solves = 0
        self._running = 0
        self._loop = threading.get_ident()

    def __call__(self, problem: Problem) -> Decision:
        assert threading.get_ident() != self._loop
        self.solves += 1
        self._running += 1
        assert self._running == 1
        try:
            return solve(problem)
        finally:
            self._running -= 1


async def test_questions_about_one_state_of_the_cluster_are_solved_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, counted = stuck(), Counted()
    monkeypatch.setattr(answers_module, "solve", counted)

    await asyncio.gather(*(stage.answers.pod(f"default/{n}") for n in ("web", "api", "web")))
    assert counted.solves == 1

    stage.kube.add(pod("other"))
    await stage.answers.pod("default/web")
    assert counted.solves == 2


async def test_an_old_solution_is_not_used_because_stock_changes_without_any_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, counted = stuck(), Counted()
    monkeypatch.setattr(answers_module, "solve", counted)

    await stage.answers.pod("default/web")
    stage.clock.move(seconds=4)
    await stage.answers.pod("default/web")

    assert counted.solves == 2


async def test_an_answer_about_a_thousand_nodes_takes_well_under_a_second() -> None:
    stage = Stage(*(instance_type(f"m{n}.large", zones={"a": 0.1, "b": 0.1}) for n in range(300)))
    stage.add(nodepool(requires="zone in a"), pod("web", requires="zone in b"))
    for number in range(1000):
        stage.kube.add(node(f"n{number}", pool="general", cpu=4))
        for each in range(5):
            stage.kube.add(pod(f"p{number}-{each}", node=f"n{number}", cpu="700m"))

    started = time.process_time()
    answer = await stage.answers.pod("default/web")

    assert time.process_time() - started < 0.8
    assert answer.nodes is not None
    assert answer.nodes.total == 1000


# Claims.


async def test_a_claim_is_explained_as_it_was_launched() -> None:
    stage = Stage(instance_type("m5.large"), instance_type("m5.xlarge", cpu=4))
    stage.add(nodepool(), pod("web"))
    await stage.round()
    (claim,) = stage.world.node_claims.all()

    planned = await stage.answers.node_claim(claim.name)
    await stage.lifecycle.reconcile(claim.name)
    launched = await stage.answers.node_claim(claim.name)

    assert (planned.code, planned.pods, planned.replayed) == ("T101", 1, False)
    assert (launched.instance_type, launched.usd_per_hour) == ("m5.large", 0.096)
    assert launched.funnel is not None
    assert launched.funnel.types == 2


async def test_a_claim_of_an_earlier_leader_is_worked_out_anew() -> None:
    stage = Stage(instance_type("m5.large"))
    stage.kube.add(nodepool())
    stage.kube.add(node_claim("general-old", instance_type="m5.large"))

    answer = await stage.answers.node_claim("general-old")

    assert (answer.replayed, answer.pods) == (True, 0)


async def test_a_claim_of_an_earlier_leader_without_a_pool_cannot_be_explained() -> None:
    stage = Stage(instance_type("m5.large"))
    stage.kube.add(node_claim("general-old"))

    with pytest.raises(NoAnswer, match="NodePool general does not exist"):
        await stage.answers.node_claim("general-old")


async def test_an_unknown_claim_is_an_error() -> None:
    with pytest.raises(UnknownSubject, match="there is no NodeClaim nope"):
        await stuck().answers.node_claim("nope")
