"""EC2 instances as the AWS stand-in lists them, and instance types as EC2 describes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance of ``GET /_nodewright/instances``, with the fields its kubelet needs."""

    instance_id: str
    instance_type: str
    zone: str
    region: str
    state: str
    """EC2's word: pending, running, shutting-down, terminated, stopping, stopped."""
    image_family: str
    image_variant: str
    """standard, nvidia or neuron: which device plugins the image brings."""
    architecture: str
    private_dns_name: str
    private_ip: str
    role_arn: str | None
    user_data_base64: str | None

    @property
    def provider_id(self) -> str:
        """The instance as the AWS cloud provider writes it into ``spec.providerID``."""
        return f"aws:///{self.zone}/{self.instance_id}"

    @property
    def kubernetes_architecture(self) -> str:
        """``amd64`` or ``arm64``."""
        return {"x86_64": "amd64"}.get(self.architecture, self.architecture)


def parse_instance(document: Mapping[str, Any], region: str) -> Instance:
    """Read one element of the stand-in's list; KeyError names a field that is missing."""
    return Instance(
        instance_id=document["instance_id"],
        instance_type=document["instance_type"],
        zone=document["zone"],
        region=document.get("region") or region,
        state=document["state"],
        image_family=document["image_family"] or "",
        image_variant=document.get("image_variant") or "standard",
        architecture=document["architecture"],
        private_dns_name=document["private_dns_name"] or "",
        private_ip=document.get("private_ip") or "",
        role_arn=document.get("role_arn"),
        user_data_base64=document.get("user_data_base64"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What the machine's kubelet finds: the instance type's figures and the instance's disks."""

    vcpus: int
    memory_mib: int
    network_interfaces: int
    """On the default network card."""
    ipv4_addresses_per_interface: int
    instance_store_gb: int
    """All local disks together, decimal gigabytes; 0: none."""
    root_volume_gib: int
    """The EBS volume that holds pods and images."""
    gpus: Mapping[str, int]
    """Device plugin resource name to count, for example ``nvidia.com/gpu``."""
    neuron_devices: int = 0
    neuron_cores: int = 0
    efa_interfaces: int = 0
    volumes_for_pods: int = 26
    """EBS volumes that can be attached beside the machine's own."""


_SHARED_SLOTS = {"MaximumEbsAttachments": 27, "AttachmentLimitType": "shared"}
"""Of a Nitro type without own disks: one of its 28 slots goes to its first interface."""
_GPU_RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Habana": "habana.ai/gaudi"}


def _volumes_for_pods(
    description: Mapping[str, Any], *, own_volumes: int, own_interfaces: int
) -> int:
    """Return what the EBS driver reports; where slots are shared, further interfaces take some."""
    limits = _SHARED_SLOTS | description.get("EbsInfo", {})
    taken = own_volumes
    if limits["AttachmentLimitType"] == "shared":
        taken += own_interfaces - 1
    return max(1, int(limits["MaximumEbsAttachments"]) - taken)


def parse_hardware(
    description: Mapping[str, Any],
    *,
    root_volume_gib: int,
    efa_interfaces: int = 0,
    own_volumes: int = 1,
    own_interfaces: int = 1,
) -> Hardware:
    """Read one element of EC2's DescribeInstanceTypes; KeyError names a field that is missing.

    ``own_volumes`` and ``own_interfaces`` are those the instance was launched with.
    """
    network = description["NetworkInfo"]
    cards = network.get("NetworkCards") or []
    default_card = network.get("DefaultNetworkCardIndex", 0)
    interfaces = next(
        (
            card["MaximumNetworkInterfaces"]
            for card in cards
            if card.get("NetworkCardIndex") == default_card
        ),
        network["MaximumNetworkInterfaces"],
    )
    gpus: dict[str, int] = {}
    for gpu in description.get("GpuInfo", {}).get("Gpus", []):
        resource = _GPU_RESOURCES.get(gpu.get("Manufacturer", ""))
        if resource and gpu.get("Count"):
            gpus[resource] = gpus.get(resource, 0) + gpu["Count"]
    neuron = description.get("NeuronInfo", {}).get("NeuronDevices", [])
    return Hardware(
        vcpus=description["VCpuInfo"]["DefaultVCpus"],
        memory_mib=description["MemoryInfo"]["SizeInMiB"],
        network_interfaces=interfaces,
        ipv4_addresses_per_interface=network["Ipv4AddressesPerInterface"],
        instance_store_gb=description.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
        root_volume_gib=root_volume_gib,
        gpus=gpus,
        neuron_devices=sum(device["Count"] for device in neuron),
        neuron_cores=sum(device["Count"] * device["CoreInfo"]["Count"] for device in neuron),
        efa_interfaces=efa_interfaces,
        volumes_for_pods=_volumes_for_pods(
            description, own_volumes=own_volumes, own_interfaces=own_interfaces
        ),
    )
