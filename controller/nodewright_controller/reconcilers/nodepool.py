"""The NodePool's own status: hash, readiness, validation, and what it has now.

Upstream: pkg/controllers/nodepool/{hash,readiness,validation,counter}.
"""

from __future__ import annotations

from typing import Any, Final

import structlog

from nodewright_controller.api import labels
from nodewright_controller.api.conditions import NODE_POOL, READY, Conditions
from nodewright_controller.api.meta import condition, is_true
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.nodepool_hash import HASH_VERSION, node_pool_hash
from nodewright_controller.api.validation import validate_nodepool
from nodewright_controller.kernel.resources import Resources, format_amount, total
from nodewright_controller.ports.clock import Clock
from nodewright_controller.reconcilers.world import World
from nodewright_controller.reconcilers.writes import Writes
from nodewright_controller.runtime import metrics
from nodewright_controller.runtime.reconciler import DONE, Result

log = structlog.get_logger()

_COUNT_EVERY: Final = Result(5.0)
_ALWAYS_SHOWN: Final = ("cpu", "memory", "pods", "ephemeral-storage")


class NodePoolReconciler:
    """Keeps one NodePool's annotations and status right."""

    def __init__(self, *, world: World, writes: Writes, clock: Clock) -> None:
        self._world = world
        self._writes = writes
        self._clock = clock

    async def reconcile(self, name: str) -> Result:
        """Look at one pool."""
        pool = self._world.node_pools.get(name)
        if pool is None:
            return DONE
        if not pool.deleting:
            pool = await self._stamp_hash(pool)
        conditions = Conditions(NODE_POOL, pool.metadata, pool.status.conditions, self._clock.now())
        problems = validate_nodepool(pool)
        if problems:
            conditions.set_false(
                "ValidationSucceeded", "NodePoolValidationFailed", "; ".join(problems)
            )
        else:
            conditions.set_true("ValidationSucceeded")
        self._judge_node_class(pool, conditions)
        await self._save(pool, conditions)
        return _COUNT_EVERY

    def _judge_node_class(self, pool: NodePool, conditions: Conditions) -> None:
        type_ = "NodeClassReady"
        name = pool.spec.template.spec.node_class_ref.name
        node_class = self._world.node_classes.get(name)
        if node_class is None:
            text = f"NodeClass {name} not found on cluster"
            conditions.set_false(type_, "NodeClassNotFound", text)
            return
        if node_class.deleting:
            text = f"NodeClass {name} is Terminating"
            conditions.set_false(type_, "NodeClassTerminating", text)
            return
        ready = condition(node_class.status.conditions, READY)
        current = ready is not None and (
            ready.observed_generation == node_class.metadata.generation
        )
        if ready is None or ready.status == "Unknown" or not current:
            text = f"NodeClass {name}: readiness unknown"
            conditions.set_false(type_, "NodeClassReadinessUnknown", text)
        elif ready.status == "False":
            conditions.set_false(type_, ready.reason or "NodeClassNotReady", ready.message)
        else:
            conditions.set_true(type_)

    async def _stamp_hash(self, pool: NodePool) -> NodePool:
        wanted = {
            labels.NODEPOOL_HASH: node_pool_hash(pool),
            labels.NODEPOOL_HASH_VERSION: HASH_VERSION,
        }
        if all(pool.annotations.get(key) == value for key, value in wanted.items()):
            return pool
        if pool.annotations.get(labels.NODEPOOL_HASH_VERSION) != HASH_VERSION:
            await self._restamp_claims(pool, wanted)
        written = await self._writes.kube.patch(
            NodePool, pool.name, {"metadata": {"annotations": wanted}}
        )
        self._world.node_pools.observe(written)
        return written

    async def _restamp_claims(self, pool: NodePool, wanted: dict[str, str]) -> None:
        """Give the pool's claims the new hash version; a new way to count is no drift."""
        for claim in self._world.claims_of_pool(pool.name):
            if claim.annotations.get(labels.NODEPOOL_HASH_VERSION) == HASH_VERSION:
                continue
            stamp = {labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
            if not is_true(claim.status.conditions, "Drifted"):
                stamp = wanted
            await self._writes.patch_claim(claim, {"metadata": {"annotations": stamp}})

    def _usage(self, pool: NodePool) -> tuple[dict[str, str], int]:
        known = self._world.cluster.nodes_of_pool(pool.name)
        nodes = [node for node in known if not node.marked_for_deletion]
        used = total(node.capacity for node in nodes)
        amounts = Resources({**dict.fromkeys(_ALWAYS_SHOWN, 0), **used})
        self._count(pool, amounts, len(nodes))
        return {**amounts.format(), "nodes": str(len(nodes))}, len(nodes)

    def _count(self, pool: NodePool, amounts: Resources, nodes: int) -> None:
        for resource, value in {**amounts, "nodes": nodes}.items():
            shown = value / 1000 if resource == "cpu" else value
            metrics.NODEPOOL_USAGE.labels(resource.replace("-", "_"), pool.name).set(shown)
        for resource, value in Resources.readable(pool.spec.limits).items():
            shown = value / 1000 if resource == "cpu" else value
            metrics.NODEPOOL_LIMIT.labels(resource.replace("-", "_"), pool.name).set(shown)

    async def _save(self, pool: NodePool, conditions: Conditions) -> None:
        resources, nodes = self._usage(pool)
        told = Resources.readable(pool.status.resources)
        stored = {k: format_amount(k, v) for k, v in told.items()}
        status: dict[str, Any] = {}
        if stored != resources or pool.status.nodes != nodes:
            status.update(resources=resources, nodes=nodes)
        if conditions.changed:
            status["conditions"] = conditions.patch()
        if not status:
            return
        version = pool.metadata.resource_version
        body = {"metadata": {"resourceVersion": version}, "status": status}
        written = await self._writes.kube.patch(NodePool, pool.name, body, status=True)
        self._world.node_pools.observe(written)


def pools_of_class(world: World, class_name: str) -> list[str]:
    """Return the names of the pools that use a node class."""
    return [
        pool.name
        for pool in world.node_pools.all()
        if pool.spec.template.spec.node_class_ref.name == class_name
    ]


def pool_of_claim(claim: NodeClaim) -> str:
    """Return the name of the claim's pool; empty without one."""
    return claim.labels.get(labels.NODEPOOL, "")
