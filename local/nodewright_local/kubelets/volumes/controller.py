"""The driver's loop: announce it, provide and attach volumes, let pods with volumes start.

Level based: every second the lists are read anew and each object is advanced by what it shows; the
error of one object does not hold up the others.
"""

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from itertools import count
from typing import Any

from nodewright_local.kubelets.api import MERGE_PATCH, ApiClient, ApiError, ApiUnreachable
from nodewright_local.kubelets.aws_api import AWS_ERRORS
from nodewright_local.kubelets.volumes.attacher import Attacher
from nodewright_local.kubelets.volumes.csi_node import without_agent_taint
from nodewright_local.kubelets.volumes.ebs import Ebs
from nodewright_local.kubelets.volumes.mounts import CONDITION, can_mount, waits_for_volumes
from nodewright_local.kubelets.volumes.names import DRIVER, STORAGE
from nodewright_local.kubelets.volumes.provisioner import Provisioner
from nodewright_local.kubelets.volumes.watching import Storage, read_storage

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
POLLS_PER_LOOK_AT_NODES = 5
"""A driver's pod takes some seconds to start; and the list of nodes is the longest."""
STORAGE_CLASS = "gp3"

CSI_DRIVER: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": DRIVER},
    "spec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "fsGroupPolicy": "File",
    },
}
GP3_CLASS: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": STORAGE_CLASS},
    "provisioner": DRIVER,
    "parameters": {"type": "gp3"},
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowVolumeExpansion": True,
}


@dataclass(slots=True, kw_only=True)
class VolumeController:
    """The loop. ``api`` acts with the administrator's rights, ``ebs`` with the account's."""

    api: ApiClient
    ebs: Ebs

    async def run(self) -> None:
        """Install the driver's objects, then poll until cancelled."""
        await self._install()
        provisioner = Provisioner(api=self.api, ebs=self.ebs)
        attacher = Attacher(api=self.api, ebs=self.ebs)
        for poll in count(1):
            try:
                storage = await read_storage(self.api)
                await self._advance(storage, provisioner, attacher)
                if poll % POLLS_PER_LOOK_AT_NODES == 0:
                    await self._remove_agent_taints()
            except (ApiError, ApiUnreachable) as error:
                log.debug("volumes wait: %s", error)
            await asyncio.sleep(POLL_SECONDS)

    async def _install(self) -> None:
        """Create what the EBS add-on would bring, unless somebody has made it otherwise."""
        for kind, document in (("csidrivers", CSI_DRIVER), ("storageclasses", GP3_CLASS)):
            while True:
                try:
                    await self.api.create(f"{STORAGE}/{kind}", document)
                except ApiUnreachable:
                    await asyncio.sleep(POLL_SECONDS)
                    continue
                except ApiError as error:
                    if error.status != 409:
                        raise
                break

    async def _advance(
        self, storage: Storage, provisioner: Provisioner, attacher: Attacher
    ) -> None:
        for attachment in storage.attachments:
            await _carefully(attacher.serve(attachment), attachment)
        for claim in storage.claims:
            await _carefully(provisioner.serve(claim), claim)
        for volume in storage.volumes:
            await _carefully(provisioner.take_back(volume, storage), volume)
        if storage.claims:
            await self._start_pods(storage)

    async def _remove_agent_taints(self) -> None:
        """With the administrator's rights: a kubelet may not change its own taints."""
        nodes = await self.api.get("/api/v1/nodes", resourceVersion="0")
        for node in nodes["items"]:
            patch = without_agent_taint(node)
            if patch is not None:
                path = f"/api/v1/nodes/{node['metadata']['name']}"
                await _carefully(self._patch(path, patch), node)

    async def _patch(self, path: str, patch: dict[str, Any]) -> None:
        await self.api.patch(path, patch, MERGE_PATCH)

    async def _start_pods(self, storage: Storage) -> None:
        pods = await self.api.get("/api/v1/pods", fieldSelector="status.phase=Pending")
        for pod in pods["items"]:
            if waits_for_volumes(pod) and can_mount(pod, storage):
                await _carefully(self._start(pod), pod)

    async def _start(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        condition = {"type": CONDITION, "status": "True"}
        await self.api.patch(
            f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status",
            {"status": {"conditions": [condition]}},
        )


async def _carefully(step: Awaitable[None], about: Any) -> None:
    """Await one object's step; what goes wrong is logged and tried again on the next round."""
    try:
        await step
    except (ApiError, ApiUnreachable, *AWS_ERRORS) as error:
        log.warning("%s waits: %s", about["metadata"]["name"], error)
