"""What a node of an instance type will report as its capacity, before the kubelet keeps anything.

Upstream: pkg/providers/instancetype/types.go.
"""

from __future__ import annotations

import math
from typing import Final

from nodewright_controller.api.ec2nodeclass import BlockDeviceMapping
from nodewright_controller.aws.data import branch_interfaces
from nodewright_controller.aws.instance_type_info import Device, InstanceTypeInfo
from nodewright_controller.aws.max_pods import max_pods
from nodewright_controller.aws.shape import NodeShape
from nodewright_controller.kernel.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Resources,
    amount,
)

MIB: Final = 2**20
_GB: Final = 10**9
_GRAVITON_CMA_MIB: Final = 64  # contiguous memory that arm64 kernels of AWS set aside at boot
_DEFAULT_DISK: Final = 20 * 2**30
_GPU_RESOURCES: Final = {
    "nvidia": "nvidia.com/gpu",
    "amd": "amd.com/gpu",
    "habana": "habana.ai/gaudi",
}
NEURON: Final = "aws.amazon.com/neuron"
NEURON_CORE: Final = "aws.amazon.com/neuroncore"
EFA: Final = "vpc.amazonaws.com/efa"
POD_ENI: Final = "vpc.amazonaws.com/pod-eni"
WINDOWS_ADDRESS: Final = "vpc.amazonaws.com/PrivateIPv4Address"
ACCELERATORS: Final = (*_GPU_RESOURCES.values(), NEURON)


def node_capacity(
    info: InstanceTypeInfo, shape: NodeShape, observed_memory: int | None = None
) -> Resources:
    """Return the capacity; memory is what such a node was seen to have, when one was."""
    amounts = {
        CPU: info.vcpus * 1000,
        MEMORY: observed_memory or estimated_memory(info, shape.memory_overhead_percent),
        EPHEMERAL_STORAGE: ephemeral_storage(info, shape),
        PODS: max_pods(info, shape),
        **_devices(info),
    }
    efa = shape.efa_only_interfaces if shape.network_interfaces else info.efa_interfaces
    branches = branch_interfaces().get(info.name, 0)
    amounts |= {EFA: efa, POD_ENI: branches}
    if shape.traits.os == "windows":
        amounts[WINDOWS_ADDRESS] = info.ipv4_per_interface - 1
    return Resources({name: value for name, value in amounts.items() if value})


def estimated_memory(info: InstanceTypeInfo, overhead_percent: float) -> int:
    """Return the bytes the guest sees: the hypervisor's share, rounded up to MiB, is gone."""
    mib = info.memory_mib
    if info.architectures[:1] == ("arm64",):
        mib -= _GRAVITON_CMA_MIB
    return (mib - math.ceil(mib * overhead_percent)) * MIB


def _devices(info: InstanceTypeInfo) -> dict[str, int]:
    found: dict[str, int] = {}
    for gpu in info.gpus:
        resource = _GPU_RESOURCES.get(gpu.manufacturer)
        if resource:
            found[resource] = found.get(resource, 0) + gpu.count
    neuron: tuple[Device, ...] = info.neuron_devices
    if neuron:
        devices = sum(device.count for device in neuron)
        found[NEURON] = devices
        found[NEURON_CORE] = devices * neuron[0].cores
    return found


def ephemeral_storage(info: InstanceTypeInfo, shape: NodeShape) -> int:
    """Return the bytes of the disk that pods write to."""
    if shape.raid0 and info.instance_store_gb:
        return info.instance_store_gb * _GB
    mapping = _pod_volume(shape)
    if mapping is not None and mapping.ebs is not None and mapping.ebs.volume_size:
        return amount(EPHEMERAL_STORAGE, mapping.ebs.volume_size)
    return _DEFAULT_DISK


def _pod_volume(shape: NodeShape) -> BlockDeviceMapping | None:
    devices = shape.block_devices
    root = next((device for device in devices if device.root_volume), None)
    if root is not None:
        return root
    wanted = shape.traits.ephemeral_device
    if not wanted:  # an image we know nothing about: its last volume is the best guess
        return devices[-1] if devices else None
    named = next((device for device in devices if device.device_name == wanted), None)
    if named is not None:
        return named
    defaults = shape.traits.block_devices
    return next((device for device in defaults if device.device_name == wanted), None)
