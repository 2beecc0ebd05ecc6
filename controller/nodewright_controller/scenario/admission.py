"""What the API server and its admission plugins fill in before an object is stored.

Works on plain JSON, because much of it (LimitRange maxima, RuntimeClasses) is nothing that the
controller reads: in a cluster it only ever sees the result.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

Json = dict[str, Any]

_SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def limit_range_defaults(body: Mapping[str, Any]) -> Json:
    """Return a LimitRange with its defaults completed: max gives default, default the request."""
    found = copy.deepcopy(dict(body))
    for item in _list(_map(found.get("spec")).get("limits")):
        if not isinstance(item, dict) or item.get("type") != "Container":
            continue
        limits = {**_map(item.get("max")), **_map(item.get("default"))}
        requests = {**_map(item.get("min")), **limits, **_map(item.get("defaultRequest"))}
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests
    return found


class Admission:
    """The defaults of one world, ready to be put into its pods."""

    def __init__(self, bodies: Iterable[Mapping[str, Any]]) -> None:
        self._limits: dict[str, list[Json]] = {}
        self._runtime_classes: dict[str, Mapping[str, Any]] = {}
        self._priorities: dict[str, int] = dict(_SYSTEM_PRIORITIES)
        self._default_priority = 0
        self._default_classes: list[tuple[str, str]] = []
        for body in bodies:
            self._learn(body)

    def _learn(self, body: Mapping[str, Any]) -> None:
        metadata = _map(body.get("metadata"))
        name = str(metadata.get("name", ""))
        match body.get("kind"):
            case "LimitRange":
                namespace = str(metadata.get("namespace") or "default")
                for item in _list(_map(limit_range_defaults(body).get("spec")).get("limits")):
                    if isinstance(item, dict) and item.get("type") == "Container":
                        self._limits.setdefault(namespace, []).append(item)
            case "StorageClass":
                if _map(metadata.get("annotations")).get(_DEFAULT_CLASS) == "true":
                    created = str(metadata.get("creationTimestamp") or "")
                    self._default_classes.append((created, name))
            case "RuntimeClass":
                self._runtime_classes[name] = body
            case "PriorityClass":
                value = body.get("value")
                if isinstance(value, int):
                    self._priorities[name] = value
                    if body.get("globalDefault") is True:
                        self._default_priority = value

    def admit(self, pod: Mapping[str, Any]) -> Json:
        """Return the pod as it would be stored: defaults filled in, what it says itself kept."""
        admitted = copy.deepcopy(dict(pod))
        spec = admitted.get("spec")
        if not isinstance(spec, dict):
            return admitted
        self._prioritise(spec)
        self._put_overhead(spec)
        namespace = str(_map(admitted.get("metadata")).get("namespace") or "default")
        for key in ("initContainers", "containers"):
            for container in _list(spec.get(key)):
                if isinstance(container, dict):
                    _default_container(container, self._limits.get(namespace, ()))
        return admitted

    def admit_claim(self, claim: Mapping[str, Any]) -> Json:
        """Return a volume claim with the default class (the newest one), unless it names one.

        An empty name is a name: it asks for a volume without class.
        """
        admitted = copy.deepcopy(dict(claim))
        spec = admitted.get("spec")
        if not isinstance(spec, dict) or not self._default_classes:
            return admitted
        if spec.get("storageClassName") is None and not spec.get("volumeName"):
            spec["storageClassName"] = max(self._default_classes)[1]
        return admitted

    def _prioritise(self, spec: Json) -> None:
        name = str(spec.get("priorityClassName") or "")
        known = self._priorities.get(name, self._default_priority)
        if spec.get("priority") is None and (name in self._priorities or self._default_priority):
            spec["priority"] = known

    def _put_overhead(self, spec: Json) -> None:
        found = self._runtime_classes.get(str(spec.get("runtimeClassName") or ""))
        if found is None:
            return
        overhead = _map(found.get("overhead")).get("podFixed")
        if overhead and not spec.get("overhead"):
            spec["overhead"] = overhead
        scheduling = _map(found.get("scheduling"))
        selector = _map(scheduling.get("nodeSelector"))
        if selector:
            spec["nodeSelector"] = {**selector, **_map(spec.get("nodeSelector"))}
        tolerations = _list(scheduling.get("tolerations"))
        if tolerations:
            spec["tolerations"] = [*_list(spec.get("tolerations")), *tolerations]


def _default_container(container: Json, items: Iterable[Mapping[str, Any]]) -> None:
    resources = dict(_map(container.get("resources")))
    limits, requests = dict(_map(resources.get("limits"))), dict(_map(resources.get("requests")))
    # Limits that the container states itself become its requests first; so does the API server.
    requests = {**limits, **requests}
    for item in items:
        limits = {**_map(item.get("default")), **limits}
        requests = {**_map(item.get("defaultRequest")), **requests}
    if limits:
        resources["limits"] = limits
    if requests:
        resources["requests"] = requests
    if resources:
        container["resources"] = resources


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
