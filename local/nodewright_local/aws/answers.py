"""Which calls this package answers itself; everything else is moto's.

An answer is a function of the world and the call. It returns the result as boto3 would show it,
a finished HTTP answer, or None to let moto answer after all.
"""

from collections.abc import Callable
from typing import Any

from nodewright_local.aws import iam, identity, logs, pricing, ssm
from nodewright_local.aws.ec2 import (
    catalogue,
    describe_images,
    describe_instances,
    fleet,
    guards,
    placement,
    reservations,
    run_instances,
    volumes,
)
from nodewright_local.aws.eks.answers import ANSWERS as EKS_ANSWERS
from nodewright_local.aws.wire import Answer, Call
from nodewright_local.aws.world import World

Result = dict[str, Any] | Answer | None
Handler = Callable[[World, Call], Result]


def _stateless(answer: Callable[[Call], Result]) -> Handler:
    return lambda _world, call: answer(call)


ANSWERS: dict[tuple[str, str], Handler] = {
    ("ec2", "CreateFleet"): fleet.create_fleet,
    ("ec2", "DescribeFleets"): fleet.describe_fleets,
    ("ec2", "DeleteFleets"): fleet.delete_fleets,
    ("ec2", "RunInstances"): run_instances.run_instances,
    ("ec2", "TerminateInstances"): run_instances.terminate_instances,
    ("ec2", "StopInstances"): run_instances.stop_instances,
    ("ec2", "StartInstances"): run_instances.start_instances,
    ("ec2", "RebootInstances"): run_instances.reboot_instances,
    ("ec2", "DescribeInstances"): describe_instances.describe_instances,
    ("ec2", "DescribeInstanceStatus"): describe_instances.describe_instance_status,
    ("ec2", "DescribeInstanceTypes"): _stateless(catalogue.describe_instance_types),
    ("ec2", "DescribeInstanceTypeOfferings"): _stateless(
        catalogue.describe_instance_type_offerings
    ),
    ("ec2", "DescribeImages"): _stateless(describe_images.describe_images),
    ("ec2", "DescribeSpotPriceHistory"): _stateless(pricing.describe_spot_price_history),
    ("ec2", "DeleteSubnet"): guards.delete_subnet,
    ("ec2", "DeleteSecurityGroup"): guards.delete_security_group,
    ("ec2", "DeleteNatGateway"): guards.delete_nat_gateway,
    ("ec2", "CreateVolume"): volumes.create_volume,
    ("ec2", "AttachVolume"): volumes.attach_volume,
    ("ec2", "CreateTags"): guards.change_tags,
    ("ec2", "DeleteTags"): guards.change_tags,
    ("ec2", "DeleteLaunchTemplate"): guards.delete_launch_template,
    ("ec2", "DescribeLaunchTemplates"): guards.describe_launch_templates,
    ("ec2", "CreatePlacementGroup"): placement.create_placement_group,
    ("ec2", "DescribePlacementGroups"): placement.describe_placement_groups,
    ("ec2", "DeletePlacementGroup"): placement.delete_placement_group,
    ("ec2", "CreateCapacityReservation"): reservations.create_capacity_reservation,
    ("ec2", "DescribeCapacityReservations"): reservations.describe_capacity_reservations,
    ("ec2", "ModifyCapacityReservation"): reservations.modify_capacity_reservation,
    ("ec2", "CancelCapacityReservation"): reservations.cancel_capacity_reservation,
    ("arc-zonal-shift", "GetManagedResource"): _stateless(placement.get_managed_resource),
    ("pricing", "GetProducts"): _stateless(pricing.get_products),
    ("ssm", "GetParameter"): _stateless(ssm.get_parameter),
    ("ssm", "GetParameters"): _stateless(ssm.get_parameters),
    ("ssm", "GetParametersByPath"): _stateless(ssm.get_parameters_by_path),
    ("logs", "DeleteLogGroup"): _stateless(logs.delete_log_group),
    ("iam", "ListInstanceProfiles"): _stateless(iam.list_instance_profiles),
    ("sts", "GetCallerIdentity"): _stateless(identity.get_caller_identity),
    ("sts", "AssumeRole"): _stateless(identity.assume_role),
    **{("eks", operation): answer for operation, answer in EKS_ANSWERS.items()},
}
