"""What nothing owns any more: instances without a NodeClaim, unused templates, old profiles.

Upstream: pkg/controllers/nodeclaim/garbagecollection, pkg/controllers/instanceprofile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import structlog

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.labels import INSTANCE_PROFILE_NAME
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.instances import ENDING
from nodewright_controller.aws.provider import EC2Provider
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.cloud import CloudInstance
from nodewright_controller.ports.errors import NodeClaimNotFound, NotFound
from nodewright_controller.ports.kube import Kube
from nodewright_controller.ports.store import Store
from nodewright_controller.runtime.reconciler import Result

log = structlog.get_logger(__name__)

SETTLING: Final = timedelta(seconds=30)
_FIRST_ROUNDS: Final = 20
_SOON: Final = Result(10.0)
_LATER: Final = Result(120.0)
_PROFILE_PERIOD: Final = Result(1800.0)


def orphans(
    instances: Iterable[CloudInstance], claims: Iterable[NodeClaim], now: datetime
) -> tuple[CloudInstance, ...]:
    """Return the instances that no NodeClaim owns and that had time to get one.

    An instance is owned by the claim that has its provider ID, or by the claim named in its tag as
    long as that claim has no provider ID: its launch may still be waiting for an answer.
    """
    owned: set[str] = set()
    launching: set[str] = set()
    for claim in claims:
        if claim.status.provider_id:
            owned.add(claim.status.provider_id)
        else:
            launching.add(claim.name)
    return tuple(
        instance
        for instance in instances
        if instance.state not in ENDING
        and instance.provider_id not in owned
        and instance.node_claim not in launching
        and now - instance.launch_time >= SETTLING
    )


class InstanceGarbage:
    """Terminates orphans, and removes their Nodes."""

    def __init__(self, provider: EC2Provider, kube: Kube, clock: Clock) -> None:
        self._provider = provider
        self._kube = kube
        self._clock = clock
        self._rounds = 0

    async def step(self) -> Result:
        """Compare the cloud with the API server once. Raises AwsError, KubeError."""
        # The cloud is read first: a claim made in between is then seen, and its instance spared.
        instances = await self._provider.list()
        if instances:
            claims = await self._kube.list(NodeClaim)
            found = orphans(instances, claims, self._clock.now())
            if found:
                await self._collect(found)
        self._rounds += 1
        return _SOON if self._rounds < _FIRST_ROUNDS else _LATER

    async def _collect(self, found: tuple[CloudInstance, ...]) -> None:
        nodes = {node.spec.provider_id: node for node in await self._kube.list(Node)}
        await asyncio.gather(
            *(self._collect_one(each, nodes.get(each.provider_id)) for each in found)
        )

    async def _collect_one(self, instance: CloudInstance, node: Node | None) -> None:
        try:
            await self._provider.instances.terminate(instance.instance_id)
        except NodeClaimNotFound:
            return
        log.info("garbage collected instance", instance=instance.instance_id)
        if node is not None:
            try:
                await self._kube.delete(Node, node.name, uid=node.uid)
            except NotFound:
                return


class ProfileGarbage:
    """Deletes instance profiles that no node class and no NodeClaim uses."""

    def __init__(
        self,
        provider: EC2Provider,
        *,
        node_classes: Store[EC2NodeClass],
        node_claims: Store[NodeClaim],
    ) -> None:
        self._provider = provider
        self._node_classes = node_classes
        self._node_claims = node_claims

    async def step(self) -> Result:
        """Look once. Raises AwsError."""
        if not (self._node_classes.ready and self._node_claims.ready):
            return _SOON
        in_use = {each.status.instance_profile for each in self._node_classes.all()}
        for claim in self._node_claims.all():
            in_use.add(claim.annotations.get(INSTANCE_PROFILE_NAME, ""))
        for profile in await self._provider.profiles.garbage(frozenset(in_use)):
            await self._provider.profiles.delete(profile)
        return _PROFILE_PERIOD
