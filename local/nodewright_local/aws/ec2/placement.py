"""Placement groups, which moto lacks, and zonal shift, for which nothing is registered.

A placement group is remembered and shown; it does not change where instances run.
"""

import secrets
from typing import Any

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2.filters import filters_of, matches
from nodewright_local.aws.ec2.launch_spec import tags_by_resource
from nodewright_local.aws.errors import AwsError, dry_run
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World


def create_placement_group(world: World, call: Call) -> dict[str, Any]:
    """Answer CreatePlacementGroup."""
    params = call.params
    if params.get("DryRun"):
        raise dry_run()
    name = params["GroupName"]
    if (call.region, name) in world.placement_groups:
        raise AwsError("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' exists")
    group_id = f"pg-{secrets.token_hex(8)}0"
    tags = tags_by_resource(params.get("TagSpecifications")).get("placement-group", {})
    arn = f"arn:aws:ec2:{call.region}:{moto_access.account()}:placement-group/{name}"
    group: dict[str, Any] = {
        "GroupName": name,
        "GroupId": group_id,
        "GroupArn": arn,
        "State": "available",
        "Strategy": params.get("Strategy") or "cluster",
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }
    if group["Strategy"] == "partition":
        group["PartitionCount"] = params.get("PartitionCount") or 2
    if group["Strategy"] == "spread":
        group["SpreadLevel"] = params.get("SpreadLevel") or "rack"
    world.placement_groups[call.region, name] = group
    return {"PlacementGroup": group}


def describe_placement_groups(world: World, call: Call) -> dict[str, Any]:
    """Answer DescribePlacementGroups, by names, ids and filters."""
    params = call.params
    if params.get("DryRun"):
        raise dry_run()
    groups = [g for (region, _), g in world.placement_groups.items() if region == call.region]
    for key, wanted in (
        ("GroupName", params.get("GroupNames")),
        ("GroupId", params.get("GroupIds")),
    ):
        if wanted:
            groups = [group for group in groups if group[key] in wanted]
            missing = set(wanted) - {group[key] for group in groups}
            if missing:
                raise _unknown(min(missing))
    filters = filters_of(params)
    return {"PlacementGroups": [group for group in groups if _passes(group, filters)]}


def _passes(group: dict[str, Any], filters: dict[str, list[str]]) -> bool:
    attributes = {
        "group-name": group["GroupName"],
        "group-arn": group["GroupArn"],
        "state": group["State"],
        "strategy": group["Strategy"],
    }
    return matches(filters, attributes, {tag["Key"]: tag["Value"] for tag in group["Tags"]})


def _unknown(name: str) -> AwsError:
    return AwsError("InvalidPlacementGroup.Unknown", f"The placement group '{name}' is unknown")


def delete_placement_group(world: World, call: Call) -> dict[str, Any]:
    """Answer DeletePlacementGroup."""
    if call.params.get("DryRun"):
        raise dry_run()
    name = call.params["GroupName"]
    if world.placement_groups.pop((call.region, name), None) is None:
        raise _unknown(name)
    return {}


def get_managed_resource(call: Call) -> dict[str, Any]:
    """Answer ARC's GetManagedResource: nothing on the laptop is registered for zonal shift."""
    name = call.params["resourceIdentifier"]
    raise AwsError(
        "ResourceNotFoundException", f"The resource {name} is not managed by zonal shift"
    )
