"""How many nodes of a pool may be disrupted now, for a reason.

Upstream: pkg/apis/v1/nodepool.go `GetAllowedDisruptionsByReason`, pkg/controllers/disruption/helpers.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from nodewright_controller.api.meta import is_true
from nodewright_controller.api.nodepool import Budget, NodePool
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.disruption.reasons import DisruptionReason
from nodewright_controller.kernel.cron import is_active
from nodewright_controller.kernel.timing import parse_duration

UNLIMITED: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How many nodes may go now."""

    allowed: int
    """Nodes that may go beyond those going already."""
    total: int
    """Nodes that count."""
    disrupting: int
    """Nodes that are going, or not Ready, and use the budget up."""
    fault: str = ""
    """Why nothing is allowed although a budget may say otherwise: a budget that cannot be read."""


def ceiling(budget: Budget, node_count: int, now: datetime) -> int:
    """Return how many nodes the budget lets go at once; UNLIMITED while it is not active.

    Raises:
        ValueError: its schedule, duration or node count cannot be read.
    """
    if budget.schedule is not None:
        if budget.duration is None:
            raise ValueError("a budget with a schedule needs a duration")
        if not is_active(budget.schedule, parse_duration(budget.duration), now):
            return UNLIMITED
    if budget.nodes.endswith("%"):
        return math.ceil(node_count * int(budget.nodes[:-1]) / 100)
    return int(budget.nodes)


def applies(budget: Budget, reason: DisruptionReason) -> bool:
    """Whether the budget governs the reason; one without reasons governs all."""
    return not budget.reasons or reason.value in budget.reasons


def allowance(
    node_pool: NodePool, nodes: Iterable[StateNode], reason: DisruptionReason, now: datetime
) -> Allowance:
    """Return what the pool's budgets allow. A budget that cannot be read closes the whole pool."""
    counted = [node for node in nodes if _counts(node, node_pool.name)]
    disrupting = sum(1 for node in counted if _is_disrupting(node, reason))
    budgets: Sequence[Budget] = node_pool.spec.disruption.budgets or ()
    limit, fault = UNLIMITED, ""
    for index, budget in enumerate(budgets):
        try:
            most = ceiling(budget, len(counted), now)
        except ValueError as error:
            fault = f"spec.disruption.budgets[{index}]: {error}"
            break
        if applies(budget, reason):
            limit = min(limit, most)
    allowed = 0 if fault else max(0, limit - disrupting)
    return Allowance(allowed=allowed, total=len(counted), disrupting=disrupting, fault=fault)


def _counts(node: StateNode, node_pool_name: str) -> bool:
    claim = node.node_claim
    return (
        node.node_pool_name == node_pool_name
        and node.managed
        and node.initialized
        and claim is not None
        and not is_true(claim.status.conditions, "InstanceTerminating")
    )


def _is_disrupting(node: StateNode, reason: DisruptionReason) -> bool:
    if node.marked_for_deletion:
        return True
    if reason is DisruptionReason.UNHEALTHY:
        return False
    return node.node is not None and not is_true(node.node.status.conditions, "Ready")
