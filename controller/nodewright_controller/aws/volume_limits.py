"""How many EBS volumes the pods of a node can have, before its CSI driver has said so.

The EBS CSI driver counts the same way when it starts on the node (what the type attaches, without
the machine's own devices), and from then on its CSINode is what counts. Karpenter's AWS provider
states no such number, and plans any number of volumes for a node that does not exist yet.
"""

from __future__ import annotations

from typing import Final

from nodewright_controller.aws.instance_type_info import InstanceTypeInfo
from nodewright_controller.aws.shape import NodeShape
from nodewright_controller.cluster.volumes import EBS_DRIVER

SHARED: Final = "shared"


def volume_limits(info: InstanceTypeInfo, shape: NodeShape) -> dict[str, int]:
    """Return CSI driver to how many volumes a node can attach for pods.

    EC2 names the number of volumes that a type attaches (EbsInfo.MaximumEbsAttachments). Where the
    slots are shared among all devices, the first network interface, NVMe instance store volumes and
    accelerators are subtracted from that number already: m5.large has 28 slots and EC2 says 27,
    m5d.large with one local disk 26. What EC2 cannot know is subtracted here: the volumes that the
    node is launched with, of which there is at least the root volume, and, where slots are shared,
    the interfaces that the node class lists beyond the first. Interfaces that the CNI adds later
    are not foreseen; the driver's own count is right about them.
    A type of which EC2 says nothing has no known bound.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/volume_limits.html, and EC2's own
    numbers for its types.
    """
    if info.ebs_attachments is None:
        return {}
    taken = max(1, sum(1 for device in shape.block_devices if device.ebs is not None))
    if info.ebs_slots == SHARED:
        taken += max(0, len(shape.network_interfaces) - 1)
    return {EBS_DRIVER: max(0, info.ebs_attachments - taken)}
