"""The few ways in which reconcilers write, each taken into the local copies at once.

Lists (finalizers, taints, conditions) are replaced whole by a merge patch, so these writes are locked
to the version that was read; a Conflict means that somebody else was faster, and the reconcile runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from nodewright_controller.api.conditions import NODE_CLAIM, Conditions
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.node import Node, Taint
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.errors import NotFound
from nodewright_controller.ports.kube import Kube
from nodewright_controller.ports.store import Store
from nodewright_controller.reconcilers.world import World

K = TypeVar("K", bound=KubeObject)


class Writes:
    """Patches objects and lets the local copies see the answers."""

    def __init__(self, kube: Kube, world: World, clock: Clock) -> None:
        self.kube = kube
        self._world = world
        self._clock = clock

    def conditions_of(self, claim: NodeClaim) -> Conditions:
        """Return the claim's conditions for working on."""
        meta, stored = claim.metadata, claim.status.conditions
        return Conditions(NODE_CLAIM, meta, stored, self._clock.now())

    async def add_finalizer(self, kind: type[K], obj: K, finalizer: str, store: Store[K]) -> K:
        """Add a finalizer unless it is there."""
        if finalizer in obj.finalizers:
            return obj
        return await self._set_finalizers(kind, obj, [*obj.finalizers, finalizer], store)

    async def remove_finalizer(
        self, kind: type[K], obj: K, finalizer: str, store: Store[K]
    ) -> None:
        """Remove a finalizer; an object that is gone already is fine."""
        if finalizer not in obj.finalizers:
            return
        left = [kept for kept in obj.finalizers if kept != finalizer]
        try:
            await self._set_finalizers(kind, obj, left, store)
        except NotFound:
            return

    async def _set_finalizers(
        self, kind: type[K], obj: K, finalizers: list[str], store: Store[K]
    ) -> K:
        version = obj.metadata.resource_version
        body = {"metadata": {"resourceVersion": version, "finalizers": finalizers}}
        written = await self.kube.patch(kind, obj.name, body)
        store.observe(written)
        return written

    async def patch_node(self, node: Node, body: Mapping[str, Any]) -> Node:
        """Merge-patch a node."""
        written = await self.kube.patch(Node, node.name, body)
        self._world.nodes.observe(written)
        return written

    async def set_taints(
        self, node: Node, taints: Iterable[Taint], labels: Mapping[str, str] | None = None
    ) -> Node:
        """Replace a node's taints, and merge labels in the same write."""
        metadata: dict[str, Any] = {"resourceVersion": node.metadata.resource_version}
        if labels:
            metadata["labels"] = dict(labels)
        listed = [msgspec.to_builtins(taint) for taint in taints]
        return await self.patch_node(node, {"metadata": metadata, "spec": {"taints": listed}})

    async def patch_claim(self, claim: NodeClaim, body: Mapping[str, Any]) -> NodeClaim:
        """Merge-patch a NodeClaim."""
        written = await self.kube.patch(NodeClaim, claim.name, body)
        self._world.node_claims.observe(written)
        return written

    async def save_status(
        self, claim: NodeClaim, conditions: Conditions, fields: Mapping[str, Any] | None = None
    ) -> NodeClaim:
        """Write a claim's conditions and other status fields, if anything differs."""
        if not conditions.changed and not fields:
            return claim
        status = {**(fields or {}), "conditions": conditions.patch()}
        version = claim.metadata.resource_version
        body = {"metadata": {"resourceVersion": version}, "status": status}
        written = await self.kube.patch(NodeClaim, claim.name, body, status=True)
        self._world.node_claims.observe(written)
        return written

    async def delete_claim(self, claim: NodeClaim) -> bool:
        """Ask for the deletion of a claim; False if that was asked for before."""
        if claim.deleting:
            return False
        try:
            await self.kube.delete(NodeClaim, claim.name, uid=claim.uid)
        except NotFound:
            return False
        return True
