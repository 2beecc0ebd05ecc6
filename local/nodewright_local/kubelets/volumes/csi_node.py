"""The driver on a node: its CSINode entry, and the startup taint that waits for it.

The kubelet makes the CSINode with its own identity; the node owns it, so that both go together.
"""

from collections.abc import Mapping
from typing import Any

from nodewright_local.kubelets.api import MERGE_PATCH, ApiClient, ApiError
from nodewright_local.kubelets.instance import Hardware, Instance
from nodewright_local.kubelets.volumes.names import (
    AGENT_TAINT,
    DRIVER,
    DRIVER_ZONE,
    STORAGE,
    TOPOLOGY_KEYS,
)

_CSI_NODES = f"{STORAGE}/csinodes"


def csi_node(node: Mapping[str, Any], instance: Instance, hardware: Hardware) -> dict[str, Any]:
    """Return the CSINode of a Node that exists."""
    name = node["metadata"]["name"]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": name,
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
            ],
        },
        "spec": {
            "drivers": [
                {
                    "name": DRIVER,
                    "nodeID": instance.instance_id,
                    "topologyKeys": list(TOPOLOGY_KEYS),
                    "allocatable": {"count": hardware.volumes_for_pods},
                }
            ]
        },
    }


async def register_driver(api: ApiClient, instance: Instance, hardware: Hardware) -> None:
    """Create or renew the CSINode, and give the Node the driver's own topology label.

    Raises ApiError and ApiUnreachable.
    """
    node = await api.get(f"/api/v1/nodes/{instance.private_dns_name}")
    wanted = csi_node(node, instance, hardware)
    try:
        await api.create(_CSI_NODES, wanted)
    except ApiError as error:
        if error.status != 409:
            raise
        path = f"{_CSI_NODES}/{instance.private_dns_name}"
        await api.patch(path, wanted, MERGE_PATCH)
    await api.patch(
        f"/api/v1/nodes/{instance.private_dns_name}",
        {"metadata": {"labels": {DRIVER_ZONE: instance.zone}}},
        MERGE_PATCH,
    )


async def remove_agent_taint(api: ApiClient, node_name: str) -> None:
    """Take the driver's startup taint off a node that bears it; raises ApiError, ApiUnreachable.

    With the administrator's rights: a kubelet may not change its own taints.
    """
    path = f"/api/v1/nodes/{node_name}"
    while True:
        node = await api.get(path)
        taints = node["spec"].get("taints", [])
        kept = [taint for taint in taints if taint["key"] != AGENT_TAINT]
        if len(kept) == len(taints):
            return
        version = {"resourceVersion": node["metadata"]["resourceVersion"]}
        try:
            await api.patch(path, {"metadata": version, "spec": {"taints": kept}}, MERGE_PATCH)
        except ApiError as error:
            if error.status != 409:  # somebody else changed the node in between
                raise
