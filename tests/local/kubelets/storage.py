"""Claims, volumes and attachments as the API server shows them, and an API server in memory."""

from collections.abc import Mapping
from typing import Any

from nodewright_local.kubelets.api import ApiClient, ApiError
from nodewright_local.kubelets.volumes.watching import Storage
from typing_extensions import override

PROVISIONER = "volume.kubernetes.io/storage-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


def claim(name: str = "data-db-0", *, node: str = "", bound: str = "", **spec: Any) -> Any:
    annotations = {PROVISIONER: "ebs.csi.aws.com"} | ({SELECTED_NODE: node} if node else {})
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "resourceVersion": "7",
            "annotations": annotations,
        },
        "spec": {
            "storageClassName": "gp3",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1500Mi"}},
            **({"volumeName": bound} if bound else {}),
            **spec,
        },
        "status": {"phase": "Bound" if bound else "Pending"},
    }


def storage_class(
    *,
    waits: bool = True,
    zones: tuple[str, ...] = (),
    parameters: Mapping[str, str] | None = None,
) -> Any:
    key = "topology.ebs.csi.aws.com/zone"
    terms = [{"matchLabelExpressions": [{"key": key, "values": list(zones)}]}] if zones else None
    return {
        "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
        "allowedTopologies": terms,
        "parameters": dict(parameters or {}),
    }


def volume(name: str = "pvc-1", *, phase: str = "Released", **metadata: Any) -> Any:
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "resourceVersion": "9",
            "annotations": {"pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com"},
            "finalizers": [
                "external-provisioner.volume.kubernetes.io/finalizer",
                "kubernetes.io/pv-protection",
            ],
            **metadata,
        },
        "spec": {
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
            "persistentVolumeReclaimPolicy": "Delete",
        },
        "status": {"phase": phase},
    }


def attachment(*, attached: bool = False, node: str = "node-1", **metadata: Any) -> Any:
    return {
        "metadata": {"name": "csi-1", "uid": "uid-of-csi-1", **metadata},
        "spec": {
            "attacher": "ebs.csi.aws.com",
            "nodeName": node,
            "source": {"persistentVolumeName": "pvc-1"},
        },
        "status": {"attached": attached},
    }


def storage(**lists: Any) -> Storage:
    return Storage(**({"claims": [], "volumes": [], "attachments": []} | lists))


class FakeApi(ApiClient):
    """Answers reads from `objects` by path, and remembers every write."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self.objects = objects
        self.writes: list[tuple[str, str, Any]] = []

    @override
    async def _call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        if method != "GET":
            self.writes.append((method, path, options.get("body")))
            return {}
        if path not in self.objects:
            raise ApiError(404, f"{path} not found")
        found: dict[str, Any] = self.objects[path]
        return found
