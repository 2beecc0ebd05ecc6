"""What the kubelet and the system keep of a node, as each image family's bootstrap computes it.

Upstream: pkg/providers/instancetype/types.go. `evictionSoft` does not count, as upstream.
"""

from __future__ import annotations

import math
from typing import Final

from nodewright_controller.aws.capacity import MIB
from nodewright_controller.aws.instance_type_info import InstanceTypeInfo
from nodewright_controller.aws.max_pods import eni_limited_pods
from nodewright_controller.aws.shape import NodeShape
from nodewright_controller.constraints.instance_type import Overhead
from nodewright_controller.kernel.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Resources,
    amount,
)

# Share of each band of CPU that is reserved: (up to millicores, percent).
_CPU_BANDS: Final = ((1000, 6.0), (2000, 1.0), (4000, 0.5), (math.inf, 0.25))
_POD_MEMORY: Final = 11 * MIB
_BASE_MEMORY: Final = 255 * MIB
_RESERVED_DISK: Final = 2**30
_EVICTION_MEMORY: Final = 100 * MIB
_EVICTION_DISK_SHARE: Final = 0.10


def node_overhead(info: InstanceTypeInfo, shape: NodeShape, capacity: Resources) -> Overhead:
    """Return what of `capacity` is not for pods."""
    return Overhead(
        kube_reserved=kube_reserved(info, shape, capacity.get(PODS, 0)),
        system_reserved=Resources.parse(shape.kubelet.system_reserved),
        eviction_threshold=eviction_threshold(shape, capacity),
    )


def reserved_cpu(vcpus: int) -> int:
    """Return the millicores reserved of a machine: 4 vCPU give 80."""
    total, below = 0, 0.0
    for upper, percent in _CPU_BANDS:
        band = min(vcpus * 1000, upper) - below
        if band <= 0:
            break
        total += int(band * percent / 100)
        below = upper
    return total


def kube_reserved(info: InstanceTypeInfo, shape: NodeShape, pods: int) -> Resources:
    """Return what the kubelet keeps; memory grows with the number of pods the bootstrap counts."""
    counted = pods if shape.traits.memory_follows_pods else eni_limited_pods(info)
    default = {
        CPU: reserved_cpu(info.vcpus),
        MEMORY: _POD_MEMORY * counted + _BASE_MEMORY,
        EPHEMERAL_STORAGE: _RESERVED_DISK,
    }
    return Resources({**default, **Resources.parse(shape.kubelet.kube_reserved)})


def eviction_threshold(shape: NodeShape, capacity: Resources) -> Resources:
    """Return what must stay free, or pods are evicted."""
    hard = shape.kubelet.eviction_hard
    memory, disk = capacity.get(MEMORY, 0), capacity.get(EPHEMERAL_STORAGE, 0)
    amounts = {
        MEMORY: _EVICTION_MEMORY,
        EPHEMERAL_STORAGE: math.ceil(disk * _EVICTION_DISK_SHARE),
    }
    if "memory.available" in hard:
        amounts[MEMORY] = _threshold(MEMORY, hard["memory.available"], memory)
    if "nodefs.available" in hard:
        amounts[EPHEMERAL_STORAGE] = _threshold(EPHEMERAL_STORAGE, hard["nodefs.available"], disk)
    return Resources(amounts)


def _threshold(resource: str, text: str, capacity: int) -> int:
    if not text.endswith("%"):
        return amount(resource, text)
    percent = float(text.removesuffix("%"))
    # The kubelet reads 100 % as "this signal is off".
    return 0 if percent == 100 else math.ceil(capacity * percent / 100)
