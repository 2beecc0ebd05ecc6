"""What a CreateFleet answer teaches about what can be had: offerings, quotas, subnets.

Each error is taken as widely as it holds and no wider: out of stock is one type in one zone, a
quota is a group of types in every zone, a full subnet is that subnet. Pure but for the memory that
it writes to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nodewright_controller.api.labels import SPOT
from nodewright_controller.aws.error_codes import (
    SPOT_ROLE_DENIED,
    SUBNET_FULL,
    USED_UP_QUOTAS,
    is_out_of_capacity,
)
from nodewright_controller.aws.fleet import FleetError, FleetResult, offered
from nodewright_controller.aws.quotas import quota_group
from nodewright_controller.aws.unavailable import UnavailableOfferings


def remember_refusals(
    result: FleetResult, request: Mapping[str, Any], unavailable: UnavailableOfferings
) -> None:
    """Mark what the errors of an answer say is not to be had."""
    target = request["TargetCapacitySpecification"]["DefaultTargetCapacityType"]
    for error in result.errors:
        if error.code == SPOT_ROLE_DENIED:
            unavailable.mark_capacity_type(SPOT)
            continue
        if not is_out_of_capacity(error.code):
            continue
        for instance_type, zone, subnet in _places(error, request):
            if error.code in USED_UP_QUOTAS:
                unavailable.mark_quota(quota_group(instance_type), target)
            elif error.code == SUBNET_FULL:
                unavailable.mark_subnet(subnet)
            else:
                unavailable.mark(instance_type, zone, target)


def _places(error: FleetError, request: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield type, zone and subnet that an error is about: all that was offered if it says none."""
    if error.instance_type and error.zone:
        yield error.instance_type, error.zone, error.subnet_id
    elif not error.instance_type:
        for each in offered(request):
            yield each["InstanceType"], each["AvailabilityZone"], each["SubnetId"]
