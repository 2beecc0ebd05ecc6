"""How many pods a node can have: addresses on its network interfaces, or what the user says.

Prefix delegation is not modelled (as upstream): who uses it sets `kubelet.maxPods`.
"""

from __future__ import annotations

from typing import Final

from nodewright_controller.aws.instance_type_info import InstanceTypeInfo
from nodewright_controller.aws.shape import NodeShape

_KUBELET_DEFAULT: Final = 110


def eni_limited_pods(info: InstanceTypeInfo, reserved_enis: int = 0) -> int:
    """Return how many pods find an address: one per secondary IP, plus two on the host network.

    0 when no network interface is left for pods.
    """
    usable = max(info.interfaces - reserved_enis, 0)
    return usable * (info.ipv4_per_interface - 1) + 2 if usable else 0


def max_pods(info: InstanceTypeInfo, shape: NodeShape) -> int:
    """Return the pod capacity of a node."""
    kubelet, traits = shape.kubelet, shape.traits
    if kubelet.max_pods is not None:
        count = kubelet.max_pods
    elif traits.eni_limited_pods:
        count = eni_limited_pods(info, shape.reserved_enis + shape.efa_only_on_first_card)
    else:
        count = _KUBELET_DEFAULT
    if kubelet.pods_per_core and traits.pods_per_core:
        count = min(count, kubelet.pods_per_core * info.vcpus)
    return count
