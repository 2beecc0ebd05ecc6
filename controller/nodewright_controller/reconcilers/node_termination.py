"""A node that leaves: keep new pods off, drain, wait for its volumes, stop the instance, let it go.

Upstream: pkg/controllers/node/termination.
"""

from __future__ import annotations

from typing import Final

import structlog

from nodewright_controller.api import labels
from nodewright_controller.api.meta import is_true
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.pods import is_drainable
from nodewright_controller.lifecycle.termination import (
    MIN_DRAIN_TIME,
    awaited_attachments,
    disrupted_taints,
    plan_drain,
    termination_time,
)
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.cloud import CloudProvider
from nodewright_controller.ports.errors import NodeClaimNotFound
from nodewright_controller.ports.events import Event, Recorder
from nodewright_controller.reconcilers import observe
from nodewright_controller.reconcilers.eviction import EvictionQueue
from nodewright_controller.reconcilers.volumes import Volumes
from nodewright_controller.reconcilers.world import World
from nodewright_controller.reconcilers.writes import Writes
from nodewright_controller.runtime import metrics
from nodewright_controller.runtime.reconciler import DONE, Result

log = structlog.get_logger()

_SOON: Final = Result(1.0)
_POLL: Final = Result(5.0)


class NodeTerminationReconciler:
    """Brings a node that is being deleted one step further."""

    def __init__(  # noqa: PLR0913 - the ports of one reconciler
        self,
        *,
        world: World,
        writes: Writes,
        cloud: CloudProvider,
        recorder: Recorder,
        clock: Clock,
        evictions: EvictionQueue,
        volumes: Volumes,
    ) -> None:
        self._world = world
        self._writes = writes
        self._cloud = cloud
        self._recorder = recorder
        self._clock = clock
        self._evictions = evictions
        self._volumes = volumes

    async def reconcile(self, name: str) -> Result:
        """Look at one node and take the next step."""
        node = self._world.nodes.get(name)
        if node is None or not node.deleting:
            return DONE
        if labels.TERMINATION_FINALIZER not in node.finalizers:
            return DONE
        claim = self._world.claim_of(node)
        if claim is None:
            return await self._release(node)
        if await self._writes.delete_claim(claim):
            return _SOON
        if await self._instance_is_gone(node):
            return await self._release(node)
        node = await self._keep_pods_off(node)
        for step in (self._drain, self._detach, self._stop):
            result = await step(node, claim)
            if result is not None:
                return result
            claim = self._world.claim_of(node) or claim
        return await self._release(node)

    async def _instance_is_gone(self, node: Node) -> bool:
        """Whether a node that is not Ready has lost its instance, so that nothing is left to drain."""
        if is_true(node.status.conditions, "Ready"):
            return False
        try:
            await self._cloud.get(node.spec.provider_id)
        except NodeClaimNotFound:
            return True
        return False

    async def _keep_pods_off(self, node: Node) -> Node:
        taints = disrupted_taints(node)
        excluded = node.labels.get(labels.EXCLUDE_BALANCERS) == "karpenter"
        if taints is None and excluded:
            return node
        current = list(node.spec.taints or ()) if taints is None else taints
        log.info("tainted node", node=node.name, taint=labels.DISRUPTED_TAINT)
        return await self._writes.set_taints(node, current, {labels.EXCLUDE_BALANCERS: "karpenter"})

    async def _drain(self, node: Node, claim: NodeClaim) -> Result | None:
        conditions = self._writes.conditions_of(claim)
        if conditions.is_true("Drained"):
            return None
        now = self._clock.now()
        drain = plan_drain(self._world.pods_on(node.name), now, termination_time(claim))
        reason = conditions.get("DisruptionReason")
        for removal in drain.removals:
            self._evictions.add(removal, reason.reason if reason else "")
        if conditions.get("Drained") is None:
            conditions.set_unknown("Drained", "Draining", "Draining")
            claim = await self._writes.save_status(claim, conditions)
        if drain.waiting:
            self._tell_waiting(node, drain.waiting)
            return _SOON
        quiet_since = conditions.transition_time("Drained")
        if now < quiet_since + MIN_DRAIN_TIME:
            return _SOON
        conditions.set_true("Drained")
        await self._writes.save_status(claim, conditions)
        metrics.NODES_DRAINED.labels(node.labels.get(labels.NODEPOOL, "")).inc()
        log.info("drained node", node=node.name, nodeclaim=claim.name)
        return None

    def _tell_waiting(self, node: Node, waiting: tuple[Pod, ...]) -> None:
        shown = ", ".join(pod.key for pod in waiting[:5])
        more = f" and {len(waiting) - 5} other(s)" if len(waiting) > 5 else ""
        text = f"Failed to drain node, {len(waiting)} pods are waiting to be evicted: {shown}{more}"
        self._recorder.record(
            Event(
                about=node,
                reason="FailedDraining",
                message=text,
                warning=True,
                dedupe_key=str(len(waiting)),
            )
        )

    async def _detach(self, node: Node, claim: NodeClaim) -> Result | None:
        conditions = self._writes.conditions_of(claim)
        if conditions.get("VolumesDetached") is not None and (
            conditions.status("VolumesDetached") != "Unknown"
        ):
            return None
        now = self._clock.now()
        staying = [p for p in self._world.pods_on(node.name) if not is_drainable(p, now)]
        awaited = awaited_attachments(
            self._world.volume_attachments.all(), node.name, self._volumes.of(staying)
        )
        deadline = termination_time(claim)
        if not awaited:
            conditions.set_true("VolumesDetached")
        elif deadline is not None and now > deadline:
            conditions.set_false(
                "VolumesDetached", "TerminationGracePeriodElapsed", "TerminationGracePeriodElapsed"
            )
        else:
            names = ", ".join(attachment.name for attachment in awaited)
            text = f"Awaiting deletion of bound volumeattachments ({names})"
            self._recorder.record(
                Event(about=node, reason="AwaitingVolumeDetachment", message=text)
            )
            conditions.set_unknown(
                "VolumesDetached", "AwaitingVolumeDetachment", "AwaitingVolumeDetachment"
            )
            await self._writes.save_status(claim, conditions)
            return _SOON
        await self._writes.save_status(claim, conditions)
        return None

    async def _stop(self, node: Node, claim: NodeClaim) -> Result | None:
        try:
            await self._cloud.delete(claim)
        except NodeClaimNotFound:
            return None
        conditions = self._writes.conditions_of(claim)
        if not conditions.is_true("InstanceTerminating"):
            conditions.set_true("InstanceTerminating")
            await self._writes.save_status(claim, conditions)
            log.info(
                "terminating instance",
                node=node.name,
                nodeclaim=claim.name,
                provider_id=claim.status.provider_id,
            )
        return _POLL

    async def _release(self, node: Node) -> Result:
        await self._writes.remove_finalizer(
            Node, node, labels.TERMINATION_FINALIZER, self._world.nodes
        )
        observe.node_terminated(node)
        log.info("deleted node", node=node.name)
        return DONE
