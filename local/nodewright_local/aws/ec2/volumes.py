"""What EC2 refuses of volumes and moto does not; moto carries the call out afterwards."""

from typing import Any

from nodewright_local.aws import moto_access
from nodewright_local.aws.errors import AwsError
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World


def create_volume(_world: World, call: Call) -> None:
    """Refuse CreateVolume in a zone that the region does not have."""
    zone = call.params.get("AvailabilityZone")
    if zone and moto_access.ec2(call.region).get_zone_by_name(zone) is None:
        raise AwsError("InvalidZone.NotFound", f"The zone '{zone}' does not exist.")


def attach_volume(world: World, call: Call) -> None:
    """Refuse AttachVolume across zones, to a dying instance, and of a volume in use."""
    [record] = world.instances.get(call.region, [call.params["InstanceId"]])
    volume: Any = moto_access.ec2(call.region).volumes.get(call.params["VolumeId"])
    if volume is None:
        return  # moto knows the error
    if record.state not in ("running", "stopped"):
        raise AwsError(
            "IncorrectState", f"Instance '{record.instance_id}' is not 'running' or 'stopped'"
        )
    if volume.zone.name != record.spec.zone:
        raise AwsError(
            "InvalidVolume.ZoneMismatch",
            f"The volume '{volume.id}' is not in the same availability zone as instance "
            f"'{record.instance_id}'",
        )
    if volume.attachment is not None:
        raise AwsError("VolumeInUse", f"{volume.id} is already attached to an instance")
