"""NodeClaims whose time is over, and those whose instance vanished, are deleted.

Expiry is forceful: no budget holds it back; the drain that follows still respects PDBs.
Upstream: pkg/controllers/nodeclaim/expiration, pkg/controllers/nodeclaim/garbagecollection.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import structlog

from nodewright_controller.api.meta import is_true
from nodewright_controller.lifecycle.expiration import expires_at
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.cloud import CloudProvider
from nodewright_controller.reconcilers import observe
from nodewright_controller.reconcilers.world import World
from nodewright_controller.reconcilers.writes import Writes
from nodewright_controller.runtime.reconciler import DONE, Result

log = structlog.get_logger()

_GARBAGE_PERIOD: Final = Result(120.0)
_LONGEST_WAIT: Final = timedelta(hours=1)


class ExpirationReconciler:
    """Deletes claims that have reached expireAfter."""

    def __init__(self, *, world: World, writes: Writes, clock: Clock) -> None:
        self._world = world
        self._writes = writes
        self._clock = clock

    async def reconcile(self, name: str) -> Result:
        """Look at one claim."""
        claim = self._world.node_claims.get(name)
        if claim is None or claim.deleting:
            return DONE
        end = expires_at(claim)
        if end is None:
            return DONE
        left = end - self._clock.now()
        if left > timedelta():
            return Result(min(left, _LONGEST_WAIT).total_seconds() + 0.5)
        if await self._writes.delete_claim(claim):
            observe.claim_disrupted(claim, "expired")
            log.info("deleted expired nodeclaim", nodeclaim=claim.name)
        return DONE


class NodeClaimGarbage:
    """Deletes registered claims whose instance the cloud does not know any more."""

    def __init__(self, *, world: World, writes: Writes, cloud: CloudProvider) -> None:
        self._world = world
        self._writes = writes
        self._cloud = cloud

    async def step(self) -> Result:
        """Compare all claims with the cloud once."""
        # Claims are read before instances: one that is launched in between is not missed.
        claims = [
            claim
            for claim in self._world.node_claims.all()
            if is_true(claim.status.conditions, "Registered") and not claim.deleting
        ]
        known = {instance.provider_id for instance in await self._cloud.list()}
        for claim in claims:
            if claim.status.provider_id in known:
                continue
            nodes = self._world.nodes_of(claim.status.provider_id)
            if any(is_true(node.status.conditions, "Ready") for node in nodes):
                continue
            if await self._writes.delete_claim(claim):
                observe.claim_disrupted(claim, "garbage_collected")
                log.info("garbage collected nodeclaim", nodeclaim=claim.name)
        return _GARBAGE_PERIOD
