"""Default spread constraints: who gets them, and whom they count."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from nodewright_controller.api.meta import ObjectMeta, OwnerReference
from nodewright_controller.api.pod import LabelSelector, LabelSelectorRequirement, Pod
from nodewright_controller.api.service import Service, ServiceSpec
from nodewright_controller.api.workloads import (
    ReplicaSet,
    ReplicationController,
    ReplicationControllerSpec,
    SelectingSpec,
    StatefulSet,
)
from nodewright_controller.cluster.cluster import Cluster
from nodewright_controller.cluster.selectors import Selecting, WorkloadSelectors
from nodewright_controller.cluster.volumes import VolumeCatalog
from nodewright_controller.constraints.selectors import Selector
from nodewright_controller.scheduling.decision import message
from nodewright_controller.scheduling.default_spreads import (
    NO_DEFAULT_SPREADS,
    DefaultSpread,
    DefaultSpreads,
    with_default_spreads,
)
from nodewright_controller.scheduling.fixes import with_fixes
from nodewright_controller.scheduling.node_fit import needs
from nodewright_controller.scheduling.problem import SolverOptions, problem_from
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.scheduler_config import read_scheduler_config
from nodewright_controller.scheduling.solver import solve

from tests.builders import NOW, instance_type, node, nodepool, pod, spread, world

ZONE = "topology.kubernetes.io/zone"
OVER_ZONES = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
SPREADS = read_scheduler_config({"podTopologySpread": {"defaultConstraints": [OVER_ZONES]}})


def service(name: str, selector: dict[str, str] | None, namespace: str = "default") -> Service:
    return Service(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(selector=selector)
    )


def replica_set(name: str, selector: LabelSelector | None) -> ReplicaSet:
    metadata = ObjectMeta(name=name, namespace="default")
    return ReplicaSet(metadata=metadata, spec=SelectingSpec(selector=selector))


def exactly(**labels: str) -> LabelSelector:
    return LabelSelector(match_labels=labels)


def selector_of(waiting: Pod, *objects: Selecting) -> Selector | None:
    """Return whom the default constraint of a pod counts; None if it gets none."""
    (filled,) = with_default_spreads([waiting], SPREADS, WorkloadSelectors.of(objects))
    constraints = filled.spec.topology_spread_constraints
    if not constraints:
        assert filled is waiting
        return None
    return Selector.of(constraints[0].label_selector)


def owned_by(kind: str, api_version: str, owned: Pod, *, controller: bool = True) -> Pod:
    owner = OwnerReference(
        api_version=api_version, kind=kind, name="owner", controller=controller or None
    )
    return replace(owned, metadata=replace(owned.metadata, owner_references=[owner]))


WEB = pod("web-1", labels={"app": "web", "tier": "front", "pod-template-hash": "1"}, owner="")


# Whom a pod belongs to.


def test_the_owner_tells_a_pods_fellows_and_not_the_pods_labels() -> None:
    owned = owned_by("ReplicaSet", "apps/v1", WEB)

    found = selector_of(owned, replica_set("owner", exactly(app="web")))

    assert found == Selector.of(exactly(app="web"))


def test_an_owners_expressions_are_kept() -> None:
    tests = [LabelSelectorRequirement(key="tier", operator="NotIn", values=["back"])]
    listed = LabelSelector(match_labels={"app": "web"}, match_expressions=tests)

    found = selector_of(owned_by("ReplicaSet", "apps/v1", WEB), replica_set("owner", listed))

    assert found == Selector.of(listed)


def test_pods_of_a_stateful_set_are_fellows_though_each_has_labels_of_its_own() -> None:
    owner = StatefulSet(
        metadata=ObjectMeta(name="owner", namespace="default"),
        spec=SelectingSpec(selector=exactly(app="db")),
    )
    name = "statefulset.kubernetes.io/pod-name"
    pods = [
        owned_by("StatefulSet", "apps/v1", pod(f"db-{n}", labels={"app": "db", name: f"db-{n}"}))
        for n in range(2)
    ]

    assert {selector_of(one, owner) for one in pods} == {Selector.of(exactly(app="db"))}


def test_all_services_that_select_the_pod_count_together() -> None:
    found = selector_of(
        WEB,
        service("a", {"app": "web"}),
        service("b", {"tier": "front"}),
        service("c", {"app": "other"}),
    )

    assert found == Selector.of(exactly(app="web", tier="front"))


def test_a_service_and_an_owner_both_count() -> None:
    owned = owned_by("ReplicaSet", "apps/v1", WEB)

    found = selector_of(
        owned, service("a", {"tier": "front"}), replica_set("owner", exactly(app="web"))
    )

    assert found == Selector.of(exactly(app="web", tier="front"))


def test_a_replication_controllers_labels_replace_those_of_services() -> None:
    controller = ReplicationController(
        metadata=ObjectMeta(name="owner", namespace="default"),
        spec=ReplicationControllerSpec(selector={"app": "new"}),
    )
    owned = owned_by("ReplicationController", "v1", WEB)

    found = selector_of(owned, service("a", {"app": "web", "tier": "front"}), controller)

    assert found == Selector.of(exactly(app="new", tier="front"))


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([], id="nothing is known"),
        pytest.param([service("a", {"app": "web"}, "elsewhere")], id="service elsewhere"),
        pytest.param([service("a", None)], id="service without a selector"),
        pytest.param([service("a", {})], id="service that selects every pod"),
        pytest.param([service("a", {"app": "web", "tier": "back"})], id="service of others"),
        pytest.param([replica_set("other", exactly(app="web"))], id="not its owner"),
        pytest.param([replica_set("owner", None)], id="owner without a selector"),
        pytest.param([replica_set("owner", LabelSelector())], id="owner that selects everything"),
        pytest.param(
            [
                replica_set(
                    "owner",
                    LabelSelector(
                        match_expressions=[LabelSelectorRequirement(key="app", operator="Like")]
                    ),
                )
            ],
            id="owner with a selector that cannot be read",
        ),
    ],
)
def test_a_pod_whose_fellows_nothing_tells_gets_no_default(objects: list[Any]) -> None:
    assert selector_of(owned_by("ReplicaSet", "apps/v1", WEB), *objects) is None


@pytest.mark.parametrize(
    ("kind", "api_version", "controller"),
    [
        ("Job", "batch/v1", True),
        ("ReplicaSet", "example.com/v1", True),
        ("ReplicaSet", "apps/v1", False),
    ],
)
def test_other_owners_tell_nothing(kind: str, api_version: str, controller: bool) -> None:
    owned = owned_by(kind, api_version, WEB, controller=controller)

    assert selector_of(owned, replica_set("owner", exactly(app="web"))) is None


# Which pods get defaults.


def test_one_constraint_of_its_own_keeps_all_defaults_from_a_pod() -> None:
    own = spread("host", {"app": "web"}, skew=5, soft=True)
    waiting = pod("web-1", labels={"app": "web"}, spreads=[own])

    (found,) = with_default_spreads(
        [waiting], SPREADS, WorkloadSelectors.of([service("a", {"app": "web"})])
    )

    assert found is waiting


def test_each_profile_speaks_for_the_pods_of_its_scheduler() -> None:
    zones, hosts = DefaultSpread(topology_key=ZONE), DefaultSpread(topology_key="host")
    spreads = DefaultSpreads(by_scheduler={"default-scheduler": (zones,), "even": (hosts,)})
    selectors = WorkloadSelectors.of([service("a", {"app": "web"})])

    def keys(scheduler: str) -> list[str]:
        waiting = replace(WEB, spec=replace(WEB.spec, scheduler_name=scheduler))
        (found,) = with_default_spreads([waiting], spreads, selectors)
        return [c.topology_key for c in found.spec.topology_spread_constraints or ()]

    assert keys("") == keys("default-scheduler") == [ZONE]
    assert keys("even") == ["host"]
    assert keys("stranger") == []


def test_the_problem_has_copies_and_the_snapshot_the_pods_as_they_are() -> None:
    cluster = Cluster()
    cluster.apply_pod(pod("web-1", labels={"app": "web"}, owner=""))
    cluster.apply_selecting(service("web", {"app": "web"}))
    snapshot = cluster.snapshot(NOW)

    problem = problem_from(snapshot, (), SolverOptions(default_spreads=SPREADS))

    assert problem.pods[0].spec.topology_spread_constraints
    assert snapshot.pending_pods[0].spec.topology_spread_constraints is None
    assert problem_from(snapshot, ()).pods == snapshot.pending_pods


def test_a_person_is_told_that_the_rule_stands_in_no_pod() -> None:
    selectors = WorkloadSelectors.of([service("web", {"app": "web"})])
    (filled,) = with_default_spreads([WEB], SPREADS, selectors)

    told = list(needs(filled, VolumeCatalog()))

    assert told[-1] == f"spread over {ZONE}, skew at most 1, a default of the scheduler"


def test_a_service_that_goes_takes_its_defaults_along() -> None:
    cluster = Cluster()
    cluster.apply_pod(pod("web-1", labels={"app": "web"}, owner=""))
    cluster.apply_selecting(service("web", {"app": "web"}))
    before = problem_from(cluster.snapshot(NOW), (), SolverOptions(default_spreads=SPREADS))

    cluster.remove_selecting(Service, "default/web")

    after = problem_from(cluster.snapshot(NOW), (), SolverOptions(default_spreads=SPREADS))
    assert before.pods[0].spec.topology_spread_constraints
    assert not after.pods[0].spec.topology_spread_constraints


# The setting.


def profile(**args: Any) -> dict[str, Any]:
    return {
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "PodTopologySpread", "args": args}]}],
    }


def test_kube_schedulers_own_file_is_read_too() -> None:
    found = read_scheduler_config(profile(defaultConstraints=[OVER_ZONES], defaultingType="List"))

    assert [c.topology_key for c in found.by_scheduler["default-scheduler"]] == [ZONE]


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"podTopologySpread": None},
        profile(defaultingType="System"),
        {"kind": "KubeSchedulerConfiguration", "leaderElection": {"leaderElect": True}},
    ],
)
def test_a_document_without_constraints_changes_nothing(document: object) -> None:
    assert not read_scheduler_config(document)
    assert not NO_DEFAULT_SPREADS


def own(**change: Any) -> dict[str, Any]:
    constraint = {**OVER_ZONES, **change}
    return {"podTopologySpread": {"defaultConstraints": [constraint]}}


AT = "podTopologySpread.defaultConstraints[0]"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("maxSkew", "is no map: write podTopologySpread"),
        ({"podTopologySpreed": {}}, "podTopologySpreed: is not known: use podTopologySpread"),
        ({"podTopologySpread": []}, "podTopologySpread: [] must be a map"),
        ({"podTopologySpread": {"constraints": 1}}, "podTopologySpread.constraints: is not known"),
        (
            {"podTopologySpread": {"defaultConstraints": {}}},
            "podTopologySpread.defaultConstraints: {} must be a list",
        ),
        (own(maxSkew=0), f"{AT}.maxSkew: 0 must be a whole number from 1 to 2147483647"),
        (own(maxSkew=2**64), f"{AT}.maxSkew: {2**64} must be a whole number from 1 to"),
        (own(minDomains="3"), f"{AT}.minDomains: '3' must be a whole number"),
        (own(topologyKey="no key"), f"{AT}.topologyKey: 'no key' is no label key"),
        (own(topologyKey=None), f"{AT}.topologyKey: None is no label key"),
        (
            own(whenUnsatisfiable="Never"),
            f"{AT}.whenUnsatisfiable: 'Never' must be DoNotSchedule or",
        ),
        (own(nodeTaintsPolicy="x"), f"{AT}.nodeTaintsPolicy: 'x' must be Honor or Ignore"),
        (own(labelSelector={}), f"{AT}.labelSelector: leave it out: the selector is deduced"),
        (own(matchLabelKeys=["a"]), f"{AT}.matchLabelKeys: leave it out"),
        (own(skew=1), f"{AT}.skew: is not known"),
        (
            {
                "podTopologySpread": {
                    "defaultConstraints": [OVER_ZONES, {**OVER_ZONES, "maxSkew": 2}]
                }
            },
            f"[1]: repeats {ZONE} with DoNotSchedule: keep one of them",
        ),
        (
            profile(defaultConstraints=[OVER_ZONES]),
            "profiles[0].pluginConfig[0].args.defaultingType: must be List",
        ),
        (
            profile(defaultConstraints=[{**OVER_ZONES, "maxSkew": -1}], defaultingType="List"),
            "profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew: -1",
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_its_field(document: object, said: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read_scheduler_config(document)

    assert said in str(caught.value)


def test_every_bad_field_is_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"maxSkew.*; .*topologyKey"):
        read_scheduler_config(own(maxSkew=0, topologyKey=""))


def test_a_pod_that_a_default_holds_back_is_told_what_it_can_do_itself() -> None:
    labels = {"app": "web"}
    (filled,) = with_default_spreads(
        [pod("web", labels=labels)], SPREADS, WorkloadSelectors.of([service("web", labels)])
    )
    running = pod("one", labels=labels, node="n1")
    full = node("n2", zone="b", cpu=0)
    question = world(
        nodepool(requires="zone in a"), instance_type(), node("n1"), running, full, filled
    )

    (refused,) = with_fixes(question, solve(question)).unschedulable

    assert refused.reason is Reason.SPREAD
    assert "give the pod a spread over zone of its own, as ScheduleAnyway" in message(refused)
