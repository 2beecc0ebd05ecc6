"""The cluster at one instant, as values that nothing changes any more.

A `StateNode` is a Node, a NodeClaim, or both: what they are together, with the pods on it. How the
snapshot comes about is `cluster.cluster`; what follows from it is decided in `scheduling` and
`disruption`. Upstream: pkg/controllers/state/statenode.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from nodewright_controller.api.labels import INITIALIZED, NODEPOOL, REGISTERED
from nodewright_controller.api.meta import is_true
from nodewright_controller.api.node import Node, Taint
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod, Quantities
from nodewright_controller.cluster.pods import (
    held_by,
    is_owned_by_daemon_set,
    is_reschedulable,
)
from nodewright_controller.cluster.selectors import WorkloadSelectors
from nodewright_controller.cluster.volumes import VolumeCatalog
from nodewright_controller.constraints.taints import REBOOTING_TAINT, is_ephemeral, same_taint
from nodewright_controller.kernel.resources import EMPTY, Resources, total, unreadable


@dataclass(frozen=True, kw_only=True)
class StateNode:
    """A node that exists, or one that was asked for; at least one of both objects is there."""

    node: Node | None = None
    node_claim: NodeClaim | None = None
    pods: tuple[Pod, ...] = ()
    """Pods bound to it that still hold resources, by key."""
    marked: bool = False
    """Whether disruption has marked it for deletion."""
    nominated_until: datetime | None = None
    """Until when pods are expected on it."""

    @cached_property
    def name(self) -> str:
        """The node's name; before it has joined, the claim's."""
        if self.node is not None:
            return self.node.name
        return self.node_claim.name if self.node_claim is not None else ""

    @cached_property
    def provider_id(self) -> str:
        """The cloud's name of the instance; empty before launch."""
        if self.node is not None and self.node.spec.provider_id:
            return self.node.spec.provider_id
        return self.node_claim.status.provider_id if self.node_claim is not None else ""

    @property
    def managed(self) -> bool:
        """Whether a NodeClaim stands behind it."""
        return self.node_claim is not None

    @cached_property
    def registered(self) -> bool:
        """Whether the node has joined and was taken over; unmanaged nodes always are."""
        if self.node_claim is None:
            return True
        return self.node is not None and self.node.labels.get(REGISTERED) == "true"

    @cached_property
    def initialized(self) -> bool:
        """Whether the node has everything it was asked for; unmanaged nodes always are."""
        if self.node_claim is None:
            return True
        return self.node is not None and self.node.labels.get(INITIALIZED) == "true"

    @cached_property
    def rebooting(self) -> bool:
        """Whether a reboot is under way; such a node is treated as one that is starting."""
        claim = self.node_claim
        return claim is not None and is_true(claim.status.conditions, "Rebooting")

    @cached_property
    def _starting(self) -> bool:
        return not self.initialized or self.rebooting

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The labels to schedule by: the claim's until the node is registered."""
        if self.node is None:
            return self.node_claim.labels if self.node_claim is not None else {}
        if self.node_claim is not None and not self.registered:
            return {**self.node.labels, **self.node_claim.labels}
        return self.node.labels

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """The taints to schedule by; those that go away while it starts are left out."""
        claim = self.node_claim
        if claim is not None and not self.registered:
            listed = claim.spec.taints or []
        else:
            listed = (self.node.spec.taints if self.node is not None else None) or []
        if claim is None or not self._starting:
            return tuple(listed)
        startup = claim.spec.startup_taints or []
        return tuple(
            taint
            for taint in listed
            if not is_ephemeral(taint)
            and taint.key != REBOOTING_TAINT
            and not any(same_taint(taint, going) for going in startup)
        )

    def _amounts(self, of_node: Quantities | None, of_claim: Quantities | None) -> Resources:
        amounts = dict(Resources.readable(of_node))
        if self._claim_speaks:
            # Until it is initialized a node may report a resource as zero or not at all.
            for resource, value in Resources.readable(of_claim).items():
                if not amounts.get(resource):
                    amounts[resource] = value
        return Resources(amounts)

    @property
    def _claim_speaks(self) -> bool:
        return self.node_claim is not None and not self.initialized

    @cached_property
    def unreadable(self) -> bool:
        """Whether an amount of what pods may take cannot be read; such a node takes no new pods."""
        node, claim = self.node, self.node_claim if self._claim_speaks else None
        listed = [one.status.allocatable for one in (node, claim) if one is not None]
        return any(True for quantities in listed for _ in unreadable(quantities))

    @cached_property
    def capacity(self) -> Resources:
        """What the machine has, as far as it can be read."""
        return self._amounts(
            self.node.status.capacity if self.node is not None else None,
            self.node_claim.status.capacity if self.node_claim is not None else None,
        )

    @cached_property
    def allocatable(self) -> Resources:
        """What pods may take; nothing while that cannot be read."""
        if self.unreadable:
            return EMPTY
        return self._amounts(
            self.node.status.allocatable if self.node is not None else None,
            self.node_claim.status.allocatable if self.node_claim is not None else None,
        )

    @cached_property
    def requested(self) -> Resources:
        """What the pods on it take, daemons included."""
        return total(held_by(pod) for pod in self.pods)

    @cached_property
    def daemon_requested(self) -> Resources:
        """What the daemons on it take."""
        return total(held_by(pod) for pod in self.pods if is_owned_by_daemon_set(pod))

    @cached_property
    def available(self) -> Resources:
        """What is left; below zero where more is taken than there is."""
        return self.allocatable - self.requested

    @cached_property
    def marked_for_deletion(self) -> bool:
        """Whether it is going: marked by disruption, deleted, or its instance is terminating."""
        if self.marked:
            return True
        claim = self.node_claim
        if claim is None:
            return self.node is not None and self.node.deleting
        return claim.deleting or is_true(claim.status.conditions, "InstanceTerminating")

    def nominated(self, now: datetime) -> bool:
        """Whether pods are still expected on it."""
        return self.nominated_until is not None and now < self.nominated_until

    @cached_property
    def node_pool_name(self) -> str:
        """The NodePool it came from; empty for others."""
        if self.node_claim is not None and NODEPOOL in self.node_claim.labels:
            return self.node_claim.labels[NODEPOOL]
        return self.labels.get(NODEPOOL, "")

    @cached_property
    def reschedulable_pods(self) -> tuple[Pod, ...]:
        """The pods that need a place elsewhere when it goes."""
        return tuple(pod for pod in self.pods if is_reschedulable(pod))


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything that decisions read about the cluster."""

    now: datetime
    nodes: tuple[StateNode, ...] = ()
    """By name, those marked for deletion included."""
    pending_pods: tuple[Pod, ...] = ()
    """Pods without a node that a new node may help, by key."""
    daemon_pods: tuple[Pod, ...] = ()
    """One pod per DaemonSet as it will run: requests filled in, required node affinity of the
    template, owned by the DaemonSet."""
    node_pools: tuple[NodePool, ...] = ()
    """By weight, then name, both descending."""
    pods_by_node: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    """Node name to the pods bound there, also for nodes that are not known."""
    volumes: VolumeCatalog = field(default_factory=VolumeCatalog)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Namespace to its labels."""
    selectors: WorkloadSelectors = field(default_factory=WorkloadSelectors)
    """Those of Services and pod owners; known only where default spread constraints need them."""

    def node(self, name: str) -> StateNode | None:
        """Return the node, or the claim in flight, of that name."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[str, StateNode]:
        return {node.name: node for node in self.nodes}
