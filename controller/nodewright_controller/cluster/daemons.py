"""One representative pod per DaemonSet: what it will take from every node it runs on.

A pod that runs tells best, since the API server and admission have filled it in; else the template
is filled in as they would: limits stand in for requests, then the defaults of the LimitRange.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from nodewright_controller.api.meta import ObjectMeta, OwnerReference
from nodewright_controller.api.pod import (
    Affinity,
    NodeAffinity,
    Pod,
    PodSpec,
    Quantities,
    Toleration,
)
from nodewright_controller.api.workloads import DaemonSet, LimitRange
from nodewright_controller.cluster.pods import with_defaulted_requests

_GIVEN: Final = tuple(
    Toleration(key=f"node.kubernetes.io/{name}", operator="Exists", effect=effect)
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""The tolerations that the DaemonSet controller gives every pod it makes."""


def daemon_pod(
    daemon_set: DaemonSet, live: Iterable[Pod], limit_ranges: Iterable[LimitRange]
) -> Pod:
    """Return the pod that stands for the DaemonSet; `live` are the pods it owns."""
    newest = max(live, key=_age, default=None)
    if newest is not None:
        template = newest.spec
        labels = newest.labels
    else:
        template = _defaulted(daemon_set.spec.template.spec, tuple(limit_ranges))
        labels = daemon_set.spec.template.metadata.labels or {}
    spec = replace(
        template,
        node_name="",
        affinity=_affinity(template, daemon_set),
        tolerations=[*(template.tolerations or ()), *_GIVEN],
    )
    owner = OwnerReference(
        api_version="apps/v1",
        kind="DaemonSet",
        name=daemon_set.name,
        uid=daemon_set.uid,
        controller=True,
    )
    metadata = ObjectMeta(
        name=daemon_set.name,
        namespace=daemon_set.metadata.namespace,
        uid=daemon_set.uid,
        labels=dict(labels),
        owner_references=[owner],
    )
    return Pod(metadata=metadata, spec=spec)


def _age(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, pod.name)


def _affinity(spec: PodSpec, daemon_set: DaemonSet) -> Affinity | None:
    """Return the pod's affinity with the template's required node terms.

    The DaemonSet controller writes the node's name into those of a pod that runs.
    """
    wanted = daemon_set.spec.template.spec.affinity
    required = wanted.node_affinity.required if wanted and wanted.node_affinity else None
    if spec.affinity is None and required is None:
        return None
    rest = spec.affinity or Affinity()
    preferred = rest.node_affinity.preferred if rest.node_affinity else None
    return replace(rest, node_affinity=NodeAffinity(required=required, preferred=preferred))


def _defaulted(spec: PodSpec, limit_ranges: tuple[LimitRange, ...]) -> PodSpec:
    requests: Quantities = {}
    for limit_range in limit_ranges:
        for item in limit_range.spec.limits or ():
            if item.type == "Container":
                requests.update({**(item.default or {}), **(item.default_request or {})})
    return replace(
        spec,
        containers=with_defaulted_requests(spec.containers, requests.items()),
        init_containers=with_defaulted_requests(spec.init_containers, requests.items()),
    )
