"""The storage kinds that scheduling reads: claims, volumes, classes, and what a node can attach."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from nodewright_controller.api.meta import Kind, KubeObject, Struct
from nodewright_controller.api.pod import NodeSelector, PersistentVolumeClaimSpec


class PersistentVolumeClaimStatus(Struct):
    """Where a claim stands: Pending, Bound or Lost."""

    phase: str = ""


class PersistentVolumeClaim(KubeObject):
    """A PersistentVolumeClaim."""

    KIND: ClassVar[Kind] = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True)

    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = msgspec.field(default_factory=PersistentVolumeClaimStatus)


class CSIVolumeSource(Struct):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class ElasticBlockStoreSource(Struct):
    """An EBS volume in its old, in-tree form."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PathSource(Struct):
    """A volume that is a path of one host."""

    path: str = ""


class VolumeNodeAffinity(Struct):
    """Where a volume can be used."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct):
    """What a volume is, and where."""

    storage_class_name: str = ""
    csi: CSIVolumeSource | None = None
    aws_elastic_block_store: ElasticBlockStoreSource | None = None
    host_path: PathSource | None = None
    local: PathSource | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(KubeObject):
    """A PersistentVolume."""

    KIND: ClassVar[Kind] = Kind("", "v1", "PersistentVolume", "persistentvolumes")

    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)


class TopologySelectorRequirement(Struct):
    """One label and its allowed values."""

    key: str = ""
    values: list[str] | None = None


class TopologySelectorTerm(Struct):
    """Labels that must all match."""

    match_label_expressions: list[TopologySelectorRequirement] | None = None


class StorageClass(KubeObject):
    """A StorageClass."""

    KIND: ClassVar[Kind] = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses")

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologySelectorTerm] | None = None


class VolumeNodeResources(Struct):
    """How many volumes a driver can attach to a node; absent means no bound."""

    count: int | None = None


class CSINodeDriver(Struct):
    """A driver on a node."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct):
    """The drivers."""

    drivers: list[CSINodeDriver] | None = None


class CSINode(KubeObject):
    """A CSINode: the drivers that run on the node of the same name."""

    KIND: ClassVar[Kind] = Kind("storage.k8s.io", "v1", "CSINode", "csinodes")

    spec: CSINodeSpec = msgspec.field(default_factory=CSINodeSpec)
