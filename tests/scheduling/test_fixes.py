"""Reasons and fixes: what is wrong is told exactly, and what is advised works."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nodewright_controller.api.pod import (
    LabelSelectorRequirement,
    NodeSelectorTerm,
    PodResourceClaim,
    SchedulingGate,
)
from nodewright_controller.cluster.volumes import VolumeCatalog
from nodewright_controller.scheduling.decision import Unschedulable, message
from nodewright_controller.scheduling.fixes import edited, with_fixes
from nodewright_controller.scheduling.problem import PoolOffer, Problem, SolverOptions
from nodewright_controller.scheduling.solver import places, solve

from tests.builders import (
    catalog,
    claim,
    daemon,
    instance_type,
    near,
    node,
    nodepool,
    offering,
    pod,
    spread,
    volume,
    world,
)

WEB = {"app": "web"}
POD = "default/web-0"


def refused(problem: Problem, key: str = POD) -> Unschedulable:
    """What is said about a pod, with fixes."""
    decision = with_fixes(problem, solve(problem))
    return next(one for one in decision.unschedulable if one.pod == key)


def line(problem: Problem, key: str = POD) -> str:
    return message(refused(problem, key))


# Worlds with seeded faults.


@dataclass(kw_only=True)
class Plan:
    """A world in which `web-0` fits, until faults are put into it."""

    rules: list[str] = field(default_factory=lambda: ["zone in a,b", "team in x,y"])
    requires: list[str] = field(default_factory=lambda: ["team in x"])
    taints: list[str] = field(default_factory=list)
    limits: dict[str, str | int | float] = field(default_factory=dict)
    min_values: dict[str, int] = field(default_factory=dict)
    requests: dict[str, str | int | float] = field(default_factory=lambda: {"cpu": "1"})
    ports: list[int] = field(default_factory=list)
    daemon_ports: list[int] = field(default_factory=list)
    affinity: list[str] = field(default_factory=list)
    anti: bool = False
    spread: bool = False
    in_stock: bool = True
    volume_zone: str = ""
    expected: set[str] = field(default_factory=set)

    def problem(self) -> Problem:
        """The world."""
        sold = [
            offering(zone, "on-demand", 0.1, available=self.in_stock) for zone in ("a", "b", "c")
        ]
        running = []
        if self.anti or self.spread:
            zones = ("a", "b") if self.anti else ("a", "b", "a", "b")
            running = [node(f"full-{n}", zone=zone, cpu=1) for n, zone in enumerate(zones)]
            running += [node("far", zone="c", cpu=1, labels={"team": "x"}, taints=["t:NoSchedule"])]
        held = [
            pod(f"old-{n}", cpu=1, labels={"app": "old"} if self.anti else WEB, node=f"full-{n}")
            for n, _ in enumerate(running[:-1])
        ]
        return world(
            nodepool(
                "general",
                requires="; ".join(self.rules),
                taints=self.taints,
                limits=self.limits or None,
                min_values=self.min_values or None,
            ),
            instance_type("m.large", cpu=2, offerings=sold, overhead={"cpu": "100m"}),
            instance_type("m.xlarge", cpu=4, offerings=sold, overhead={"cpu": "100m"}),
            *running,
            *held,
            daemon("agent", cpu="100m", ports=self.daemon_ports, tolerates=["*"]),
            pod(
                "web-0",
                requests=self.requests,
                cpu=None,
                labels=WEB,
                requires="; ".join(self.requires),
                ports=self.ports,
                affinity=[near({"app": app}) for app in self.affinity],
                anti=[near({"app": "old"})] if self.anti else [],
                spreads=[spread("zone", WEB, skew=1)] if self.spread else [],
                claims=["data"] if self.volume_zone else [],
            ),
            volumes=volume_in(self.volume_zone) if self.volume_zone else None,
        )


def volume_in(zone: str) -> VolumeCatalog:
    """A catalogue with claim `data`, bound in a zone."""
    return catalog(claim("data", volume="pv"), volume("pv", zone))


def tainted(plan: Plan) -> None:
    plan.taints.append("dedicated=ml:NoSchedule")


def unknown_label(plan: Plan) -> None:
    plan.requires.append("nowhere in q")


def mistyped_label(plan: Plan) -> None:
    plan.requires[0] = "Team in x"


def wrong_team(plan: Plan) -> None:
    plan.requires[0] = "team in z"


def wrong_zone(plan: Plan) -> None:
    plan.requires.append("zone in c")


def wrong_arch(plan: Plan) -> None:
    plan.requires.append("arch in arm64")


def too_much_cpu(plan: Plan) -> None:
    plan.requests["cpu"] = "3900m"


def too_much_memory(plan: Plan) -> None:
    plan.requests["memory"] = "9Gi"


def missing_gpu(plan: Plan) -> None:
    plan.requests["nvidia.com/gpu"] = "1"


def cpu_limit(plan: Plan) -> None:
    plan.limits["cpu"] = "1"


def node_limit(plan: Plan) -> None:
    plan.limits["nodes"] = "0"


def too_few_types(plan: Plan) -> None:
    plan.rules.append("type exists")
    plan.min_values["type"] = 3


def port_taken(plan: Plan) -> None:
    plan.ports.append(9100)
    plan.daemon_ports.append(9100)


def lonely(plan: Plan) -> None:
    plan.affinity.append("nobody")


def crowded(plan: Plan) -> None:
    plan.anti = True


def out_of_stock(plan: Plan) -> None:
    plan.in_stock = False


def volume_elsewhere(plan: Plan) -> None:
    plan.volume_zone = "c"


FAULTS: Mapping[Callable[[Plan], None], tuple[str, str]] = {
    tainted: ("P103", "taint"),
    unknown_label: ("P102", "unknown"),
    mistyped_label: ("P102", "team"),
    wrong_team: ("P101", "team"),
    wrong_zone: ("P101", "zone"),
    wrong_arch: ("P101", "arch"),
    too_much_cpu: ("P104", "cpu"),
    too_much_memory: ("P104", "memory"),
    missing_gpu: ("P105", "gpu"),
    cpu_limit: ("P301", "limit"),
    node_limit: ("P302", "nodes"),
    too_few_types: ("P303", "min values"),
    port_taken: ("P107", "port"),
    lonely: ("P206", "affinity"),
    crowded: ("P205", "zone"),
    out_of_stock: ("P401", "zone"),
    volume_elsewhere: ("P203", "zone"),
}
"""Fault to its code, and what it is about: two faults about one thing would hide each other."""


@st.composite
def faulty(draw: st.DrawFn) -> list[Callable[[Plan], None]]:
    """One to three faults about different things."""
    subjects = sorted({subject for _, subject in FAULTS.values()})
    chosen = draw(st.lists(st.sampled_from(subjects), min_size=1, max_size=3, unique=True))
    # Out of stock, nothing can be bought at all; how many types are left is then no question.
    if "min values" in chosen:
        chosen = [one for one in chosen if one != "zone"]
    by_subject: dict[str, list[Callable[[Plan], None]]] = {}
    for fault, (_, subject) in FAULTS.items():
        by_subject.setdefault(subject, []).append(fault)
    return [draw(st.sampled_from(by_subject[subject])) for subject in chosen]


def test_without_a_fault_the_pod_of_the_seeded_worlds_fits() -> None:
    assert places(Plan().problem(), POD)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_single_fault_is_told_alone_and_has_a_fix_if_anybody_can_do_something(
    fault: Callable[[Plan], None],
) -> None:
    plan = Plan()
    fault(plan)

    found = refused(plan.problem())

    assert [one.code for one in found.refusals] == [FAULTS[fault][0]]
    assert found.fixes is not None
    assert bool(found.fixes) == (fault not in (missing_gpu, out_of_stock))


@pytest.mark.timeout(120)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(faulty())
def test_exactly_the_seeded_faults_are_told_and_every_fix_works(
    faults: list[Callable[[Plan], None]],
) -> None:
    plan = Plan()
    for fault in faults:
        fault(plan)
    problem = plan.problem()

    found = refused(problem)

    assert sorted(one.code for one in found.refusals) == sorted(FAULTS[f][0] for f in faults)
    assert found.fixes is not None
    assert bool(found.fixes) == (
        len(faults) < 3 and not {missing_gpu, out_of_stock}.intersection(faults)
    )
    for fix in found.fixes:
        assert places(edited(problem, fix.edits, {POD}), POD)
        for left_out in fix.edits:
            rest = [edit for edit in fix.edits if edit != left_out]
            assert not places(edited(problem, rest, {POD}), POD)
        assert fix.text in message(found)


# Single reasons.


def test_a_label_that_is_written_wrong_is_recognised_and_the_right_one_is_proven() -> None:
    problem = world(
        nodepool("batch", labels={"node-group": "batch"}),
        instance_type(),
        pod("web-0", select={"nodegroup": "batch"}),
    )

    text = line(problem)

    assert "label nodegroup is set by no node (did you mean node-group?)" in text
    assert "→ use label node-group, which pool batch sets" in text


def test_a_well_known_label_without_its_domain_is_recognised() -> None:
    problem = world(nodepool(), instance_type(), pod("web-0", requires="instance-type in m.large"))

    assert "use label node.kubernetes.io/instance-type" in line(problem)


def test_a_label_of_karpenters_own_domain_cannot_be_asked_for() -> None:
    problem = world(nodepool(), instance_type(), pod("web-0", select={"karpenter.sh/team": "x"}))

    assert refused(problem).code == "P112"


def test_a_capacity_type_that_does_not_exist_is_told_with_those_that_do() -> None:
    problem = world(
        nodepool(), instance_type(), pod("web-0", requires="capacity in On_Demand,cheap")
    )

    text = line(problem)

    assert "capacity type On_Demand, cheap does not exist (there is on-demand, reserved" in text
    assert "write capacity-type on-demand instead of On_Demand" in text


def test_a_pod_that_must_run_on_one_host_is_told_that_no_new_node_can_be_that() -> None:
    problem = world(nodepool(), instance_type(), pod("web-0", requires="host in n1"))

    assert "must run on host n1" in line(problem)


def test_a_pod_that_selects_nodes_by_field_is_refused_by_that_name() -> None:
    one = pod("web-0", requires="zone in a")
    terms = [
        NodeSelectorTerm(
            match_fields=[
                LabelSelectorRequirement(key="metadata.name", operator="In", values=["n1"])
            ]
        )
    ]
    assert one.spec.affinity is not None
    assert one.spec.affinity.node_affinity is not None
    assert one.spec.affinity.node_affinity.required is not None
    one.spec.affinity.node_affinity.required.node_selector_terms = terms

    found = refused(world(nodepool(), instance_type(), one))

    assert found.code == "P114"
    assert "field metadata.name" in message(found)


def test_a_wish_that_cannot_be_read_does_not_hold_the_pod_back() -> None:
    one = pod("web-0", prefers=[(5, "zone in a"), (3, "zone in b")])
    assert one.spec.affinity is not None
    assert one.spec.affinity.node_affinity is not None
    wishes = one.spec.affinity.node_affinity.preferred
    assert wishes is not None
    wishes[0].preference.match_expressions = [
        LabelSelectorRequirement(key="size", operator="Near", values=["4"])
    ]

    assert solve(world(nodepool(), instance_type(), one)).new_node("web-0").zone == "b"


def test_gates_and_resource_claims_are_waited_for_by_name() -> None:
    gated, device = pod("web-0"), pod("web-1")
    gated.spec.scheduling_gates = [SchedulingGate(name="quota.example.com/wait")]
    device.spec.resource_claims = [PodResourceClaim(name="gpu")]
    problem = world(nodepool(), instance_type(), gated, device)

    assert "held: scheduling gate quota.example.com/wait is closed → when" in line(problem)
    assert "not ours: it uses dynamic resource claims (gpu)" in line(problem, "default/web-1")


def test_types_without_an_image_are_told_and_an_image_is_the_fix() -> None:
    arm = instance_type("m7g.large", arch="arm64")
    problem = world(
        PoolOffer(
            node_pool=nodepool(), instance_types=(instance_type("m.large"),), imageless=(arm,)
        ),
        pod("web-0", requires="arch in arm64"),
    )

    text = line(problem)

    assert "node class default has no image for arm64" in text
    assert "→ add an image for arm64 to node class default" in text
    assert text.endswith("[P403]")


def test_a_pool_that_is_not_ready_is_waited_for() -> None:
    text = line(world(nodepool(ready=False), instance_type(), pod("web-0")))

    assert "→ when it is ready  [P304]" in text


def test_full_reservations_are_told_when_the_pod_wants_nothing_else() -> None:
    sold = [offering("a", "reserved", 0.01, reservation="cr-1", reserved=0)]
    problem = world(
        nodepool(),
        instance_type(offerings=sold),
        pod("web-0", requires="capacity in reserved"),
        options=SolverOptions(reserved_strict=False),
    )

    assert refused(problem).code == "P402"


def test_a_whole_deployment_is_searched_once() -> None:
    replicas = [pod(f"web-{n}", requires="zone in z") for n in range(300)]
    problem = world(nodepool(requires="zone in a"), instance_type(), *replicas)

    decision = with_fixes(problem, solve(problem), budget=1000)

    assert len({id(one.fixes) for one in decision.unschedulable}) == 1
    assert {one.like for one in decision.unschedulable} == {"default/web-0"}
    assert decision.unschedulable[0].fixes


def test_what_the_budget_does_not_cover_is_left_without_any_claim() -> None:
    problem = world(
        nodepool(requires="zone in a"), instance_type(), pod("web-0", requires="zone in b")
    )

    decision = with_fixes(problem, solve(problem), budget=5)

    assert decision.unschedulable[0].fixes is None
    assert "→" not in message(decision.unschedulable[0])


def test_a_fix_is_sought_near_the_pool_that_misses_least() -> None:
    problem = world(
        nodepool("gpu", taints=["gpu:NoSchedule"], requires="zone in a"),
        nodepool("general", requires="zone in a,b"),
        instance_type(),
        pod("web-0", requires="zone in c"),
    )

    text = line(problem)

    assert "→ add c to zone of pool general" in text
    assert "+1 not meant for it" in text


def test_a_spread_that_no_zone_of_the_pool_can_keep_is_opened_by_another_zone() -> None:
    problem = world(
        nodepool("general", requires="zone in a"),
        instance_type(cpu=2),
        node("n-b", zone="b", cpu=1),
        pod("full", cpu=1, node="n-b"),
        node("n-a", zone="a", cpu=1),
        pod("old", cpu=1, labels=WEB, node="n-a"),
        pod("web-0", labels=WEB, spreads=[spread("zone", WEB)]),
    )

    text = line(problem)

    assert "[P204]" in text
    assert "add b to zone of pool general" in text


def test_a_zone_that_is_sold_in_another_way_only_is_told_by_what_the_pool_allows() -> None:
    sold = [offering("a", "on-demand"), offering("b", "on-demand"), offering("b", "spot")]
    question = world(
        nodepool(requires="capacity in spot"),
        instance_type(offerings=sold),
        pod("web", requires="zone in a"),
    )

    (refused,) = with_fixes(question, solve(question)).unschedulable

    assert "zone a is not offered: b (" in message(refused)
    assert "→ add on-demand to capacity-type of pool general" in message(refused)
