"""Where volumes let a pod run, and how many a node attaches."""

from __future__ import annotations

from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.volumes import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    PersistentVolume,
    VolumeNodeResources,
)
from nodewright_controller.cluster.volumes import EBS_DRIVER
from nodewright_controller.scheduling.decision import message
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.solver import solve

from tests.builders import (
    attachment,
    catalog,
    claim,
    instance_type,
    node,
    nodepool,
    pod,
    spread,
    storage_class,
    volume,
    world,
)

WEB = {"app": "web"}


def test_a_pod_goes_to_the_zone_of_its_volume() -> None:
    volumes = catalog(claim("data", volume="pv"), volume("pv", "b"))

    decision = solve(
        world(nodepool(), instance_type(), pod("db", claims=["data"]), volumes=volumes)
    )

    assert decision.new_node("db").zone == "b"


def test_a_volume_may_use_any_zone_whose_skew_stays_legal() -> None:
    running = [
        pod(f"ledger-{i}", labels=WEB, cpu="1500m", node=f"n-{zone}", spreads=[spread("zone", WEB)])
        for i, zone in enumerate("abc")
    ]
    waiting = [
        pod(
            f"late-{i}",
            labels=WEB,
            cpu="1500m",
            claims=[f"data-{i}"],
            spreads=[spread("zone", WEB)],
        )
        for i in range(2)
    ]
    volumes = catalog(
        *(claim(f"data-{i}", volume=f"pv-{i}") for i in range(2)),
        *(volume(f"pv-{i}", "b") for i in range(2)),
    )

    decision = solve(
        world(
            nodepool(),
            instance_type(),
            *(node(f"n-{zone}", zone=zone) for zone in "abc"),
            *running,
            *waiting,
            volumes=volumes,
        )
    )

    assert [c.zone for c in decision.new_claims] == ["b"]
    assert [one.reason for one in decision.unschedulable] == [Reason.SPREAD]
    assert "b 2" in message(decision.unschedulable[0])


def test_the_zone_key_of_the_driver_in_a_class_means_the_zone() -> None:
    volumes = catalog(
        claim("data"), storage_class(zones=("c",), key="topology.ebs.csi.aws.com/zone")
    )

    decision = solve(
        world(nodepool(), instance_type(), pod("db", claims=["data"]), volumes=volumes)
    )

    assert decision.new_node("db").zone == "c"


def test_a_missing_claim_and_an_unbound_immediate_one_concern_their_own_pods_only() -> None:
    volumes = catalog(
        claim("eager", storage_class="eager"),
        storage_class("eager", mode="Immediate"),
        claim("share", volume="nfs", storage_class="no-such-class"),
        PersistentVolume(metadata=ObjectMeta(name="nfs")),
    )

    decision = solve(
        world(
            nodepool(),
            instance_type(),
            pod("alpha", claims=["no-such-claim"]),
            pod("beta", claims=["eager"]),
            pod("gamma", claims=["share"]),
            pod("delta"),
            volumes=volumes,
        )
    )

    assert set(decision.new_claims[0].pods) == {"default/delta", "default/gamma"}
    assert {one.pod: one.reason for one in decision.unschedulable} == {
        "default/alpha": Reason.CLAIM_NOT_FOUND,
        "default/beta": Reason.CLAIM_IMMEDIATE,
    }


def test_a_zone_that_no_pool_has_is_told_with_the_claim() -> None:
    volumes = catalog(claim("data", volume="pv"), volume("pv", "z"))

    decision = solve(
        world(nodepool(), instance_type(), pod("db", claims=["data"]), volumes=volumes)
    )

    line = message(decision.unschedulable[0])
    assert decision.unschedulable[0].code == "P203"
    assert "default/data" in line


def test_a_node_takes_no_more_volumes_than_its_driver_attaches() -> None:
    drivers = CSINode(
        metadata=ObjectMeta(name="n1"),
        spec=CSINodeSpec(
            drivers=[CSINodeDriver(name=EBS_DRIVER, allocatable=VolumeNodeResources(count=2))]
        ),
    )
    volumes = catalog(
        *(claim(f"c{i}", volume=f"pv{i}") for i in range(4)),
        *(volume(f"pv{i}") for i in range(4)),
        drivers,
    )

    decision = solve(
        world(
            nodepool(),
            instance_type(),
            node("n1"),
            pod("old", claims=["c0"], node="n1"),
            *(pod(f"p{i}", claims=[f"c{i}"]) for i in range(1, 4)),
            pod("shares", claims=["c0"]),
            volumes=volumes,
        )
    )

    assert set(decision.placements) == {"default/p1", "default/shares"}


def test_a_node_without_its_driver_yet_gets_the_limit_of_its_type() -> None:
    types = [instance_type("m.large", volume_limits={EBS_DRIVER: 1})]
    volumes = catalog(
        *(claim(f"c{i}", volume=f"pv{i}") for i in range(2)), *(volume(f"pv{i}") for i in range(2))
    )

    decision = solve(
        world(
            nodepool(),
            *types,
            node("n1"),
            *(pod(f"p{i}", claims=[f"c{i}"]) for i in range(2)),
            volumes=volumes,
        )
    )

    assert len(decision.placements) == 1
    assert len(decision.new_claims) == 1


def drivers_of(node_name: str, *listed: CSINodeDriver) -> CSINode:
    return CSINode(metadata=ObjectMeta(name=node_name), spec=CSINodeSpec(drivers=list(listed)))


def test_a_volume_that_is_still_attached_takes_a_place_though_its_pod_is_gone() -> None:
    two = CSINodeDriver(name=EBS_DRIVER, allocatable=VolumeNodeResources(count=2))
    volumes = catalog(
        *(claim(f"c{i}", volume=f"pv{i}") for i in range(2)),
        *(volume(f"pv{i}") for i in range(3)),
        attachment("pv2", "n1"),
        drivers_of("n1", two),
    )
    waiting = [pod(f"p{i}", claims=[f"c{i}"]) for i in range(2)]

    decision = solve(world(nodepool(), instance_type(), node("n1"), *waiting, volumes=volumes))

    assert set(decision.placements) == {"default/p0"}
    assert len(decision.new_claims) == 1


def test_the_attachment_of_a_volume_that_a_pod_uses_or_brings_counts_once() -> None:
    two = CSINodeDriver(name=EBS_DRIVER, allocatable=VolumeNodeResources(count=2))
    volumes = catalog(
        *(claim(f"c{i}", volume=f"pv{i}") for i in range(2)),
        *(volume(f"pv{i}") for i in range(2)),
        attachment("pv0", "n1"),
        attachment("pv1", "n1"),
        drivers_of("n1", two),
    )
    parts = [pod("old", claims=["c0"], node="n1"), pod("back", claims=["c1"])]

    decision = solve(world(nodepool(), instance_type(), node("n1"), *parts, volumes=volumes))

    assert set(decision.placements) == {"default/back"}


def test_the_attachment_of_a_volume_that_is_gone_still_takes_a_place() -> None:
    one = CSINodeDriver(name=EBS_DRIVER, allocatable=VolumeNodeResources(count=1))
    volumes = catalog(
        claim("c0", volume="pv0"),
        volume("pv0"),
        attachment("deleted", "n1"),
        attachment("other", "n1", driver="efs.csi.aws.com"),
        drivers_of("n1", one),
    )

    decision = solve(
        world(nodepool(), instance_type(), node("n1"), pod("p", claims=["c0"]), volumes=volumes)
    )

    assert not decision.placements


def test_a_driver_that_states_no_count_attaches_any_number_whatever_the_type() -> None:
    types = [instance_type("m.large", volume_limits={EBS_DRIVER: 1})]
    volumes = catalog(
        *(claim(f"c{i}", volume=f"pv{i}") for i in range(2)),
        *(volume(f"pv{i}") for i in range(2)),
        drivers_of("n1", CSINodeDriver(name=EBS_DRIVER)),
    )
    waiting = [pod(f"p{i}", claims=[f"c{i}"]) for i in range(2)]

    decision = solve(world(nodepool(), *types, node("n1"), *waiting, volumes=volumes))

    assert len(decision.placements) == 2


def test_more_volumes_than_any_type_attaches_is_told() -> None:
    types = [instance_type("m.large", volume_limits={EBS_DRIVER: 1})]
    volumes = catalog(
        *(claim(f"c{i}", volume=f"pv{i}") for i in range(2)), *(volume(f"pv{i}") for i in range(2))
    )

    decision = solve(world(nodepool(), *types, pod("db", claims=["c0", "c1"]), volumes=volumes))

    assert decision.unschedulable[0].code == "P207"
