"""Fields of pods that there are: what else stands in a pod is probably misspelt.

Only the parts that decide where a pod may run are looked into. Source of the names: the Kubernetes
API reference for core/v1 (PodSpec, Container, Affinity, TopologySpreadConstraint, Toleration).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Fields = Mapping[str, "Fields | None"]
"""Field to the fields of its value, or of each entry of the list that it is; None: anything."""


def _names(text: str) -> dict[str, Fields | None]:
    return dict.fromkeys(text.split())


_SELECTOR: Final[Fields] = {
    "matchLabels": None,
    "matchExpressions": _names("key operator values"),
}
_NODE_TERM: Final[Fields] = {
    "matchExpressions": _names("key operator values"),
    "matchFields": _names("key operator values"),
}
_POD_TERM: Final[Fields] = {
    "labelSelector": _SELECTOR,
    "namespaceSelector": _SELECTOR,
    **_names("namespaces topologyKey matchLabelKeys mismatchLabelKeys"),
}
_NEAR: Final[Fields] = {
    "requiredDuringSchedulingIgnoredDuringExecution": _POD_TERM,
    "preferredDuringSchedulingIgnoredDuringExecution": {
        "weight": None,
        "podAffinityTerm": _POD_TERM,
    },
}
_CONTAINER: Final[Fields] = {
    "resources": {"requests": None, "limits": None, "claims": None},
    "ports": _names("name containerPort hostPort hostIP protocol"),
    **_names(
        """args command env envFrom image imagePullPolicy lifecycle livenessProbe name
        readinessProbe resizePolicy restartPolicy restartPolicyRules securityContext startupProbe
        stdin stdinOnce targetContainerName terminationMessagePath terminationMessagePolicy tty
        volumeDevices volumeMounts workingDir"""
    ),
}
POD_SPEC: Final[Fields] = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": _NODE_TERM},
            "preferredDuringSchedulingIgnoredDuringExecution": {
                "weight": None,
                "preference": _NODE_TERM,
            },
        },
        "podAffinity": _NEAR,
        "podAntiAffinity": _NEAR,
    },
    "containers": _CONTAINER,
    "initContainers": _CONTAINER,
    "tolerations": _names("key operator value effect tolerationSeconds"),
    "topologySpreadConstraints": {
        "labelSelector": _SELECTOR,
        **_names(
            """maxSkew topologyKey whenUnsatisfiable minDomains nodeAffinityPolicy nodeTaintsPolicy
            matchLabelKeys"""
        ),
    },
    **_names(
        """activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks
        ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname
        hostnameOverride imagePullSecrets nodeName nodeSelector os overhead preemptionPolicy
        priority priorityClassName readinessGates resourceClaims resources restartPolicy
        runtimeClassName schedulerName schedulingGates securityContext serviceAccount
        serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain
        terminationGracePeriodSeconds volumes workloadRef"""
    ),
}


def unknown_pod_fields(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of fields that no pod has, in a pod or in the template of a workload."""
    spec, path = body.get("spec"), "spec"
    if body.get("kind") != "Pod":
        template = spec.get("template") if isinstance(spec, Mapping) else None
        if not isinstance(template, Mapping):
            return
        spec, path = template.get("spec"), "spec.template.spec"
    if isinstance(spec, Mapping):
        yield from _unknown(spec, POD_SPEC, path)


def _unknown(value: Any, known: Fields, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _unknown(item, known, f"{path}[{position}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in known:
                yield f"{path}.{key}"
                continue
            inner = known[key]
            if inner is not None:
                yield from _unknown(item, inner, f"{path}.{key}")
