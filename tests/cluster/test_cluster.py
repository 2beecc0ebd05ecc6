"""What the cluster believes after events in any order."""

from __future__ import annotations

import itertools
from datetime import timedelta

from msgspec.structs import replace
from nodewright_controller.api import labels as names
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.pod import (
    Container,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    ResourceRequirements,
)
from nodewright_controller.api.service import Service, ServiceSpec
from nodewright_controller.api.workloads import (
    DaemonSet,
    DaemonSetSpec,
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    PodTemplate,
)
from nodewright_controller.cluster.cluster import Cluster
from nodewright_controller.cluster.pods import pod_requests
from nodewright_controller.kernel.resources import Resources

from tests.builders import NOW, copied, node, node_claim, nodepool, pod


def test_events_in_any_order_come_to_the_same_snapshot() -> None:
    machine = node("n1", pool="general")
    claim = node_claim(node=machine)
    runs, waits = pod("runs", node="n1"), pod("waits")
    snapshots = []
    for order in itertools.permutations(range(4)):
        cluster = Cluster()
        steps = (
            lambda c=cluster: c.apply_node(machine),
            lambda c=cluster: c.apply_node_claim(claim),
            lambda c=cluster: c.apply_pod(runs),
            lambda c=cluster: c.apply_pod(waits),
        )
        for step in (*order, *order):  # every event twice
            steps[step]()
        snapshots.append(cluster.snapshot(NOW))

    assert all(snapshot == snapshots[0] for snapshot in snapshots)
    found = snapshots[0].node("n1")
    assert found is not None
    assert found.node_claim is claim
    assert [one.name for one in found.pods] == ["runs"]
    assert [one.name for one in snapshots[0].pending_pods] == ["waits"]


def test_a_pod_bound_to_an_unknown_node_is_kept_until_the_node_is_heard_of() -> None:
    cluster = Cluster()
    cluster.apply_pod(pod("early", node="n1"))

    assert cluster.snapshot(NOW).nodes == ()
    assert list(cluster.snapshot(NOW).pods_by_node) == ["n1"]

    cluster.apply_node(node("n1"))
    found = cluster.snapshot(NOW).node("n1")
    assert found is not None
    assert found.requested == Resources({"cpu": 100, "pods": 1})


def test_a_pod_that_ends_or_moves_frees_its_node() -> None:
    cluster = Cluster()
    cluster.apply_node(node("n1"))
    one = pod("one", node="n1")
    cluster.apply_pod(one)
    cluster.apply_pod(replace(one, status=replace(one.status, phase="Succeeded")))

    found = cluster.snapshot(NOW).node("n1")
    assert found is not None
    assert found.pods == ()

    cluster.remove_pod(one.key)
    cluster.remove_pod(one.key)
    assert cluster.snapshot(NOW).pods_by_node == {}


def test_a_snapshot_shares_the_nodes_that_did_not_change() -> None:
    cluster = Cluster()
    cluster.apply_node(node("n1"))
    cluster.apply_node(node("n2"))
    before = cluster.snapshot(NOW)
    cluster.apply_pod(pod("one", node="n2"))
    after = cluster.snapshot(NOW)

    assert before.node("n1") is after.node("n1")
    assert before.node("n2") is not after.node("n2")


def test_a_claim_without_an_instance_blocks_until_it_is_launched_or_gone() -> None:
    cluster = Cluster()
    machine = node("n1")
    cluster.apply_node_claim(node_claim("c1"))

    assert not cluster.synced(["c1"], ["n1"])

    cluster.apply_node(machine)
    assert cluster.synced(["c1"], ["n1"])
    cluster.apply_node_claim(node_claim("c2", launched=False))
    assert not cluster.synced(["c1", "c2"], ["n1"])
    cluster.remove_node_claim("c2")
    assert cluster.synced(["c1", "new-one-not-heard-of"], ["n1"])


def test_nominations_lapse_and_marks_can_be_taken_back() -> None:
    cluster = Cluster()
    cluster.apply_node_claim(node_claim("c1"))
    cluster.nominate("c1", NOW + timedelta(seconds=20))
    cluster.nominate("c1", NOW + timedelta(seconds=5))
    cluster.mark_for_deletion(["c1"])

    found = cluster.snapshot(NOW).nodes[0]
    assert found.nominated(NOW + timedelta(seconds=10))
    assert not found.nominated(NOW + timedelta(seconds=20))
    assert found.marked_for_deletion

    cluster.unmark_for_deletion(["c1"])
    later = cluster.snapshot(NOW + timedelta(minutes=1)).nodes[0]
    assert not later.marked_for_deletion
    assert later.nominated_until is None


def test_a_starting_node_has_the_claims_labels_and_what_it_does_not_report_yet() -> None:
    machine = node(
        "n1", pool="general", initialized=False, taints=["node.kubernetes.io/not-ready:NoSchedule"]
    )
    machine.labels.pop(names.REGISTERED)
    machine.status.allocatable = {"cpu": "0"}
    claim = node_claim(node=machine, labels={"team": "x"})
    cluster = Cluster()
    cluster.apply_node(machine)
    cluster.apply_node_claim(claim)

    found = cluster.snapshot(NOW).nodes[0]
    assert found.labels["team"] == "x"
    assert found.taints == ()
    assert found.allocatable["cpu"] == 2000
    assert not found.registered


def test_pools_come_by_weight_and_then_by_name_from_the_end() -> None:
    cluster = Cluster()
    for one in (nodepool("a"), nodepool("b"), nodepool("c", weight=5)):
        cluster.apply_node_pool(one)

    assert [p.name for p in cluster.snapshot(NOW).node_pools] == ["c", "b", "a"]


def daemon_set(name: str, resources: ResourceRequirements) -> DaemonSet:
    """A DaemonSet of one container."""
    spec = PodSpec(containers=[Container(name="main", resources=resources)])
    return DaemonSet(
        metadata=ObjectMeta(name=name, namespace="ops", uid=f"uid-{name}"),
        spec=DaemonSetSpec(template=PodTemplate(spec=spec)),
    )


def test_a_daemon_without_requests_costs_what_the_api_server_will_fill_in() -> None:
    cluster = Cluster()
    cluster.apply_daemon_set(daemon_set("bare", ResourceRequirements()))
    cluster.apply_daemon_set(daemon_set("capped", ResourceRequirements(limits={"cpu": "600m"})))
    item = LimitRangeItem(type="Container", default_request={"cpu": "400m"})
    cluster.apply_limit_range(
        LimitRange(
            metadata=ObjectMeta(name="lr", namespace="ops"), spec=LimitRangeSpec(limits=[item])
        )
    )

    found = {p.name: pod_requests(p)["cpu"] for p in cluster.snapshot(NOW).daemon_pods}
    assert found == {"bare": 400, "capped": 600}


def test_the_newest_live_pod_tells_what_a_daemon_takes_but_not_where_it_may_run() -> None:
    cluster = Cluster()
    cluster.apply_daemon_set(daemon_set("agent", ResourceRequirements()))
    pinned = NodeSelectorTerm(
        match_fields=[LabelSelectorRequirement(key="metadata.name", operator="In", values=["n1"])]
    )
    for cpu, age in (("100m", 2), ("300m", 1)):
        live = copied(
            pod(
                f"agent-{age}",
                cpu=cpu,
                namespace="ops",
                owner="DaemonSet/agent",
                node="n1",
                requires="zone in a",
            ),
            creation_timestamp=NOW - timedelta(hours=age),
        )
        affinity = live.spec.affinity
        assert affinity is not None
        assert affinity.node_affinity is not None
        affinity.node_affinity.required = NodeSelector(node_selector_terms=[pinned])
        cluster.apply_pod(live)

    (found,) = cluster.snapshot(NOW).daemon_pods
    assert pod_requests(found)["cpu"] == 300
    assert found.spec.affinity is not None
    assert found.spec.affinity.node_affinity is not None
    assert found.spec.affinity.node_affinity.required is None


def test_a_pools_nodes_are_those_of_the_snapshot_that_have_a_claim() -> None:
    cluster = Cluster()
    machine, foreign = node("n1", pool="general"), node("n2")
    going, starting = node_claim("going", pool="general"), node_claim("starting", pool="other")
    for one in (machine, foreign):
        cluster.apply_node(one)
    for claim in (node_claim(node=machine), going, starting):
        cluster.apply_node_claim(claim)
    cluster.apply_pod(pod("web", node="n1"))
    cluster.mark_for_deletion(["going"])

    found = cluster.nodes_of_pool("general")

    expected = [one for one in cluster.snapshot(NOW).nodes if one.node_pool_name == "general"]
    assert {(one.name, one.marked_for_deletion) for one in found} == {
        ("n1", False),
        ("going", True),
    }
    assert {(one.name, one.capacity) for one in found} == {
        (one.name, one.capacity) for one in expected
    }


def service(app: str) -> Service:
    return Service(
        metadata=ObjectMeta(name="web", namespace="default"),
        spec=ServiceSpec(selector={"app": app}),
    )


def test_selectors_are_collected_anew_only_when_one_has_changed() -> None:
    cluster = Cluster()
    cluster.apply_selecting(service("web"))
    first = cluster.snapshot(NOW).selectors

    cluster.apply_selecting(service("web"))
    assert cluster.snapshot(NOW).selectors is first

    cluster.apply_selecting(service("api"))
    assert cluster.snapshot(NOW).selectors.services == {"default": ({"app": "api"},)}
