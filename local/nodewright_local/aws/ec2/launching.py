"""Launching one instance out of a capacity pool: prices, capacity, addresses, then the instance."""

from nodewright_local.aws.ec2.capacity import Capacity
from nodewright_local.aws.ec2.instances import InstanceRecord, Instances, Origin
from nodewright_local.aws.ec2.launch_spec import LaunchSpec
from nodewright_local.aws.ec2.prices import on_demand_price, spot_price
from nodewright_local.aws.errors import AwsError

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


def launch_one(
    instances: Instances, capacity: Capacity, spec: LaunchSpec, origin: Origin
) -> InstanceRecord:
    """Launch one instance, or raise the AwsError that says what is missing; then nothing is taken."""
    if spec.subnet.available_ip_address_count < len(spec.interfaces):
        raise AwsError(
            "InsufficientFreeAddressesInSubnet",
            f"There are not enough free addresses in subnet '{spec.subnet.id}' to satisfy the "
            "requested number of instances.",
        )
    code = capacity.take(spec.instance_type, spec.zone, spec.capacity_type)
    if code is not None:
        raise AwsError(code, _shortage(code, spec))
    return instances.launch(spec, origin)


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
