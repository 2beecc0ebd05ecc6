"""The environment of a container, as the kubelet composes it from the pod's spec.

Pure: everything referred to (secrets, config maps, the node's allocatable) is passed in. Source:
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nodewright_local.kubelets.quantity import parse_milli, parse_units

ReferenceKind = Literal["configmaps", "secrets"]
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class ConfigurationError(Exception):
    """The container cannot be started as it is written: ``CreateContainerConfigError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What variables refer to outside the container."""

    pod: Mapping[str, Any]
    """The Pod, with ``status.podIP`` and ``status.hostIP`` filled in."""
    data: Mapping[tuple[ReferenceKind, str], Mapping[str, str]] = field(default_factory=dict)
    """Decoded content of each secret and config map that exists, by kind and name."""
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """The node's, which stands in for limits that are not set."""


def references(container: Mapping[str, Any]) -> Iterator[tuple[ReferenceKind, str]]:
    """Yield each secret and config map that the container's variables name."""
    for source in container.get("envFrom") or []:
        if "configMapRef" in source:
            yield "configmaps", source["configMapRef"]["name"]
        if "secretRef" in source:
            yield "secrets", source["secretRef"]["name"]
    for variable in container.get("env") or []:
        origin = variable.get("valueFrom") or {}
        if "configMapKeyRef" in origin:
            yield "configmaps", origin["configMapKeyRef"]["name"]
        if "secretKeyRef" in origin:
            yield "secrets", origin["secretKeyRef"]["name"]


def compose(
    container: Mapping[str, Any], sources: Sources, platform: Mapping[str, str]
) -> dict[str, str]:
    """Return the platform's variables, then envFrom, then env; the later one wins.

    Raises ConfigurationError for a missing secret, config map or key, and for a field that does not
    exist.
    """
    environment = dict(platform)
    for source in container.get("envFrom") or []:
        environment.update(_whole_source(source, sources))
    for variable in container.get("env") or []:
        value = _value(variable, environment, container, sources)
        if value is not None:
            environment[variable["name"]] = value
    return environment


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Replace ``$(NAME)``; ``$$`` is a dollar sign, an unknown name stays as it is written."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return environment.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


def command_line(
    container: Mapping[str, Any], entrypoint: str, environment: Mapping[str, str]
) -> list[str]:
    """Return the words to execute: ``command`` replaces the image's entrypoint, ``args`` follow."""
    command = [expand(word, environment) for word in container.get("command") or []]
    arguments = [expand(word, environment) for word in container.get("args") or []]
    return (command or [entrypoint]) + arguments


def _whole_source(source: Mapping[str, Any], sources: Sources) -> dict[str, str]:
    kind: ReferenceKind = "configmaps" if "configMapRef" in source else "secrets"
    reference = source["configMapRef" if kind == "configmaps" else "secretRef"]
    data = sources.data.get((kind, reference["name"]))
    if data is None:
        if reference.get("optional"):
            return {}
        raise ConfigurationError(f"{kind[:-1]} {reference['name']!r} not found")
    prefix = source.get("prefix") or ""
    return {prefix + key: value for key, value in data.items()}


def _value(
    variable: Mapping[str, Any],
    environment: Mapping[str, str],
    container: Mapping[str, Any],
    sources: Sources,
) -> str | None:
    origin = variable.get("valueFrom")
    if not origin:
        return expand(variable.get("value") or "", environment)
    if "fieldRef" in origin:
        return pod_field(sources.pod, origin["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in origin:
        return _resource(origin["resourceFieldRef"], container, sources)
    if "configMapKeyRef" in origin:
        return _key("configmaps", origin["configMapKeyRef"], sources)
    if "secretKeyRef" in origin:
        return _key("secrets", origin["secretKeyRef"], sources)
    raise ConfigurationError(f"env {variable['name']}: valueFrom {sorted(origin)} is not supported")


def _key(kind: ReferenceKind, reference: Mapping[str, Any], sources: Sources) -> str | None:
    data = sources.data.get((kind, reference["name"]))
    value = None if data is None else data.get(reference["key"])
    if value is None and not reference.get("optional"):
        missing = f"{kind[:-1]} {reference['name']!r}"
        if data is None:
            raise ConfigurationError(f"{missing} not found")
        raise ConfigurationError(f"couldn't find key {reference['key']} in {missing}")
    return value


def pod_field(pod: Mapping[str, Any], path: str) -> str:
    """Return what the downward API gives for ``fieldPath``; lists are comma separated."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        return str((metadata.get(subscript[1]) or {}).get(subscript[2], ""))
    fields: dict[str, Any] = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.hostIP": status.get("hostIP", ""),
        "status.hostIPs": ",".join(item["ip"] for item in status.get("hostIPs") or []),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": ",".join(item["ip"] for item in status.get("podIPs") or []),
    }
    if path not in fields:
        raise ConfigurationError(f"fieldPath {path!r} is not one that a variable may use")
    return str(fields[path])


def _resource(reference: Mapping[str, Any], container: Mapping[str, Any], sources: Sources) -> str:
    kind, _, resource = reference["resource"].partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise ConfigurationError(
            f"resource {reference['resource']!r} is not limits.* or requests.*"
        )
    amounts = (container.get("resources") or {}).get(kind) or {}
    fallback = sources.allocatable.get(resource, "0") if kind == "limits" else "0"
    text = str(amounts.get(resource, fallback))
    divisor = str(reference.get("divisor") or "1")
    parse = parse_milli if resource == "cpu" else parse_units
    step = parse("1" if divisor == "0" else divisor)
    return str(-(-parse(text) // step))  # rounded up, as the downward API does
