"""The cloud: where instances come from.

Upstream: pkg/cloudprovider/types.go, `CloudProvider`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scheduling.decision import Offer
from nodewright_controller.scheduling.type_plan import Shortage


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What a launch made of a NodeClaim."""

    provider_id: str
    """`aws:///ZONE/i-…`."""
    image_id: str
    labels: Mapping[str, str]
    """Instance type, zone, zone id, region, capacity type, and the type's single-valued labels."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Resources
    allocatable: Resources
    usd_per_hour: float | None
    """Price of what was launched; None when unknown."""
    considered_types: int
    """How many instance types EC2 could choose from; 0 when an earlier process asked."""
    offers: tuple[Offer, ...] = ()
    """What EC2 could choose from, cheapest first; empty when an earlier process asked."""
    shortages: tuple[Shortage, ...] = ()
    """What of it EC2 said to be out of stock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudInstance:
    """An instance of this cluster as the cloud sees it."""

    provider_id: str
    instance_id: str
    state: str
    """EC2's word: pending, running, stopping, stopped, shutting-down."""
    instance_type: str
    zone: str
    capacity_type: str
    image_id: str
    launch_time: datetime
    node_pool: str
    node_claim: str
    """Name of the NodeClaim from the tag; empty until the instance is tagged."""
    tags: Mapping[str, str] = field(default_factory=dict)
    subnet_id: str = ""
    capacity_reservation_id: str = ""
    security_group_ids: tuple[str, ...] = ()


class CloudProvider(Protocol):
    """What the controller needs from a cloud."""

    async def create(self, node_claim: NodeClaim) -> Launched:
        """Launch one instance for the claim. Safe to call again: a claim never gets two instances.

        Raises:
            InsufficientCapacity: nothing the claim allows is in stock, or its node class is gone.
            NodeClassNotReady: the node class is not Ready.
            CreateFailed: anything else that EC2 answered.

        """

    async def delete(self, node_claim: NodeClaim) -> None:
        """Ask for termination; returns while the instance still exists, so call until it is gone.

        Raises:
            NodeClaimNotFound: the instance is gone.

        """

    async def get(self, provider_id: str) -> CloudInstance:
        """Return one instance, fresh from the cloud.

        Raises:
            NodeClaimNotFound: it does not exist, or is terminated.

        """

    async def list(self) -> tuple[CloudInstance, ...]:
        """Return all instances that belong to this cluster and are not terminated."""

    async def instance_types(self, node_pool: NodePool) -> tuple[InstanceType, ...]:
        """Return every instance type for the pool's node class, also those out of stock.

        Raises:
            NodeClassNotReady: the node class does not exist or is not Ready.

        """

    async def is_drifted(self, node_claim: NodeClaim) -> str:
        """Return why the instance no longer is what its node class asks for; empty if it is."""
