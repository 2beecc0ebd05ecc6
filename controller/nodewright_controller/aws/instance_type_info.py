"""What EC2 says about an instance type, cut down to what a node of it would show.

One frozen value per type replaces the SDK's nested maps: the catalogue stays small in memory, and
the rest of the package reads names instead of paths. Facts only; what they mean for a node class
is in `instance_types.py`, `capacity.py` and `overhead.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
_NAME: Final = re.compile(r"([a-z]+)(?:-[0-9]+tb)?([0-9]+)")


@dataclass(frozen=True, slots=True)
class Device:
    """One kind of GPU or accelerator and how many of it the type has."""

    name: str
    manufacturer: str
    count: int
    memory_mib: int = 0
    cores: int = 0
    """Neuron cores per device."""


@dataclass(frozen=True, slots=True)
class NetworkCard:
    """A network card and how many interfaces it takes."""

    index: int
    interfaces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTypeInfo:
    """An instance type as EC2 describes it."""

    name: str
    category: str
    generation: str
    architectures: tuple[str, ...]
    """Kubernetes names: amd64, arm64."""
    vcpus: int
    memory_mib: int
    clock_mhz: int | None
    cpu_manufacturer: str
    usage_classes: frozenset[str]
    """spot, on-demand, capacity-block."""
    hypervisor: str
    """nitro, xen, or empty for bare metal."""
    bare_metal: bool
    encryption_in_transit: bool
    enclaves: bool
    nested_virtualization: bool
    ebs_bandwidth_mbps: int | None
    nvme_gb: int | None
    """Total local NVMe storage, decimal GB."""
    instance_store_gb: int | None
    gpus: tuple[Device, ...]
    neuron_devices: tuple[Device, ...]
    accelerators: tuple[Device, ...]
    interfaces: int
    """Network interfaces on the default network card."""
    ipv4_per_interface: int
    network_cards: tuple[NetworkCard, ...]
    ena: bool
    efa_interfaces: int
    placement_strategies: frozenset[str]
    ebs_attachments: int | None = None
    """EBS volumes that can be attached; None when EC2 does not say."""
    ebs_slots: str = ""
    """`dedicated`, or `shared` with network interfaces and local disks."""

    @property
    def family(self) -> str:
        """`m5` of `m5.large`."""
        return self.name.partition(".")[0]

    @property
    def size(self) -> str:
        """`large` of `m5.large`."""
        return self.name.partition(".")[2]


def _kebab(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def parse_instance_type(raw: Mapping[str, Any]) -> InstanceTypeInfo:
    """Read one entry of DescribeInstanceTypes."""
    name = raw["InstanceType"]
    match = _NAME.match(name)
    processor = raw.get("ProcessorInfo", {})
    clock = processor.get("SustainedClockSpeedInGhz")
    return InstanceTypeInfo(
        name=name,
        category=match.group(1) if match else "",
        generation=match.group(2) if match else "",
        architectures=tuple(
            ARCHITECTURES[found]
            for found in processor.get("SupportedArchitectures", ())
            if found in ARCHITECTURES
        ),
        vcpus=raw["VCpuInfo"]["DefaultVCpus"],
        memory_mib=raw["MemoryInfo"]["SizeInMiB"],
        clock_mhz=None if clock is None else round(clock * 1000),
        cpu_manufacturer=_kebab(processor.get("Manufacturer", "")),
        usage_classes=frozenset(raw.get("SupportedUsageClasses", ())),
        hypervisor=raw.get("Hypervisor", ""),
        bare_metal=raw.get("BareMetal", False),
        enclaves=raw.get("NitroEnclavesSupport") == "supported",
        nested_virtualization="nested-virtualization" in processor.get("SupportedFeatures", ()),
        placement_strategies=frozenset(
            raw.get("PlacementGroupInfo", {}).get("SupportedStrategies", ())
        ),
        **_storage(raw),
        **_devices(raw),
        **_network(raw.get("NetworkInfo", {})),
    )


def _storage(raw: Mapping[str, Any]) -> dict[str, Any]:
    ebs = raw.get("EbsInfo", {})
    store = raw.get("InstanceStorageInfo") or {}
    nvme = store.get("NvmeSupport") in ("required", "supported")
    bandwidth = ebs.get("EbsOptimizedInfo", {}).get("MaximumBandwidthInMbps")
    return {
        "ebs_attachments": ebs.get("MaximumEbsAttachments"),
        "ebs_slots": ebs.get("AttachmentLimitType", ""),
        "ebs_bandwidth_mbps": bandwidth if ebs.get("EbsOptimizedSupport") == "default" else None,
        "nvme_gb": store.get("TotalSizeInGB") if nvme else None,
        "instance_store_gb": store.get("TotalSizeInGB"),
    }


def _devices(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "gpus": tuple(
            Device(
                _kebab(gpu.get("Name", "")),
                _kebab(gpu.get("Manufacturer", "")),
                gpu.get("Count", 0),
                gpu.get("MemoryInfo", {}).get("SizeInMiB", 0),
            )
            for gpu in (raw.get("GpuInfo") or {}).get("Gpus", ())
        ),
        "neuron_devices": tuple(
            Device(
                _kebab(device.get("Name", "")),
                "aws",
                device.get("Count", 0),
                device.get("MemoryInfo", {}).get("SizeInMiB", 0),
                device.get("CoreInfo", {}).get("Count", 0),
            )
            for device in (raw.get("NeuronInfo") or {}).get("NeuronDevices", ())
        ),
        "accelerators": tuple(
            Device(
                _kebab(found.get("Name", "")),
                _kebab(found.get("Manufacturer", "")),
                found.get("Count", 0),
            )
            for found in (raw.get("InferenceAcceleratorInfo") or {}).get("Accelerators", ())
        ),
    }


def _network(network: Mapping[str, Any]) -> dict[str, Any]:
    cards = tuple(
        NetworkCard(card.get("NetworkCardIndex", 0), card.get("MaximumNetworkInterfaces", 0))
        for card in network.get("NetworkCards", ())
    )
    default = network.get("DefaultNetworkCardIndex", 0)
    on_default = [card.interfaces for card in cards if card.index == default]
    return {
        "interfaces": on_default[0] if on_default else network.get("MaximumNetworkInterfaces", 0),
        "ipv4_per_interface": network.get("Ipv4AddressesPerInterface", 0),
        "network_cards": cards,
        "ena": network.get("EnaSupport") in ("required", "supported"),
        "efa_interfaces": (network.get("EfaInfo") or {}).get("MaximumEfaInterfaces", 0),
        "encryption_in_transit": network.get("EncryptionInTransitSupported", False),
    }
