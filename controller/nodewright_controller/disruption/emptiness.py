"""Empty nodes go, as many as the budgets allow, the dearest first.

Upstream: pkg/controllers/disruption/emptiness.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodewright_controller.api.meta import is_true
from nodewright_controller.disruption.candidates import Candidate
from nodewright_controller.disruption.command import Command
from nodewright_controller.disruption.reasons import DisruptionReason
from nodewright_controller.kernel.timing import NEVER


def is_disruptable_when_empty(candidate: Candidate) -> bool:
    """Whether the node is empty, has been quiet for long enough, and its pool is consolidated."""
    claim = candidate.node.node_claim
    spec = candidate.node_pool.spec
    return (
        claim is not None
        and spec.replicas is None
        and spec.disruption.consolidate_after != NEVER
        and candidate.empty
        and is_true(claim.status.conditions, "Consolidatable")
    )


def propose_emptiness(eligible: Iterable[Candidate], allowed: Mapping[str, int]) -> Command | None:
    """Return one command that removes empty nodes within the budgets, or None.

    Args:
        eligible: nodes that may be disrupted.
        allowed: disruptions that are left per NodePool for reason Empty.
    """
    left = dict(allowed)
    chosen: list[Candidate] = []
    empty = [candidate for candidate in eligible if is_disruptable_when_empty(candidate)]
    for candidate in sorted(empty, key=lambda c: (-c.savings_ratio, c.name)):
        pool = candidate.node_pool.name
        if left.get(pool, 0) > 0:
            left[pool] -= 1
            chosen.append(candidate)
    if not chosen:
        return None
    return Command(
        reason=DisruptionReason.EMPTY, candidates=tuple(chosen), consolidation_type="empty"
    )


def revalidate_emptiness(
    command: Command, eligible: Iterable[Candidate], allowed: Mapping[str, int]
) -> Command | None:
    """Return the part of a waiting command that is still right on newer facts, or None."""
    names = set(command.node_names)
    return propose_emptiness([c for c in eligible if c.name in names], allowed)
