"""What the local copies of objects feed into the belief about the cluster."""

from __future__ import annotations

from dataclasses import replace

from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.pod import LabelSelector
from nodewright_controller.api.policy import VolumeAttachment
from nodewright_controller.api.service import Service, ServiceSpec
from nodewright_controller.api.workloads import (
    ReplicaSet,
    ReplicationController,
    ReplicationControllerSpec,
    SelectingSpec,
    StatefulSet,
)
from nodewright_controller.cluster.selectors import WorkloadSelectors
from nodewright_controller.cluster.volumes import EBS_DRIVER
from nodewright_controller.reconcilers.world import Selecting, World

from tests.builders import attachment
from tests.fakes.harness import Harness


def named(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="shop", annotations={"long": "text"})


def selecting_world(harness: Harness) -> World:
    """The harness's world, which also follows Services and the owners of pods."""
    store = harness.kube.store
    followed = Selecting(
        services=store(Service),
        replica_sets=store(ReplicaSet),
        stateful_sets=store(StatefulSet),
        replication_controllers=store(ReplicationController),
    )
    world = replace(harness.world, selecting=followed)
    world.wire()
    return world


def test_the_selectors_of_services_and_owners_reach_the_snapshot() -> None:
    harness = Harness()
    world = selecting_world(harness)
    selector = LabelSelector(match_labels={"app": "web"})

    harness.kube.add(Service(metadata=named("web"), spec=ServiceSpec(selector={"app": "web"})))
    harness.kube.add(ReplicaSet(metadata=named("web"), spec=SelectingSpec(selector=selector)))
    harness.kube.add(StatefulSet(metadata=named("db"), spec=SelectingSpec(selector=selector)))
    old = ReplicationControllerSpec(selector={"app": "old"})
    harness.kube.add(ReplicationController(metadata=named("old"), spec=old))

    assert world.cluster.snapshot(harness.clock.now()).selectors == WorkloadSelectors(
        services={"shop": ({"app": "web"},)},
        replication_controllers={"shop/old": {"app": "old"}},
        owners={("ReplicaSet", "shop/web"): selector, ("StatefulSet", "shop/db"): selector},
    )


def test_of_objects_held_for_their_selector_nothing_else_is_kept() -> None:
    harness = Harness()
    selecting_world(harness)

    harness.kube.add(ReplicaSet(metadata=named("web")))

    (kept,) = harness.kube.store(ReplicaSet).all()
    assert kept.metadata.annotations is None


def test_an_attachment_takes_a_place_until_it_is_gone() -> None:
    harness = Harness()
    harness.kube.add(attachment("pv", "n1"))

    before = harness.world.cluster.snapshot(harness.clock.now()).volumes
    harness.kube.store(VolumeAttachment).drop("csi-pv-n1")

    after = harness.world.cluster.snapshot(harness.clock.now()).volumes
    assert before.attached_to("n1") == {EBS_DRIVER: {"volume pv"}}
    assert after.attached_to("n1") == {}
