"""Which pods belong together, by the Services and workloads that select them.

kube-scheduler deduces from these the selector of a default spread constraint; so do we, to count the
pods that it will count. Upstream: DefaultSelector in Kubernetes' pkg/scheduler/framework/plugins/helper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from nodewright_controller.api.meta import OwnerReference
from nodewright_controller.api.pod import LabelSelector, LabelSelectorRequirement, Pod
from nodewright_controller.api.service import Service
from nodewright_controller.api.workloads import ReplicaSet, ReplicationController, StatefulSet

Selecting = Service | ReplicaSet | StatefulSet | ReplicationController
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


@dataclass(frozen=True, kw_only=True)
class WorkloadSelectors:
    """The selectors of a cluster's Services and pod owners; empty where nobody asked for them."""

    services: Mapping[str, tuple[Mapping[str, str], ...]] = field(default_factory=dict)
    """Namespace to the selectors of its Services, by name; those that select nothing left out."""
    replication_controllers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """`namespace/name` to the exact labels."""
    owners: Mapping[tuple[str, str], LabelSelector] = field(default_factory=dict)
    """Kind (ReplicaSet, StatefulSet) and `namespace/name` to the selector."""

    @classmethod
    def of(cls, objects: Iterable[Selecting]) -> WorkloadSelectors:
        """Collect the selectors of these objects."""
        services: dict[str, list[Mapping[str, str]]] = {}
        controllers: dict[str, Mapping[str, str]] = {}
        owners: dict[tuple[str, str], LabelSelector] = {}
        for found in sorted(objects, key=lambda one: one.key):
            if isinstance(found, Service):
                if found.spec.selector:
                    services.setdefault(found.metadata.namespace, []).append(found.spec.selector)
            elif isinstance(found, ReplicationController):
                controllers[found.key] = found.spec.selector or {}
            elif found.spec.selector is not None:
                owners[found.KIND.kind, found.key] = found.spec.selector
        return cls(
            services={namespace: tuple(listed) for namespace, listed in services.items()},
            replication_controllers=controllers,
            owners=owners,
        )

    def deduced(self, pod: Pod) -> LabelSelector | None:
        """Return the selector of the pod's own kind of pods, or None where nothing tells it.

        The labels of all Services that select the pod, merged; on top those of the controlling
        ReplicationController, or, as further tests, the selector of the controlling ReplicaSet or
        StatefulSet. Other owners say nothing.
        """
        labels = pod.labels
        merged: dict[str, str] = {}
        by_label = self._services_by_label.get(pod.metadata.namespace, {})
        for item in labels.items():
            for selector in by_label.get(item, ()):
                if selector.items() <= labels.items():
                    merged.update(selector)
        tests: list[LabelSelectorRequirement] = []
        owner = next((one for one in pod.owners if one.controller), None)
        if owner is not None:
            key = f"{pod.metadata.namespace}/{owner.name}"
            if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
                merged.update(self.replication_controllers.get(key, {}))
            elif owner.api_version == "apps/v1":
                tests = _tests(self.owners.get((owner.kind, key)))
        if not merged and not tests:
            return None
        return LabelSelector(match_labels=merged or None, match_expressions=tests or None)

    @cached_property
    def _services_by_label(
        self,
    ) -> Mapping[str, Mapping[tuple[str, str], list[Mapping[str, str]]]]:
        """Namespace to one label of each selector, so that a pod meets few of a thousand Services."""
        found: dict[str, dict[tuple[str, str], list[Mapping[str, str]]]] = {}
        for namespace, selectors in self.services.items():
            by_label = found.setdefault(namespace, {})
            for selector in selectors:
                by_label.setdefault(min(selector.items()), []).append(selector)
        return found

    def identity(self, pod: Pod) -> tuple[object, ...]:
        """Return what `deduced` looks at, hashable: equal for pods with the same answer."""
        owner = next((one for one in pod.owners if one.controller), None)
        labels = frozenset(pod.labels.items()) if self._asks_labels(pod) else frozenset()
        return (pod.metadata.namespace, labels, _name(owner))

    def _asks_labels(self, pod: Pod) -> bool:
        return pod.metadata.namespace in self.services


def _name(owner: OwnerReference | None) -> tuple[str, str, str]:
    return ("", "", "") if owner is None else (owner.api_version, owner.kind, owner.name)


def _tests(selector: LabelSelector | None) -> list[LabelSelectorRequirement]:
    """Return a selector as expressions; none for one that Kubernetes could not read."""
    if selector is None:
        return []
    listed = [
        LabelSelectorRequirement(key=key, operator="In", values=[value])
        for key, value in sorted((selector.match_labels or {}).items())
    ]
    listed.extend(selector.match_expressions or ())
    return listed if all(entry.operator in _OPERATORS for entry in listed) else []
