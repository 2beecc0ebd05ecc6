"""What real nodes say about their memory, so that the next ones are planned by it.

Upstream: pkg/controllers/providers/instancetype/capacity.
"""

from __future__ import annotations

from nodewright_controller.api import labels
from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.catalog import Catalog
from nodewright_controller.kernel.resources import MEMORY, Resources


def observe_memory(
    catalog: Catalog, node: Node, node_claim: NodeClaim, node_class: EC2NodeClass
) -> None:
    """Record the memory of a registered node, if its image is still one of its class."""
    if node.labels.get(labels.REGISTERED) != "true":
        return
    images = {ami.id for ami in node_class.status.amis or ()}
    memory = Resources.readable(node.status.capacity).get(MEMORY, 0)
    instance_type = node.labels.get(labels.INSTANCE_TYPE, "")
    if memory and instance_type and node_claim.status.image_id in images:
        catalog.record_memory(node_class, instance_type, memory)
