"""The interruption queue: hear of an instance's end before it comes, and make room in time.

A message is deleted after it was acted upon, so a message that could not be handled comes again.
Upstream: pkg/controllers/interruption.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import structlog

from nodewright_controller.api import labels
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.clients import LONG_POLL_SECONDS
from nodewright_controller.aws.error_codes import AwsError
from nodewright_controller.aws.instances import instance_id_of
from nodewright_controller.aws.messages import REACTIONS, Message, MessageKind, parse_message
from nodewright_controller.aws.metrics import INTERRUPTION_DELETED, INTERRUPTION_RECEIVED
from nodewright_controller.aws.provider import EC2Provider
from nodewright_controller.ports.errors import CloudError, KubeError, NotFound
from nodewright_controller.ports.events import Event, Recorder
from nodewright_controller.ports.kube import Kube
from nodewright_controller.ports.store import Store
from nodewright_controller.runtime.metrics import NODECLAIMS_DISRUPTED
from nodewright_controller.runtime.reconciler import Result

log = structlog.get_logger(__name__)

_MOST: Final = 10
_VISIBILITY_SECONDS: Final = 20
_AT_ONCE: Final = Result(0.0)


class InterruptionQueue:
    """Reads the queue and reacts."""

    def __init__(
        self,
        provider: EC2Provider,
        kube: Kube,
        recorder: Recorder,
        *,
        node_claims: Store[NodeClaim],
        nodes: Store[Node],
    ) -> None:
        self._clients = provider.clients
        self._name = provider.options.interruption_queue
        self._kube = kube
        self._recorder = recorder
        self._unavailable = provider.unavailable
        self._node_claims = node_claims
        self._nodes = nodes
        self._url = ""

    async def step(self) -> Result:
        """Wait for messages once (up to 20 s) and handle them.

        Raises:
            AwsError: the queue does not exist, or SQS did not answer.

        """
        sqs = self._clients.sqs
        if not self._url:
            answer = await self._clients.call(sqs.get_queue_url, QueueName=self._name)
            self._url = str(answer["QueueUrl"])
        try:
            answer = await self._clients.call(
                sqs.receive_message,
                QueueUrl=self._url,
                MaxNumberOfMessages=_MOST,
                WaitTimeSeconds=LONG_POLL_SECONDS,
                VisibilityTimeout=_VISIBILITY_SECONDS,
                MessageSystemAttributeNames=["SentTimestamp"],
            )
        except AwsError as error:
            if error.not_found:
                self._url = ""  # made anew, it may have another address
            raise
        claims = self._claims_by_instance()
        raw = answer.get("Messages") or ()
        await asyncio.gather(*(self._handle(each, claims) for each in raw))
        return _AT_ONCE

    def _claims_by_instance(self) -> dict[str, NodeClaim]:
        found = {}
        for claim in self._node_claims.all():
            if claim.status.provider_id:
                try:
                    found[instance_id_of(claim.status.provider_id)] = claim
                except ValueError:
                    continue
        return found

    async def _handle(self, raw: Mapping[str, Any], claims: Mapping[str, NodeClaim]) -> None:
        try:
            message = parse_message(raw["Body"])
        except ValueError as error:
            log.warning("dropped unreadable queue message", error=str(error))
            await self._delete(raw)
            return
        INTERRUPTION_RECEIVED.labels(message.kind.value).inc()
        try:
            for instance_id in message.instance_ids:
                claim = claims.get(instance_id)
                if claim is not None:
                    await self._react(message, claim)
        except (KubeError, CloudError) as error:
            log.warning("left queue message for later", kind=message.kind, error=str(error))
            return
        await self._delete(raw)

    async def _react(self, message: Message, claim: NodeClaim) -> None:
        reaction = REACTIONS[message.kind]
        for about in (claim, self._nodes.get(claim.status.node_name)):
            if about is not None:
                self._recorder.record(
                    Event(
                        about=about,
                        reason=reaction.event_reason,
                        message=reaction.text,
                        warning=reaction.warning,
                    )
                )
        if message.kind is MessageKind.SPOT_INTERRUPTED:
            self._mark_out_of_stock(claim)
        if message.kind is MessageKind.RESERVATION_INTERRUPTED:
            self._mark_reservation(claim)
        if not reaction.deletes or claim.deleting:
            return
        try:
            await self._kube.delete(NodeClaim, claim.name, uid=claim.uid)
        except NotFound:
            return
        log.info("deleted nodeclaim on interruption", nodeclaim=claim.name, kind=message.kind.value)
        NODECLAIMS_DISRUPTED.labels(
            message.kind.value,
            claim.labels.get(labels.NODEPOOL, ""),
            claim.labels.get(labels.CAPACITY_TYPE, ""),
            "",
            "graceful" if claim.spec.termination_grace_period is None else "eventual",
        ).inc()
        reason = "TerminatingOnInterruption"
        text = "Interruption triggered termination for the NodeClaim"
        self._recorder.record(Event(about=claim, reason=reason, message=text, warning=True))

    def _mark_out_of_stock(self, claim: NodeClaim) -> None:
        instance_type = claim.labels.get(labels.INSTANCE_TYPE, "")
        zone = claim.labels.get(labels.ZONE, "")
        if instance_type and zone:
            self._unavailable.mark(instance_type, zone, labels.SPOT)

    def _mark_reservation(self, claim: NodeClaim) -> None:
        instance_type = claim.labels.get(labels.INSTANCE_TYPE, "")
        reservation = claim.labels.get(labels.CAPACITY_RESERVATION_ID, "")
        if instance_type and reservation:
            self._unavailable.mark_reservation(instance_type, reservation)

    async def _delete(self, raw: Mapping[str, Any]) -> None:
        try:
            await self._clients.call(
                self._clients.sqs.delete_message,
                QueueUrl=self._url,
                ReceiptHandle=raw["ReceiptHandle"],
            )
        except AwsError as error:
            log.warning("could not delete queue message", error=str(error))
            return
        INTERRUPTION_DELETED.inc()
