"""Everything one round of scheduling reads, as one frozen value.

The same `solve` answers provisioning and the simulations of disruption: a simulation is a second
problem, edited from the same snapshot.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodewright_controller.api.meta import condition
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.pods import has_do_not_disrupt
from nodewright_controller.cluster.snapshot import Snapshot, StateNode
from nodewright_controller.cluster.volumes import VolumeCatalog
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.scheduling.default_spreads import (
    NO_DEFAULT_SPREADS,
    DefaultSpreads,
    with_default_spreads,
)
from nodewright_controller.scheduling.guard import Bar


class PreferencePolicy(enum.StrEnum):
    """What preferences of pods (soft affinity, `ScheduleAnyway`) mean to us."""

    RESPECT = "Respect"
    """They are rules until they cannot be met."""
    IGNORE = "Ignore"
    """They are left to kube-scheduler."""


class MinValuesPolicy(enum.StrEnum):
    """What happens when a pool's `minValues` cannot be met."""

    STRICT = "Strict"
    BEST_EFFORT = "BestEffort"


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverOptions:
    """Switches of the solver."""

    preference_policy: PreferencePolicy = PreferencePolicy.RESPECT
    min_values_policy: MinValuesPolicy = MinValuesPolicy.STRICT
    max_instance_types: int = 600
    """How many instance types a claim lists at most, cheapest first."""
    reserved_strict: bool = True
    """Whether a pod waits for reserved capacity rather than fall back within the same round."""
    reservation_credits: Mapping[str, int] = field(default_factory=dict)
    """Reservation id to slots that will become free, for a what-if."""
    default_spreads: DefaultSpreads = NO_DEFAULT_SPREADS
    """Constraints of the cluster's scheduler; `problem_from` gives them to pods that have none."""
    stop: Callable[[], bool] | None = None
    """Asked now and then; once true, the pods not yet looked at are deferred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOffer:
    """A NodePool and the instance types it can be made of."""

    node_pool: NodePool
    instance_types: tuple[InstanceType, ...] = ()
    unready: str = ""
    """Why the pool cannot make nodes now; empty when it can."""
    imageless: tuple[InstanceType, ...] = ()
    """Types that would do, had the node class an image for them; for explanations only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The question."""

    now: datetime
    pods: tuple[Pod, ...]
    """Pods to place. Those that run somewhere now are not counted there."""
    nodes: tuple[StateNode, ...] = ()
    """Nodes and claims in flight that may take pods."""
    leaving: tuple[StateNode, ...] = ()
    """Nodes that are going: they take no pods, but the pods that stay on them still count."""
    node_pools: tuple[PoolOffer, ...] = ()
    """By weight, then name, both descending."""
    daemon_pods: tuple[Pod, ...] = ()
    """One pod per DaemonSet."""
    volumes: VolumeCatalog = field(default_factory=VolumeCatalog)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Namespace to its labels."""
    barred: Mapping[str, tuple[Bar, ...]] = field(default_factory=dict)
    """Pod key to the shapes that were bought for it and missed, and are not bought again now."""
    options: SolverOptions = SolverOptions()


def ordered(offers: Iterable[PoolOffer]) -> tuple[PoolOffer, ...]:
    """Return offers in the order in which they are tried: weight, then name, descending."""
    return tuple(
        sorted(
            offers,
            key=lambda offer: (offer.node_pool.spec.weight or 0, offer.node_pool.name),
            reverse=True,
        )
    )


def not_ready(node_pool: NodePool) -> str:
    """Return why a pool may not make nodes, or an empty text."""
    if node_pool.deleting:
        return "it is being deleted"
    ready = condition(node_pool.status.conditions, "Ready")
    if ready is not None and ready.status == "True":
        return ""
    unmet = [
        found
        for found in node_pool.status.conditions or ()
        if found.type in ("ValidationSucceeded", "NodeClassReady") and found.status != "True"
    ]
    detail = next((found.message or found.reason for found in unmet), "")
    if detail or ready is None:
        return detail or "its status is not known yet"
    return ready.message or ready.reason or f"its condition Ready is {ready.status}"


def problem_from(
    snapshot: Snapshot,
    offers: Iterable[PoolOffer],
    options: SolverOptions = SolverOptions(),
    *,
    pinned: Collection[str] = (),
    barred: Mapping[str, tuple[Bar, ...]] | None = None,
) -> Problem:
    """Return the problem of placing all pods that need a place now.

    These are the pending pods, and the pods of nodes that are going, except those that may not be
    moved (`do-not-disrupt`) or will not be (`pinned`, keys of pods held by their PDB). Static pools
    make no nodes on demand; their nodes take pods like others. `barred` comes from the loop guard.
    Pods without spread constraints get the scheduler's defaults, in the problem only.
    """
    staying = tuple(node for node in snapshot.nodes if not node.marked_for_deletion)
    leaving = tuple(node for node in snapshot.nodes if node.marked_for_deletion)
    moving = (
        pod
        for node in leaving
        for pod in node.reschedulable_pods
        if pod.key not in pinned and not has_do_not_disrupt(pod, snapshot.now)
    )
    return Problem(
        now=snapshot.now,
        pods=with_default_spreads(
            (*snapshot.pending_pods, *moving), options.default_spreads, snapshot.selectors
        ),
        nodes=staying,
        leaving=leaving,
        node_pools=ordered(o for o in offers if o.node_pool.spec.replicas is None),
        daemon_pods=snapshot.daemon_pods,
        volumes=snapshot.volumes,
        namespaces=snapshot.namespaces,
        barred=barred or {},
        options=options,
    )
