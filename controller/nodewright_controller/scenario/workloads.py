"""Deployments and their like as the pods that their controllers would make: all pending.

`web` with three replicas is `web-0`, `web-1`, `web-2`, each with the labels that the controllers
add. A StatefulSet's claim templates become claims, unless the world has them already.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Json = dict[str, Any]

_REPLICAS: Final[Mapping[str, str]] = {
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "ReplicationController": "replicas",
    "StatefulSet": "replicas",
    "Job": "parallelism",
}
KINDS: Final = frozenset(_REPLICAS)
_STATEFUL: Final = "StatefulSet"
_DEPLOYMENT: Final = "Deployment"
_SELECTING: Final = frozenset({_DEPLOYMENT, "ReplicaSet", "ReplicationController", _STATEFUL})
"""Workloads by which the pods of their owner are known."""


def pods_of(workload: Mapping[str, Any]) -> Iterator[Json]:
    """Yield the pods of a workload, without status.

    Raises:
        ValueError: it has no pod template, or no usable number of replicas.

    """
    kind, metadata, spec = _parts(workload)
    template = spec.get("template")
    if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
        raise ValueError(f"{kind} {metadata['name']}: spec.template.spec: there is no pod template")
    digest = _digest(template)
    for number in range(_count(workload)):
        yield _pod(workload, template, digest, number)


def claims_of(workload: Mapping[str, Any]) -> Iterator[Json]:
    """Yield the volume claims that a StatefulSet makes for its pods; none for other kinds."""
    kind, metadata, spec = _parts(workload)
    if kind != _STATEFUL:
        return
    for template in spec.get("volumeClaimTemplates") or ():
        base = template["metadata"]["name"]
        for number in range(_count(workload)):
            yield {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": f"{base}-{metadata['name']}-{_first(spec) + number}",
                    "namespace": metadata.get("namespace") or "default",
                },
                "spec": copy.deepcopy(template.get("spec") or {}),
                "status": {"phase": "Pending"},
            }


def owners_of(workload: Mapping[str, Any]) -> Iterator[Json]:
    """Yield the object that owns the pods, as far as its selector goes; none for a Job.

    A Deployment's is the ReplicaSet that its controller makes.
    """
    kind, metadata, spec = _parts(workload)
    template = spec.get("template") or {}
    selector = copy.deepcopy(spec.get("selector"))
    if kind == "ReplicationController" and selector is None:  # so does the API server
        selector = dict((template.get("metadata") or {}).get("labels") or {})
    if kind not in _SELECTING or not isinstance(selector, dict):
        return
    digest = _digest(template)
    owner = _owner(workload, digest)
    if kind == _DEPLOYMENT:
        exact = {**(selector.get("matchLabels") or {}), "pod-template-hash": digest}
        selector["matchLabels"] = exact
    yield {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "metadata": {
            "name": owner["name"],
            "namespace": metadata.get("namespace") or "default",
            "uid": owner["uid"],
        },
        "spec": {"selector": selector},
    }


def _parts(workload: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
    spec = workload.get("spec")
    return str(workload["kind"]), workload["metadata"], spec if isinstance(spec, Mapping) else {}


def _count(workload: Mapping[str, Any]) -> int:
    kind, metadata, spec = _parts(workload)
    field = _REPLICAS[kind]
    count = spec.get(field, 1)
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(f"{kind} {metadata['name']}: spec.{field}: {count!r} is no number of pods")
    return count


def _first(spec: Mapping[str, Any]) -> int:
    ordinals = spec.get("ordinals")
    start = ordinals.get("start", 0) if isinstance(ordinals, Mapping) else 0
    return start if isinstance(start, int) else 0


def _digest(template: Mapping[str, Any]) -> str:
    text = json.dumps(template, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _pod(
    workload: Mapping[str, Any], template: Mapping[str, Any], digest: str, number: int
) -> Json:
    kind, metadata, spec = _parts(workload)
    owner = str(metadata["name"])
    number += _first(spec) if kind == _STATEFUL else 0
    name = f"{owner}-{number}"
    given = template.get("metadata")
    meta = copy.deepcopy(dict(given)) if isinstance(given, Mapping) else {}
    added = _ADDED[kind](owner, name, digest) if kind in _ADDED else {}
    pod_spec = copy.deepcopy(dict(template["spec"]))
    _mount_claims(spec, name, pod_spec)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **meta,
            "name": name,
            "namespace": metadata.get("namespace") or "default",
            "labels": {**(meta.get("labels") or {}), **added},
            "ownerReferences": [_owner(workload, digest)],
        },
        "spec": pod_spec,
    }


_ADDED: Final[Mapping[str, Callable[[str, str, str], Mapping[str, str]]]] = {
    "Deployment": lambda _owner, _pod, digest: {"pod-template-hash": digest},
    "StatefulSet": lambda owner, pod, digest: {
        "controller-revision-hash": f"{owner}-{digest}",
        "statefulset.kubernetes.io/pod-name": pod,
        "apps.kubernetes.io/pod-index": pod.rpartition("-")[2],
    },
    "Job": lambda owner, _pod, _digest: {
        "job-name": owner,
        "batch.kubernetes.io/job-name": owner,
    },
}
"""The labels that a kind's controller puts on its pods."""


def _owner(workload: Mapping[str, Any], digest: str) -> Json:
    kind, metadata, _ = _parts(workload)
    version, name = str(workload.get("apiVersion", "")), str(metadata["name"])
    if kind == _DEPLOYMENT:
        kind, name = "ReplicaSet", f"{name}-{digest}"
    uid = str(metadata.get("uid") or f"{kind}/{metadata.get('namespace') or 'default'}/{name}")
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _mount_claims(spec: Mapping[str, Any], pod: str, pod_spec: Json) -> None:
    for template in spec.get("volumeClaimTemplates") or ():
        base = template["metadata"]["name"]
        others = [v for v in pod_spec.get("volumes") or () if v.get("name") != base]
        source = {"claimName": f"{base}-{pod}"}
        pod_spec["volumes"] = [*others, {"name": base, "persistentVolumeClaim": source}]
