"""Launching one instance out of a capacity pool: prices, capacity, addresses, then the instance."""

from nodewright_local.aws.ec2.instances import InstanceRecord, Origin
from nodewright_local.aws.ec2.launch_spec import LaunchSpec
from nodewright_local.aws.ec2.prices import on_demand_price, spot_price
from nodewright_local.aws.ec2.reservations import reservation_for
from nodewright_local.aws.errors import AwsError
from nodewright_local.aws.world import World

_SHORTAGE = {
    "MaxSpotInstanceCountExceeded": "Max spot instance count exceeded",
    "VcpuLimitExceeded": "You have requested more vCPU capacity than your current vCPU limit "
    "allows for the instance bucket that the specified instance type belongs to. Please visit "
    "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
    "UnfulfillableCapacity": "Unable to fulfill capacity due to your request configuration. "
    "Please adjust your request and try again.",
}


def hourly_price(region: str, zone: str, instance_type: str, capacity_type: str) -> float | None:
    """USD per hour of a pool, None when AWS publishes none."""
    if capacity_type == "spot":
        return spot_price(region, zone, instance_type)
    return on_demand_price(region, instance_type)


def launch_one(world: World, spec: LaunchSpec, origin: Origin) -> InstanceRecord:
    """Launch one instance, or raise the AwsError that says what is missing; then nothing is taken."""
    if spec.subnet.available_ip_address_count < len(spec.interfaces):
        raise AwsError(
            "InsufficientFreeAddressesInSubnet",
            f"There are not enough free addresses in subnet '{spec.subnet.id}' to satisfy the "
            "requested number of instances.",
        )
    reservation = reservation_for(world, spec)
    if reservation is None:
        code = world.capacity.take(spec.instance_type, spec.zone, spec.capacity_type)
        if code is not None:
            raise AwsError(code, _shortage(code, spec))
    record = world.instances.launch(spec, origin)
    if reservation is not None:
        record.capacity_reservation_id = reservation.id
    return record


def _shortage(code: str, spec: LaunchSpec) -> str:
    if code in _SHORTAGE:
        return _SHORTAGE[code]
    if spec.capacity_type == "spot":
        return "There is no Spot capacity available that matches your request."
    return (
        f"We currently do not have sufficient {spec.instance_type} capacity in the Availability "
        f"Zone you requested ({spec.zone}). Our system will be working on provisioning additional "
        f"capacity. You can currently get {spec.instance_type} capacity by not specifying an "
        "Availability Zone in your request or choosing another one."
    )
