"""The hash of a NodePool's template: when it changes, the pool's nodes have drifted.

Requirements are left out: a claim is compared with them label by label instead. Upstream:
NodePool.Hash in pkg/apis/v1/nodepool.go; its e2e tests compare the annotation, so it is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from nodewright_controller.api.node import Taint
from nodewright_controller.api.nodepool import (
    NodeClaimTemplateSpec,
    NodeClassReference,
    NodePool,
    TemplateMeta,
)
from nodewright_controller.kernel.hashing import (
    hash_integer,
    hash_map,
    hash_set,
    hash_string,
    hash_struct,
)
from nodewright_controller.kernel.timing import parse_duration, parse_nillable_duration

HASH_VERSION: Final = "v3"
"""Version of this way of hashing, as in the annotation `nodepool-hash-version`."""


def node_pool_hash(node_pool: NodePool) -> str:
    """Return the hash as the decimal string that the annotation `nodepool-hash` holds."""
    template = node_pool.spec.template
    metadata = tuple(_metadata(template.metadata))
    fields = [("Spec", hash_struct("NodeClaimTemplateSpec", _spec(template.spec)))]
    if metadata:
        fields.insert(0, ("ObjectMeta", hash_struct("ObjectMeta", metadata)))
    return str(hash_struct("NodeClaimTemplate", fields))


def _metadata(metadata: TemplateMeta) -> Iterator[tuple[str, int]]:
    if metadata.labels is not None:
        yield "Labels", hash_map(metadata.labels)
    if metadata.annotations is not None:
        yield "Annotations", hash_map(metadata.annotations)


def _spec(spec: NodeClaimTemplateSpec) -> Iterator[tuple[str, int]]:
    if spec.taints is not None:
        yield "Taints", hash_set(_taint(taint) for taint in spec.taints)
    if spec.startup_taints is not None:
        yield "StartupTaints", hash_set(_taint(taint) for taint in spec.startup_taints)
    yield "NodeClassRef", _reference(spec.node_class_ref)
    if spec.termination_grace_period is not None:
        grace = parse_duration(spec.termination_grace_period)
        yield "TerminationGracePeriod", _duration("Duration", grace)
    lifetime = parse_nillable_duration(spec.expire_after)
    if lifetime is not None:
        yield "ExpireAfter", _duration("NillableDuration", lifetime)


def _taint(taint: Taint) -> int:
    texts = (("Key", taint.key), ("Value", taint.value), ("Effect", taint.effect))
    return hash_struct("Taint", [(name, hash_string(text)) for name, text in texts if text])


def _reference(reference: NodeClassReference) -> int:
    texts = (("Kind", reference.kind), ("Name", reference.name), ("Group", reference.group))
    fields = [(name, hash_string(text)) for name, text in texts if text]
    return hash_struct("NodeClassReference", fields)


def _duration(type_name: str, span: timedelta) -> int:
    nanoseconds = (span // timedelta(microseconds=1)) * 1000
    fields = [("Duration", hash_integer(nanoseconds))] if nanoseconds else []
    return hash_struct(type_name, fields)
