"""A node that joined becomes ours: what must be put on it, and whether it may be registered.

Upstream: pkg/controllers/nodeclaim/lifecycle/registration.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from nodewright_controller.api import labels
from nodewright_controller.api.node import Node, Taint
from nodewright_controller.api.nodeclaim import NodeClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The merge patch that registers a node; locked to the version it was read at."""

    body: dict[str, Any]
    unregistered_taint_missing: bool
    """Whether the node joined without the taint that keeps pods off until it is registered."""


def is_unregistered(taint: Taint) -> bool:
    """Whether it is the taint of a node that has not been registered."""
    return taint.key == labels.UNREGISTERED_TAINT


def merge_taints(current: list[Taint], wanted: list[Taint]) -> list[Taint]:
    """Return the current taints and those wanted ones that are not there by key and effect."""
    present = {(taint.key, taint.effect) for taint in current}
    return [*current, *(t for t in wanted if (t.key, t.effect) not in present)]


def register(node_claim: NodeClaim, node: Node) -> Registration:
    """Return what makes `node` the registered node of `node_claim`; the claim's labels win."""
    current = list(node.spec.taints or ())
    taints = [taint for taint in current if not is_unregistered(taint)]
    if node.labels.get(labels.DO_NOT_SYNC_TAINTS) != "true":
        spec = node_claim.spec
        taints = merge_taints(taints, [*(spec.taints or ()), *(spec.startup_taints or ())])
    owner = {
        "apiVersion": NodeClaim.KIND.api_version,
        "kind": NodeClaim.KIND.kind,
        "name": node_claim.name,
        "uid": node_claim.uid,
        "blockOwnerDeletion": True,
    }
    owners = [msgspec.to_builtins(o) for o in node.owners if o.uid != node_claim.uid]
    finalizers = list(dict.fromkeys([*node.finalizers, labels.TERMINATION_FINALIZER]))
    already = node.labels.get(labels.REGISTERED) == "true"
    body = {
        "metadata": {
            "resourceVersion": node.metadata.resource_version,
            "labels": {**node_claim.labels, labels.REGISTERED: "true"},
            "annotations": dict(node_claim.annotations),
            "finalizers": finalizers,
            "ownerReferences": [*owners, owner],
        },
        "spec": {"taints": [msgspec.to_builtins(taint) for taint in taints]},
    }
    missing = not already and not any(is_unregistered(taint) for taint in current)
    return Registration(body=body, unregistered_taint_missing=missing)
