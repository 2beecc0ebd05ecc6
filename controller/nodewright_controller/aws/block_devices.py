"""Block device mappings as EC2 takes them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from nodewright_controller.api.ec2nodeclass import BlockDevice, BlockDeviceMapping
from nodewright_controller.kernel.resources import EPHEMERAL_STORAGE, amount

_GIB = 2**30


def block_device_request(mappings: Iterable[BlockDeviceMapping]) -> list[dict[str, Any]]:
    """Return the mappings of a launch template.

    Raises:
        ValueError: a volume size is no quantity; the message names the device.

    """
    request = []
    for mapping in mappings:
        entry: dict[str, Any] = {}
        if mapping.device_name:
            entry["DeviceName"] = mapping.device_name
        if mapping.ebs is not None:
            entry["Ebs"] = _ebs(mapping.ebs, mapping.device_name or "")
        request.append(entry)
    return request


def _ebs(ebs: BlockDevice, device: str) -> dict[str, Any]:
    values = {
        "DeleteOnTermination": ebs.delete_on_termination,
        "Encrypted": ebs.encrypted,
        "Iops": ebs.iops,
        "KmsKeyId": ebs.kms_key_id,
        "SnapshotId": ebs.snapshot_id,
        "Throughput": ebs.throughput,
        "VolumeInitializationRate": ebs.volume_initialization_rate,
        "VolumeSize": _gibibytes(ebs.volume_size, device),
        "VolumeType": ebs.volume_type,
    }
    return {key: value for key, value in values.items() if value is not None}


def _gibibytes(size: str | None, device: str) -> int | None:
    if not size:
        return None
    try:
        return math.ceil(amount(EPHEMERAL_STORAGE, size) / _GIB)
    except ValueError as error:
        raise ValueError(f"blockDeviceMappings {device}: volumeSize {error}") from error
