"""The judge finds what is wrong: a judge that never objects would prove nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.volumes import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    VolumeNodeResources,
)
from nodewright_controller.cluster.volumes import EBS_DRIVER
from nodewright_controller.scheduling.decision import Decision
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.solver import solve

from tests.builders import (
    attachment,
    catalog,
    claim,
    instance_type,
    near,
    node,
    nodepool,
    pod,
    spread,
    volume,
    world,
)
from tests.scheduling.judge import judge

WEB = {"app": "web"}


def moved_to_first_claim(decision: Decision) -> Decision:
    """The same decision with every pod of the claims on the first of them."""
    pods = tuple(key for claim in decision.new_claims for key in claim.pods)
    return replace(decision, new_claims=(replace(decision.new_claims[0], pods=pods),))


CASES: dict[str, tuple[Problem, str]] = {
    "room": (
        world(nodepool(), instance_type(cpu=2), *(pod(f"p{i}", cpu="1500m") for i in range(2))),
        "too little cpu",
    ),
    "anti-affinity": (
        world(
            nodepool(),
            instance_type(cpu=8),
            *(pod(f"p{i}", labels=WEB, anti=[near(WEB, "host")]) for i in range(2)),
        ),
        "must be apart",
    ),
    "ports": (
        world(nodepool(), instance_type(cpu=8), *(pod(f"p{i}", ports=[80]) for i in range(2))),
        "the same port",
    ),
    "spread": (
        world(
            nodepool(),
            instance_type(cpu=8),
            *(pod(f"p{i}", cpu=5, labels=WEB, spreads=[spread("zone", WEB)]) for i in range(2)),
        ),
        "the emptiest 0",
    ),
    "labels": (
        world(
            nodepool(),
            instance_type(cpu=8),
            *(pod(f"p{zone}", requires=f"zone in {zone}") for zone in "ab"),
        ),
        "may not be on",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_decision_that_breaks_a_rule_is_objected_to(case: str) -> None:
    problem, complaint = CASES[case]
    decision = solve(problem)

    assert judge(problem, decision) == []
    assert any(complaint in fault for fault in judge(problem, moved_to_first_claim(decision)))


@pytest.mark.parametrize(
    ("drivers", "may"),
    [
        (None, "over 1"),
        ([], "over 1"),
        ([CSINodeDriver(name=EBS_DRIVER, allocatable=VolumeNodeResources(count=2))], "over 2"),
        ([CSINodeDriver(name=EBS_DRIVER)], ""),
    ],
)
def test_one_volume_too_many_on_a_node_is_objected_to(
    drivers: list[CSINodeDriver] | None, may: str
) -> None:
    said = CSINode(metadata=ObjectMeta(name="n1"), spec=CSINodeSpec(drivers=drivers))
    storage = [claim(f"c{i}", volume=f"pv{i}") for i in range(2)]
    problem = world(
        nodepool(),
        instance_type("m.large", volume_limits={EBS_DRIVER: 1}),
        node("n1", cpu=8),
        *(pod(f"p{i}", claims=[f"c{i}"]) for i in range(2)),
        volumes=catalog(*storage, volume("pv0"), volume("pv1"), attachment("left", "n1"), said),
    )
    crowded = Decision(placements={"default/p0": "n1", "default/p1": "n1"})

    assert judge(problem, solve(problem)) == []
    assert [fault for fault in judge(problem, crowded) if "attaches 3 volumes" in fault] == (
        [f"n1 attaches 3 volumes, {may}"] if may else []
    )


def test_a_limit_a_taint_and_a_forgotten_pod_are_objected_to() -> None:
    problem = world(
        nodepool(taints=["t:NoSchedule"], limits={"nodes": "1"}),
        instance_type(),
        node("n1", taints=["t:NoSchedule"], cpu="100m"),
        pod("fine", tolerates=["t"], cpu=1),
        pod("not"),
    )
    decision = solve(problem)
    claim = decision.new_claims[0]

    twice = replace(decision, new_claims=(claim, replace(claim, pods=())))
    tainted = replace(decision, placements={"default/not": "n1"}, unschedulable=())

    assert judge(problem, decision) == []
    assert any("over 1" in fault for fault in judge(problem, twice))
    assert any("does not tolerate" in fault for fault in judge(problem, tainted))
    assert any(
        "spoken for once" in fault for fault in judge(problem, replace(decision, unschedulable=()))
    )
