"""Serves the components to every Pulumi language.

The plugin's host starts `main`, and the schema is read off the components' annotations.
"""

from importlib.metadata import version

import pulumi
from pulumi.provider.experimental import component_provider_host

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

PACKAGE = "nodewright"
COMPONENTS: list[type[pulumi.ComponentResource]] = [
    Network,
    Cluster,
    NodeRole,
    ControllerRole,
    InterruptionQueue,
    KarpenterCRDs,
    Controller,
    NodePool,
    EC2NodeClass,
    Autoscaler,
]


def main() -> None:
    """Serve until the engine hangs up."""
    component_provider_host(COMPONENTS, PACKAGE, version=version(PACKAGE))
