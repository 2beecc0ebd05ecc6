"""What happened, as metrics: each function takes the fact and counts it."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Final

from nodewright_controller.api import labels
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.kernel.timing import parse_duration
from nodewright_controller.runtime import metrics
from nodewright_controller.scheduling.decision import Unschedulable
from nodewright_controller.scheduling.reasons import Reason

_IGNORED: Final = frozenset(
    {
        Reason.NO_POOL_WANTED,
        Reason.INVALID,
        Reason.BY_FIELD,
        Reason.RESTRICTED_LABEL,
        Reason.CLOSED_VALUE,
        Reason.CLAIM_NOT_FOUND,
        Reason.CLAIM_IMMEDIATE,
        Reason.CLAIM_UNUSABLE,
    }
)
"""Causes for which Karpenter does not even ask its scheduler about a pod."""


@contextlib.contextmanager
def scheduling_round(controller: str, pods: int) -> Iterator[None]:
    """Time a round of scheduling, and show while it runs how many pods it is about."""
    about = (controller, str(uuid.uuid4()))
    started = time.monotonic()
    metrics.QUEUE_DEPTH.labels(*about).set(pods)
    metrics.UNFINISHED_WORK.labels(*about).set_function(lambda: time.monotonic() - started)
    try:
        yield
    finally:
        metrics.QUEUE_DEPTH.remove(*about)
        metrics.UNFINISHED_WORK.remove(*about)
        metrics.SCHEDULING_SECONDS.labels(controller).observe(time.monotonic() - started)


def left_over(unschedulable: Iterable[Unschedulable] = ()) -> None:
    """Tell how many pods a round left without a place, and how many of them it had to ignore."""
    reasons = [each.reason for each in unschedulable]
    ignored = sum(reason in _IGNORED for reason in reasons)
    metrics.IGNORED_PODS.set(ignored)
    metrics.UNSCHEDULABLE_PODS.labels("provisioner").set(len(reasons) - ignored)


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


def claim_terminated(
    claim: NodeClaim, seconds: float, instance_seconds: float | None = None
) -> None:
    """Count a NodeClaim that is gone, and how long its deletion took.

    `instance_seconds` is the part of it in which its instance ended; None without an instance that
    we saw end.
    """
    node_pool = claim.labels.get(labels.NODEPOOL, "")
    metrics.NODECLAIMS_TERMINATED.labels(
        node_pool,
        claim.labels.get(labels.CAPACITY_TYPE, ""),
        claim.labels.get(labels.ZONE, ""),
    ).inc()
    metrics.NODECLAIMS_TERMINATION_SECONDS.labels(node_pool).observe(seconds)
    if instance_seconds is not None:
        metrics.NODECLAIMS_INSTANCE_TERMINATION_SECONDS.labels(node_pool).observe(instance_seconds)


def node_created(node: KubeObject) -> None:
    """Count a node that registered."""
    metrics.NODES_CREATED.labels(*_pool_and_zone(node)).inc()


def node_terminated(node: KubeObject) -> None:
    """Count a node that ended."""
    metrics.NODES_TERMINATED.labels(*_pool_and_zone(node)).inc()


def _pool_and_zone(node: KubeObject) -> tuple[str, str]:
    return node.labels.get(labels.NODEPOOL, ""), node.labels.get(labels.ZONE, "")
