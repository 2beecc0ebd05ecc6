"""From EC2's description of a type to the `InstanceType` the solver sees, for one node class.

Pure: labels (as requirements), which types a node class can use at all, and how the parts come
together. Capacity, overhead and offerings have their own modules.
Upstream: pkg/providers/instancetype/types.go.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from nodewright_controller.api import labels
from nodewright_controller.aws.ami import image_for
from nodewright_controller.aws.capacity import node_capacity
from nodewright_controller.aws.data import network_bandwidth_mbps
from nodewright_controller.aws.families import Family
from nodewright_controller.aws.instance_type_info import InstanceTypeInfo
from nodewright_controller.aws.offerings import (
    RESERVATION_LABELS,
    Market,
    capacity_types,
    offerings,
)
from nodewright_controller.aws.overhead import node_overhead
from nodewright_controller.aws.reserved import Slots, reserved_offerings, type_requirements
from nodewright_controller.aws.shape import EFA_ONLY, NodeShape
from nodewright_controller.aws.volume_limits import volume_limits
from nodewright_controller.constraints.instance_type import InstanceType, Offering
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements

_TENANCIES: Final = ("default", "dedicated")


@functools.lru_cache(maxsize=65536)
def _one(key: str, value: str) -> Requirement:
    return Requirement.of(key, "In", (value,))


@functools.lru_cache(maxsize=1024)
def _some(key: str, values: tuple[str, ...]) -> Requirement:
    return Requirement.of(key, "In", values)


def describe(info: InstanceTypeInfo) -> tuple[Requirement, ...]:
    """Return the labels that every node of the type has, whatever its node class."""
    known = dict(_facts(info))
    optional = {
        labels.INSTANCE_CPU_CLOCK_MHZ: info.clock_mhz,
        labels.INSTANCE_EBS_BANDWIDTH: info.ebs_bandwidth_mbps,
        labels.INSTANCE_NETWORK_BANDWIDTH: network_bandwidth_mbps().get(info.name),
        labels.INSTANCE_LOCAL_NVME: info.nvme_gb,
        **_gpu(info),
        **_accelerator(info),
    }
    requirements = [_one(key, value) for key, value in known.items()]
    for key, value in optional.items():
        requirements.append(_some(key, () if value is None else (str(value),)))
    requirements.append(_some(labels.ARCH, info.architectures))
    requirements.append(_some(labels.CAPACITY_TYPE, capacity_types(info)))
    requirements.append(_some(labels.INSTANCE_TENANCY, _TENANCIES))
    requirements.extend(_some(label, ()) for label in RESERVATION_LABELS)
    return tuple(requirements)


def _facts(info: InstanceTypeInfo) -> Iterator[tuple[str, str]]:
    yield labels.INSTANCE_TYPE, info.name
    yield labels.INSTANCE_CATEGORY, info.category
    yield labels.INSTANCE_GENERATION, info.generation
    yield labels.INSTANCE_FAMILY, info.family
    yield labels.INSTANCE_SIZE, info.size
    yield labels.INSTANCE_CAPABILITY_FLEX, str("-flex" in info.family).lower()
    yield labels.INSTANCE_CPU, str(info.vcpus)
    yield labels.INSTANCE_CPU_MANUFACTURER, info.cpu_manufacturer
    yield labels.INSTANCE_MEMORY, str(info.memory_mib)
    yield labels.INSTANCE_HYPERVISOR, info.hypervisor
    yield labels.INSTANCE_ENCRYPTION_IN_TRANSIT, str(info.encryption_in_transit).lower()


def _gpu(info: InstanceTypeInfo) -> dict[str, object]:
    gpu = info.gpus[0] if len(info.gpus) == 1 else None
    return {
        labels.INSTANCE_GPU_NAME: gpu and gpu.name,
        labels.INSTANCE_GPU_MANUFACTURER: gpu and gpu.manufacturer,
        labels.INSTANCE_GPU_COUNT: gpu and gpu.count,
        labels.INSTANCE_GPU_MEMORY: gpu and gpu.memory_mib,
    }


def _accelerator(info: InstanceTypeInfo) -> dict[str, object]:
    found = info.neuron_devices[:1]
    if not found and len(info.accelerators) == 1:
        found = info.accelerators
    device = found[0] if found else None
    return {
        labels.INSTANCE_ACCELERATOR_NAME: device and device.name,
        labels.INSTANCE_ACCELERATOR_MANUFACTURER: device and device.manufacturer,
        labels.INSTANCE_ACCELERATOR_COUNT: device and device.count,
    }


def _placed(shape: NodeShape, offered_zones: Iterable[str]) -> Iterator[Requirement]:
    offered = set(offered_zones)
    here = [(zone, zone_id) for zone, zone_id in shape.zones if zone in offered]
    yield _some(labels.ZONE, tuple(zone for zone, _ in here))
    yield _some(labels.ZONE_ID, tuple(zone_id for _, zone_id in here if zone_id))
    yield _one(labels.REGION, shape.region)
    yield _one(labels.OS, shape.traits.os)
    build = shape.traits.windows_build
    yield _some(labels.WINDOWS_BUILD, (build,) if build else ())


def compatible(info: InstanceTypeInfo, shape: NodeShape) -> bool:
    """Whether nodes of the node class can be of this type at all."""
    if shape.traits.os == "windows" and "amd64" not in info.architectures:
        return False
    if shape.family is Family.AL2023 and info.family == "a1":
        return False  # first-generation Graviton boots no AL2023
    if shape.nitro_only and info.hypervisor != "nitro":
        return False
    if shape.nested_virtualization and not info.nested_virtualization:
        return False
    if shape.enclaves and not info.enclaves:
        return False
    return _takes_interfaces(info, shape)


def _takes_interfaces(info: InstanceTypeInfo, shape: NodeShape) -> bool:
    if not shape.network_interfaces:
        return True
    room = {card.index: card.interfaces for card in info.network_cards}
    efa = Counter(nic.interface_type for nic in shape.network_interfaces)[EFA_ONLY]
    fits = all(
        nic.device_index < room.get(nic.network_card_index, 0) for nic in shape.network_interfaces
    )
    return info.ena and fits and efa <= info.efa_interfaces


def resolve(
    info: InstanceTypeInfo,
    described: tuple[Requirement, ...],
    zones: Iterable[str],
    shape: NodeShape,
    observed_memory: int | None = None,
) -> InstanceType:
    """Return the type as the node class would have it, still without offerings.

    `described` is `describe(info)`, which the caller keeps because no node class changes it.
    """
    capacity = node_capacity(info, shape, observed_memory)
    facts = (*_with_reservations(info, described, shape), *_placed(shape, zones))
    resolved = InstanceType(
        name=info.name,
        requirements=Requirements(facts),
        offerings=(),
        capacity=capacity,
        overhead=node_overhead(info, shape, capacity),
        volume_limits=volume_limits(info, shape),
    )
    return replace(resolved, boots=image_for(resolved, shape.amis) is not None)


def _with_reservations(
    info: InstanceTypeInfo, described: tuple[Requirement, ...], shape: NodeShape
) -> tuple[Requirement, ...]:
    """Return the labels of a type as they are when it can come from capacity reservations."""
    mine = [found for found in shape.reservations if found.instance_type == info.name]
    if not mine:
        return described
    changed = {labels.CAPACITY_TYPE, *RESERVATION_LABELS}
    kept = (found for found in described if found.key not in changed)
    kinds = _some(labels.CAPACITY_TYPE, (*capacity_types(info), labels.RESERVED))
    return (*kept, kinds, *type_requirements(mine))


def offer(
    instance_type: InstanceType,
    info: InstanceTypeInfo,
    zones: Iterable[str],
    shape: NodeShape,
    market: Market,
    slots: Iterable[Slots] = (),
) -> tuple[Offering, ...]:
    """Return the offerings of a resolved type; none is available if no image would boot it.

    `slots` are the capacity reservations for the type.
    """
    usable = compatible(info, shape) and instance_type.boots
    bought = offerings(info, zones, usable, market)
    return (*bought, *reserved_offerings(info, slots, usable, market))
