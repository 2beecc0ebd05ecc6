"""EBS as the driver uses it: make, find, attach, detach and delete volumes. Everything blocks.

Each call can be repeated: what is done already is found and left.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from string import ascii_lowercase
from typing import Any

from botocore.exceptions import ClientError

_DEVICES = tuple(f"/dev/xvd{a}{b}" for a, b in product("abcd", ascii_lowercase))
_DEVICE = re.compile(r"/dev/xvd[a-d][a-z]")
_NAME_TAG = "CSIVolumeName"


class EbsRefused(Exception):
    """EC2 cannot do what is asked; the text is for the object's events and status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeOrder:
    """One volume to make."""

    name: str
    """Of the PersistentVolume; a second order of the same name finds the first one's volume."""
    zone: str
    size_gib: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further parameters of CreateVolume."""
    tags: Mapping[str, str] = field(default_factory=dict)


def is_pod_volume(device: str) -> bool:
    """Tell whether a device name is one that :meth:`Ebs.attach` gives."""
    return _DEVICE.fullmatch(device) is not None


class Ebs:
    """EC2's volumes, over one boto3 client of EC2."""

    def __init__(self, ec2: Any) -> None:
        self._ec2 = ec2

    def create(self, order: VolumeOrder) -> str:
        """Return the id of the volume of that name, made if need be.

        Raises EbsRefused and botocore's errors.
        """
        answer = self._ec2.describe_volumes(
            Filters=[{"Name": f"tag:{_NAME_TAG}", "Values": [order.name]}]
        )
        for volume in answer["Volumes"]:
            return str(volume["VolumeId"])
        tags = {_NAME_TAG: order.name, **order.tags}
        try:
            made = self._ec2.create_volume(
                AvailabilityZone=order.zone,
                Size=order.size_gib,
                TagSpecifications=[
                    {
                        "ResourceType": "volume",
                        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
                    }
                ],
                **order.options,
            )
        except ClientError as error:
            raise EbsRefused(f"could not create volume in EC2: {error}") from error
        return str(made["VolumeId"])

    def delete(self, volume_id: str) -> None:
        """Delete a volume; one that is gone already is fine."""
        try:
            self._ec2.delete_volume(VolumeId=volume_id)
        except ClientError as error:
            if error.response["Error"]["Code"] != "InvalidVolume.NotFound":
                raise EbsRefused(f"could not delete volume {volume_id}: {error}") from error

    def attach(self, volume_id: str, instance_id: str) -> str:
        """Attach a volume to an instance and return the device name."""
        for attachment in self._attachments(volume_id):
            if attachment["InstanceId"] == instance_id:
                return str(attachment["Device"])
        try:
            device = self._free_device(instance_id)
            self._ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device=device)
        except ClientError as error:
            raise EbsRefused(f"could not attach volume {volume_id}: {error}") from error
        return device

    def detach(self, volume_id: str, instance_id: str) -> None:
        """Detach a volume from an instance; not being attached to it is fine."""
        if all(item["InstanceId"] != instance_id for item in self._attachments(volume_id)):
            return
        try:
            self._ec2.detach_volume(VolumeId=volume_id, InstanceId=instance_id)
        except ClientError as error:
            raise EbsRefused(f"could not detach volume {volume_id}: {error}") from error

    def _attachments(self, volume_id: str) -> list[Mapping[str, Any]]:
        try:
            answer = self._ec2.describe_volumes(VolumeIds=[volume_id])
        except ClientError as error:
            if error.response["Error"]["Code"] == "InvalidVolume.NotFound":
                return []
            raise
        return list(answer["Volumes"][0].get("Attachments", []))

    def _free_device(self, instance_id: str) -> str:
        answer = self._ec2.describe_instances(InstanceIds=[instance_id])
        details = answer["Reservations"][0]["Instances"][0]
        taken = {mapping["DeviceName"] for mapping in details.get("BlockDeviceMappings", [])}
        for device in _DEVICES:
            if device not in taken:
                return device
        raise EbsRefused(f"instance {instance_id} has no free device name")
