"""Pulumi components and command line of Nodewright.

The components load on first use: the AWS SDK of Pulumi takes seconds to import, and the command
line shall not wait for it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodewright.autoscaler import Autoscaler
    from nodewright.cluster import Cluster
    from nodewright.controller import Controller
    from nodewright.controller_role import ControllerRole
    from nodewright.ec2_node_class import EC2NodeClass
    from nodewright.interruption_queue import InterruptionQueue
    from nodewright.karpenter_crds import KarpenterCRDs
    from nodewright.network import Network
    from nodewright.node_pool import NodePool
    from nodewright.node_role import NodeRole

__all__ = [
    "Autoscaler",
    "Cluster",
    "Controller",
    "ControllerRole",
    "EC2NodeClass",
    "InterruptionQueue",
    "KarpenterCRDs",
    "Network",
    "NodePool",
    "NodeRole",
]

_MODULES = {
    "Autoscaler": "autoscaler",
    "Cluster": "cluster",
    "Controller": "controller",
    "ControllerRole": "controller_role",
    "EC2NodeClass": "ec2_node_class",
    "InterruptionQueue": "interruption_queue",
    "KarpenterCRDs": "karpenter_crds",
    "Network": "network",
    "NodePool": "node_pool",
    "NodeRole": "node_role",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'nodewright' has no attribute {name!r}")
    return getattr(importlib.import_module(f"nodewright.{_MODULES[name]}"), name)
