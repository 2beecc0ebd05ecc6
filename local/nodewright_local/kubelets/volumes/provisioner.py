"""Give claims their volumes and take back what was released, as the CSI provisioner does.

Which volume and where is decided in `claims.py`; this is the part that reads and acts.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodewright_local.kubelets.api import MERGE_PATCH, ApiClient, ApiError
from nodewright_local.kubelets.volumes.claims import (
    ClaimRefused,
    Place,
    choose_zone,
    order_for,
    persistent_volume,
    selected_node,
    waits_for_scheduler,
    wants_volume,
)
from nodewright_local.kubelets.volumes.ebs import Ebs, EbsRefused
from nodewright_local.kubelets.volumes.names import (
    DRIVER,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE,
    VOLUME_FINALIZER,
    VOLUMES,
    ZONE,
)
from nodewright_local.kubelets.volumes.watching import Attempts, Storage, record_event

log = logging.getLogger(__name__)


def is_to_be_deleted(volume: Mapping[str, Any], attachments: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a PersistentVolume of ours, and the EC2 volume with it, shall go now."""
    metadata, spec = volume["metadata"], volume["spec"]
    if spec.get("csi", {}).get("driver") != DRIVER:
        return False
    if metadata.get("annotations", {}).get(PROVISIONED_BY) != DRIVER:
        return False
    if spec.get("persistentVolumeReclaimPolicy") != "Delete":
        return False
    phase = volume.get("status", {}).get("phase")
    if phase != "Released" and not ("deletionTimestamp" in metadata and phase != "Bound"):
        return False
    return all(
        item["spec"]["source"].get("persistentVolumeName") != metadata["name"]
        for item in attachments
    )


@dataclass(slots=True, kw_only=True)
class Provisioner:
    """One step at a time; the loop is the caller's."""

    api: ApiClient
    ebs: Ebs
    attempts: Attempts = field(default_factory=Attempts)

    async def serve(self, claim: Mapping[str, Any]) -> None:
        """Provide for one claim if it is time; raises ApiError, ApiUnreachable, AWS's errors."""
        uid = claim["metadata"]["uid"]
        if not wants_volume(claim) or not self.attempts.may_try(uid):
            return
        storage_class = await self._storage_class(claim)
        if storage_class is None or waits_for_scheduler(claim, storage_class):
            return
        try:
            created = await self._create(claim, storage_class)
        except (ClaimRefused, EbsRefused) as error:
            await self._refuse(claim, error)
        else:
            self.attempts.forget(uid)
            await self._tell(claim, "ProvisioningSucceeded", f"Successfully provisioned {created}")

    async def _storage_class(self, claim: Mapping[str, Any]) -> dict[str, Any] | None:
        name = claim["spec"].get("storageClassName", "")
        try:
            return await self.api.get(f"{STORAGE}/storageclasses/{name}")
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def _create(self, claim: Mapping[str, Any], storage_class: Mapping[str, Any]) -> str:
        zone = choose_zone(claim, storage_class, await self._places(selected_node(claim)))
        order = order_for(claim, storage_class, zone)
        volume_id = await asyncio.to_thread(self.ebs.create, order)
        document = persistent_volume(claim, storage_class, order, volume_id)
        try:
            await self.api.create(VOLUMES, document)
        except ApiError as error:
            if error.status != 409:
                raise
        log.info("volume %s in %s is %s", volume_id, zone, order.name)
        return f"volume {order.name}"

    async def _places(self, node_name: str) -> list[Place]:
        """Return the nodes that run the driver; only the named one if a name is given."""
        csi_nodes = await self.api.get(f"{STORAGE}/csinodes")
        ready = {
            item["metadata"]["name"]
            for item in csi_nodes["items"]
            if any(driver["name"] == DRIVER for driver in item["spec"]["drivers"])
        }
        nodes = (await self.api.get("/api/v1/nodes", resourceVersion="0"))["items"]
        return [
            Place(node=node["metadata"]["name"], zone=node["metadata"]["labels"][ZONE])
            for node in nodes
            if node["metadata"]["name"] in ready
            and node_name in ("", node["metadata"]["name"])
            and ZONE in node["metadata"].get("labels", {})
        ]

    async def _refuse(self, claim: Mapping[str, Any], error: ClaimRefused | EbsRefused) -> None:
        self.attempts.failed(claim["metadata"]["uid"])
        await self._tell(claim, "ProvisioningFailed", str(error), kind="Warning")
        # A volume that EC2 refuses for this zone may be possible in another one.
        choose_again = isinstance(error, EbsRefused) or error.choose_again
        if choose_again and selected_node(claim):
            await self.api.patch(
                _path(claim), {"metadata": {"annotations": {SELECTED_NODE: None}}}, MERGE_PATCH
            )

    async def _tell(
        self, claim: Mapping[str, Any], reason: str, message: str, kind: str = "Normal"
    ) -> None:
        await record_event(self.api, claim, kind=kind, reason=reason, message=message)

    async def take_back(self, volume: Mapping[str, Any], storage: Storage) -> None:
        """Delete one volume if it is to be; raises ApiError, ApiUnreachable, AWS's errors."""
        uid = volume["metadata"]["uid"]
        if not is_to_be_deleted(volume, storage.attachments) or not self.attempts.may_try(uid):
            return
        path = f"{VOLUMES}/{volume['metadata']['name']}"
        try:
            await asyncio.to_thread(self.ebs.delete, volume["spec"]["csi"]["volumeHandle"])
        except EbsRefused as error:
            self.attempts.failed(uid)
            log.warning("%s stays: %s", volume["metadata"]["name"], error)
            return
        try:
            if "deletionTimestamp" in volume["metadata"]:
                await self.api.patch(path, _without_finalizer(volume), MERGE_PATCH)
                log.info("volume %s is deleted", volume["metadata"]["name"])
            else:
                await self.api.delete(path)  # the next round finds it on its way out
        except ApiError as error:
            if error.status not in (404, 409):  # 409: other finalizers have changed meanwhile
                raise


def _without_finalizer(volume: Mapping[str, Any]) -> dict[str, Any]:
    metadata = volume["metadata"]
    kept = [item for item in metadata.get("finalizers", ()) if item != VOLUME_FINALIZER]
    return {"metadata": {"finalizers": kept, "resourceVersion": metadata["resourceVersion"]}}


def _path(claim: Mapping[str, Any]) -> str:
    metadata = claim["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"
