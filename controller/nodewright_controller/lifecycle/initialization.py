"""When a registered node counts as ready for work, and what it still waits for.

Upstream: pkg/controllers/nodeclaim/lifecycle/initialization.go.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from nodewright_controller.api.meta import is_true
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.constraints.taints import is_ephemeral
from nodewright_controller.kernel.resources import Resources, unreadable


class Waiting(enum.StrEnum):
    """What an uninitialised node waits for; these are condition reasons."""

    NODE_NOT_READY = "NodeNotReady"
    STARTUP_TAINTS = "StartupTaintsExist"
    EPHEMERAL_TAINTS = "KnownEphemeralTaintsExist"
    RESOURCES = "ResourceNotRegistered"


@dataclass(frozen=True, slots=True)
class NotInitialized:
    """Why a node is not initialised yet."""

    reason: Waiting
    message: str


def initialization(node_claim: NodeClaim, node: Node) -> NotInitialized | None:
    """Return what the node still waits for, or None when it is initialised."""
    if not is_true(node.status.conditions, "Ready"):
        return NotInitialized(Waiting.NODE_NOT_READY, "Node status is NotReady")
    taints = node.spec.taints or []
    startup = {(t.key, t.effect) for t in node_claim.spec.startup_taints or ()}
    for taint in taints:
        if (taint.key, taint.effect) in startup:
            return NotInitialized(
                Waiting.STARTUP_TAINTS, f'StartupTaint "{taint.key}:{taint.effect}" still exists'
            )
    for taint in taints:
        if is_ephemeral(taint):
            return NotInitialized(
                Waiting.EPHEMERAL_TAINTS,
                f'KnownEphemeralTaint "{taint.key}:{taint.effect}" still exists',
            )
    requested = Resources.readable(node_claim.spec.resources.requests)
    allocatable = Resources.readable(node.status.allocatable)
    for name, text in unreadable(node.status.allocatable):
        return NotInitialized(
            Waiting.RESOURCES, f"Node status.allocatable.{name} is {text!r}, which is no quantity"
        )
    for name in sorted(requested):
        if requested[name] and not allocatable.get(name, 0):
            return NotInitialized(
                Waiting.RESOURCES, f'Resource "{name}" was requested but not registered'
            )
    return None
