"""What becomes of nodes from capacity reservations when their reservation ends or lets go of them.

A capacity block ends at a set time, so its nodes are drained before. An instance whose reservation
was cancelled or changed goes on as an on-demand one; its labels follow, and what it costs with them.
Upstream: pkg/controllers/capacityreservation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import structlog

from nodewright_controller.api import labels
from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.capacity_reservations import EXPIRING, is_expiring
from nodewright_controller.aws.provider import EC2Provider
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.errors import NotFound
from nodewright_controller.ports.kube import Kube
from nodewright_controller.ports.store import Store
from nodewright_controller.runtime.metrics import NODECLAIMS_DISRUPTED
from nodewright_controller.runtime.reconciler import Result

log = structlog.get_logger(__name__)

_MINUTE: Final = Result(60.0)
_RESERVED_LABELS: Final = (
    labels.CAPACITY_RESERVATION_ID,
    labels.CAPACITY_RESERVATION_TYPE,
    labels.CAPACITY_RESERVATION_INTERRUPTIBLE,
)
NodesOf = Callable[[str], Iterable[Node]]
"""From a provider id to the nodes of that instance."""


class ReservationUpkeep:
    """Both rounds, once a minute each."""

    def __init__(
        self,
        provider: EC2Provider,
        kube: Kube,
        clock: Clock,
        *,
        node_claims: Store[NodeClaim],
        node_classes: Store[EC2NodeClass],
        nodes_of: NodesOf,
    ) -> None:
        self._provider = provider
        self._kube = kube
        self._clock = clock
        self._node_claims = node_claims
        self._node_classes = node_classes
        self._nodes_of = nodes_of

    async def expire(self) -> Result:
        """Delete the claims whose capacity block is about to end. Raises KubeError."""
        ending = self._ending()
        for claim in self._reserved():
            if claim.labels.get(labels.CAPACITY_RESERVATION_ID) not in ending or claim.deleting:
                continue
            try:
                await self._kube.delete(NodeClaim, claim.name, uid=claim.uid)
            except NotFound:
                continue
            log.info("deleted nodeclaim whose capacity block ends", nodeclaim=claim.name)
            NODECLAIMS_DISRUPTED.labels(
                "capacity_reservation_expiring",
                claim.labels.get(labels.NODEPOOL, ""),
                labels.RESERVED,
                "",
                "graceful" if claim.spec.termination_grace_period is None else "eventual",
            ).inc()
        return _MINUTE

    def _ending(self) -> set[str]:
        now = self._clock.now()
        return {
            found.id
            for node_class in self._node_classes.all()
            for found in node_class.status.capacity_reservations or ()
            if found.state == EXPIRING or is_expiring(found.reservation_type, found.end_time, now)
        }

    def _reserved(self) -> list[NodeClaim]:
        return [
            claim
            for claim in self._node_claims.all()
            if claim.labels.get(labels.CAPACITY_TYPE) == labels.RESERVED
        ]

    async def relabel(self) -> Result:
        """Call on-demand what no longer is in a reservation. Raises AwsError, KubeError."""
        reserved = [claim for claim in self._reserved() if claim.status.provider_id]
        if not reserved:
            return _MINUTE
        capacity_types = {
            each.provider_id: each.capacity_type for each in await self._provider.list()
        }
        for claim in reserved:
            if capacity_types.get(claim.status.provider_id) == labels.ON_DEMAND:
                try:
                    await self._relabel(claim)
                except NotFound:
                    continue  # claim or node is just gone; the others are not to wait for that
        return _MINUTE

    async def _relabel(self, claim: NodeClaim) -> None:
        changed: dict[str, Any] = {
            labels.CAPACITY_TYPE: labels.ON_DEMAND,
            **dict.fromkeys(_RESERVED_LABELS),  # null removes a label
        }
        body = {"metadata": {"labels": changed}}
        for node in self._nodes_of(claim.status.provider_id):
            await self._kube.patch(Node, node.name, body)
        # The claim last: while it says reserved, a round that failed half-way is done again.
        self._node_claims.observe(await self._kube.patch(NodeClaim, claim.name, body))
        log.info("nodeclaim left its capacity reservation", nodeclaim=claim.name)
