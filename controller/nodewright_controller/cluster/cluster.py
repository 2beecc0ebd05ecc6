"""What we believe about the cluster: the one mutable object of the core.

Events are applied in any order and any number of times; a pod may come before its node, a node
before its claim. `snapshot` freezes the belief; nodes that did not change are shared between
snapshots. It runs on the event loop, so it needs no lock. Upstream: pkg/controllers/state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeVar

from nodewright_controller.api.labels import NODEPOOL
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.api.policy import VolumeAttachment
from nodewright_controller.api.volumes import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from nodewright_controller.api.workloads import DaemonSet, LimitRange, Namespace
from nodewright_controller.cluster.daemons import daemon_pod
from nodewright_controller.cluster.pods import (
    is_active,
    is_provisionable,
    is_terminal,
    without_unreadable,
)
from nodewright_controller.cluster.selectors import Selecting, WorkloadSelectors
from nodewright_controller.cluster.snapshot import Snapshot, StateNode
from nodewright_controller.cluster.volumes import VolumeCatalog, by_node

_K = TypeVar("_K", bound=KubeObject)
_Storage = PersistentVolumeClaim | PersistentVolume | StorageClass | CSINode | VolumeAttachment


def by_weight(node_pools: Iterable[NodePool]) -> tuple[NodePool, ...]:
    """Return the pools in the order in which they are tried: weight, then name, descending."""
    return tuple(sorted(node_pools, key=lambda p: (p.spec.weight or 0, p.name), reverse=True))


class Cluster:
    """Nodes, claims, pods and policies, as last heard."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._claims: dict[str, NodeClaim] = {}
        self._pods: dict[str, Pod] = {}
        self._pools: dict[str, NodePool] = {}
        self._daemon_sets: dict[str, DaemonSet] = {}
        self._limit_ranges: dict[str, LimitRange] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._storage: dict[type[KubeObject], dict[str, KubeObject]] = defaultdict(dict)
        self._selecting: dict[tuple[type[Selecting], str], Selecting] = {}
        self._bound: dict[str, dict[str, Pod]] = defaultdict(dict)
        self._marked: set[str] = set()
        self._nominations: dict[str, datetime] = {}
        self._views: dict[tuple[str, str], StateNode] = {}
        self._catalog: VolumeCatalog | None = None
        self._selectors: WorkloadSelectors | None = None
        self._synced_once = False

    # Events.

    def apply_node(self, node: Node) -> None:
        """Learn of a node."""
        self._nodes[node.name] = node

    def remove_node(self, name: str) -> None:
        """Forget a node; the pods bound to it are kept until they go themselves."""
        self._nodes.pop(name, None)

    def apply_node_claim(self, node_claim: NodeClaim) -> None:
        """Learn of a claim."""
        self._claims[node_claim.name] = node_claim

    def remove_node_claim(self, name: str) -> None:
        """Forget a claim, and that it was marked for deletion."""
        self._claims.pop(name, None)
        self._marked.discard(name)

    def apply_pod(self, pod: Pod) -> None:
        """Learn of a pod, bound or not."""
        self.remove_pod(pod.key)
        self._pods[pod.key] = pod
        if pod.spec.node_name and not is_terminal(pod):
            self._bound[pod.spec.node_name][pod.key] = pod

    def remove_pod(self, key: str) -> None:
        """Forget a pod."""
        known = self._pods.pop(key, None)
        if known is not None and known.spec.node_name:
            on_node = self._bound.get(known.spec.node_name, {})
            on_node.pop(key, None)
            if not on_node:
                self._bound.pop(known.spec.node_name, None)

    def apply_node_pool(self, node_pool: NodePool) -> None:
        """Learn of a pool."""
        self._pools[node_pool.name] = node_pool

    def remove_node_pool(self, name: str) -> None:
        """Forget a pool."""
        self._pools.pop(name, None)

    def apply_daemon_set(self, daemon_set: DaemonSet) -> None:
        """Learn of a DaemonSet."""
        self._daemon_sets[daemon_set.key] = daemon_set

    def remove_daemon_set(self, key: str) -> None:
        """Forget a DaemonSet."""
        self._daemon_sets.pop(key, None)

    def apply_limit_range(self, limit_range: LimitRange) -> None:
        """Learn of a LimitRange."""
        self._limit_ranges[limit_range.key] = limit_range

    def remove_limit_range(self, key: str) -> None:
        """Forget a LimitRange."""
        self._limit_ranges.pop(key, None)

    def apply_namespace(self, namespace: Namespace) -> None:
        """Learn of a namespace."""
        self._namespaces[namespace.name] = namespace

    def remove_namespace(self, name: str) -> None:
        """Forget a namespace."""
        self._namespaces.pop(name, None)

    def apply_storage(self, found: _Storage) -> None:
        """Learn of a claim for a volume, a volume, its class or attachment, or a node's drivers."""
        self._storage[type(found)][found.key] = found
        self._catalog = None

    def remove_storage(self, kind: type[_Storage], key: str) -> None:
        """Forget one of them."""
        self._storage[kind].pop(key, None)
        self._catalog = None

    def apply_selecting(self, found: Selecting) -> None:
        """Learn of a Service or of an owner of pods."""
        known = self._selecting.get((type(found), found.key))
        self._selecting[type(found), found.key] = found
        if known is None or known.spec.selector != found.spec.selector:
            self._selectors = None  # owners change with each of their pods, selectors hardly ever

    def remove_selecting(self, kind: type[Selecting], key: str) -> None:
        """Forget one of them."""
        self._selecting.pop((kind, key), None)
        self._selectors = None

    # Our own intentions.

    def nominate(self, node_or_claim_name: str, until: datetime) -> None:
        """Expect pods on a node or claim until then; a shorter promise never cuts a longer one."""
        known = self._nominations.get(node_or_claim_name)
        if known is None or until > known:
            self._nominations[node_or_claim_name] = until

    def mark_for_deletion(self, claim_names: Iterable[str]) -> None:
        """Treat these claims as going, before the API server says so."""
        self._marked.update(claim_names)

    def unmark_for_deletion(self, claim_names: Iterable[str]) -> None:
        """Take the mark back."""
        self._marked.difference_update(claim_names)

    # Reading.

    def synced(self, node_claim_names: Iterable[str], node_names: Iterable[str]) -> bool:
        """Whether we know enough to decide.

        Once, everything that the API server lists must have been heard of; always, no claim may
        still be without an instance, because what it will become is not known yet.
        """
        if not self._synced_once:
            self._synced_once = self._claims.keys() >= set(
                node_claim_names
            ) and self._nodes.keys() >= set(node_names)
        launched = all(claim.status.provider_id for claim in self._claims.values())
        return self._synced_once and launched

    def snapshot(self, now: datetime) -> Snapshot:
        """Freeze what is known."""
        # Nodes come before pods: a pod bound meanwhile is then seen, and never counted twice.
        nodes = self._state_nodes(now)
        return Snapshot(
            now=now,
            nodes=nodes,
            pending_pods=tuple(
                pod for _, pod in sorted(self._pods.items()) if is_provisionable(pod)
            ),
            daemon_pods=self._daemon_pods(),
            node_pools=by_weight(self._pools.values()),
            pods_by_node={
                name: tuple(pod for _, pod in sorted(pods.items()))
                for name, pods in sorted(self._bound.items())
            },
            volumes=self._volume_catalog(),
            namespaces={n.name: dict(n.labels) for n in self._namespaces.values()},
            selectors=self._workload_selectors(),
        )

    def nodes_of_pool(self, name: str) -> tuple[StateNode, ...]:
        """Return a pool's nodes and claims in flight, in no order, and without their pods.

        It costs a look at nodes and claims; a snapshot looks at every pod as well.
        """
        views = (
            StateNode(node=node, node_claim=claim, marked=claim.name in self._marked)
            for node, claim in self._pairs()
            if claim is not None
        )
        return tuple(view for view in views if view.node_pool_name == name)

    def _state_nodes(self, now: datetime) -> tuple[StateNode, ...]:
        self._nominations = {n: until for n, until in self._nominations.items() if until > now}
        views: dict[tuple[str, str], StateNode] = {}
        for node, claim in self._pairs():
            identity = (node.name if node else "", claim.name if claim else "")
            views[identity] = self._view(identity, node, claim)
        self._views = views
        return tuple(sorted(views.values(), key=lambda view: view.name))

    def _pairs(self) -> Iterable[tuple[Node | None, NodeClaim | None]]:
        by_provider_id = {c.status.provider_id: c for c in self._claims.values()}
        by_provider_id.pop("", None)
        paired: set[str] = set()
        for node in self._nodes.values():
            claim = by_provider_id.get(node.spec.provider_id) if node.spec.provider_id else None
            if claim is None and NODEPOOL in node.labels and not node.spec.provider_id:
                continue  # a node of ours that has not said which instance it is
            if claim is not None:
                paired.add(claim.name)
            yield node, claim
        for claim in self._claims.values():
            if claim.name not in paired:
                yield None, claim

    def _view(
        self, identity: tuple[str, str], node: Node | None, claim: NodeClaim | None
    ) -> StateNode:
        name = node.name if node is not None else ""
        pods = tuple(pod for _, pod in sorted(self._bound.get(name, {}).items())) if name else ()
        marked = claim is not None and claim.name in self._marked
        until = max(
            (self._nominations[n] for n in identity if n and n in self._nominations),
            default=None,
        )
        known = self._views.get(identity)
        same = known is not None and (known.marked, known.nominated_until) == (marked, until)
        if same and known is not None and _unchanged(known, node, claim, pods):
            return known
        return StateNode(
            node=node, node_claim=claim, pods=pods, marked=marked, nominated_until=until
        )

    def _daemon_pods(self) -> tuple[Pod, ...]:
        live: dict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pods in self._bound.values():
            for pod in pods.values():
                for owner in pod.owners:
                    if owner.kind == "DaemonSet" and owner.controller and is_active(pod):
                        live[(pod.metadata.namespace, owner.name)].append(pod)
        found = []
        for _, daemon_set in sorted(self._daemon_sets.items()):
            namespace = daemon_set.metadata.namespace
            ranges = (
                r
                for _, r in sorted(self._limit_ranges.items())
                if r.metadata.namespace == namespace
            )
            made = daemon_pod(daemon_set, live[(namespace, daemon_set.name)], ranges)
            found.append(without_unreadable(made))
        return tuple(found)

    def _volume_catalog(self) -> VolumeCatalog:
        if self._catalog is None:
            self._catalog = VolumeCatalog(
                claims=self._of_kind(PersistentVolumeClaim),
                volumes=self._of_kind(PersistentVolume),
                classes=self._of_kind(StorageClass),
                csi_nodes=self._of_kind(CSINode),
                attachments=by_node(self._of_kind(VolumeAttachment).values()),
            )
        return self._catalog

    def _workload_selectors(self) -> WorkloadSelectors:
        if self._selectors is None:
            self._selectors = WorkloadSelectors.of(self._selecting.values())
        return self._selectors

    def _of_kind(self, kind: type[_K]) -> Mapping[str, _K]:
        return {key: o for key, o in self._storage[kind].items() if isinstance(o, kind)}


def _unchanged(
    known: StateNode, node: Node | None, claim: NodeClaim | None, pods: tuple[Pod, ...]
) -> bool:
    if known.node is not node or known.node_claim is not claim or len(known.pods) != len(pods):
        return False
    return all(one is other for one, other in zip(known.pods, pods, strict=True))
