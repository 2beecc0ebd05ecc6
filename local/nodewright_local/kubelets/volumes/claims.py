"""Which volume a claim shall have, and in which zone. Pure.

The rules are those of the CSI provisioner beside the EBS driver: a claim of a class that waits for
its first consumer gets the zone of the node that kube-scheduler selected; any other one of the
class's zones, or of the zones that have nodes.
"""

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodewright_local.kubelets.quantity import GIB, parse_units
from nodewright_local.kubelets.volumes.ebs import VolumeOrder
from nodewright_local.kubelets.volumes.names import (
    DRIVER,
    DRIVER_ZONE,
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
    VOLUME_FINALIZER,
    ZONE,
)

_DEFAULT_TYPE = "gp3"
_DEFAULT_FILE_SYSTEM = "ext4"
_FILE_SYSTEM = "csi.storage.k8s.io/fstype"
_TAG_PARAMETER = "tagspecification_"
_ORDINAL = re.compile(r"(.*)-(\d+)")


class ClaimRefused(Exception):
    """The claim cannot be served as things are; the text goes to its events."""

    def __init__(self, message: str, *, choose_again: bool = False) -> None:
        super().__init__(message)
        self.choose_again = choose_again
        """Whether kube-scheduler shall select another node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node that may use the driver."""

    node: str
    zone: str


def wants_volume(claim: Mapping[str, Any]) -> bool:
    """Tell whether it is for us, and now, to give the claim a volume."""
    metadata = claim["metadata"]
    annotations = metadata.get("annotations", {})
    return (
        annotations.get(PROVISIONER) == DRIVER
        and not claim["spec"].get("volumeName")
        and "deletionTimestamp" not in metadata
    )


def waits_for_scheduler(claim: Mapping[str, Any], storage_class: Mapping[str, Any]) -> bool:
    """Tell whether no node has been selected yet for a claim whose class wants that."""
    return _waits(storage_class) and not selected_node(claim)


def selected_node(claim: Mapping[str, Any]) -> str:
    """Return the node that kube-scheduler chose, empty if none."""
    return str(claim["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))


def _waits(storage_class: Mapping[str, Any]) -> bool:
    return storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"


def choose_zone(
    claim: Mapping[str, Any], storage_class: Mapping[str, Any], places: Iterable[Place]
) -> str:
    """Return the zone for a claim's volume; raises ClaimRefused."""
    allowed = allowed_zones(storage_class)
    by_node = {place.node: place.zone for place in places}
    if _waits(storage_class):
        node = selected_node(claim)
        if node not in by_node:
            raise ClaimRefused(
                f"the selected node {node} does not run the driver {DRIVER} (any more)",
                choose_again=True,
            )
        if allowed and by_node[node] not in allowed:
            raise ClaimRefused(
                f"node {node} is in {by_node[node]}, but the StorageClass allows "
                f"{', '.join(allowed)} only",
                choose_again=True,
            )
        return by_node[node]
    zones = allowed or sorted(set(by_node.values()))
    if not zones:
        raise ClaimRefused(f"no node runs the driver {DRIVER} yet, so there is no zone to choose")
    return _spread(claim["metadata"]["name"], zones)


def allowed_zones(storage_class: Mapping[str, Any]) -> list[str]:
    """Return the zones of ``allowedTopologies``, sorted; empty: every zone."""
    return sorted(
        {
            value
            for term in storage_class.get("allowedTopologies") or ()
            for expression in term.get("matchLabelExpressions", ())
            if expression["key"] in (ZONE, DRIVER_ZONE)
            for value in expression["values"]
        }
    )


def _spread(claim_name: str, zones: Sequence[str]) -> str:
    """Choose by name, so that the claims of a StatefulSet go through the zones in turn."""
    found = _ORDINAL.fullmatch(claim_name)
    base, ordinal = (found[1], int(found[2])) if found else (claim_name, 0)
    return zones[(zlib.crc32(base.encode()) + ordinal) % len(zones)]


def volume_name(claim: Mapping[str, Any]) -> str:
    """Return the name of the PersistentVolume for a claim."""
    return f"pvc-{claim['metadata']['uid']}"


def order_for(claim: Mapping[str, Any], storage_class: Mapping[str, Any], zone: str) -> VolumeOrder:
    """Return what to order from EC2; raises ClaimRefused on what the driver would not take."""
    if claim["spec"].get("dataSource") or claim["spec"].get("dataSourceRef"):
        raise ClaimRefused("volumes from snapshots and clones are not there on the laptop")
    metadata = claim["metadata"]
    options, tags = _read_parameters(storage_class.get("parameters") or {})
    name = volume_name(claim)
    return VolumeOrder(
        name=name,
        zone=zone,
        size_gib=_size_gib(claim),
        options=options,
        tags={
            "ebs.csi.aws.com/cluster": "true",
            "kubernetes.io/created-for/pv/name": name,
            "kubernetes.io/created-for/pvc/name": metadata["name"],
            "kubernetes.io/created-for/pvc/namespace": metadata["namespace"],
            **tags,
        },
    )


def _size_gib(claim: Mapping[str, Any]) -> int:
    wanted = parse_units(claim["spec"]["resources"]["requests"]["storage"])
    return max(1, -(-wanted // GIB))


def _read_parameters(parameters: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return CreateVolume's options and further tags. The driver ignores the keys' case."""
    options: dict[str, Any] = {"VolumeType": _DEFAULT_TYPE}
    tags: dict[str, str] = {}
    for key, value in parameters.items():
        match key.lower():
            case "type":
                options["VolumeType"] = value
            case "iops":
                options["Iops"] = _number(key, value)
            case "throughput":
                options["Throughput"] = _number(key, value)
            case "encrypted":
                options["Encrypted"] = value.lower() == "true"
            case "kmskeyid":
                options["KmsKeyId"] = value
            case lowered if lowered.startswith(_TAG_PARAMETER):
                name, _, text = value.partition("=")
                tags[name] = text
            case lowered if lowered != _FILE_SYSTEM:
                raise ClaimRefused(f"invalid parameter key {key} in the StorageClass")
    return options, tags


def _number(key: str, value: str) -> int:
    if not value.isdecimal():
        raise ClaimRefused(f"parameter {key} of the StorageClass is not a number: {value!r}")
    return int(value)


def persistent_volume(
    claim: Mapping[str, Any], storage_class: Mapping[str, Any], order: VolumeOrder, volume_id: str
) -> dict[str, Any]:
    """Return the PersistentVolume of a volume that was made for a claim."""
    metadata, spec = claim["metadata"], claim["spec"]
    parameters = storage_class.get("parameters") or {}
    csi: dict[str, Any] = {
        "driver": DRIVER,
        "volumeHandle": volume_id,
        "volumeAttributes": {"storage.kubernetes.io/csiProvisionerIdentity": DRIVER},
    }
    if spec.get("volumeMode") != "Block":
        csi["fsType"] = parameters.get(_FILE_SYSTEM, _DEFAULT_FILE_SYSTEM)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": order.name,
            "annotations": {PROVISIONED_BY: DRIVER},
            "finalizers": [VOLUME_FINALIZER],
        },
        "spec": {
            "capacity": {"storage": f"{order.size_gib}Gi"},
            "accessModes": spec["accessModes"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "mountOptions": storage_class.get("mountOptions") or [],
            "storageClassName": storage_class["metadata"]["name"],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "csi": csi,
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": ZONE, "operator": "In", "values": [order.zone]}
                            ]
                        }
                    ]
                }
            },
        },
    }
