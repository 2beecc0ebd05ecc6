"""What the volume controllers see, how they tell about it, and when they try again."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from nodewright_local.kubelets.api import ApiClient
from nodewright_local.kubelets.volumes.names import CLAIMS, STORAGE, VOLUMES

_LONGEST_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Claims, volumes and attachments at one moment, as the API server lists them."""

    claims: Sequence[Mapping[str, Any]]
    volumes: Sequence[Mapping[str, Any]]
    attachments: Sequence[Mapping[str, Any]]

    def claim(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return a claim, None if there is none of that name."""
        for item in self.claims:
            if (item["metadata"]["namespace"], item["metadata"]["name"]) == (namespace, name):
                return item
        return None

    def volume(self, name: str) -> Mapping[str, Any] | None:
        """Return a PersistentVolume, None if there is none of that name."""
        return next((item for item in self.volumes if item["metadata"]["name"] == name), None)

    def is_attached(self, volume_name: str, node_name: str) -> bool:
        """Tell whether a volume is attached to a node, for good."""
        return any(
            item["spec"]["nodeName"] == node_name
            and item["spec"]["source"].get("persistentVolumeName") == volume_name
            and item.get("status", {}).get("attached")
            and "deletionTimestamp" not in item["metadata"]
            for item in self.attachments
        )


async def read_storage(api: ApiClient) -> Storage:
    """Read all three lists; raises ApiError, ApiUnreachable."""
    claims, volumes, attachments = [
        (await api.get(path, resourceVersion="0"))["items"]
        for path in (CLAIMS, VOLUMES, f"{STORAGE}/volumeattachments")
    ]
    return Storage(claims=claims, volumes=volumes, attachments=attachments)


@dataclass(slots=True)
class Attempts:
    """Failed attempts by object; the pauses between them grow to a quarter of a minute."""

    _failed: dict[str, tuple[int, float]] = field(default_factory=dict)
    """uid to number of failures and the loop time of the next attempt."""

    def may_try(self, uid: str) -> bool:
        """Tell whether the pause after the last failure is over."""
        return asyncio.get_running_loop().time() >= self._failed.get(uid, (0, 0.0))[1]

    def failed(self, uid: str) -> None:
        """Remember a failure."""
        count = self._failed.get(uid, (0, 0.0))[0] + 1
        pause = min(_LONGEST_SECONDS, 2.0 ** min(count - 1, 10))
        self._failed[uid] = (count, asyncio.get_running_loop().time() + pause)

    def forget(self, uid: str) -> None:
        """Forget the failures of an object."""
        self._failed.pop(uid, None)


async def record_event(
    api: ApiClient, claim: Mapping[str, Any], *, kind: str, reason: str, message: str
) -> None:
    """Write an Event about a claim; raises ApiError, ApiUnreachable."""
    metadata = claim["metadata"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    await api.create(
        f"/api/v1/namespaces/{metadata['namespace']}/events",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "generateName": f"{metadata['name']}.",
                "namespace": metadata["namespace"],
            },
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": "ebs.csi.aws.com_ebs-csi-controller"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        },
    )
