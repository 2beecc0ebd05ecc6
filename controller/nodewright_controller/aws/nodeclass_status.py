"""The status of an EC2NodeClass as the API writes it, and what each step of filling it may say.

Pure. Merge patches replace lists whole and keep what they do not name, so an empty list is written
out and every field the CRD requires is present. Upstream: pkg/controllers/nodeclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nodewright_controller.api.conditions import ConditionTypes
from nodewright_controller.api.ec2nodeclass import AMIStatus, EC2NodeClassStatus
from nodewright_controller.api.nodepool import NodeSelectorRequirementWithMinValues

AMIS: Final = "AMIsReady"
PLACEMENT_GROUP: Final = "PlacementGroupReady"
SUBNETS: Final = "SubnetsReady"
SECURITY_GROUPS: Final = "SecurityGroupsReady"
PROFILE: Final = "InstanceProfileReady"
VALIDATION: Final = "ValidationSucceeded"
NODE_CLASS: Final = ConditionTypes(
    (AMIS, PLACEMENT_GROUP, SUBNETS, SECURITY_GROUPS, PROFILE, VALIDATION)
)


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
        "amis": [_ami(each) for each in status.amis or ()],
        "instanceProfile": status.instance_profile or None,
    }


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
