"""The words of the EBS CSI driver and its sidecars that other programs rely on."""

from typing import Final

DRIVER: Final = "ebs.csi.aws.com"

ZONE: Final = "topology.kubernetes.io/zone"
DRIVER_ZONE: Final = "topology.ebs.csi.aws.com/zone"
"""The driver's own name for the zone; older StorageClasses use it."""
TOPOLOGY_KEYS: Final = ("kubernetes.io/os", DRIVER_ZONE, ZONE)

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""On a claim: the node that kube-scheduler chose for its first pod."""
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
"""On a claim: who shall provide it, written by kube-controller-manager when it is time."""
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
NODE_ID: Final = "csi.alpha.kubernetes.io/node-id"
"""On a VolumeAttachment: the instance, for when its CSINode is gone."""

VOLUME_FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
ATTACHMENT_FINALIZER: Final = "external-attacher/ebs-csi-aws-com"

AGENT_TAINT: Final = "ebs.csi.aws.com/agent-not-ready"
"""Startup taint that the driver takes off a node once it has registered there."""

CLAIMS: Final = "/api/v1/persistentvolumeclaims"
VOLUMES: Final = "/api/v1/persistentvolumes"
STORAGE: Final = "/apis/storage.k8s.io/v1"
