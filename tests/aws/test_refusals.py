"""What an answer of CreateFleet teaches: as wide as the error, and no wider."""

from __future__ import annotations

from typing import Any

import pytest
from nodewright_controller.aws.fleet import FleetError, FleetResult
from nodewright_controller.aws.quotas import quota_group
from nodewright_controller.aws.refusals import remember_refusals
from nodewright_controller.aws.unavailable import UnavailableOfferings

from tests.aws.world import Clock

PLACES = [("m5.large", "a"), ("m5.large", "b"), ("g5.xlarge", "a")]


def request(target: str) -> dict[str, Any]:
    places = [
        {"InstanceType": name, "AvailabilityZone": zone, "SubnetId": f"subnet-{zone}"}
        for name, zone in PLACES
    ]
    return {
        "TargetCapacitySpecification": {"DefaultTargetCapacityType": target},
        "LaunchTemplateConfigs": [{"Overrides": places}],
    }


def after(code: str, target: str = "spot", *, whole: bool = False) -> UnavailableOfferings:
    """What is remembered after the first place, or the whole call, failed with a code."""
    memory = UnavailableOfferings(Clock())
    place = ("", "", "") if whole else ("m5.large", "a", "subnet-a")
    result = FleetResult(None, (FleetError(code, "no", *place),))
    remember_refusals(result, request(target), memory)
    return memory


def test_out_of_stock_is_one_type_in_one_zone() -> None:
    memory = after("InsufficientInstanceCapacity")

    assert memory.is_unavailable("m5.large", "a", "spot")
    assert not memory.is_unavailable("m5.large", "b", "spot")
    assert not memory.is_unavailable("m5.large", "a", "on-demand")


@pytest.mark.parametrize(
    ("code", "target"),
    [("MaxSpotInstanceCountExceeded", "spot"), ("VcpuLimitExceeded", "on-demand")],
)
def test_a_used_up_quota_is_every_type_of_the_group_in_every_zone(code: str, target: str) -> None:
    memory = after(code, target)
    other = "on-demand" if target == "spot" else "spot"

    assert memory.is_unavailable("c7i.8xlarge", "c", target)
    assert not memory.is_unavailable("g5.xlarge", "a", target)
    assert not memory.is_unavailable("m5.large", "a", other)
    assert memory.sequence("c7i.8xlarge") > 0


def test_an_error_without_a_place_is_about_all_that_was_offered() -> None:
    memory = after("InsufficientInstanceCapacity", whole=True)

    assert all(memory.is_unavailable(name, zone, "spot") for name, zone in PLACES)
    assert not memory.is_unavailable("g5.xlarge", "b", "spot")


def test_a_full_subnet_says_nothing_of_the_offering() -> None:
    memory = after("InsufficientFreeAddressesInSubnet")

    assert memory.is_subnet_full("subnet-a")
    assert not memory.is_unavailable("m5.large", "a", "spot")


def test_without_the_spot_role_nothing_is_to_be_had_as_spot() -> None:
    memory = after("AuthFailure.ServiceLinkedRoleCreationNotPermitted")

    assert memory.is_unavailable("p5.48xlarge", "z", "spot")
    assert not memory.is_unavailable("p5.48xlarge", "z", "on-demand")


def test_an_error_of_another_kind_marks_nothing() -> None:
    assert not after("UnauthorizedOperation").is_unavailable("m5.large", "a", "spot")


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("m5.large", "standard"),
        ("im4gn.large", "standard"),
        ("t4g.nano", "standard"),
        ("g5.xlarge", "g"),
        ("gr6.4xlarge", "g"),
        ("vt1.3xlarge", "g"),
        ("p5.48xlarge", "p"),
        ("inf2.xlarge", "inf"),
        ("trn1.2xlarge", "trn"),
        ("x2idn.16xlarge", "x"),
        ("u-12tb1.112xlarge", "u"),
        ("dl1.24xlarge", "dl"),
        ("hpc7a.96xlarge", "hpc"),
    ],
)
def test_a_type_counts_against_the_quota_of_its_family(name: str, group: str) -> None:
    assert quota_group(name) == group
