"""The part of a node class that shapes its instance types: one value, used as the cache key too.

Two node classes with equal shapes see the same instance types, whatever else they differ in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from nodewright_controller.api.ec2nodeclass import (
    AMIStatus,
    BlockDeviceMapping,
    CapacityReservationStatus,
    EC2NodeClass,
    NetworkInterface,
)
from nodewright_controller.aws.families import TRAITS, Family, Traits, family_of
from nodewright_controller.aws.kubelet import Kubelet, parse_kubelet
from nodewright_controller.aws.options import AwsOptions

EFA_ONLY: Final = "efa-only"
RAID0: Final = "RAID0"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """What decides the labels, capacity and overhead of a node class's nodes."""

    family: Family
    kubelet: Kubelet
    zones: tuple[tuple[str, str], ...]
    """(zone, zone id) of the node class's subnets, sorted."""
    subnets: tuple[tuple[str, str], ...]
    """(zone, id) of each of them, sorted."""
    amis: tuple[AMIStatus, ...]
    block_devices: tuple[BlockDeviceMapping, ...]
    raid0: bool
    network_interfaces: tuple[NetworkInterface, ...]
    nitro_only: bool
    nested_virtualization: bool
    enclaves: bool
    reservations: tuple[CapacityReservationStatus, ...]
    """Capacity reservations that its nodes may use, by id."""
    region: str
    reserved_enis: int
    memory_overhead_percent: float

    @property
    def traits(self) -> Traits:
        """The family's traits."""
        return TRAITS[self.family]

    @property
    def efa_only_interfaces(self) -> int:
        """EFA-only interfaces that the node class attaches to every node."""
        return sum(1 for nic in self.network_interfaces if nic.interface_type == EFA_ONLY)

    @property
    def efa_only_on_first_card(self) -> int:
        """Those of them that take an interface away from the first network card."""
        return sum(
            1
            for nic in self.network_interfaces
            if nic.interface_type == EFA_ONLY and nic.network_card_index == 0
        )

    def key(self) -> bytes:
        """Return bytes that are equal exactly when two shapes are."""
        return msgspec.json.encode(
            [getattr(self, name) for name in self.__dataclass_fields__], order="deterministic"
        )


def shape_of(node_class: EC2NodeClass, options: AwsOptions) -> NodeShape:
    """Return the shape of a node class. Raises ValueError if its image family is unknown."""
    spec, status = node_class.spec, node_class.status
    family = family_of(node_class)
    cpu, enclave = spec.cpu_options, spec.enclave_options
    return NodeShape(
        family=family,
        kubelet=parse_kubelet(spec.kubelet),
        zones=tuple(sorted({(found.zone, found.zone_id) for found in status.subnets or ()})),
        subnets=tuple(sorted((found.zone, found.id) for found in status.subnets or ())),
        amis=tuple(status.amis or ()),
        block_devices=tuple(spec.block_device_mappings or TRAITS[family].block_devices),
        raid0=spec.instance_store_policy == RAID0,
        network_interfaces=tuple(spec.network_interfaces or ()),
        nitro_only=spec.connection_tracking is not None,
        nested_virtualization=cpu is not None and cpu.nested_virtualization == "enabled",
        enclaves=enclave is not None and enclave.enabled,
        reservations=tuple(status.capacity_reservations or ()) if options.reserved_capacity else (),
        region=options.region,
        reserved_enis=options.reserved_enis,
        memory_overhead_percent=options.vm_memory_overhead_percent,
    )
