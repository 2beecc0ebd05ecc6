"""Whether an instance still is what its node class asks for.

The cheap checks come first; EC2 is asked only when they find nothing.
Upstream: pkg/cloudprovider/drift.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from nodewright_controller.api import labels
from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.ami import image_for
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.ports.cloud import CloudInstance

NODE_CLASS_DRIFT: Final = "NodeClassDrift"
AMI_DRIFT: Final = "AMIDrift"
SUBNET_DRIFT: Final = "SubnetDrift"
SECURITY_GROUP_DRIFT: Final = "SecurityGroupDrift"
CAPACITY_RESERVATION_DRIFT: Final = "CapacityReservationDrift"


async def drift_reason(
    node_claim: NodeClaim,
    node_class: EC2NodeClass,
    instance_type: InstanceType | None,
    instance: Callable[[], Awaitable[CloudInstance]],
) -> str:
    """Return the first drift reason, or an empty string."""
    reason = static_drift(node_class.annotations, node_claim.annotations) or image_drift(
        node_claim, node_class, instance_type
    )
    if reason:
        return reason
    found = await instance()
    return network_drift(found, node_class) or reservation_drift(node_claim, found, node_class)


def static_drift(of_class: Mapping[str, str], of_claim: Mapping[str, str]) -> str:
    """Compare the hashes; hashes of different versions, or missing ones, say nothing."""
    keys = (labels.EC2_NODE_CLASS_HASH, labels.EC2_NODE_CLASS_HASH_VERSION)
    hash_, version = ((of_class.get(key), of_claim.get(key)) for key in keys)
    if None in (*hash_, *version) or version[0] != version[1]:
        return ""
    return "" if hash_[0] == hash_[1] else NODE_CLASS_DRIFT


def image_drift(
    node_claim: NodeClaim, node_class: EC2NodeClass, instance_type: InstanceType | None
) -> str:
    """Compare the image with those the node class would give this type now."""
    amis = node_class.status.amis
    if not amis or instance_type is None or not node_claim.status.image_id:
        return ""
    mapped = {ami.id for ami in amis if image_for(instance_type, (ami,)) is not None}
    return "" if node_claim.status.image_id in mapped else AMI_DRIFT


def network_drift(instance: CloudInstance, node_class: EC2NodeClass) -> str:
    """Compare security groups (must be equal) and the subnet (must be selected)."""
    groups = {group.id for group in node_class.status.security_groups or ()}
    if groups and groups != set(instance.security_group_ids):
        return SECURITY_GROUP_DRIFT
    subnets = {subnet.id for subnet in node_class.status.subnets or ()}
    if subnets and instance.subnet_id not in subnets:
        return SUBNET_DRIFT
    return ""


def reservation_drift(
    node_claim: NodeClaim, instance: CloudInstance, node_class: EC2NodeClass
) -> str:
    """Compare the reservation of a reserved node, as EC2 says it, with those selected now.

    A node that lost its reservation, and so runs on demand, gets that as its new label instead.
    """
    if node_claim.labels.get(labels.CAPACITY_TYPE) != labels.RESERVED:
        return ""
    mine = instance.capacity_reservation_id
    selected = {found.id for found in node_class.status.capacity_reservations or ()}
    return CAPACITY_RESERVATION_DRIFT if mine and mine not in selected else ""
