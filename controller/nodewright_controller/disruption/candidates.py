"""Which nodes may be disrupted at all, what that would cost, and why the others may not.

Upstream: pkg/controllers/disruption/types.go `NewCandidate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from nodewright_controller.api import labels
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.snapshot import Snapshot, StateNode
from nodewright_controller.disruption.blockers import PdbLimits, pod_blocker
from nodewright_controller.disruption.reasons import Blocked, Blocker


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node that may be disrupted."""

    node: StateNode
    node_pool: NodePool
    reschedule_cost: float
    """1.0 and the positive eviction costs of the pods that would have to move."""
    usd_per_hour: float
    """What the node costs; 0 when unknown."""

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.node.name

    @property
    def empty(self) -> bool:
        """Whether no pod would have to move at any cost."""
        return self.reschedule_cost <= 1.0

    @property
    def savings_ratio(self) -> float:
        """Money saved for trouble caused; the larger, the sooner it goes."""
        return self.usd_per_hour / self.reschedule_cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The outcome for all nodes."""

    eligible: tuple[Candidate, ...]
    blocked: tuple[Blocked, ...]


def eviction_cost(pod: Pod) -> float:
    """Return how much it costs to move a pod: 1 by default, -10 to 10, by annotation and priority."""
    cost = 1.0
    text = pod.annotations.get(labels.DISRUPTION_COST)
    if text is None:
        text = pod.annotations.get(labels.POD_DELETION_COST)
    if text is not None:
        cost += _int32(text) / 2.0**27
    if pod.spec.priority is not None:
        cost += pod.spec.priority / 2.0**25
    return min(10.0, max(-10.0, cost))


def _int32(text: str) -> int:
    """Read a cost; one that is no 32-bit integer counts as nothing."""
    try:
        value = int(text, 10)
    except ValueError:
        return 0
    return value if -(2**31) <= value < 2**31 else 0


def reschedule_cost(node: StateNode) -> float:
    """Return 1.0 and the positive eviction costs of the pods that would have to move."""
    return 1.0 + sum(max(0.0, eviction_cost(pod)) for pod in node.reschedulable_pods)


def candidates(
    snapshot: Snapshot,
    node_pools: Mapping[str, NodePool],
    limits: PdbLimits,
    prices: Mapping[str, float],
    queued: Iterable[str] = (),
) -> Candidates:
    """Sort all managed nodes into those that may be disrupted and those that may not.

    Args:
        snapshot: the cluster.
        node_pools: pools by name.
        limits: what PodDisruptionBudgets allow.
        prices: USD per hour by node name, for those that are known.
        queued: names of nodes that a running command holds.
    """
    held = frozenset(queued)
    eligible: list[Candidate] = []
    blocked: list[Blocked] = []
    for node in snapshot.nodes:
        if not node.managed:
            continue
        pool = node_pools.get(node.node_pool_name)
        reason = node_blocker(node, pool, held, snapshot.now)
        if reason is None:
            reason = pod_blocker(node.name, node.pods, limits, snapshot.now)
        if reason is not None:
            blocked.append(reason)
        elif pool is not None:
            cost = reschedule_cost(node)
            price = prices.get(node.name, 0.0)
            eligible.append(
                Candidate(node=node, node_pool=pool, reschedule_cost=cost, usd_per_hour=price)
            )
    return Candidates(eligible=tuple(eligible), blocked=tuple(blocked))


def node_blocker(
    node: StateNode, node_pool: NodePool | None, queued: frozenset[str], now: datetime
) -> Blocked | None:
    """Return what about the node itself forbids its disruption, or None."""
    checks = (
        (node.name in queued, Blocker.QUEUED),
        (node.node_claim is None, Blocker.NO_NODE_CLAIM),
        (node.node is None, Blocker.NO_NODE),
        (node.marked_for_deletion, Blocker.DELETING),
        (not node.registered and not node.initialized, Blocker.NOT_REGISTERED),
        (not node.initialized, Blocker.NOT_INITIALIZED),
        (node.nominated(now), Blocker.NOMINATED),
        (_annotated(node), Blocker.DO_NOT_DISRUPT_NODE),
        (not node.node_pool_name, Blocker.NO_NODE_POOL_LABEL),
        (node_pool is None, Blocker.UNKNOWN_NODE_POOL),
    )
    found = next((blocker for applies, blocker in checks if applies), None)
    if found is None:
        return None
    detail = node.node_pool_name if found is Blocker.UNKNOWN_NODE_POOL else ""
    return Blocked(node.name, found, detail)


def _annotated(node: StateNode) -> bool:
    return node.node is not None and node.node.annotations.get(labels.DO_NOT_DISRUPT) == "true"
