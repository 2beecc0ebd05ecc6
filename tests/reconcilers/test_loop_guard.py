"""Launches that do not help their pod come to an end, and the next best thing is tried."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.cluster import Cluster
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.reconcilers.loop_guard import LoopGuard
from nodewright_controller.scheduling.problem import PoolOffer, problem_from
from nodewright_controller.scheduling.solver import solve

from tests.builders import NOW, copied, instance_type, node, node_claim, nodepool, pod


@dataclass
class Play:
    """Rounds of provisioning in which nodes turn out otherwise than planned."""

    types: tuple[InstanceType, ...]
    memory: dict[str, str] = field(default_factory=dict)
    """What nodes of a type really have."""
    taints: tuple[str, ...] = ()
    joins: bool = True
    sells: bool = True
    now: datetime = NOW
    bought: Counter[str] = field(default_factory=Counter)
    cluster: Cluster = field(default_factory=Cluster)
    guard: LoopGuard = field(default_factory=LoopGuard)

    def wait_for(self, *pods: Pod) -> None:
        for one in pods:
            self.cluster.apply_pod(one)

    def round(self) -> None:
        """One round, 30 seconds after the last; what it asks for happens at once."""
        self.now += timedelta(seconds=30)
        snapshot = self.cluster.snapshot(self.now)
        offers = [PoolOffer(node_pool=nodepool(), instance_types=self.types)]
        problem = problem_from(snapshot, offers, barred=self.guard.bars(snapshot))
        for planned in solve(problem).new_claims:
            name = f"claim-{self.bought.total()}"
            self.bought[planned.cheapest.instance_type] += 1
            self.guard.bought(name, planned.node_pool, planned.pods)
            self._happen(name, planned.cheapest.instance_type)

    def _happen(self, name: str, bought: str) -> None:
        machine: Node = node(
            f"node-{name}",
            pool="general",
            instance_type=bought,
            memory=self.memory.get(bought, "8Gi"),
            taints=self.taints,
        )
        claim: NodeClaim = node_claim(name, node=machine)
        if not self.sells:
            return
        self.cluster.apply_node_claim(claim)
        if self.joins:
            self.cluster.apply_node(machine)
        else:
            self.cluster.snapshot(self.now)
            self.guard.bars(self.cluster.snapshot(self.now))  # it was seen, launched
            self.cluster.remove_node_claim(name)


SMALL = instance_type("m.large", memory="8Gi", zones={"a": 0.1})
LARGE = instance_type("r.large", memory="16Gi", zones={"a": 0.2})


def test_a_type_with_less_memory_than_planned_is_bought_once_and_then_the_next_one() -> None:
    play = Play(types=(SMALL, LARGE), memory={"m.large": "7Gi", "r.large": "15Gi"})
    play.wait_for(pod("web", memory="7500Mi"))

    for _ in range(20):
        play.round()

    assert play.bought == {"m.large": 1, "r.large": 1}
    snapshot = play.cluster.snapshot(play.now)
    assert {n.labels["node.kubernetes.io/instance-type"] for n in snapshot.nodes} == {
        "m.large",
        "r.large",
    }


def test_an_undeclared_taint_does_not_start_node_after_node() -> None:
    play = Play(types=(SMALL, LARGE), taints=("agent:NoSchedule",))
    play.wait_for(pod("web"))

    for _ in range(120):  # an hour
        play.round()

    assert play.bought.total() <= 7


def test_nodes_that_never_join_come_ever_more_rarely() -> None:
    play = Play(types=(SMALL,), joins=False)
    play.wait_for(pod("web"))

    for _ in range(240):  # two hours
        play.round()

    assert 2 <= play.bought.total() <= 9


def test_launches_that_sell_nothing_slow_down_but_go_on() -> None:
    play = Play(types=(SMALL,), sells=False)
    play.wait_for(pod("web"))

    for _ in range(120):  # an hour
        play.round()

    assert 10 <= play.bought.total() <= 25


def test_a_pod_that_got_its_place_is_forgotten() -> None:
    play = Play(types=(SMALL,), memory={"m.large": "7Gi"})
    web = pod("web", memory="7500Mi")
    play.wait_for(web)
    for _ in range(4):
        play.round()
    assert play.bought == {"m.large": 1}

    play.cluster.remove_pod(web.key)
    play.round()
    play.wait_for(copied(web, uid="another"))
    play.round()

    assert play.bought == {"m.large": 2}


def test_a_pod_that_was_made_anew_is_not_judged_by_where_its_forerunner_ran() -> None:
    guard, cluster = LoopGuard(), Cluster()
    machine = node("n1", pool="general", taints=["node.kubernetes.io/unreachable:NoExecute"])
    claim = node_claim("general-1", node=machine)
    claim.metadata.creation_timestamp = NOW
    cluster.apply_node(machine)
    cluster.apply_node_claim(claim)
    guard.bought("general-1", "general", ["default/db-0"])

    cluster.apply_pod(pod("db-0", created=NOW + timedelta(hours=1)))
    assert guard.bars(cluster.snapshot(NOW + timedelta(hours=1))) == {}

    guard.bought("general-1", "general", ["default/db-0"])
    cluster.apply_pod(pod("db-0", created=NOW))
    assert set(guard.bars(cluster.snapshot(NOW + timedelta(hours=1)))) == {"default/db-0"}
