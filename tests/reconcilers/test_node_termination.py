"""A node that leaves: taint, drain, volumes, instance, and only then the node."""

from __future__ import annotations

from datetime import timedelta

import pytest
from nodewright_controller.api import labels
from nodewright_controller.api.meta import ObjectMeta, OwnerReference
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim, NodeClaimSpec
from nodewright_controller.api.pod import Pod, PodSpec, PodStatus
from nodewright_controller.api.policy import (
    AttachmentSource,
    VolumeAttachment,
    VolumeAttachmentSpec,
)
from nodewright_controller.kernel.timing import format_instant
from nodewright_controller.reconcilers.eviction import EvictionQueue
from nodewright_controller.reconcilers.node_termination import NodeTerminationReconciler
from nodewright_controller.reconcilers.nodeclaim import NodeClaimReconciler
from nodewright_controller.reconcilers.nominations import Nominations
from nodewright_controller.reconcilers.volumes import Volumes

from tests.fakes.harness import START, Harness

NODE = "node-general-1"


class Leaving(Harness):
    """A harness with one registered node and everything that ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = NodeClaimReconciler(
            world=self.world,
            writes=self.writes,
            cloud=self.cloud,
            recorder=self.recorder,
            clock=self.clock,
            nominations=Nominations(),
        )
        self.evictions = EvictionQueue(
            world=self.world, kube=self.kube, recorder=self.recorder, clock=self.clock
        )
        self.nodes = NodeTerminationReconciler(
            world=self.world,
            writes=self.writes,
            cloud=self.cloud,
            recorder=self.recorder,
            clock=self.clock,
            evictions=self.evictions,
            volumes=Volumes(self.world.volume_claims),
        )

    async def start(self, spec: NodeClaimSpec | None = None) -> None:
        meta = ObjectMeta(name="general-1", labels={labels.NODEPOOL: "general"})
        self.kube.add(NodeClaim(metadata=meta, spec=spec or NodeClaimSpec()))
        await self.claims.reconcile("general-1")
        self.join("general-1")
        await self.claims.reconcile("general-1")

    def pod(self, name: str, *, daemon: bool = False, **spec: object) -> Pod:
        owner = OwnerReference(api_version="apps/v1", kind="DaemonSet" if daemon else "ReplicaSet")
        return self.kube.add(
            Pod(
                metadata=ObjectMeta(name=name, namespace="shop", owner_references=[owner]),
                spec=PodSpec(node_name=NODE, **spec),  # type: ignore[arg-type]
                status=PodStatus(phase="Running"),
            )
        )

    async def delete_node(self) -> None:
        await self.kube.delete(Node, NODE)

    async def tick(self) -> float | None:
        """One look at the node, then everything the eviction queue has to do."""
        result = await self.nodes.reconcile(NODE)
        queue = self.evictions.controller.queue
        while len(queue):
            key = await queue.get()
            await self.evictions._handle(key)
            queue.done(key)
        return result.requeue_after


@pytest.fixture
async def leaving() -> Leaving:
    harness = Leaving()
    await harness.start()
    return harness


async def test_deleting_a_node_deletes_its_claim_and_keeps_new_pods_off(leaving: Leaving) -> None:
    leaving.pod("web")
    leaving.kube.blocked_by_pdb.add("shop/web")
    await leaving.delete_node()

    await leaving.tick()
    await leaving.tick()

    assert leaving.claim("general-1").deleting
    node = leaving.node(NODE)
    assert [(t.key, t.effect) for t in node.spec.taints or ()] == [
        (labels.DISRUPTED_TAINT, "NoSchedule")
    ]
    assert node.labels[labels.EXCLUDE_BALANCERS] == "karpenter"


async def test_the_instance_is_stopped_only_after_the_last_pod_has_gone(leaving: Leaving) -> None:
    leaving.pod("web")
    leaving.kube.blocked_by_pdb.add("shop/web")
    await leaving.delete_node()

    for _ in range(5):
        await leaving.tick()
        leaving.clock.move(seconds=10)

    assert leaving.world.pods.get("shop/web") is not None
    assert leaving.cloud.terminating == set()
    assert "FailedDraining" in leaving.recorder.reasons()


async def test_a_drained_node_ends_with_its_instance_and_its_claim(leaving: Leaving) -> None:
    leaving.pod("web")
    await leaving.delete_node()

    for _ in range(4):
        await leaving.tick()
        leaving.clock.move(seconds=3)
    assert leaving.kube.evictions == ["shop/web"]
    assert leaving.cloud.terminating == {"aws:///zone-a/i-0001"}
    assert leaving.world.nodes.get(NODE) is not None, "the node stays while its instance does"

    leaving.cloud.finish_terminations()
    await leaving.tick()
    await leaving.claims.reconcile("general-1")
    assert leaving.world.nodes.get(NODE) is None
    assert leaving.world.node_claims.get("general-1") is None


async def test_daemons_leave_after_the_other_pods(leaving: Leaving) -> None:
    leaving.pod("agent", daemon=True)
    leaving.pod("web")
    await leaving.delete_node()
    await leaving.tick()

    await leaving.tick()
    assert leaving.kube.evictions == ["shop/web"]
    await leaving.tick()
    assert leaving.kube.evictions == ["shop/web", "shop/agent"]


async def test_a_do_not_disrupt_pod_is_waited_for_and_not_evicted(leaving: Leaving) -> None:
    pod = leaving.pod("precious")
    await leaving.kube.patch(
        Pod,
        pod.name,
        {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}},
        namespace="shop",
    )
    await leaving.delete_node()

    for _ in range(4):
        await leaving.tick()
        leaving.clock.move(minutes=10)

    assert leaving.kube.evictions == []
    assert leaving.cloud.terminating == set()


async def test_after_the_deadline_pods_are_deleted_whatever_protects_them() -> None:
    leaving = Leaving()
    await leaving.start(NodeClaimSpec(termination_grace_period="5m"))
    leaving.pod("web", termination_grace_period_seconds=30)
    leaving.kube.blocked_by_pdb.add("shop/web")
    await leaving.kube.delete(NodeClaim, "general-1")
    await leaving.claims.reconcile("general-1")

    await leaving.tick()
    assert leaving.world.pods.get("shop/web") is not None
    leaving.clock.move(minutes=4, seconds=31)
    await leaving.tick()

    assert leaving.world.pods.get("shop/web") is None
    assert "Disrupted" in leaving.recorder.reasons()


async def test_an_attached_volume_holds_the_instance_back(leaving: Leaving) -> None:
    source = AttachmentSource(persistent_volume_name="vol-1")
    spec = VolumeAttachmentSpec(node_name=NODE, source=source)
    leaving.kube.add(VolumeAttachment(metadata=ObjectMeta(name="attachment"), spec=spec))
    await leaving.delete_node()

    for _ in range(4):
        await leaving.tick()
        leaving.clock.move(seconds=6)
    assert leaving.cloud.terminating == set()
    assert "AwaitingVolumeDetachment" in leaving.recorder.reasons()

    await leaving.kube.delete(VolumeAttachment, "attachment")
    await leaving.tick()
    assert leaving.cloud.terminating == {"aws:///zone-a/i-0001"}


async def test_a_node_whose_instance_is_gone_is_let_go_without_a_drain(leaving: Leaving) -> None:
    leaving.pod("web")
    leaving.kube.blocked_by_pdb.add("shop/web")
    await leaving.kube.patch(
        Node,
        NODE,
        {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
        status=True,
    )
    leaving.cloud.instances.clear()
    await leaving.delete_node()

    await leaving.tick()
    await leaving.tick()

    assert leaving.world.nodes.get(NODE) is None


async def test_the_deadline_on_the_claim_is_its_deletion_plus_the_grace_period() -> None:
    leaving = Leaving()
    await leaving.start(NodeClaimSpec(termination_grace_period="1h"))
    await leaving.kube.delete(NodeClaim, "general-1")

    await leaving.claims.reconcile("general-1")

    expected = format_instant(START + timedelta(hours=1))
    assert leaving.claim("general-1").annotations[labels.TERMINATION_TIMESTAMP] == expected
