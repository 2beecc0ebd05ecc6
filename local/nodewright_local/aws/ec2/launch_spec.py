"""From a launch request to a complete, checked specification of one instance.

RunInstances, CreateFleet and node groups all come through here: template data and request are
laid over each other, then every reference is looked up, and what EC2 would refuse is refused with
EC2's code and words. Nothing is changed in this module.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2 import catalogue
from nodewright_local.aws.ec2.describe_images import find_image
from nodewright_local.aws.ec2.lookups import (
    find_profile,
    find_security_groups,
    find_subnet,
    find_template_version,
)
from nodewright_local.aws.errors import AwsError

MAX_USER_DATA_BYTES = 16384
_KEPT_OPTIONS = (
    "CpuOptions",
    "EnclaveOptions",
    "HibernationOptions",
    "MetadataOptions",
    "Placement",
    "PrivateDnsNameOptions",
    "CapacityReservationSpecification",
    "MaintenanceOptions",
    "InstanceInitiatedShutdownBehavior",
    "DisableApiTermination",
    "EbsOptimized",
    "KeyName",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """Everything EC2 knows about an instance before it exists."""

    region: str
    instance_type: str
    image: dict[str, Any]
    """As DescribeImages shows it."""
    subnet: Any
    """moto's Subnet."""
    zone: str
    capacity_type: str
    user_data: str
    """base64, empty when there is none."""
    profile: Any
    """moto's InstanceProfile, or None."""
    security_group_ids: tuple[str, ...]
    interfaces: tuple[dict[str, Any], ...]
    """Interface specifications as requested, device 0 first; never empty."""
    devices: tuple[dict[str, Any], ...]
    """Block devices after laying the request over the image's own."""
    monitoring: bool
    options: dict[str, Any]
    """Remaining options of the request by their EC2 name."""
    tags: dict[str, dict[str, str]]
    """Tags by resource type."""
    template: tuple[str, int] | None
    """Launch template id and version."""


def template_of(region: str, reference: Mapping[str, Any] | None) -> tuple[Any, Any] | None:
    """Find the launch template and version that a request names; None when it names none."""
    return find_template_version(region, reference) if reference else None


def overlay(template_data: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Lay a request over launch template data; what the request sets wins, tags are united."""
    given = {name: value for name, value in request.items() if value not in (None, [], {})}
    merged = {**template_data, **given}
    tags = tags_by_resource(template_data.get("TagSpecifications"))
    for resource, more in tags_by_resource(request.get("TagSpecifications")).items():
        tags[resource] = {**tags.get(resource, {}), **more}
    merged["TagSpecifications"] = [
        {"ResourceType": resource, "Tags": [{"Key": k, "Value": v} for k, v in found.items()]}
        for resource, found in tags.items()
    ]
    return merged


def tags_by_resource(
    specifications: Sequence[Mapping[str, Any]] | None,
) -> dict[str, dict[str, str]]:
    """Read TagSpecifications as resource type to tags."""
    found: dict[str, dict[str, str]] = {}
    for item in specifications or ():
        tags = found.setdefault(item["ResourceType"], {})
        tags.update({tag["Key"]: tag.get("Value") or "" for tag in item.get("Tags") or ()})
    return found


def resolve(
    region: str, merged: Mapping[str, Any], *, template: tuple[Any, Any] | None = None
) -> LaunchSpec:
    """Check a merged request and look up everything it names.

    Raises AwsError with the code EC2 would give.
    """
    instance_type = _instance_type(merged)
    image = _image(region, merged)
    _check_architecture(instance_type, image)
    interfaces = _interfaces(merged)
    subnet = _subnet(region, merged, interfaces)
    zone = str(subnet.availability_zone)
    _check_offered(region, instance_type, zone)
    capacity_type = _capacity_type(merged)
    if capacity_type not in catalogue.usage_classes(instance_type):
        raise AwsError(
            "Unsupported",
            f"The requested configuration is currently not supported: {instance_type} has no "
            f"{capacity_type} usage class. Please check the documentation for supported "
            "configurations.",
        )
    groups = find_security_groups(region, merged, interfaces, subnet)
    return LaunchSpec(
        region=region,
        instance_type=instance_type,
        image=image,
        subnet=subnet,
        zone=zone,
        capacity_type=capacity_type,
        user_data=_user_data(merged),
        profile=find_profile(merged.get("IamInstanceProfile")),
        security_group_ids=groups,
        interfaces=interfaces,
        devices=_devices(image, merged.get("BlockDeviceMappings") or ()),
        monitoring=bool((merged.get("Monitoring") or {}).get("Enabled")),
        options={name: merged[name] for name in _KEPT_OPTIONS if merged.get(name) is not None},
        tags=tags_by_resource(merged.get("TagSpecifications")),
        template=(template[0].id, template[1].number) if template else None,
    )


def _instance_type(merged: Mapping[str, Any]) -> str:
    name = str(merged.get("InstanceType") or "m1.small")
    if catalogue.instance_type(name) is None:
        raise AwsError("InvalidParameterValue", f"Invalid value '{name}' for InstanceType.")
    return name


def _image(region: str, merged: Mapping[str, Any]) -> dict[str, Any]:
    image_id = merged.get("ImageId")
    if not image_id:
        raise AwsError("MissingParameter", "The request must contain the parameter ImageId")
    image = find_image(region, image_id)
    if image is None:
        raise AwsError("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
    return image


def _check_architecture(instance_type: str, image: Mapping[str, Any]) -> None:
    supported = catalogue.architectures(instance_type)
    wanted = image["Architecture"]
    if wanted in supported:
        return
    shown = "arm64" if "arm64" in supported else ",".join(sorted(supported))
    raise AwsError(
        "InvalidParameterValue",
        f"The architecture '{shown}' of the specified instance type does not match the "
        f"architecture '{wanted}' of the specified AMI. Specify an instance type and an AMI that "
        "have matching architectures, and try again. You can use 'describe-instance-types' or "
        "'describe-images' to discover the architecture of the instance type or AMI.",
    )


def _interfaces(merged: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    requested = [dict(item) for item in merged.get("NetworkInterfaces") or ()]
    if not requested:
        return ({"DeviceIndex": 0},)
    position = {
        id(item): (item.get("NetworkCardIndex") or 0, item.get("DeviceIndex") or 0)
        for item in requested
    }
    return tuple(sorted(requested, key=lambda item: position[id(item)]))


def _subnet(region: str, merged: Mapping[str, Any], interfaces: tuple[dict[str, Any], ...]) -> Any:
    zone = merged.get("AvailabilityZone") or (merged.get("Placement") or {}).get("AvailabilityZone")
    subnet_id = merged.get("SubnetId") or interfaces[0].get("SubnetId")
    if subnet_id is None:
        return _default_subnet(region, zone)
    subnet = find_subnet(region, subnet_id)
    if zone and zone != subnet.availability_zone:
        raise AwsError(
            "InvalidParameterValue",
            f"The availability zone '{zone}' does not match the subnet's availability zone "
            f"'{subnet.availability_zone}'.",
        )
    return subnet


def _default_subnet(region: str, zone: str | None) -> Any:
    subnets = moto_access.ec2(region).get_default_subnets()
    if zone and zone in subnets:
        return subnets[zone]
    if zone or not subnets:
        raise AwsError(
            "MissingInput",
            f"No subnets found for the default VPC in {zone or region}. Please specify a subnet.",
        )
    return subnets[min(subnets)]


def _check_offered(region: str, instance_type: str, zone: str) -> None:
    zones = catalogue.zones_by_type(region).get(instance_type, ())
    if zone in zones:
        return
    elsewhere = f" or choosing {', '.join(zones)}" if zones else ""
    raise AwsError(
        "Unsupported",
        f"Your requested instance type ({instance_type}) is not supported in your requested "
        f"Availability Zone ({zone}). Please retry your request by not specifying an "
        f"Availability Zone{elsewhere}.",
    )


def _capacity_type(merged: Mapping[str, Any]) -> str:
    market = (merged.get("InstanceMarketOptions") or {}).get("MarketType")
    return "spot" if market == "spot" else "on-demand"


def _user_data(merged: Mapping[str, Any]) -> str:
    encoded = str(merged.get("UserData") or "")
    try:
        size = len(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError) as error:
        raise AwsError(
            "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."
        ) from error
    if size > MAX_USER_DATA_BYTES:
        raise AwsError(
            "InvalidParameterValue", f"User data is limited to {MAX_USER_DATA_BYTES} bytes"
        )
    return encoded


def _devices(
    image: Mapping[str, Any], requested: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], ...]:
    devices = {
        item["DeviceName"]: dict(item.get("Ebs") or {}) for item in image["BlockDeviceMappings"]
    }
    smallest = {name: ebs.get("VolumeSize") or 0 for name, ebs in devices.items()}
    for item in requested:
        name = item.get("DeviceName")
        if not name or not str(name).startswith(("/dev/", "xvd", "sd")):
            raise AwsError("InvalidBlockDeviceMapping", f"Invalid device name {name}")
        if item.get("NoDevice") is not None:
            devices.pop(name, None)
            continue
        given = {key: value for key, value in (item.get("Ebs") or {}).items() if value is not None}
        devices[name] = {**devices.get(name, {"DeleteOnTermination": False}), **given}
        size = devices[name].get("VolumeSize")
        if size is not None and size < smallest.get(name, 0):
            raise AwsError(
                "InvalidBlockDeviceMapping",
                f"Volume of size {size}GB is smaller than snapshot "
                f"'{devices[name].get('SnapshotId')}', expect size >= {smallest[name]}GB",
            )
    return tuple({"DeviceName": name, "Ebs": ebs} for name, ebs in devices.items())
