"""The driver on a node: its CSINode, and the startup taint that waits for it.

The kubelet makes the CSINode with its own identity; the Node owns it, so that both go together.
"""

from collections.abc import Mapping
from typing import Any

from nodewright_local.kubelets.api import MERGE_PATCH, ApiClient, ApiError
from nodewright_local.kubelets.instance import Hardware, Instance
from nodewright_local.kubelets.volumes.names import (
    AGENT_TAINT,
    DRIVER,
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


async def register_driver(
    api: ApiClient, node: Mapping[str, Any], instance: Instance, hardware: Hardware
) -> None:
    """Create or renew the CSINode of a Node; raises ApiError and ApiUnreachable."""
    wanted = csi_node(node, instance, hardware)
    try:
        await api.create(_CSI_NODES, wanted)
    except ApiError as error:
        if error.status != 409:
            raise
        await api.patch(f"{_CSI_NODES}/{node['metadata']['name']}", wanted, MERGE_PATCH)


def without_agent_taint(node: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the patch that takes the driver's startup taint off a Node, None if it bears none.

    The patch fails if the Node has changed since: taints are one list, and others write it too.
    """
    taints = node["spec"].get("taints", [])
    kept = [taint for taint in taints if taint["key"] != AGENT_TAINT]
    if len(kept) == len(taints):
        return None
    version = {"resourceVersion": node["metadata"]["resourceVersion"]}
    return {"metadata": version, "spec": {"taints": kept}}
