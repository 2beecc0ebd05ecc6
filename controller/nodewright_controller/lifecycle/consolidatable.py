"""When a node has been quiet for long enough to be consolidated.

Upstream: pkg/controllers/nodeclaim/disruption/consolidation.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from nodewright_controller.api.meta import condition
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.kernel.timing import parse_nillable_duration


@dataclass(frozen=True, slots=True)
class Consolidatable:
    """Whether the condition holds now, and after how long it could start to."""

    holds: bool
    check_after: timedelta | None = None


def consolidatable(node_claim: NodeClaim, node_pool: NodePool, now: datetime) -> Consolidatable:
    """Decide whether `consolidateAfter` has passed since the last pod came or went.

    Raises:
        ValueError: consolidateAfter cannot be read.
    """
    quiet = parse_nillable_duration(node_pool.spec.disruption.consolidate_after)
    initialized = condition(node_claim.status.conditions, "Initialized")
    if quiet is None or initialized is None or initialized.status != "True":
        return Consolidatable(False)
    since = node_claim.status.last_pod_event_time or initialized.last_transition_time
    if since is None:
        return Consolidatable(False)
    left = since + quiet - now
    return Consolidatable(True) if left <= timedelta() else Consolidatable(False, left)
