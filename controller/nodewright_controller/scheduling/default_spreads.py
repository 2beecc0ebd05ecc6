"""Spread constraints that kube-scheduler gives to pods without any, on copies made for scheduling.

kube-scheduler's plugin PodTopologySpread has default constraints, which apply to a pod that has none
of its own, all of them or nothing. They carry no selector: it is deduced for each pod from the
Services that select it and from its ReplicaSet, StatefulSet or ReplicationController
(`cluster.selectors`); where nothing tells it, the pod gets no defaults. The constraints are put into
copies, so everything that follows treats them as the pod's own. What the setting looks like is read
in `scheduler_config`. Upstream: designs/default-topology-spread-awareness.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from nodewright_controller.api.pod import LabelSelector, Pod, TopologySpreadConstraint
from nodewright_controller.cluster.selectors import WorkloadSelectors
from nodewright_controller.constraints.selectors import Selector

EVERY_SCHEDULER: Final = ""
DEFAULT_SCHEDULER: Final = "default-scheduler"


class DefaultSpread(TopologySpreadConstraint):
    """A constraint that stands in no pod: it comes from the scheduler's configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultSpreads:
    """The default constraints; without any, every pod stays as it is."""

    by_scheduler: Mapping[str, tuple[DefaultSpread, ...]] = field(default_factory=dict)
    """Scheduler name to its constraints, without selectors; `EVERY_SCHEDULER` stands for all."""

    def __bool__(self) -> bool:
        """Whether any pod may get a constraint."""
        return any(self.by_scheduler.values())

    def of(self, pod: Pod) -> tuple[DefaultSpread, ...]:
        """Return the constraints for pods of this pod's scheduler."""
        name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
        everywhere = self.by_scheduler.get(EVERY_SCHEDULER, ())
        return self.by_scheduler.get(name, everywhere)


NO_DEFAULT_SPREADS: Final = DefaultSpreads()


def with_default_spreads(
    pods: Iterable[Pod], spreads: DefaultSpreads, selectors: WorkloadSelectors
) -> tuple[Pod, ...]:
    """Return the pods in the same order, those without spread constraints with the defaults.

    A pod that has a constraint of its own, or whose fellows cannot be told, is returned as it is.
    """
    if not spreads:
        return tuple(pods)
    filling = _Filling(spreads, selectors)
    return tuple(filling.filled(pod) for pod in pods)


class _Filling:
    """Shares selectors and constraints between the pods of a workload."""

    def __init__(self, spreads: DefaultSpreads, selectors: WorkloadSelectors) -> None:
        self._spreads = spreads
        self._selectors = selectors
        self._deduced: dict[tuple[object, ...], tuple[LabelSelector, Selector] | None] = {}
        self._constraints: dict[tuple[str, Selector], list[TopologySpreadConstraint]] = {}

    def filled(self, pod: Pod) -> Pod:
        if pod.spec.topology_spread_constraints:
            return pod
        defaults = self._spreads.of(pod)
        deduced = self._selector(pod) if defaults else None
        if deduced is None:
            return pod
        selector, identity = deduced
        key = (pod.spec.scheduler_name, identity)
        constraints = self._constraints.get(key)
        if constraints is None:
            constraints = [replace(default, label_selector=selector) for default in defaults]
            self._constraints[key] = constraints
        return replace(pod, spec=replace(pod.spec, topology_spread_constraints=constraints))

    def _selector(self, pod: Pod) -> tuple[LabelSelector, Selector] | None:
        """Return the selector of the pod's fellows, and the value by which equal ones are known."""
        identity = self._selectors.identity(pod)
        if identity not in self._deduced:
            found = self._selectors.deduced(pod)
            self._deduced[identity] = None if found is None else (found, Selector.of(found))
        return self._deduced[identity]
