"""The local copies of API objects that the controller keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodeoverlay import NodeOverlay
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.api.policy import PodDisruptionBudget, VolumeAttachment
from nodewright_controller.api.service import Service
from nodewright_controller.api.volumes import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from nodewright_controller.api.workloads import (
    DaemonSet,
    LimitRange,
    Namespace,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from nodewright_controller.kube.client import KubeClient
from nodewright_controller.kube.informer import Informer
from nodewright_controller.reconcilers.world import Selecting, World
from nodewright_controller.runtime.supervise import Loop


@dataclass(frozen=True, slots=True)
class Stores:
    """The world and the informers that keep it current."""

    world: World
    informers: tuple[Informer[Any], ...]

    @property
    def loops(self) -> Mapping[str, Loop]:
        """What must be kept running."""
        return {f"watch {informer.kind.KIND.plural}": informer.run for informer in self.informers}

    def missing(self) -> str:
        """Say which kinds have not been read yet; empty when all have."""
        names = [informer.kind.KIND.plural for informer in self.informers if not informer.ready]
        return f"waiting for {', '.join(names)}" if names else ""


def open_stores(
    client: KubeClient, gates: Mapping[str, bool], *, selecting: bool = False
) -> Stores:
    """Make the informers that the feature gates call for, and wire them into a new world.

    Services and the owners of pods are many, and only followed for the selectors of default spread
    constraints (`selecting`).
    """
    stores: dict[str, Informer[Any]] = {
        "nodes": Informer(client, Node),
        "node_claims": Informer(client, NodeClaim),
        "node_pools": Informer(client, NodePool),
        "node_classes": Informer(client, EC2NodeClass),
        "pods": Informer(client, Pod),
        "daemon_sets": Informer(client, DaemonSet),
        "disruption_budgets": Informer(client, PodDisruptionBudget),
        "volume_attachments": Informer(client, VolumeAttachment),
        # Karpenter's own role does not have limit ranges: under it the controller does without.
        "limit_ranges": Informer(client, LimitRange, optional=True),
        "namespaces": Informer(client, Namespace),
        "volume_claims": Informer(client, PersistentVolumeClaim),
        "volumes": Informer(client, PersistentVolume),
        "storage_classes": Informer(client, StorageClass),
        "csi_nodes": Informer(client, CSINode),
    }
    if gates["NodeOverlay"]:
        stores["node_overlays"] = Informer(client, NodeOverlay)
    # Karpenter's own role does not have services: under it the owners alone must tell.
    owners: dict[str, Informer[Any]] = {
        "services": Informer(client, Service, optional=True),
        "replica_sets": Informer(client, ReplicaSet),
        "stateful_sets": Informer(client, StatefulSet),
        "replication_controllers": Informer(client, ReplicationController),
    }
    followed = owners if selecting else {}
    world = World(**stores, selecting=Selecting(**owners) if selecting else None)
    world.wire()
    return Stores(world, (*stores.values(), *followed.values()))
