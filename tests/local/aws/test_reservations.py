"""Capacity reservations: what they hold, who gets a place, and when it is free again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.aws.account import ZONES, Account, error_codes, eventually


@pytest.fixture
def reservation(account: Account) -> Iterator[str]:
    """A targeted reservation of one m5.large in the first zone."""
    made = reserve(account)
    yield made
    account.ec2.cancel_capacity_reservation(CapacityReservationId=made)


def reserve(account: Account, count: int = 1, criteria: str = "targeted", **more: Any) -> str:
    answer = account.ec2.create_capacity_reservation(
        InstanceType="m5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=ZONES[0],
        InstanceCount=count,
        InstanceMatchCriteria=criteria,
        TagSpecifications=[
            {"ResourceType": "capacity-reservation", "Tags": [{"Key": "team", "Value": "a"}]}
        ],
        **more,
    )
    return str(answer["CapacityReservation"]["CapacityReservationId"])


def shown(account: Account, reservation_id: str) -> dict[str, Any]:
    answer = account.ec2.describe_capacity_reservations(CapacityReservationIds=[reservation_id])
    (found,) = answer["CapacityReservations"]
    described: dict[str, Any] = found
    return described


def targeting(account: Account, reservation_id: str) -> str:
    name = f"into-{reservation_id}"
    return account.template(
        name,
        CapacityReservationSpecification={
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": reservation_id},
        },
    )


def test_a_reservation_is_shown_and_found_by_its_tags(account: Account, reservation: str) -> None:
    found = shown(account, reservation)

    assert (found["TotalInstanceCount"], found["AvailableInstanceCount"]) == (1, 1)
    assert (found["State"], found["ReservationType"]) == ("active", "default")
    filters = [
        {"Name": "tag:team", "Values": ["a"]},
        {"Name": "state", "Values": ["active"]},
        {"Name": "instance-match-criteria", "Values": ["targeted"]},
    ]
    listed = account.ec2.describe_capacity_reservations(Filters=filters)["CapacityReservations"]
    assert [each["CapacityReservationId"] for each in listed] == [reservation]
    other = [{"Name": "tag:team", "Values": ["b"]}]
    assert not account.ec2.describe_capacity_reservations(Filters=other)["CapacityReservations"]


def test_a_launch_takes_the_place_and_the_end_of_the_instance_frees_it(
    account: Account, reservation: str
) -> None:
    template = targeting(account, reservation)
    account.drain({"instance_type": "m5.large", "remaining": 0})

    instance = account.launch(template=template)

    assert account.instance(instance)["CapacityReservationId"] == reservation
    assert shown(account, reservation)["AvailableInstanceCount"] == 0
    full = account.fleet(account.overrides(["m5.large"], ZONES[:1]), template=template)
    assert error_codes(full) == {"ReservationCapacityExceeded"}

    account.ec2.terminate_instances(InstanceIds=[instance])
    eventually(lambda: shown(account, reservation)["AvailableInstanceCount"] == 1)


def test_an_instance_must_be_what_is_reserved(account: Account, reservation: str) -> None:
    template = targeting(account, reservation)

    elsewhere = account.fleet(account.overrides(["m5.large"], ZONES[1:2]), template=template)
    other = account.fleet(account.overrides(["m5.xlarge"], ZONES[:1]), template=template)

    assert error_codes(elsewhere) == error_codes(other) == {"InvalidParameterValue"}


def test_an_open_reservation_takes_what_does_not_keep_out_of_it(account: Account) -> None:
    made = reserve(account, criteria="open")
    aloof = account.template(
        "aloof", CapacityReservationSpecification={"CapacityReservationPreference": "none"}
    )

    outside, inside = account.launch(template=aloof), account.launch()

    assert "CapacityReservationId" not in account.instance(outside)
    assert account.instance(inside)["CapacityReservationId"] == made

    account.ec2.cancel_capacity_reservation(CapacityReservationId=made)
    assert "CapacityReservationId" not in account.instance(inside)
    assert account.state(inside) in ("pending", "running")
    assert shown(account, made)["State"] == "cancelled"


def test_a_reservation_can_grow_and_end(account: Account, reservation: str) -> None:
    account.ec2.modify_capacity_reservation(CapacityReservationId=reservation, InstanceCount=3)
    assert shown(account, reservation)["AvailableInstanceCount"] == 3

    past = datetime.now(UTC) - timedelta(seconds=1)
    account.ec2.modify_capacity_reservation(
        CapacityReservationId=reservation, EndDateType="limited", EndDate=past
    )
    assert shown(account, reservation)["State"] == "expired"
    late = account.fleet(
        account.overrides(["m5.large"], ZONES[:1]), template=targeting(account, reservation)
    )
    assert error_codes(late) == {"InvalidCapacityReservationState.Unavailable"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"InstanceType": "m5.nonsense"}, "Unsupported"),
        ({"InstanceCount": 0}, "InvalidParameterValue"),
        ({"EndDateType": "limited"}, "MissingParameter"),
    ],
)
def test_what_cannot_be_reserved_is_refused(
    account: Account, change: dict[str, Any], code: str
) -> None:
    request = {
        "InstanceType": "m5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": ZONES[0],
        "InstanceCount": 1,
    } | change

    with pytest.raises(ClientError) as refused:
        account.ec2.create_capacity_reservation(**request)
    assert refused.value.response["Error"]["Code"] == code


def test_an_id_that_does_not_exist_is_an_error(account: Account) -> None:
    with pytest.raises(ClientError, match=r"InvalidCapacityReservationId\.NotFound"):
        account.ec2.describe_capacity_reservations(CapacityReservationIds=["cr-0"])
