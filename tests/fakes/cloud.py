"""A cloud in memory: instances by claim, stock that can run out, and answers that can get lost."""

from __future__ import annotations

import itertools
from datetime import datetime

from nodewright_controller.api import labels
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.ports.cloud import CloudInstance, Launched
from nodewright_controller.ports.errors import CloudError, NodeClaimNotFound
from nodewright_controller.scheduling.decision import Offer


class FakeCloud:
    """Implements `ports.cloud.CloudProvider`; a claim never gets two instances."""

    def __init__(self, now: datetime, instance_types: tuple[InstanceType, ...] = ()) -> None:
        self._now = now
        self._offered = instance_types
        self._ids = itertools.count(1)
        self.instances: dict[str, CloudInstance] = {}
        self.by_uid: dict[str, Launched] = {}
        self.terminating: set[str] = set()
        self.creates = 0
        self.fail_next: list[Exception] = []
        """Errors that the next creates raise, one each, before anything is launched."""
        self.lose_next_answers = 0
        """How many creates launch but answer nothing."""
        self.lost: type[Exception] = CloudError
        self.offers: tuple[Offer, ...] = ()
        """What a launch says that it could choose from."""

    async def create(self, node_claim: NodeClaim) -> Launched:
        self.creates += 1
        if self.fail_next:
            raise self.fail_next.pop(0)
        if node_claim.uid not in self.by_uid:
            self.by_uid[node_claim.uid] = self._launch(node_claim)
        if self.lose_next_answers:
            self.lose_next_answers -= 1
            raise self.lost("no answer")
        return self.by_uid[node_claim.uid]

    def _launch(self, claim: NodeClaim) -> Launched:
        number = next(self._ids)
        provider_id = f"aws:///zone-a/i-{number:04d}"
        self.instances[provider_id] = CloudInstance(
            provider_id=provider_id,
            instance_id=f"i-{number:04d}",
            state="running",
            instance_type="m5.large",
            zone="zone-a",
            capacity_type="on-demand",
            image_id="ami-1",
            launch_time=self._now,
            node_pool=claim.labels.get(labels.NODEPOOL, ""),
            node_claim=claim.name,
        )
        return Launched(
            provider_id=provider_id,
            image_id="ami-1",
            labels={
                labels.INSTANCE_TYPE: "m5.large",
                labels.ZONE: "zone-a",
                labels.CAPACITY_TYPE: "on-demand",
            },
            capacity=Resources.parse({"cpu": "2", "memory": "8Gi", "pods": 29}),
            allocatable=Resources.parse({"cpu": "1900m", "memory": "7Gi", "pods": 29}),
            usd_per_hour=0.096,
            considered_types=1,
            offers=self.offers,
        )

    async def delete(self, node_claim: NodeClaim) -> None:
        provider_id = node_claim.status.provider_id
        if not provider_id and node_claim.uid in self.by_uid:
            provider_id = self.by_uid[node_claim.uid].provider_id  # found by its tag
        if provider_id not in self.instances:
            raise NodeClaimNotFound(provider_id)
        self.terminating.add(provider_id)

    def finish_terminations(self) -> None:
        """Let the instances that were asked to go be gone."""
        for provider_id in self.terminating:
            self.instances.pop(provider_id, None)
        self.terminating.clear()

    async def get(self, provider_id: str) -> CloudInstance:
        if provider_id not in self.instances:
            raise NodeClaimNotFound(provider_id)
        return self.instances[provider_id]

    async def list(self) -> tuple[CloudInstance, ...]:
        return tuple(self.instances.values())

    async def instance_types(self, node_pool: NodePool) -> tuple[InstanceType, ...]:
        return self._offered

    async def is_drifted(self, node_claim: NodeClaim) -> str:
        return ""
