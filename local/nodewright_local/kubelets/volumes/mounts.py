"""Let a pod with claims start once its volumes are there, as its kubelet would. Pure.

A kubelet sets the condition PodReadyToStartContainers after it has mounted the volumes; the kwok
stage that runs pods waits for it when a pod names claims.
"""

from collections.abc import Mapping
from typing import Any

from nodewright_local.kubelets.volumes.names import DRIVER
from nodewright_local.kubelets.volumes.watching import Storage

CONDITION = "PodReadyToStartContainers"


def claim_names(pod: Mapping[str, Any]) -> list[str]:
    """Return the names of the claims that the pod mounts, ephemeral ones too."""
    names = []
    for volume in pod["spec"].get("volumes", ()):
        if "persistentVolumeClaim" in volume:
            names.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            names.append(f"{pod['metadata']['name']}-{volume['name']}")
    return names


def waits_for_volumes(pod: Mapping[str, Any]) -> bool:
    """Tell whether a pod is bound to a node, names claims and has not been told to start."""
    conditions = pod.get("status", {}).get("conditions", ())
    return (
        bool(pod["spec"].get("nodeName"))
        and bool(claim_names(pod))
        and all(item["type"] != CONDITION or item["status"] != "True" for item in conditions)
    )


def can_mount(pod: Mapping[str, Any], storage: Storage) -> bool:
    """Tell whether all its claims are bound, and their volumes attached where EBS provides them."""
    namespace, node = pod["metadata"]["namespace"], pod["spec"]["nodeName"]
    for name in claim_names(pod):
        claim = storage.claim(namespace, name)
        if claim is None or claim.get("status", {}).get("phase") != "Bound":
            return False
        volume = storage.volume(claim["spec"]["volumeName"])
        if volume is None:
            return False
        if volume["spec"].get("csi", {}).get("driver") == DRIVER and not storage.is_attached(
            claim["spec"]["volumeName"], node
        ):
            return False
    return True
