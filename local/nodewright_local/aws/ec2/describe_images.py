"""DescribeImages over AWS's public node images and whatever the user registered in moto."""

from datetime import UTC, datetime
from typing import Any

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2.filters import filters_of, matches
from nodewright_local.aws.ec2.images import Image, images
from nodewright_local.aws.ec2.paging import page
from nodewright_local.aws.errors import AwsError, dry_run
from nodewright_local.aws.wire import Call

_PER_PAGE = 1000
_TIME = "%Y-%m-%dT%H:%M:%S.000Z"


def public_image(image: Image) -> dict[str, Any]:
    """One public image in the shape of DescribeImages."""
    shown: dict[str, Any] = {
        "ImageId": image.image_id,
        "Name": image.name,
        "Description": image.description,
        "Architecture": image.architecture,
        "CreationDate": image.created.strftime(_TIME),
        "DeprecationTime": image.deprecated_at.strftime(_TIME),
        "ImageLocation": f"amazon/{image.name}",
        "ImageType": "machine",
        "ImageOwnerAlias": "amazon",
        "OwnerId": image.owner_id,
        "Public": True,
        "State": "available",
        "Hypervisor": "xen",
        "VirtualizationType": "hvm",
        "EnaSupport": True,
        "SriovNetSupport": "simple",
        "RootDeviceType": "ebs",
        "RootDeviceName": image.devices[0].name,
        "ImdsSupport": "v2.0",
        "PlatformDetails": "Windows" if image.windows else "Linux/UNIX",
        "BlockDeviceMappings": [
            {
                "DeviceName": device.name,
                "Ebs": {
                    "DeleteOnTermination": True,
                    "SnapshotId": f"snap-{image.image_id.removeprefix('ami-')}",
                    "VolumeSize": device.size_gib,
                    "VolumeType": "gp3",
                    "Encrypted": False,
                },
            }
            for device in image.devices
        ],
        "Tags": [],
    }
    if image.windows:
        shown["Platform"] = "windows"
    return shown


def _own_image(ami: Any) -> dict[str, Any]:
    created = ami.creation_date
    created_text = created.strftime(_TIME) if isinstance(created, datetime) else str(created)
    return {
        "ImageId": ami.id,
        "Name": ami.name,
        "Description": ami.description or "",
        "Architecture": ami.architecture or "x86_64",
        "CreationDate": created_text,
        "ImageLocation": ami.image_location or f"{ami.owner_id}/{ami.name}",
        "ImageType": ami.image_type,
        "OwnerId": ami.owner_id,
        "Public": ami.is_public,
        "State": ami.state,
        "Hypervisor": ami.hypervisor or "xen",
        "VirtualizationType": ami.virtualization_type or "hvm",
        "EnaSupport": True,
        "RootDeviceType": "ebs",
        "RootDeviceName": ami.root_device_name,
        "PlatformDetails": "Linux/UNIX",
        "BlockDeviceMappings": ami.block_device_mappings,
        "Tags": [{"Key": tag["key"], "Value": tag["value"]} for tag in ami.get_tags()],
    }


def find_image(region: str, image_id: str) -> dict[str, Any] | None:
    """One image, public or registered, in the shape of DescribeImages."""
    public = images(region).get(image_id)
    if public is not None:
        return public_image(public)
    own = moto_access.ec2(region).amis.get(image_id)
    return _own_image(own) if own is not None else None


def describe_images(call: Call) -> dict[str, Any]:
    """Answer DescribeImages: ids, owners, filters, IncludeDeprecated, 1000 to a page."""
    params = call.params
    if params.get("DryRun"):
        raise dry_run()
    found = _candidates(call.region, params.get("ImageIds") or [])
    owners = params.get("Owners") or []
    filters = filters_of(params)
    shown = [
        image
        for image in found
        if _owned(image, owners)
        and _visible(image, params)
        and matches(filters, _attributes(image), _tags(image))
    ]
    chosen, token = page(shown, params, limit=_PER_PAGE)
    return {"Images": list(chosen), "NextToken": token}


def _candidates(region: str, image_ids: list[str]) -> list[dict[str, Any]]:
    if not image_ids:
        own = [_own_image(ami) for ami in list(moto_access.ec2(region).amis.values())]
        return [*own, *(public_image(image) for image in images(region).values())]
    found = {image_id: find_image(region, image_id) for image_id in image_ids}
    missing = [image_id for image_id, image in found.items() if image is None]
    if any(not image_id.startswith("ami-") for image_id in missing):
        raise AwsError(
            "InvalidAMIID.Malformed", f'Invalid id: "{missing[0]}" (expecting "ami-...")'
        )
    if missing:
        plural = "The image ids" if len(missing) > 1 else "The image id"
        verb = "do" if len(missing) > 1 else "does"
        raise AwsError(
            "InvalidAMIID.NotFound", f"{plural} '[{', '.join(missing)}]' {verb} not exist"
        )
    return [image for image in found.values() if image is not None]


def _owned(image: dict[str, Any], owners: list[str]) -> bool:
    if not owners:
        return True
    names = {image["OwnerId"], image.get("ImageOwnerAlias")}
    if image["OwnerId"] == moto_access.account():
        names.add("self")
    return bool(names & set(owners))


def _visible(image: dict[str, Any], params: dict[str, Any]) -> bool:
    """Deprecated images show only when asked for, or when named by id."""
    if params.get("IncludeDeprecated") or params.get("ImageIds"):
        return True
    deprecated = image.get("DeprecationTime")
    return deprecated is None or deprecated > datetime.now(UTC).strftime(_TIME)


def _tags(image: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in image["Tags"]}


def _attributes(image: dict[str, Any]) -> dict[str, Any]:
    return {
        "image-id": image["ImageId"],
        "name": image["Name"],
        "architecture": image["Architecture"],
        "state": image["State"],
        "owner-id": image["OwnerId"],
        "owner-alias": image.get("ImageOwnerAlias"),
        "is-public": image["Public"],
        "image-type": image["ImageType"],
        "description": image["Description"],
        "creation-date": image["CreationDate"],
        "root-device-type": image["RootDeviceType"],
        "root-device-name": image["RootDeviceName"],
        "virtualization-type": image["VirtualizationType"],
        "hypervisor": image["Hypervisor"],
        "ena-support": image["EnaSupport"],
        "platform": image.get("Platform"),
        "platform-details": image["PlatformDetails"],
    }
