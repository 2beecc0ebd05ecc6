"""Carry out VolumeAttachments, as the CSI attacher does.

kube-controller-manager asks for an attachment when a pod with the volume is bound to a node, and
for its end when no pod there uses it any more. Until EC2 has detached the volume the object stays.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from nodewright_local.kubelets.api import MERGE_PATCH, ApiClient, ApiError
from nodewright_local.kubelets.volumes.ebs import Ebs, EbsRefused
from nodewright_local.kubelets.volumes.names import (
    ATTACHMENT_FINALIZER,
    DRIVER,
    NODE_ID,
    STORAGE,
    VOLUMES,
)
from nodewright_local.kubelets.volumes.watching import Attempts

log = logging.getLogger(__name__)


class AttachmentStep(Enum):
    """What an attachment needs now."""

    NOTHING = "nothing"
    ATTACH = "attach"
    DETACH = "detach"


def attachment_step(attachment: Mapping[str, Any]) -> AttachmentStep:
    """Decide from the object alone."""
    if attachment["spec"]["attacher"] != DRIVER:
        return AttachmentStep.NOTHING
    if "deletionTimestamp" in attachment["metadata"]:
        ours = ATTACHMENT_FINALIZER in attachment["metadata"].get("finalizers", ())
        return AttachmentStep.DETACH if ours else AttachmentStep.NOTHING
    attached = attachment.get("status", {}).get("attached")
    return AttachmentStep.NOTHING if attached else AttachmentStep.ATTACH


@dataclass(slots=True, kw_only=True)
class Attacher:
    """One step at a time; the loop is the caller's."""

    api: ApiClient
    ebs: Ebs
    attempts: Attempts = field(default_factory=Attempts)

    async def serve(self, attachment: Mapping[str, Any]) -> None:
        """Advance one attachment; raises ApiError, ApiUnreachable, AWS's errors."""
        step = attachment_step(attachment)
        uid = attachment["metadata"]["uid"]
        if step is AttachmentStep.NOTHING or not self.attempts.may_try(uid):
            return
        act = self._attach if step is AttachmentStep.ATTACH else self._detach
        try:
            await act(attachment)
        except EbsRefused as error:
            self.attempts.failed(uid)
            await self._report(attachment, step, str(error))
        else:
            self.attempts.forget(uid)

    async def _attach(self, attachment: Mapping[str, Any]) -> None:
        path = _path(attachment)
        instance_id = await self._instance_id(attachment["spec"]["nodeName"])
        metadata = attachment["metadata"]
        finalizers = {*metadata.get("finalizers", ()), ATTACHMENT_FINALIZER}
        # Before anything is attached: the object must not go while EC2 holds the volume there.
        change = {"finalizers": sorted(finalizers), "annotations": {NODE_ID: instance_id}}
        await self.api.patch(path, {"metadata": change}, MERGE_PATCH)
        volume_id = await self._volume_id(attachment)
        if volume_id is None:
            raise EbsRefused("the PersistentVolume is gone")
        device = await asyncio.to_thread(self.ebs.attach, volume_id, instance_id)
        status = {
            "attached": True,
            "attachmentMetadata": {"devicePath": device},
            "attachError": None,
        }
        await self.api.patch(f"{path}/status", {"status": status}, MERGE_PATCH)
        log.info("volume %s is attached to %s", volume_id, attachment["spec"]["nodeName"])

    async def _detach(self, attachment: Mapping[str, Any]) -> None:
        path = _path(attachment)
        metadata = attachment["metadata"]
        volume_id = await self._volume_id(attachment)
        instance_id = metadata.get("annotations", {}).get(NODE_ID)
        if volume_id is not None and instance_id:
            await asyncio.to_thread(self.ebs.detach, volume_id, instance_id)
        finalizers = [item for item in metadata["finalizers"] if item != ATTACHMENT_FINALIZER]
        status = {"attached": False, "attachmentMetadata": None, "detachError": None}
        await self.api.patch(f"{path}/status", {"status": status}, MERGE_PATCH)
        await self.api.patch(path, {"metadata": {"finalizers": finalizers}}, MERGE_PATCH)
        log.info("volume %s is detached from %s", volume_id, attachment["spec"]["nodeName"])

    async def _instance_id(self, node_name: str) -> str:
        try:
            csi_node = await self.api.get(f"{STORAGE}/csinodes/{node_name}")
        except ApiError as error:
            if error.status != 404:
                raise
            csi_node = {"spec": {"drivers": []}}
        for driver in csi_node["spec"]["drivers"]:
            if driver["name"] == DRIVER:
                return str(driver["nodeID"])
        raise EbsRefused(f"the CSINode of {node_name} does not list the driver {DRIVER}")

    async def _volume_id(self, attachment: Mapping[str, Any]) -> str | None:
        """Return EC2's id of the volume, None if its PersistentVolume is gone."""
        source = attachment["spec"]["source"]
        try:
            volume = await self.api.get(f"{VOLUMES}/{source['persistentVolumeName']}")
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return str(volume["spec"]["csi"]["volumeHandle"])

    async def _report(
        self, attachment: Mapping[str, Any], step: AttachmentStep, message: str
    ) -> None:
        log.warning("%s: %s: %s", step.value, attachment["metadata"]["name"], message)
        field_name = "attachError" if step is AttachmentStep.ATTACH else "detachError"
        error = {"time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "message": message}
        await self.api.patch(
            f"{_path(attachment)}/status", {"status": {field_name: error}}, MERGE_PATCH
        )


def _path(attachment: Mapping[str, Any]) -> str:
    return f"{STORAGE}/volumeattachments/{attachment['metadata']['name']}"
