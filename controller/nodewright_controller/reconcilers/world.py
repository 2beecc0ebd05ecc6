"""What the reconcilers know: local copies of the API objects, indexes over them, and the cluster state.

One wiring point feeds every change into `cluster.Cluster`; reconcilers subscribe for their own keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.labels import NODEPOOL
from nodewright_controller.api.meta import KubeObject
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
from nodewright_controller.cluster.cluster import Cluster
from nodewright_controller.ports.store import Store

K = TypeVar("K", bound=KubeObject)


class Index:
    """Keys of objects by a value found in them."""

    def __init__(self, value_of: Callable[[KubeObject], str]) -> None:
        self._value_of = value_of
        self._keys: dict[str, set[str]] = defaultdict(set)

    def __call__(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Take in a change."""
        if old is not None and (value := self._value_of(old)):
            self._keys[value].discard(old.key)
            if not self._keys[value]:
                del self._keys[value]
        if new is not None and (value := self._value_of(new)):
            self._keys[value].add(new.key)

    def keys(self, value: str) -> list[str]:
        """Return the keys of the objects with that value, sorted."""
        return sorted(self._keys.get(value, ()))


def _node_of_pod(obj: KubeObject) -> str:
    return obj.spec.node_name if isinstance(obj, Pod) else ""


def _provider_of_node(obj: KubeObject) -> str:
    return obj.spec.provider_id if isinstance(obj, Node) else ""


def _provider_of_claim(obj: KubeObject) -> str:
    return obj.status.provider_id if isinstance(obj, NodeClaim) else ""


def feed(
    store: Store[K], apply: Callable[[K], None], remove: Callable[[str], None] | None = None
) -> None:
    """Pass every change of a store on: objects to `apply`, keys of deleted ones to `remove`."""

    def changed(old: K | None, new: K | None) -> None:
        if new is not None:
            apply(new)
        elif old is not None and remove is not None:
            remove(old.key)

    store.on_change(changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selecting:
    """The objects that tell which pods belong together."""

    services: Store[Service]
    replica_sets: Store[ReplicaSet]
    stateful_sets: Store[StatefulSet]
    replication_controllers: Store[ReplicationController]


@dataclass(slots=True, kw_only=True)
class World:
    """All stores, the indexes over them, and the cluster state that they feed."""

    nodes: Store[Node]
    node_claims: Store[NodeClaim]
    node_pools: Store[NodePool]
    node_classes: Store[EC2NodeClass]
    pods: Store[Pod]
    daemon_sets: Store[DaemonSet]
    disruption_budgets: Store[PodDisruptionBudget]
    volume_attachments: Store[VolumeAttachment]
    limit_ranges: Store[LimitRange]
    namespaces: Store[Namespace]
    volume_claims: Store[PersistentVolumeClaim]
    volumes: Store[PersistentVolume]
    storage_classes: Store[StorageClass]
    csi_nodes: Store[CSINode]
    node_overlays: Store[NodeOverlay] | None = None
    """None while the feature gate NodeOverlay is off."""
    selecting: Selecting | None = None
    """What default spread constraints deduce selectors from; not followed without any."""
    cluster: Cluster = field(default_factory=Cluster, init=False)
    _pods_by_node: Index = field(default_factory=lambda: Index(_node_of_pod), init=False)
    _nodes_by_provider: Index = field(default_factory=lambda: Index(_provider_of_node), init=False)
    _claims_by_provider: Index = field(
        default_factory=lambda: Index(_provider_of_claim), init=False
    )

    def wire(self) -> None:
        """Subscribe the indexes and the cluster state; call once, before the stores run."""
        cluster = self.cluster
        self.pods.on_change(self._pods_by_node)
        self.nodes.on_change(self._nodes_by_provider)
        self.node_claims.on_change(self._claims_by_provider)
        feed(self.nodes, cluster.apply_node, cluster.remove_node)
        feed(self.node_claims, cluster.apply_node_claim, cluster.remove_node_claim)
        feed(self.node_pools, cluster.apply_node_pool, cluster.remove_node_pool)
        feed(self.pods, cluster.apply_pod, cluster.remove_pod)
        feed(self.daemon_sets, cluster.apply_daemon_set, cluster.remove_daemon_set)
        feed(self.limit_ranges, cluster.apply_limit_range, cluster.remove_limit_range)
        feed(self.namespaces, cluster.apply_namespace, cluster.remove_namespace)
        self._wire_storage()
        if self.selecting is not None:
            self._wire_selecting(self.selecting)

    def _wire_storage(self) -> None:
        cluster = self.cluster
        claims, volumes = PersistentVolumeClaim, PersistentVolume
        feed(self.volume_claims, cluster.apply_storage, partial(cluster.remove_storage, claims))
        feed(self.volumes, cluster.apply_storage, partial(cluster.remove_storage, volumes))
        feed(
            self.storage_classes,
            cluster.apply_storage,
            partial(cluster.remove_storage, StorageClass),
        )
        feed(
            self.volume_attachments,
            cluster.apply_storage,
            partial(cluster.remove_storage, VolumeAttachment),
        )
        feed(self.csi_nodes, cluster.apply_storage, partial(cluster.remove_storage, CSINode))

    def _wire_selecting(self, found: Selecting) -> None:
        apply, remove = self.cluster.apply_selecting, self.cluster.remove_selecting
        feed(found.services, apply, partial(remove, Service))
        feed(found.replica_sets, apply, partial(remove, ReplicaSet))
        feed(found.stateful_sets, apply, partial(remove, StatefulSet))
        feed(found.replication_controllers, apply, partial(remove, ReplicationController))

    @property
    def synced(self) -> bool:
        """Whether memory agrees with the API server and no NodeClaim is still to be launched."""
        stores: tuple[Store[Node] | Store[NodeClaim] | Store[NodePool] | Store[Pod], ...] = (
            self.nodes,
            self.node_claims,
            self.node_pools,
            self.pods,
        )
        if not all(store.ready for store in stores):
            return False
        return self.cluster.synced(self.node_claims.keys(), self.nodes.keys())

    def pods_on(self, node_name: str) -> list[Pod]:
        """Return the pods bound to a node."""
        found = (self.pods.get(key) for key in self._pods_by_node.keys(node_name))
        return [pod for pod in found if pod is not None]

    def nodes_of(self, provider_id: str) -> list[Node]:
        """Return the nodes of an instance; more than one is a fault."""
        found = (self.nodes.get(key) for key in self._nodes_by_provider.keys(provider_id))
        return [node for node in found if node is not None]

    def claims_of_pool(self, name: str) -> list[NodeClaim]:
        """Return the claims of a NodePool."""
        return [c for c in self.node_claims.all() if c.labels.get(NODEPOOL) == name]

    def claim_of(self, node: Node) -> NodeClaim | None:
        """Return the NodeClaim behind a node, or None if the node is not ours."""
        keys = self._claims_by_provider.keys(node.spec.provider_id) if node.spec.provider_id else []
        return self.node_claims.get(keys[0]) if keys else None
