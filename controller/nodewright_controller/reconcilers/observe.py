"""What happened, as metrics: each function takes the fact and counts it."""

from __future__ import annotations

from nodewright_controller.api import labels
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.kernel.timing import parse_duration
from nodewright_controller.runtime import metrics


def claim_created(node_pool: str, reason: str, min_values_relaxed: bool) -> None:
    """Count a NodeClaim that was made."""
    relaxed = "true" if min_values_relaxed else "false"
    metrics.NODECLAIMS_CREATED.labels(reason, node_pool, relaxed).inc()


def claim_disrupted(claim: NodeClaim, reason: str, consolidation_policy: str = "") -> None:
    """Count a NodeClaim that was asked to go."""
    metrics.NODECLAIMS_DISRUPTED.labels(
        reason,
        claim.labels.get(labels.NODEPOOL, ""),
        claim.labels.get(labels.CAPACITY_TYPE, ""),
        consolidation_policy,
        termination_mode(claim),
    ).inc()


def termination_mode(claim: NodeClaim) -> str:
    """Return graceful, eventual or forceful: what the claim's terminationGracePeriod means."""
    period = claim.spec.termination_grace_period
    if period is None:
        return "graceful"
    try:
        return "eventual" if parse_duration(period).total_seconds() > 0 else "forceful"
    except ValueError:
        return "graceful"


def claim_terminated(claim: NodeClaim, seconds: float) -> None:
    """Count a NodeClaim that is gone."""
    node_pool = claim.labels.get(labels.NODEPOOL, "")
    metrics.NODECLAIMS_TERMINATED.labels(
        node_pool,
        claim.labels.get(labels.CAPACITY_TYPE, ""),
        claim.labels.get(labels.ZONE, ""),
    ).inc()
    metrics.NODECLAIMS_TERMINATION_SECONDS.labels(node_pool).observe(seconds)


def node_created(node: KubeObject) -> None:
    """Count a node that registered."""
    metrics.NODES_CREATED.labels(*_pool_and_zone(node)).inc()


def node_terminated(node: KubeObject) -> None:
    """Count a node that ended."""
    metrics.NODES_TERMINATED.labels(*_pool_and_zone(node)).inc()


def _pool_and_zone(node: KubeObject) -> tuple[str, str]:
    return node.labels.get(labels.NODEPOOL, ""), node.labels.get(labels.ZONE, "")
