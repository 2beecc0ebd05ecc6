"""What the owners of pods forbid: PodDisruptionBudgets and do-not-disrupt.

Upstream: pkg/utils/pdb, pkg/controllers/state/statenode.go `ValidatePodsDisruptable`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from nodewright_controller.api.meta import is_true
from nodewright_controller.api.pod import Pod
from nodewright_controller.api.policy import PodDisruptionBudget
from nodewright_controller.cluster.pods import has_do_not_disrupt, is_active, is_evictable
from nodewright_controller.constraints.selectors import Selector
from nodewright_controller.disruption.reasons import Blocked, Blocker


@dataclass(frozen=True, slots=True)
class _Limit:
    key: str
    selector: Selector
    blocks: bool
    spares_unhealthy: bool


class PdbLimits:
    """All PodDisruptionBudgets, ready to be asked about a pod."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[_Limit]] = defaultdict(list)
        for pdb in sorted(budgets, key=lambda b: b.key):
            self._by_namespace[pdb.metadata.namespace].append(
                _Limit(
                    key=pdb.key,
                    selector=Selector.of(pdb.spec.selector),
                    blocks=pdb.status.disruptions_allowed <= 0,
                    spares_unhealthy=pdb.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
                )
            )

    def blocker(self, pod: Pod) -> tuple[Blocker, str] | None:
        """Return the PDBs that forbid the eviction of the pod now, or None."""
        found = [
            limit
            for limit in self._by_namespace.get(pod.metadata.namespace, ())
            if limit.selector.matches(pod.labels)
        ]
        if len(found) > 1:
            return Blocker.SEVERAL_PDBS, ", ".join(limit.key for limit in found)
        for limit in found:
            unhealthy = not is_true(pod.status.conditions, "Ready")
            if limit.blocks and not (limit.spares_unhealthy and unhealthy):
                return Blocker.PDB, limit.key
        return None


def pod_blocker(
    node_name: str, pods: Iterable[Pod], limits: PdbLimits, now: datetime
) -> Blocked | None:
    """Return the first pod of a node, by name, that forbids its disruption, or None."""
    for pod in sorted(pods, key=lambda p: p.key):
        if is_active(pod) and has_do_not_disrupt(pod, now):
            return Blocked(node_name, Blocker.DO_NOT_DISRUPT_POD, f"pod {pod.key}")
        if not is_evictable(pod, now):
            continue
        found = limits.blocker(pod)
        if found is not None:
            return Blocked(node_name, found[0], f"pod {pod.key}, pdb {found[1]}")
    return None
