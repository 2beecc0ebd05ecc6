"""An object with a field that cannot be read never stops the others."""

from __future__ import annotations

import pytest
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.api.volumes import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from nodewright_controller.api.workloads import DaemonSet, LimitRange
from nodewright_controller.cluster.cluster import Cluster
from nodewright_controller.cluster.faults import faults_of
from nodewright_controller.cluster.snapshot import Snapshot
from nodewright_controller.scheduling.decision import Decision
from nodewright_controller.scheduling.fixes import with_fixes
from nodewright_controller.scheduling.problem import PoolOffer, problem_from
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.solver import solve

from tests.broken import BROKEN, Broken, asking, of_node, of_pod, running
from tests.builders import NOW, instance_type, node, node_claim, nodepool, pod


def apply(cluster: Cluster, found: KubeObject) -> None:
    """Tell the cluster of an object of any kind."""
    match found:
        case Node():
            cluster.apply_node(found)
        case NodeClaim():
            cluster.apply_node_claim(found)
        case NodePool():
            cluster.apply_node_pool(found)
        case Pod():
            cluster.apply_pod(found)
        case DaemonSet():
            cluster.apply_daemon_set(found)
        case LimitRange():
            cluster.apply_limit_range(found)
        case PersistentVolumeClaim() | PersistentVolume() | StorageClass() | CSINode():
            cluster.apply_storage(found)
        case _:
            raise AssertionError(found)


def decide(*objects: KubeObject) -> tuple[Snapshot, Decision]:
    """Place the pods that wait, and say of the others what would help."""
    cluster = Cluster()
    for found in (nodepool(), *objects):
        apply(cluster, found)
    snapshot = cluster.snapshot(NOW)
    types = (instance_type("m5.large"),)
    offers = [PoolOffer(node_pool=pool, instance_types=types) for pool in snapshot.node_pools]
    problem = problem_from(snapshot, offers)
    decision = with_fixes(problem, solve(problem))
    return snapshot, decision


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_the_other_pod_is_placed_whatever_is_broken(broken: Broken) -> None:
    snapshot, decision = decide(*broken.objects, pod("other", cpu="200m"))

    refused = {one.pod for one in decision.unschedulable}
    assert refused == ({broken.refused} if broken.refused else set())
    assert decision.placements.get("default/other") != "odd"
    busy = snapshot.node("busy")
    if broken.taken is not None:
        assert busy is not None
        assert busy.requested["cpu"] == broken.taken
        assert (decision.placements.get("default/other") == "busy") is (broken.taken < 1800)


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_what_cannot_be_read_is_named_with_its_value_and_what_follows(broken: Broken) -> None:
    said = [fault.text for found in broken.objects for fault in faults_of(found)]

    if not broken.said:
        assert said == []
        return
    assert said[0].startswith(broken.said)
    assert "; correct it, until then " in said[0]


def test_a_node_that_cannot_be_read_takes_no_pod_and_keeps_what_it_has() -> None:
    odd = of_node(allocatable={"cpu": "64", "memory": "abc", "pods": "110"})

    snapshot, decision = decide(*odd, pod("runs", node="odd"), pod("idle", cpu=None))

    found = snapshot.node("odd")
    assert found is not None
    assert found.unreadable
    assert [one.name for one in found.pods] == ["runs"]
    assert not decision.placements
    assert len(decision.new_claims) == 1


def test_a_claim_in_flight_that_cannot_be_read_takes_no_pod() -> None:
    _, decision = decide(*BROKEN["the allocatable of a claim in flight"].objects, pod("other"))

    assert not decision.placements
    assert decision.new_claims


def test_a_pod_that_must_move_and_cannot_be_read_is_told_and_the_others_move() -> None:
    leaving = node("busy", pool="general")
    cluster = Cluster()
    cluster.apply_node_pool(nodepool())
    for found in (*of_pod(running(), containers=asking({"cpu": "x"})), pod("moves", node="busy")):
        apply(cluster, found)
    cluster.apply_node(leaving)
    claim = node_claim(node=leaving)
    cluster.apply_node_claim(claim)
    cluster.mark_for_deletion([claim.name])
    offer = PoolOffer(node_pool=nodepool(), instance_types=(instance_type("m5.large"),))

    decision = solve(problem_from(cluster.snapshot(NOW), [offer]))

    assert [claim.pods for claim in decision.new_claims] == [("default/moves",)]
    assert {one.pod: one.reason for one in decision.unschedulable} == {
        "default/runs": Reason.INVALID
    }


def test_a_pod_that_waits_and_one_that_has_ended_are_not_told_of_here() -> None:
    ended = of_pod(running(), containers=asking({"cpu": "x"}))[1]
    assert isinstance(ended, Pod)
    ended.status.phase = "Succeeded"

    assert faults_of(pod("waits", cpu="x")) == ()
    assert faults_of(ended) == ()
