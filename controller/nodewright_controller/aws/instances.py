"""Instances in EC2: read and terminated in batches, parsed once.

Upstream: pkg/batcher, pkg/providers/instance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from nodewright_controller.api.labels import NODEPOOL, ON_DEMAND, RESERVED, SPOT
from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.error_codes import AwsError
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.selectors import Filter
from nodewright_controller.aws.tags import NODE_CLAIM, from_list, instance_filters
from nodewright_controller.ports.cloud import CloudInstance
from nodewright_controller.ports.errors import NodeClaimNotFound
from nodewright_controller.runtime.batcher import Batcher, BatchWindow

GONE: Final = ("terminated",)
ENDING: Final = ("shutting-down", *GONE)
_WINDOW: Final = BatchWindow(
    idle=timedelta(milliseconds=100), limit=timedelta(seconds=1), items=500
)
_SCHEME: Final = "aws:///"


def provider_id(zone: str, instance_id: str) -> str:
    """Return the provider ID of an instance."""
    return f"{_SCHEME}{zone}/{instance_id}"


def instance_id_of(provider_id_: str) -> str:
    """Return the instance id in a provider ID.

    Raises:
        ValueError: it is none of AWS.

    """
    instance_id = provider_id_.rpartition("/")[2]
    if not provider_id_.startswith(_SCHEME) or not instance_id.startswith("i-"):
        raise ValueError(f"{provider_id_!r} is no provider ID of AWS (aws:///ZONE/i-…)")
    return instance_id


def parse_instance(raw: Mapping[str, Any]) -> CloudInstance:
    """Read an instance of DescribeInstances."""
    tags = from_list(raw.get("Tags"))
    zone = raw.get("Placement", {}).get("AvailabilityZone", "")
    return CloudInstance(
        provider_id=provider_id(zone, raw["InstanceId"]),
        instance_id=raw["InstanceId"],
        state=raw.get("State", {}).get("Name", ""),
        instance_type=raw.get("InstanceType", ""),
        zone=zone,
        capacity_type=_capacity_type(raw),
        image_id=raw.get("ImageId", ""),
        launch_time=raw["LaunchTime"],
        node_pool=tags.get(NODEPOOL, ""),
        node_claim=tags.get(NODE_CLAIM, ""),
        tags=tags,
        subnet_id=raw.get("SubnetId", ""),
        capacity_reservation_id=raw.get("CapacityReservationId", ""),
        security_group_ids=tuple(
            sorted(group["GroupId"] for group in raw.get("SecurityGroups") or ())
        ),
    )


def _capacity_type(raw: Mapping[str, Any]) -> str:
    if raw.get("InstanceLifecycle") == "spot" or raw.get("SpotInstanceRequestId"):
        return SPOT
    return RESERVED if raw.get("CapacityReservationId") else ON_DEMAND


class Instances:
    """The instances of this cluster."""

    def __init__(self, clients: AwsClients, options: AwsOptions) -> None:
        self._clients = clients
        self._options = options
        self._describe: Batcher[str, CloudInstance] = Batcher(self._describe_batch, _WINDOW)
        self._terminate: Batcher[str, None] = Batcher(self._terminate_batch, _WINDOW)

    async def get(self, instance_id: str) -> CloudInstance:
        """Return one instance, also a terminated one that EC2 still shows.

        Raises:
            NodeClaimNotFound: EC2 does not know it.
            AwsError: EC2 did not answer.

        """
        return await self._describe.ask(instance_id)

    async def list(self) -> tuple[CloudInstance, ...]:
        """Return every instance of this cluster that is not terminated. Raises AwsError."""
        return await self._query(Filters=instance_filters(self._options), MaxResults=1000)

    async def of_claim(self, node_claim: str) -> CloudInstance | None:
        """Return the oldest living instance launched for a NodeClaim, if any. Raises AwsError."""
        mine: Filter = {"Name": f"tag:{NODE_CLAIM}", "Values": [node_claim]}
        found = await self._query(Filters=[*instance_filters(self._options), mine])
        living = [instance for instance in found if instance.state not in ENDING]
        return min(living, key=lambda each: (each.launch_time, each.instance_id), default=None)

    async def terminate(self, instance_id: str) -> None:
        """Ask for termination.

        Raises:
            NodeClaimNotFound: EC2 does not know the instance.
            AwsError: EC2 refused, or did not answer.

        """
        await self._terminate.ask(instance_id)

    async def tag(self, instance_id: str, tags: Sequence[Mapping[str, str]]) -> None:
        """Add tags to an instance. Raises AwsError."""
        await self._clients.call(
            self._clients.ec2.create_tags, Resources=[instance_id], Tags=list(tags)
        )

    async def _query(self, **request: Any) -> tuple[CloudInstance, ...]:
        pages = await self._clients.pages(self._clients.ec2.describe_instances, **request)
        return tuple(
            parse_instance(raw)
            for page in pages
            for reservation in page["Reservations"]
            for raw in reservation["Instances"]
        )

    async def _describe_batch(
        self, ids: Sequence[str]
    ) -> Mapping[str, CloudInstance | BaseException]:
        # A filter, unlike InstanceIds, does not fail as a whole because one id is unknown.
        found = await self._query(Filters=[{"Name": "instance-id", "Values": sorted(ids)}])
        answers: dict[str, CloudInstance | BaseException] = {
            missing: NodeClaimNotFound(f"instance {missing} does not exist") for missing in ids
        }
        answers.update((instance.instance_id, instance) for instance in found)
        return answers

    async def _terminate_batch(self, ids: Sequence[str]) -> Mapping[str, BaseException | None]:
        try:
            await self._terminate_now(ids)
        except AwsError:
            if len(ids) == 1:
                raise
            return await self._one_by_one(ids)
        return dict.fromkeys(ids)

    async def _one_by_one(self, ids: Iterable[str]) -> Mapping[str, BaseException | None]:
        """Terminate singly, so that one bad id does not keep the others alive."""
        wanted = tuple(ids)
        outcomes = await asyncio.gather(
            *(self._terminate_now([each]) for each in wanted), return_exceptions=True
        )
        return dict(zip(wanted, outcomes, strict=True))

    async def _terminate_now(self, ids: Sequence[str]) -> None:
        try:
            await self._clients.call(self._clients.ec2.terminate_instances, InstanceIds=sorted(ids))
        except AwsError as error:
            if error.not_found and len(ids) == 1:
                raise NodeClaimNotFound(f"instance {ids[0]} does not exist") from error
            raise
