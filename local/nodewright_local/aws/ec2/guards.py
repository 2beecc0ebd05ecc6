"""Checks and side effects that EC2 has and moto leaves out; moto carries the call out afterwards.

A controller or a teardown that relies on these refusals would otherwise look right on the laptop
and fail on AWS.
"""

from collections.abc import Iterator

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2.instances import InstanceRecord
from nodewright_local.aws.ec2.lookups import find_template_version
from nodewright_local.aws.errors import AwsError
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World


def _present(world: World, call: Call) -> Iterator[InstanceRecord]:
    """Instances that still hold their interfaces."""
    return (r for r in world.instances.all(call.region) if r.state != "terminated")


def delete_subnet(world: World, call: Call) -> None:
    """Refuse DeleteSubnet while instances are in it."""
    subnet_id = call.params["SubnetId"]
    if any(record.spec.subnet.id == subnet_id for record in _present(world, call)):
        raise AwsError(
            "DependencyViolation",
            f"The subnet '{subnet_id}' has dependencies and cannot be deleted.",
        )


def delete_security_group(world: World, call: Call) -> None:
    """Refuse DeleteSecurityGroup while instances bear the group."""
    group_id = call.params.get("GroupId")
    for record in _present(world, call):
        if any(group.id == group_id for group in record.moto.security_groups):
            raise AwsError("DependencyViolation", f"resource {group_id} has a dependent object")


def delete_nat_gateway(_world: World, call: Call) -> None:
    """Delete a gateway's network interface with it, which moto forgets."""
    ec2 = moto_access.ec2(call.region)
    gateway = ec2.nat_gateways.get(call.params.get("NatGatewayId"))
    if gateway is not None and gateway._eni.id in ec2.enis:
        ec2.delete_network_interface(gateway._eni.id)


def change_tags(world: World, call: Call) -> None:
    """Refuse CreateTags and DeleteTags for instances that do not exist."""
    ids = [item for item in call.params.get("Resources") or () if item.startswith("i-")]
    world.instances.get(call.region, ids)


def delete_launch_template(_world: World, call: Call) -> None:
    """Refuse DeleteLaunchTemplate with EC2's codes when there is no such template."""
    find_template_version(
        call.region,
        {
            "LaunchTemplateId": call.params.get("LaunchTemplateId"),
            "LaunchTemplateName": call.params.get("LaunchTemplateName"),
        },
    )


def describe_launch_templates(_world: World, call: Call) -> None:
    """Refuse DescribeLaunchTemplates for names and ids that do not exist."""
    for name in call.params.get("LaunchTemplateNames") or ():
        find_template_version(call.region, {"LaunchTemplateName": name})
    for template_id in call.params.get("LaunchTemplateIds") or ():
        find_template_version(call.region, {"LaunchTemplateId": template_id})
