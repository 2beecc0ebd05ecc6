"""What a type of the catalogue comes to as a node of a certain node class.

`allocatable` that the catalogue states is used as it is. Otherwise the same code computes it that
does so for EC2's own description: capacity, max pods, root volume, kubelet settings, overhead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from nodewright_controller.api import labels
from nodewright_controller.aws.capacity import MIB, node_capacity
from nodewright_controller.aws.instance_type_info import InstanceTypeInfo
from nodewright_controller.aws.instance_types import compatible
from nodewright_controller.aws.overhead import node_overhead
from nodewright_controller.aws.shape import NodeShape
from nodewright_controller.aws.unavailable import UnavailableOfferings
from nodewright_controller.constraints.instance_type import InstanceType, Offering, Overhead
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Resources,
)
from nodewright_controller.scenario.values import CatalogType, SoldAs

_DEFAULT_PODS: Final = 110
_ENI_TABLE: Final[Mapping[int, tuple[int, int]]] = {
    4: (2, 2),
    8: (2, 4),
    11: (3, 4),
    17: (3, 6),
    29: (3, 10),
    35: (3, 12),
    44: (3, 15),
    58: (4, 15),
    234: (8, 30),
    345: (7, 50),
    394: (8, 50),
    737: (15, 50),
}
"""Pods to (interfaces, addresses per interface), as common EC2 types have them.

Source: the limits that AWS publishes for its VPC CNI (eni-max-pods), pods = n * (a - 1) + 2.
"""
_PLACED: Final = (labels.ZONE, labels.ZONE_ID, labels.CAPACITY_TYPE, labels.INSTANCE_TYPE)


def describe(entry: CatalogType) -> InstanceTypeInfo:
    """Return the entry as EC2 would describe such a type."""
    known = entry.labels
    interfaces, addresses = _interfaces(entry)
    name = re.match(r"([a-z]+)([0-9]+)", entry.name)
    nvme = _number(known.get(labels.INSTANCE_LOCAL_NVME))
    architecture = known.get(labels.ARCH, "amd64")
    metal = "metal" in entry.name
    return InstanceTypeInfo(
        name=entry.name,
        category=known.get(labels.INSTANCE_CATEGORY, name.group(1) if name else ""),
        generation=known.get(labels.INSTANCE_GENERATION, name.group(2) if name else ""),
        architectures=(architecture,),
        vcpus=entry.capacity.get(CPU, 0) // 1000,
        memory_mib=entry.capacity.get(MEMORY, 0) // MIB,
        clock_mhz=None,
        cpu_manufacturer=known.get(labels.INSTANCE_CPU_MANUFACTURER, ""),
        usage_classes=frozenset(sold.capacity_type for sold in entry.sold),
        hypervisor=known.get(labels.INSTANCE_HYPERVISOR, "" if metal else "nitro"),
        bare_metal=metal,
        encryption_in_transit=known.get(labels.INSTANCE_ENCRYPTION_IN_TRANSIT) == "true",
        enclaves=not metal,
        nested_virtualization=True,
        ebs_bandwidth_mbps=None,
        nvme_gb=nvme,
        instance_store_gb=nvme,
        gpus=(),
        neuron_devices=(),
        accelerators=(),
        interfaces=interfaces,
        ipv4_per_interface=addresses,
        network_cards=(),
        ena=True,
        efa_interfaces=0,
        placement_strategies=frozenset(),
    )


def _interfaces(entry: CatalogType) -> tuple[int, int]:
    """Return interfaces and addresses that make up the pods which the catalogue states."""
    if entry.interfaces is not None and entry.ipv4_per_interface is not None:
        return entry.interfaces, entry.ipv4_per_interface
    pods = entry.capacity.get(PODS, _DEFAULT_PODS)
    return _ENI_TABLE.get(pods, (1, max(pods - 1, 1)))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def without_reservations(entry: CatalogType) -> CatalogType:
    """Return the entry without what can only be bought from a capacity reservation."""
    return replace(
        entry, sold=tuple(sold for sold in entry.sold if sold.capacity_type != labels.RESERVED)
    )


def machine(
    entry: CatalogType,
    shape: NodeShape,
    shortages: UnavailableOfferings,
    taken: Mapping[str, int] = MappingProxyType({}),
) -> InstanceType:
    """Return the type for a node class, with what of it can be bought.

    `taken` is how many instances were launched from a capacity reservation since the catalogue.
    """
    info = describe(entry)

    def short(sold: SoldAs) -> datetime | None:
        return shortages.until(entry.name, sold.zone, sold.capacity_type)

    usable, full = compatible(info, shape), shortages.full_zones(shape.subnets)
    zones = dict(shape.zones)
    here = tuple(sold for sold in entry.sold if not zones or sold.zone in zones)
    capacity, overhead = _amounts(entry, info, shape)
    return InstanceType(
        name=entry.name,
        requirements=Requirements(_requirements(entry, shape, here)),
        offerings=tuple(
            _offering(
                sold,
                shape,
                taken,
                usable=usable and sold.zone not in full,
                short_until=short(sold),
            )
            for sold in entry.sold
        ),
        capacity=capacity,
        overhead=overhead,
        volume_limits=dict(entry.volume_limits),
    )


def _amounts(
    entry: CatalogType, info: InstanceTypeInfo, shape: NodeShape
) -> tuple[Resources, Overhead]:
    if entry.allocatable is not None:
        return _as_stated(entry.capacity, entry.allocatable)
    computed = node_capacity(info, shape)
    extended = {
        name: value
        for name, value in entry.capacity.items()
        if name not in (CPU, MEMORY, PODS, EPHEMERAL_STORAGE)
    }
    capacity = Resources({**computed, **extended})
    return capacity, node_overhead(info, shape, capacity)


def _as_stated(capacity: Resources, allocatable: Resources) -> tuple[Resources, Overhead]:
    whole = Resources({**allocatable, **capacity})
    kept = {name: value - allocatable.get(name, 0) for name, value in whole.items()}
    # Allocatable memory as the catalogue states it is already without the huge pages.
    pages = sum(value for name, value in whole.items() if name.startswith("hugepages-"))
    kept[MEMORY] = kept.get(MEMORY, 0) - pages
    return whole, Overhead(kube_reserved=Resources(kept))


def _requirements(
    entry: CatalogType, shape: NodeShape, here: Iterable[SoldAs]
) -> Iterator[Requirement]:
    zones = {sold.zone: sold.zone_id or dict(shape.zones).get(sold.zone, "") for sold in here}
    for key, value in entry.labels.items():
        if key not in _PLACED:
            yield Requirement.of(key, "In", (value,))
    if labels.OS not in entry.labels:
        yield Requirement.of(labels.OS, "In", (shape.traits.os,))
    if labels.ARCH not in entry.labels:
        yield Requirement.of(labels.ARCH, "In", ("amd64",))
    if labels.REGION not in entry.labels and shape.region:
        yield Requirement.of(labels.REGION, "In", (shape.region,))
    capacity_types = {sold.capacity_type for sold in entry.sold}
    yield Requirement.of(labels.INSTANCE_TYPE, "In", (entry.name,))
    yield Requirement.of(labels.ZONE, "In", zones)
    yield Requirement.of(labels.CAPACITY_TYPE, "In", capacity_types)
    ids = {zone_id for zone_id in zones.values() if zone_id}
    if ids:
        yield Requirement.of(labels.ZONE_ID, "In", ids)


def _offering(
    sold: SoldAs,
    shape: NodeShape,
    taken: Mapping[str, int],
    *,
    usable: bool,
    short_until: datetime | None,
) -> Offering:
    zones = dict(shape.zones)
    fixed = [
        Requirement.of(labels.CAPACITY_TYPE, "In", (sold.capacity_type,)),
        Requirement.of(labels.ZONE, "In", (sold.zone,)),
    ]
    zone_id = sold.zone_id or zones.get(sold.zone, "")
    if zone_id:
        fixed.append(Requirement.of(labels.ZONE_ID, "In", (zone_id,)))
    if sold.reservation:
        rule = Requirement.of(labels.CAPACITY_RESERVATION_ID, "In", (sold.reservation,))
    else:
        rule = Requirement.of(labels.CAPACITY_RESERVATION_ID, "DoesNotExist")
    left = max(0, sold.reservation_capacity - taken.get(sold.reservation, 0))
    here = usable and sold.available and (not zones or sold.zone in zones)
    return Offering(
        Requirements([*fixed, rule]),
        sold.usd_per_hour,
        here and short_until is None,
        left if sold.reservation else 0,
        short_until=short_until if here else None,
    )
