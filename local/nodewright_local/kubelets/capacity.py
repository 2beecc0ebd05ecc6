"""What a node can hold: capacity from the hardware, allocatable after the kubelet's deductions.

The figures are deliberately near, but not equal to, what EC2 says about the type: firmware and
hypervisor take some memory, a file system takes some disk. Reservations are those the EKS images
make (https://awslabs.github.io/amazon-eks-ami/nodeadm/ and Bottlerocket's defaults); the formula
for allocatable is the kubelet's:
https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/ .
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nodewright_local.kubelets.instance import Hardware, Instance
from nodewright_local.kubelets.quantity import (
    GIB,
    MIB,
    format_kibibytes,
    format_milli,
    parse_milli,
    parse_units,
)
from nodewright_local.kubelets.userdata.bootstrap import Bootstrap, JoinProblem, UserDataError
from nodewright_local.kubelets.userdata.kubelet_configuration import threshold_of

MEMORY_LOST_PER_MILLE = 70
"""Of the type's memory: firmware, hypervisor and kernel (EKS nodes lose 2 to 7.5 percent)."""
ARM64_CMA_MIB = 64
"""Contiguous memory that arm64 kernels of the EKS images set aside."""
DISK_LOST_PER_TEN_THOUSAND = 6
"""Of a volume: partition table and XFS metadata (20 GiB become about 20,959,000 Ki)."""

_EPHEMERAL_STORAGE_RESERVED = "1Gi"
_EVICTION_DEFAULTS = {"memory.available": "100Mi", "nodefs.available": "10%"}
# (band up to this many millicores, reserved share in ten-thousandths); beyond the last: 0.25 %.
_CPU_BANDS = ((1000, 600), (2000, 100), (4000, 50))
_CPU_BEYOND = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """The four resources from which a kubelet deducts; integers in the named units."""

    cpu_milli: int
    memory_bytes: int
    storage_bytes: int
    pods: int


def interface_pods(hardware: Hardware) -> int:
    """Return how many pods the network interfaces have addresses for (VPC CNI, no prefixes)."""
    return hardware.network_interfaces * (hardware.ipv4_addresses_per_interface - 1) + 2


def capacity_amounts(instance: Instance, hardware: Hardware, bootstrap: Bootstrap) -> Amounts:
    """Return what the kubelet finds on the machine before it deducts anything."""
    memory_mib = hardware.memory_mib
    if instance.kubernetes_architecture == "arm64":
        memory_mib -= ARM64_CMA_MIB
    memory = memory_mib * MIB * (1000 - MEMORY_LOST_PER_MILLE) // 1000
    disk = hardware.root_volume_gib * GIB
    if bootstrap.instance_store_raid0 and hardware.instance_store_gb:
        disk = hardware.instance_store_gb * 10**9
    pods = interface_pods(hardware) if bootstrap.max_pods is None else bootstrap.max_pods
    if bootstrap.pods_per_core:
        pods = min(pods, bootstrap.pods_per_core * hardware.vcpus)
    return Amounts(
        cpu_milli=hardware.vcpus * 1000,
        memory_bytes=memory // 1024 * 1024,
        storage_bytes=disk * (10_000 - DISK_LOST_PER_TEN_THOUSAND) // 10_000 // 1024 * 1024,
        pods=pods,
    )


def default_cpu_reserved_milli(vcpus: int) -> int:
    """Return the millicores that EKS images reserve: a falling share of each further core."""
    total, below, reserved = vcpus * 1000, 0, 0
    for limit, share in _CPU_BANDS:
        reserved += max(0, min(total, limit) - below) * share // 10_000
        below = limit
    return reserved + max(0, total - below) * _CPU_BEYOND // 10_000


def image_reservations(image_family: str, hardware: Hardware, pods: int) -> dict[str, str]:
    """Return the kubeReserved that the image sets by itself.

    AL2 and AL2023 reckon memory with the interface limit even if max pods is set otherwise;
    Bottlerocket reckons with the pods that the node really takes.
    """
    reckoned = pods if image_family == "Bottlerocket" else interface_pods(hardware)
    return {
        "cpu": f"{default_cpu_reserved_milli(hardware.vcpus)}m",
        "memory": f"{11 * reckoned + 255}Mi",
        "ephemeral-storage": _EPHEMERAL_STORAGE_RESERVED,
    }


def allocatable_amounts(
    instance: Instance, hardware: Hardware, bootstrap: Bootstrap, capacity: Amounts
) -> Amounts:
    """Return capacity minus kubeReserved, systemReserved and the hard eviction thresholds.

    Raises UserDataError if more is reserved than there is: the kubelet does not start then.
    """
    kube = image_reservations(instance.image_family, hardware, capacity.pods)
    kube |= bootstrap.kube_reserved
    system = dict(bootstrap.system_reserved)
    if bootstrap.reserved_system_cpus:  # an explicit set of CPUs replaces both CPU reservations
        kube["cpu"], system["cpu"] = "0", str(bootstrap.reserved_system_cpus)
    eviction = {**_EVICTION_DEFAULTS, **bootstrap.eviction_hard}
    return Amounts(
        cpu_milli=_remainder("cpu", capacity.cpu_milli, _reserved_milli(kube, system)),
        memory_bytes=_remainder(
            "memory",
            capacity.memory_bytes,
            _reserved_bytes("memory", kube, system)
            + _threshold(eviction, "memory.available", capacity.memory_bytes),
        ),
        storage_bytes=_remainder(
            "ephemeral-storage",
            capacity.storage_bytes,
            _reserved_bytes("ephemeral-storage", kube, system)
            + _threshold(eviction, "nodefs.available", capacity.storage_bytes),
        ),
        pods=capacity.pods,
    )


def _reserved_milli(*reservations: Mapping[str, str]) -> int:
    return sum(parse_milli(reserved.get("cpu", "0")) for reserved in reservations)


def _reserved_bytes(resource: str, *reservations: Mapping[str, str]) -> int:
    return sum(parse_units(reserved.get(resource, "0")) for reserved in reservations)


def _threshold(eviction: Mapping[str, str], signal: str, capacity: int) -> int:
    text = eviction[signal]
    # 0% and 100% both switch the threshold off.
    return 0 if text == "100%" else threshold_of(text, capacity, f"evictionHard.{signal}")


def _remainder(resource: str, capacity: int, reserved: int) -> int:
    if reserved > capacity:
        raise UserDataError(
            JoinProblem.TOO_LITTLE_CAPACITY,
            f"{resource}: {reserved} reserved, but the machine has only {capacity}; "
            "choose a larger instance type or reserve less",
        )
    return capacity - reserved


def devices(instance: Instance, hardware: Hardware) -> dict[str, str]:
    """Return the extended resources that the image's device plugins would register."""
    found: dict[str, int] = {}
    if instance.image_variant == "nvidia":
        found |= hardware.gpus
    if instance.image_variant == "neuron":
        found["aws.amazon.com/neuron"] = hardware.neuron_devices
        found["aws.amazon.com/neuroncore"] = hardware.neuron_cores
    found["vpc.amazonaws.com/efa"] = hardware.efa_interfaces
    return {name: str(count) for name, count in found.items() if count}


def resource_list(amounts: Amounts, extended: Mapping[str, str]) -> dict[str, str]:
    """Return a Kubernetes resource list in the units in which a kubelet prints it."""
    return {
        "cpu": format_milli(amounts.cpu_milli),
        "memory": format_kibibytes(amounts.memory_bytes),
        "ephemeral-storage": format_kibibytes(amounts.storage_bytes),
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": str(amounts.pods),
        **extended,
    }
