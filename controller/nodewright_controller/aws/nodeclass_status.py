"""The status of an EC2NodeClass as the API writes it, and what each step of filling it may say.

Pure. Merge patches replace lists whole and keep what they do not name, so an empty list is written
out and every field the CRD requires is present. Upstream: pkg/controllers/nodeclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nodewright_controller.api.conditions import ConditionTypes
from nodewright_controller.api.ec2nodeclass import (
    AMIStatus,
    CapacityReservationStatus,
    EC2NodeClassStatus,
)
from nodewright_controller.api.nodepool import NodeSelectorRequirementWithMinValues
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.kernel.timing import format_instant

AMIS: Final = "AMIsReady"
CAPACITY_RESERVATIONS: Final = "CapacityReservationsReady"
PLACEMENT_GROUP: Final = "PlacementGroupReady"
SUBNETS: Final = "SubnetsReady"
SECURITY_GROUPS: Final = "SecurityGroupsReady"
PROFILE: Final = "InstanceProfileReady"
VALIDATION: Final = "ValidationSucceeded"
_ALWAYS: Final = (AMIS, PLACEMENT_GROUP, SUBNETS, SECURITY_GROUPS, PROFILE)


def dependencies(options: AwsOptions) -> tuple[str, ...]:
    """Return the conditions that a node class needs before it can be validated."""
    return (*_ALWAYS, CAPACITY_RESERVATIONS) if options.reserved_capacity else _ALWAYS


def condition_types(options: AwsOptions) -> ConditionTypes:
    """Return the conditions that make up a node class's Ready."""
    return ConditionTypes((*dependencies(options), VALIDATION))


def status_document(status: EC2NodeClassStatus) -> dict[str, Any]:
    """Return the status without its conditions, complete enough to be compared and patched."""
    return {
        "subnets": [
            {"id": each.id, "zone": each.zone, "zoneID": each.zone_id}
            for each in status.subnets or ()
        ],
        "securityGroups": [
            {"id": each.id, "name": each.name} for each in status.security_groups or ()
        ],
        "capacityReservations": [_reservation(each) for each in status.capacity_reservations or ()],
        "amis": [_ami(each) for each in status.amis or ()],
        "instanceProfile": status.instance_profile or None,
    }


def _reservation(each: CapacityReservationStatus) -> dict[str, Any]:
    document: dict[str, Any] = {
        "availabilityZone": each.availability_zone,
        "id": each.id,
        "instanceMatchCriteria": each.instance_match_criteria,
        "instanceType": each.instance_type,
        "interruptible": each.interruptible,
        "ownerID": each.owner_id,
        "reservationType": each.reservation_type,
        "state": each.state,
    }
    return document | ({"endTime": format_instant(each.end_time)} if each.end_time else {})


def _ami(ami: AMIStatus) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": ami.id,
        "name": ami.name,
        "requirements": [_requirement(entry) for entry in ami.requirements],
    }
    return document | ({"deprecated": True} if ami.deprecated else {})


def _requirement(entry: NodeSelectorRequirementWithMinValues) -> dict[str, Any]:
    document: dict[str, Any] = {"key": entry.key, "operator": entry.operator}
    return document | ({"values": list(entry.values)} if entry.values else {})


def differs(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a patch is needed, the order of subnets apart: it follows their free addresses."""
    return _ordered(before) != _ordered(after)


def _ordered(document: Mapping[str, Any]) -> dict[str, Any]:
    subnets = sorted(document["subnets"], key=lambda subnet: str(subnet["id"]))
    return {**document, "subnets": subnets}
