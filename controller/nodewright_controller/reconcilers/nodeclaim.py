"""One NodeClaim from launch to its end: launch, registration, initialization, liveness, termination.

Upstream: pkg/controllers/nodeclaim/lifecycle.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from nodewright_controller.api import labels
from nodewright_controller.api.conditions import UNKNOWN, Conditions
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.kernel.text import shorten
from nodewright_controller.kernel.timing import format_instant
from nodewright_controller.lifecycle.initialization import initialization
from nodewright_controller.lifecycle.liveness import GivenUp, liveness
from nodewright_controller.lifecycle.registration import register
from nodewright_controller.lifecycle.termination import deadline_of
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.cloud import CloudProvider, Launched
from nodewright_controller.ports.errors import (
    CloudError,
    CreateFailed,
    InsufficientCapacity,
    NodeClaimNotFound,
    NodeClassNotReady,
    NotFound,
)
from nodewright_controller.ports.events import Event, Recorder
from nodewright_controller.reconcilers import observe
from nodewright_controller.reconcilers.nominations import Nominations
from nodewright_controller.reconcilers.world import World
from nodewright_controller.reconcilers.writes import Writes
from nodewright_controller.runtime import metrics
from nodewright_controller.runtime.reconciler import DONE, Result
from nodewright_controller.scheduling.explanations import TypeExplanation
from nodewright_controller.scheduling.type_choice import Sold, explain_type
from nodewright_controller.scheduling.type_plan import plan_of_launch

log = structlog.get_logger()

_POLL_SECONDS: Final = 5.0
_TYPE_CHOSEN: Final = "InstanceTypeChosen"
"""An event reason of our own; Karpenter has none for this."""
_REMEMBERED_LAUNCHES: Final = 2048
_MESSAGE_BYTES: Final = 1024
"""Of a condition; who records events cuts those."""


@dataclass(slots=True)
class _Step:
    """What one reconcile has found out so far about a claim."""

    claim: NodeClaim
    conditions: Conditions
    status: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    provider_id: str = ""


class NodeClaimReconciler:
    """Brings a NodeClaim one step further."""

    def __init__(
        self,
        *,
        world: World,
        writes: Writes,
        cloud: CloudProvider,
        recorder: Recorder,
        clock: Clock,
        nominations: Nominations,
    ) -> None:
        self._world = world
        self._writes = writes
        self._cloud = cloud
        self._recorder = recorder
        self._clock = clock
        self._nominations = nominations
        self._launched: OrderedDict[str, Launched] = OrderedDict()

    async def reconcile(self, name: str) -> Result:
        """Look at one claim and take the next step."""
        claim = self._world.node_claims.get(name)
        if claim is None:
            return DONE
        if claim.deleting:
            return await self._finalize(claim)
        claim = await self._writes.add_finalizer(
            NodeClaim, claim, labels.TERMINATION_FINALIZER, self._world.node_claims
        )
        step = _Step(claim, self._writes.conditions_of(claim), provider_id=claim.status.provider_id)
        failure: CloudError | None = None
        try:
            await self._launch(step)
        except (InsufficientCapacity, NodeClassNotReady) as error:
            await self._abandon(claim, error)
            return DONE
        except CloudError as error:
            failure = error
        if step.provider_id:
            await self._register(step)
            self._initialize(step)
        result = await self._judge_liveness(step)
        await self._save(step)
        if failure is not None and result is not None:
            raise failure
        return result or DONE

    async def _launch(self, step: _Step) -> None:
        claim, conditions = step.claim, step.conditions
        if conditions.status("Launched") != UNKNOWN:
            return
        launched = self._launched.get(claim.uid)
        if launched is None:
            try:
                launched = await self._cloud.create(claim)
            except CreateFailed as error:
                conditions.set_unknown(
                    "Launched", error.reason, shorten(error.message, _MESSAGE_BYTES)
                )
                raise
            except (InsufficientCapacity, NodeClassNotReady):
                raise
            except CloudError as error:
                conditions.set_unknown(
                    "Launched", "LaunchFailed", shorten(str(error), _MESSAGE_BYTES)
                )
                raise
            self._remember(claim.uid, launched)
            choice = self._explain(claim, launched)
            log.info(
                "launched nodeclaim",
                nodeclaim=claim.name,
                nodepool=claim.labels.get(labels.NODEPOOL, ""),
                provider_id=launched.provider_id,
                instance_type=launched.labels.get(labels.INSTANCE_TYPE, ""),
                zone=launched.labels.get(labels.ZONE, ""),
                capacity_type=launched.labels.get(labels.CAPACITY_TYPE, ""),
                usd_per_hour=launched.usd_per_hour,
                considered_types=launched.considered_types,
                code=choice.code if choice is not None else "",
                reason=choice.line if choice is not None else "",
            )
        step.provider_id = launched.provider_id
        step.metadata = {
            "labels": {**launched.labels, **claim.labels},
            "annotations": {**claim.annotations, **launched.annotations},
        }
        step.status.update(
            providerID=launched.provider_id,
            imageID=launched.image_id,
            capacity=launched.capacity.format(),
            allocatable=launched.allocatable.format(),
        )
        conditions.set_true("Launched")

    def _explain(self, claim: NodeClaim, launched: Launched) -> TypeExplanation | None:
        """Put down why the claim became what it is; None when an earlier process asked for it."""
        sold = Sold(
            instance_type=launched.labels.get(labels.INSTANCE_TYPE, ""),
            zone=launched.labels.get(labels.ZONE, ""),
            capacity_type=launched.labels.get(labels.CAPACITY_TYPE, ""),
            usd_per_hour=launched.usd_per_hour,
            offers=launched.offers,
            shortages=launched.shortages,
        )
        pool = claim.labels.get(labels.NODEPOOL, "")
        plan = self._nominations.plan_of(claim.name) or plan_of_launch(pool, launched.offers)
        if plan is None:
            return None
        found = explain_type(claim.name, plan, sold, self._clock.now())
        self._nominations.chose(claim.name, found)
        metrics.LAUNCH_REASONS.labels(found.code).inc()
        if found.more_usd_per_hour > 0:
            # What costs nothing extra is in the log; an event for each launch would be noise.
            self._recorder.record(Event(about=claim, reason=_TYPE_CHOSEN, message=found.line))
        return found

    def _remember(self, uid: str, launched: Launched) -> None:
        """Keep the launch, so that a status that could not be written never launches again."""
        self._launched[uid] = launched
        while len(self._launched) > _REMEMBERED_LAUNCHES:
            self._launched.popitem(last=False)

    async def _abandon(self, claim: NodeClaim, error: CloudError) -> None:
        short = isinstance(error, InsufficientCapacity)
        reason = "insufficient_capacity" if short else "nodeclass_not_ready"
        log.info("gave up nodeclaim", nodeclaim=claim.name, reason=reason, error=str(error))
        if short:
            text = shorten(f"NodeClaim {claim.name} event: {error}", _MESSAGE_BYTES)
            self._recorder.record(
                Event(about=claim, reason="InsufficientCapacityError", message=text, warning=True)
            )
            self._tell_pods(claim, str(error))
        if await self._writes.delete_claim(claim):
            observe.claim_disrupted(claim, reason)

    def _tell_pods(self, claim: NodeClaim, error: str) -> None:
        for key in self._nominations.pods_of(claim.name):
            pod = self._world.pods.get(key)
            if pod is None or pod.spec.node_name or pod.deleting:
                continue
            text = f"NodeClaim {claim.name} nominated for this pod failed to launch: {error}"
            self._recorder.record(
                Event(
                    about=pod,
                    reason="InsufficientCapacityError",
                    message=text,
                    warning=True,
                )
            )

    async def _register(self, step: _Step) -> None:
        conditions = step.conditions
        if conditions.is_true("Registered"):
            return
        nodes = self._world.nodes_of(step.provider_id)
        if not nodes:
            conditions.set_unknown("Registered", "NodeNotFound", "Node not registered with cluster")
            return
        if len(nodes) > 1:
            names = ", ".join(node.name for node in nodes)
            text = f"Invariant violated, matched multiple nodes: {names}"
            conditions.set_false("Registered", "MultipleNodesFound", text)
            return
        await self._register_node(step, nodes[0])

    async def _register_node(self, step: _Step, node: Node) -> None:
        # Labels that the launch gave are on the claim only after this reconcile has saved them.
        claim = _with_labels(step.claim, step.metadata)
        registration = register(claim, node)
        if registration.unregistered_taint_missing:
            text = "Missing karpenter.sh/unregistered taint: pods may start before the node is registered"
            log.error("unregistered taint missing", nodeclaim=claim.name, node=node.name)
            self._recorder.record(
                Event(about=claim, reason="UnregisteredTaintMissing", message=text, warning=True)
            )
        node = await self._writes.patch_node(node, registration.body)
        step.status["nodeName"] = node.name
        step.conditions.set_true("Registered")
        observe.node_created(node)
        log.info(
            "registered nodeclaim",
            nodeclaim=claim.name,
            node=node.name,
            provider_id=step.provider_id,
        )

    def _initialize(self, step: _Step) -> None:
        conditions = step.conditions
        if conditions.is_true("Initialized") or not conditions.is_true("Registered"):
            return
        nodes = self._world.nodes_of(step.provider_id)
        if len(nodes) != 1:
            conditions.set_unknown(
                "Initialized", "NodeNotFound", "Node not registered with cluster"
            )
            return
        waiting = initialization(step.claim, nodes[0])
        if waiting is not None:
            conditions.set_unknown("Initialized", waiting.reason.value, waiting.message)
            return
        conditions.set_true("Initialized")
        log.info("initialized nodeclaim", nodeclaim=step.claim.name, node=nodes[0].name)

    async def _judge_liveness(self, step: _Step) -> Result | None:
        """Return when to look again; None when the claim was given up."""
        verdict = liveness(step.conditions, self._clock.now())
        if isinstance(verdict, GivenUp):
            log.info("gave up nodeclaim", nodeclaim=step.claim.name, reason=verdict.value)
            if await self._writes.delete_claim(step.claim):
                observe.claim_disrupted(step.claim, verdict.value)
            return None
        if verdict.check_after is None:
            return DONE
        return Result(verdict.check_after.total_seconds() + 0.5)

    async def _save(self, step: _Step) -> None:
        claim = step.claim
        try:
            if step.metadata:
                version = claim.metadata.resource_version
                body = {"metadata": {**step.metadata, "resourceVersion": version}}
                claim = await self._writes.patch_claim(claim, body)
            await self._writes.save_status(claim, step.conditions, step.status)
            await self._mark_node_initialized(step)
        except NotFound:
            return
        if step.metadata:
            self._launched.pop(claim.uid, None)

    async def _mark_node_initialized(self, step: _Step) -> None:
        if not step.conditions.is_true("Initialized"):
            return
        for node in self._world.nodes_of(step.provider_id):
            if node.labels.get(labels.INITIALIZED) != "true":
                body = {"metadata": {"labels": {labels.INITIALIZED: "true"}}}
                await self._writes.patch_node(node, body)

    async def _finalize(self, claim: NodeClaim) -> Result:
        if labels.TERMINATION_FINALIZER not in claim.finalizers:
            return DONE
        claim = await self._stamp_deadline(claim)
        if self._writes.conditions_of(claim).is_true("Registered"):
            nodes = self._world.nodes_of(claim.status.provider_id)
            for node in nodes:
                if not node.deleting:
                    await self._delete_node(node)
            if nodes:
                return Result(_POLL_SECONDS)
        if await self._instance_remains(claim):
            return Result(_POLL_SECONDS)
        await self._writes.remove_finalizer(
            NodeClaim, claim, labels.TERMINATION_FINALIZER, self._world.node_claims
        )
        self._launched.pop(claim.uid, None)
        self._count_end(claim)
        log.info("deleted nodeclaim", nodeclaim=claim.name, provider_id=claim.status.provider_id)
        return DONE

    def _count_end(self, claim: NodeClaim) -> None:
        now = self._clock.now()
        asked = claim.metadata.deletion_timestamp or now
        conditions = self._writes.conditions_of(claim)
        instance_seconds = None
        if conditions.is_true("InstanceTerminating"):
            since = conditions.transition_time("InstanceTerminating")
            instance_seconds = (now - since).total_seconds()
        observe.claim_terminated(claim, (now - asked).total_seconds(), instance_seconds)

    async def _delete_node(self, node: Node) -> None:
        try:
            await self._writes.kube.delete(Node, node.name, uid=node.uid)
        except NotFound:
            return

    async def _stamp_deadline(self, claim: NodeClaim) -> NodeClaim:
        deadline: datetime | None = deadline_of(claim)
        if deadline is None or labels.TERMINATION_TIMESTAMP in claim.annotations:
            return claim
        text = format_instant(deadline)
        self._recorder.record(
            Event(
                about=claim,
                reason="TerminationGracePeriodExpiring",
                message=f"All pods will be deleted by {text}",
                warning=True,
            )
        )
        body = {
            "metadata": {
                "resourceVersion": claim.metadata.resource_version,
                "annotations": {labels.TERMINATION_TIMESTAMP: text},
            }
        }
        return await self._writes.patch_claim(claim, body)

    async def _instance_remains(self, claim: NodeClaim) -> bool:
        launched = self._launched.get(claim.uid)
        if not claim.status.provider_id and launched is not None:
            # The launch succeeded but could not be written down: its instance must go all the same.
            status = msgspec.structs.replace(claim.status, provider_id=launched.provider_id)
            claim = msgspec.structs.replace(claim, status=status)
        try:
            await self._cloud.delete(claim)
        except NodeClaimNotFound:
            return False
        conditions = self._writes.conditions_of(claim)
        if not conditions.is_true("InstanceTerminating"):
            conditions.set_true("InstanceTerminating")
            await self._writes.save_status(claim, conditions)
        return True


def _with_labels(claim: NodeClaim, metadata: dict[str, Any]) -> NodeClaim:
    """Return the claim as it will be once its launch is saved."""
    if not metadata:
        return claim
    return msgspec.structs.replace(
        claim,
        metadata=msgspec.structs.replace(
            claim.metadata, labels=metadata["labels"], annotations=metadata["annotations"]
        ),
    )
