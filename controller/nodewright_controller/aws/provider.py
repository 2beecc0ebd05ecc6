"""The cloud port, on EC2: launch, terminate, list, and what can be bought.

This file only connects: node classes to shapes, claims to choices, choices to a launch, and what
came of it to the values of `ports.cloud`. Upstream: pkg/cloudprovider.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import msgspec

from nodewright_controller.api import labels
from nodewright_controller.api.conditions import READY
from nodewright_controller.api.conversion import kubelet_of
from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.meta import KubeObject, condition
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodeClassReference, NodePool
from nodewright_controller.aws.capacity_reservations import DEFAULT, CapacityReservations
from nodewright_controller.aws.catalog import Catalog
from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.drift import drift_reason
from nodewright_controller.aws.filters import NoChoice, choose
from nodewright_controller.aws.fleet import FleetInstance
from nodewright_controller.aws.images import Images
from nodewright_controller.aws.instance_profiles import InstanceProfiles
from nodewright_controller.aws.instances import ENDING, GONE, Instances, instance_id_of, provider_id
from nodewright_controller.aws.launch_template import LaunchInput
from nodewright_controller.aws.launch_templates import LaunchTemplates
from nodewright_controller.aws.launcher import Bought, Launcher, tenancy_of
from nodewright_controller.aws.nodeclass_hash import HASH_VERSION, node_class_hash
from nodewright_controller.aws.offerings import RESERVATION_LABELS
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.pricing import Pricing
from nodewright_controller.aws.reserved import Reservation, of_status
from nodewright_controller.aws.security_groups import SecurityGroups
from nodewright_controller.aws.subnets import Subnets
from nodewright_controller.aws.unavailable import UnavailableOfferings
from nodewright_controller.aws.version import ClusterVersion
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.cloud import CloudInstance, Launched
from nodewright_controller.ports.errors import (
    CreateFailed,
    InsufficientCapacity,
    NodeClaimNotFound,
    NodeClassNotReady,
    OverlaysPending,
)

NodeClasses = Callable[[str], EC2NodeClass | None]
Adjust = Callable[[str, tuple[InstanceType, ...]], tuple[InstanceType, ...]]
"""From a NodePool's name and the types as listed to what NodeOverlays make of them."""
_READINESS_UNKNOWN: Final = "NodeClassReadinessUnknown"


class EC2Provider:
    """Implements `ports.cloud.CloudProvider` for EC2.

    Its parts (catalogue, prices, subnets, …) are public: the AWS-only loops work on the same ones.
    """

    def __init__(
        self,
        clients: AwsClients,
        options: AwsOptions,
        node_classes: NodeClasses,
        clock: Clock,
    ) -> None:
        self.clients = clients
        self.options = options
        self.adjust: Adjust = _as_listed
        """How NodeOverlays change a pool's types; set once, before anything is asked."""
        self._node_classes = node_classes
        self.unavailable = UnavailableOfferings(clock)
        self.pricing = Pricing(clients, options, clock)
        self.reservations = CapacityReservations(clients, clock)
        self.catalog = Catalog(
            clients, options, clock, self.pricing, self.unavailable, self.reservations
        )
        self.version = ClusterVersion(clients, options)
        self.images = Images(clients, options, clock, self.version)
        self.subnets = Subnets(clients, options, clock)
        self.security_groups = SecurityGroups(clients, options, clock)
        self.profiles = InstanceProfiles(clients, options, clock)
        self.templates = LaunchTemplates(clients, options, clock)
        self.instances = Instances(clients, options)
        self._launcher = Launcher(
            clients,
            clock,
            instances=self.instances,
            templates=self.templates,
            subnets=self.subnets,
            unavailable=self.unavailable,
            reservations=self.reservations,
        )

    async def create(self, node_claim: NodeClaim) -> Launched:
        """Launch one instance for the claim; see `CloudProvider.create`."""
        node_class = self._launchable_node_class(node_claim)
        await self.catalog.ensure_loaded()
        await self.reservations.ensure_known(node_class)
        asked = claim_requirements(node_claim)
        shaped = with_kubelet_of(node_class, node_claim)
        bought = await self._launcher.launch(
            node_claim, lambda: self._plan(node_claim, shaped, asked)
        )
        types = self._types_of_claim(node_claim, shaped)
        launched = self._launched(types, shaped, bought)
        # Drift is judged by the class as it stands, whatever the claim brought along.
        hash_ = node_class_hash(node_class, self.options)
        annotations = {
            **launched.annotations,
            **overlay_annotations(types, asked),
            labels.EC2_NODE_CLASS_HASH: hash_,
        }
        return replace(launched, annotations=annotations)

    def _launchable_node_class(self, node_claim: NodeClaim) -> EC2NodeClass:
        name = node_claim.spec.node_class_ref.name
        node_class = self._node_classes(name)
        if node_class is None or node_class.deleting:
            state = "does not exist" if node_class is None else "is being deleted"
            raise InsufficientCapacity(f"EC2NodeClass {name} {state}")
        ready = condition(node_class.status.conditions, READY)
        if ready is None or ready.status == "Unknown":
            detail = ready.message if ready else "it was not looked at yet"
            raise CreateFailed(_READINESS_UNKNOWN, f"EC2NodeClass {name}: {detail}")
        if ready.status != "True":
            raise NodeClassNotReady(f"EC2NodeClass {name} is not ready: {ready.message}")
        if ready.observed_generation != node_class.metadata.generation:
            raise NodeClassNotReady(f"EC2NodeClass {name} changed and was not looked at since")
        return node_class

    def _plan(
        self, node_claim: NodeClaim, node_class: EC2NodeClass, asked: Requirements
    ) -> LaunchInput:
        requests = Resources.parse(node_claim.spec.resources.requests)
        choice = choose(self._types_of_claim(node_claim, node_class), asked, requests)
        if isinstance(choice, NoChoice):
            raise InsufficientCapacity(choice.because)
        return LaunchInput(
            node_class=node_class,
            node_claim=node_claim,
            choice=choice,
            options=self.options,
            tenancy=tenancy_of(asked),
        )

    def _types_of_claim(
        self, node_claim: NodeClaim, node_class: EC2NodeClass
    ) -> tuple[InstanceType, ...]:
        types = self._types(node_class)
        pool = node_claim.labels.get(labels.NODEPOOL)
        if pool is None:
            return types  # overlays are about what NodePools can buy
        try:
            return self.adjust(pool, types)
        except OverlaysPending as error:
            raise CreateFailed("NodeOverlaysPending", str(error)) from error

    def _types(self, node_class: EC2NodeClass) -> tuple[InstanceType, ...]:
        try:
            return self.catalog.types_for(node_class)
        except ValueError as error:
            raise NodeClassNotReady(f"EC2NodeClass {node_class.name}: {error}") from error

    def _launched(
        self, types: tuple[InstanceType, ...], node_class: EC2NodeClass, bought: Bought
    ) -> Launched:
        instance = bought.instance
        found = next((each for each in types if each.name == instance.instance_type), None)
        if found is None:
            raise CreateFailed("LaunchFailed", f"EC2 sells no type {instance.instance_type}")
        return Launched(
            provider_id=provider_id(instance.zone, instance.instance_id),
            image_id=instance.image_id,
            labels=self._labels(node_class, found, instance),
            annotations={
                labels.EC2_NODE_CLASS_HASH_VERSION: HASH_VERSION,
                labels.INSTANCE_PROFILE_NAME: node_class.status.instance_profile,
            },
            capacity=found.capacity,
            allocatable=found.allocatable,
            usd_per_hour=self._price(found, instance),
            considered_types=bought.considered_types,
            offers=bought.offers,
            shortages=bought.shortages,
        )

    def _price(self, found: InstanceType, bought: FleetInstance) -> float | None:
        for offering in found.offerings:
            place = (offering.zone, offering.capacity_type)
            stated = offering.price_overlaid or offering.capacity_type == labels.RESERVED
            if stated and place == (bought.zone, bought.capacity_type):
                return offering.usd_per_hour
        return self.pricing.usd_per_hour(found.name, bought.zone, bought.capacity_type)

    def _labels(
        self, node_class: EC2NodeClass, found: InstanceType, bought: FleetInstance
    ) -> dict[str, str]:
        known = found.requirements.without(*RESERVATION_LABELS).labels()
        known |= {labels.ZONE: bought.zone, labels.CAPACITY_TYPE: bought.capacity_type}
        for subnet in node_class.status.subnets or ():
            if subnet.zone == bought.zone and subnet.zone_id:
                known[labels.ZONE_ID] = subnet.zone_id
        if bought.reservation_id:
            known |= self._reservation(node_class, bought.reservation_id).labels()
        return {key: value for key, value in known.items() if value}

    def _reservation(self, node_class: EC2NodeClass, reservation_id: str) -> Reservation:
        for found in node_class.status.capacity_reservations or ():
            if found.id == reservation_id:
                return of_status(found)
        return Reservation(reservation_id, DEFAULT, interruptible=False)

    async def delete(self, node_claim: NodeClaim) -> None:
        """Ask for termination; see `CloudProvider.delete`.

        A claim without a provider ID is looked for by its tag: its launch may never have been
        answered. When the instance is gone, its place in a capacity reservation is free again.
        """
        try:
            await self._terminate(node_claim)
        except NodeClaimNotFound:
            reservation = node_claim.labels.get(labels.CAPACITY_RESERVATION_ID)
            if reservation:
                instance = node_claim.status.provider_id.rpartition("/")[2]
                self.reservations.mark_terminated(reservation, instance)
            raise

    async def _terminate(self, node_claim: NodeClaim) -> None:
        if not node_claim.status.provider_id:
            instance = await self.instances.of_claim(node_claim.name)
            if instance is None:
                raise NodeClaimNotFound(f"NodeClaim {node_claim.name} has no instance")
        else:
            instance = await self.get(node_claim.status.provider_id)
        if instance.state not in ENDING:
            await self.instances.terminate(instance.instance_id)

    async def get(self, provider_id: str) -> CloudInstance:
        """Return one instance; see `CloudProvider.get`."""
        try:
            instance_id = instance_id_of(provider_id)
        except ValueError as error:
            raise NodeClaimNotFound(str(error)) from error
        instance = await self.instances.get(instance_id)
        if instance.state in GONE:
            raise NodeClaimNotFound(f"instance {instance_id} is terminated")
        return instance

    async def list(self) -> tuple[CloudInstance, ...]:
        """Return all instances of this cluster; see `CloudProvider.list`."""
        return await self.instances.list()

    async def instance_types(self, node_pool: NodePool) -> tuple[InstanceType, ...]:
        """Return every instance type for the pool, NodeOverlays applied; see `CloudProvider`.

        Raises:
            NodeClassNotReady: the node class does not exist or is not Ready.
            OverlaysPending: what the overlays make of the pool is not known yet.

        """
        return self.adjust(node_pool.name, await self.listed_types(node_pool))

    async def listed_types(self, node_pool: NodePool) -> tuple[InstanceType, ...]:
        """Return every instance type for the pool's node class, before any NodeOverlay.

        Raises:
            NodeClassNotReady: the node class does not exist or is not Ready.

        """
        node_class = self._ready_node_class(node_pool.spec.template.spec.node_class_ref)
        await self.catalog.ensure_loaded()
        await self.reservations.ensure_known(node_class)
        return self._types(with_kubelet_of(node_class, node_pool))

    def _ready_node_class(self, reference: NodeClassReference) -> EC2NodeClass:
        node_class = self._node_classes(reference.name)
        if node_class is None:
            raise NodeClassNotReady(f"EC2NodeClass {reference.name} does not exist")
        if node_class.deleting:
            raise NodeClassNotReady(f"EC2NodeClass {reference.name} is being deleted")
        ready = condition(node_class.status.conditions, READY)
        if ready is None or ready.status != "True":
            detail = ready.message if ready else "it was not looked at yet"
            raise NodeClassNotReady(f"EC2NodeClass {reference.name} is not ready: {detail}")
        return node_class

    async def is_drifted(self, node_claim: NodeClaim) -> str:
        """Return why the instance is not what its node class asks for; see `CloudProvider`."""
        if labels.NODEPOOL not in node_claim.labels or not node_claim.status.provider_id:
            return ""
        node_class = self._node_classes(node_claim.spec.node_class_ref.name)
        if node_class is None or node_class.deleting:
            return ""
        await self.catalog.ensure_loaded()
        name = node_claim.labels.get(labels.INSTANCE_TYPE, "")
        instance_type = next((each for each in self._types(node_class) if each.name == name), None)
        return await drift_reason(
            node_claim, node_class, instance_type, lambda: self.get(node_claim.status.provider_id)
        )


def _as_listed(_: str, types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
    return types


def overlay_annotations(types: tuple[InstanceType, ...], asked: Requirements) -> Mapping[str, str]:
    """Return what a claim says of NodeOverlays: whether they touch a type it may become."""
    possible = [found for found in types if asked.compatible_with_new_node(found.requirements)]
    priced = any(offering.price_overlaid for found in possible for offering in found.offerings)
    extended = any(found.capacity_overlaid for found in possible)
    marks = {labels.PRICE_OVERLAID: priced, labels.CAPACITY_OVERLAID: extended}
    return {key: "true" for key, holds in marks.items() if holds}


def with_kubelet_of(node_class: EC2NodeClass, holder: KubeObject) -> EC2NodeClass:
    """Return the node class as a NodePool or NodeClaim of the old API wants it.

    The old API had kubelet settings in the NodePool; conversion keeps them in an annotation, and they
    take the place of the class's own.
    """
    kubelet = kubelet_of(holder.annotations)
    if kubelet is None:
        return node_class
    spec = msgspec.structs.replace(node_class.spec, kubelet=dict(kubelet))
    return msgspec.structs.replace(node_class, spec=spec)


def claim_requirements(node_claim: NodeClaim) -> Requirements:
    """Return what a claim asks of an instance.

    Raises:
        CreateFailed: a requirement is malformed; the message names its key.

    """
    try:
        return Requirements.of_entries(node_claim.spec.requirements)
    except ValueError as error:
        raise CreateFailed("InvalidRequirements", f"{node_claim.name}: {error}") from error
