"""Which instance types exist, and where.

The data are moto's copies of AWS's own answers; what they lack is filled in here. Answers are
assembled from XML fragments that are rendered once per type, since a full listing would otherwise
cost seconds per call.
"""

import functools
from collections import defaultdict
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES
from moto.ec2.models.instance_types import InstanceType as MotoInstanceType
from moto.ec2.utils import generic_filter

from nodewright_local.aws.ec2.filters import filters_of, matches
from nodewright_local.aws.ec2.paging import page
from nodewright_local.aws.ec2.xml import list_answer, list_items, render_item
from nodewright_local.aws.errors import AwsError, dry_run
from nodewright_local.aws.wire import Answer, Call

TYPES_PER_PAGE = 100
OFFERINGS_PER_PAGE = 1000

# moto's capture lacks the accelerators of this one type; figures from AWS's Trainium2 page.
_NEURON_GAPS: dict[str, dict[str, Any]] = {
    "trn2u.48xlarge": {
        "NeuronDevices": [
            {
                "Count": 16,
                "Name": "Trainium2",
                "CoreInfo": {"Count": 8, "Version": 3},
                "MemoryInfo": {"SizeInMiB": 98304},
            }
        ],
        "TotalNeuronDeviceMemoryInMiB": 1572864,
    },
}


def instance_type(name: str) -> dict[str, Any] | None:
    """The description of one type as DescribeInstanceTypes gives it, None when AWS has no such type."""
    found = INSTANCE_TYPES.get(name)
    if found is None:
        return None
    gap = _NEURON_GAPS.get(name)
    return {**found, "NeuronInfo": gap} if gap and "NeuronInfo" not in found else dict(found)


def architectures(name: str) -> frozenset[str]:
    """The architectures a type can boot (`x86_64`, `arm64`, `i386`); empty for an unknown type."""
    found = instance_type(name)
    return frozenset(found["ProcessorInfo"]["SupportedArchitectures"]) if found else frozenset()


def usage_classes(name: str) -> frozenset[str]:
    """`on-demand`, `spot`, `capacity-block`, as far as the type supports them."""
    found = instance_type(name)
    return frozenset(found["SupportedUsageClasses"]) if found else frozenset()


@functools.cache
def zones_by_type(region: str) -> dict[str, tuple[str, ...]]:
    """Zones that offer each type in a region, sorted."""
    zones: dict[str, set[str]] = defaultdict(set)
    for offering in INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, ()):
        zones[offering["InstanceType"]].add(offering["Location"])
    return {name: tuple(sorted(found)) for name, found in sorted(zones.items())}


@functools.cache
def _type_names(region: str) -> tuple[str, ...]:
    """Types of a region in the order AWS would list them; all of them for a region moto lacks."""
    return tuple(name for name in zones_by_type(region) if name in INSTANCE_TYPES) or tuple(
        INSTANCE_TYPES
    )


@functools.cache
def _type_fragment(name: str) -> str:
    described = {"InstanceTypes": [instance_type(name)]}
    return render_item("DescribeInstanceTypes", described, "instanceTypeSet")


def warm(region: str) -> None:
    """Render every type of a region once, so that the first listing is as fast as the next."""
    for name in _type_names(region):
        _type_fragment(name)


def describe_instance_types(call: Call) -> Answer:
    """Answer DescribeInstanceTypes: types of the region, filtered, 100 to a page."""
    params = call.params
    if params.get("DryRun"):
        raise dry_run()
    names = _selected_types(call.region, params)
    chosen, token = page(names, params, limit=TYPES_PER_PAGE)
    return list_answer(
        "DescribeInstanceTypes", "instanceTypeSet", map(_type_fragment, chosen), token
    )


def _selected_types(region: str, params: dict[str, Any]) -> list[str]:
    names = list(_type_names(region))
    wanted = params.get("InstanceTypes")
    if wanted:
        unknown = sorted(set(wanted) - set(names))
        if unknown:
            raise AwsError(
                "InvalidInstanceType",
                f"The following supplied instance types do not exist: [{', '.join(unknown)}]",
            )
        names = [name for name in names if name in wanted]
    filters = filters_of(params)
    if filters:
        kept: list[dict[str, Any]] = generic_filter(
            filters, [MotoInstanceType(name) for name in names]
        )
        names = [described["InstanceType"] for described in kept]
    return names


@functools.cache
def _offerings(region: str, location_type: str) -> tuple[dict[str, str], ...]:
    found = INSTANCE_TYPE_OFFERINGS.get(location_type)
    if found is None:
        raise AwsError(
            "InvalidParameterValue",
            f"Invalid value '{location_type}' for location-type. Valid values: region, "
            "availability-zone, availability-zone-id",
        )
    return tuple(found.get(region, ()))


def describe_instance_type_offerings(call: Call) -> Answer:
    """Answer DescribeInstanceTypeOfferings; filters `location` and `instance-type`, with wildcards."""
    params = call.params
    if params.get("DryRun"):
        raise dry_run()
    location_type = params.get("LocationType") or "region"
    filters = filters_of(params)
    found = [
        offering
        for offering in _offerings(call.region, location_type)
        if matches(
            filters,
            {"location": offering["Location"], "instance-type": offering["InstanceType"]},
        )
    ]
    chosen, token = page(found, params, limit=OFFERINGS_PER_PAGE)
    items = list_items(
        {
            "instanceType": offering["InstanceType"],
            "location": offering["Location"],
            "locationType": location_type,
        }
        for offering in chosen
    )
    return list_answer("DescribeInstanceTypeOfferings", "instanceTypeOfferingSet", items, token)
