"""CreateFleet: which pool it draws from, what it says of those it can not, and what it launches."""

import base64
from typing import Any

import pytest
from botocore.exceptions import ClientError
from nodewright_local.aws.ec2.prices import on_demand_price, spot_price

from tests.local.aws.account import REGION, ZONES, Account, error_codes

TYPES = ("m5.large", "c5.large", "m5.xlarge", "r5.large")


def chosen(answer: dict[str, Any]) -> tuple[str, str]:
    """Type and zone of the first instance group."""
    group = answer["Instances"][0]
    overrides = group["LaunchTemplateAndOverrides"]["Overrides"]
    return group["InstanceType"], overrides["AvailabilityZone"]


def failure(account: Account, overrides: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The only error of a fleet that launches nothing."""
    answer = account.fleet(overrides, **more)
    assert not answer["Instances"]
    (error,) = answer["Errors"]
    found: dict[str, Any] = error
    return found


def test_lowest_price_takes_the_cheapest_type_on_demand(account: Account) -> None:
    answer = account.fleet(account.overrides(TYPES))

    assert chosen(answer)[0] == min(TYPES, key=lambda name: on_demand_price(REGION, name) or 99)
    assert answer["Errors"] == []


def test_lowest_price_takes_the_cheapest_spot_pool(account: Account) -> None:
    answer = account.fleet(
        account.overrides(TYPES),
        capacity_type="spot",
        SpotOptions={"AllocationStrategy": "lowest-price"},
    )

    pools = [(spot_price(REGION, zone, name), name, zone) for name in TYPES for zone in ZONES]
    assert chosen(answer) == min(pools)[1:]
    instance = account.instance(answer["Instances"][0]["InstanceIds"][0])
    assert instance["InstanceLifecycle"] == "spot"
    assert instance["SpotInstanceRequestId"].startswith("sir-")


def test_prioritized_takes_the_lowest_number(account: Account) -> None:
    overrides = account.overrides(["m5.large"], ZONES[:1], Priority=2.0) + account.overrides(
        ["r5.large"], ZONES[:1], Priority=1.0
    )

    answer = account.fleet(overrides, OnDemandOptions={"AllocationStrategy": "prioritized"})

    assert chosen(answer)[0] == "r5.large"


def test_a_drained_pool_is_reported_and_the_next_one_taken(account: Account) -> None:
    account.drain({"instance_type": "c5.large", "zone": "us-west-2a", "remaining": 0})

    answer = account.fleet(account.overrides(["c5.large"], ZONES[:2]))

    assert chosen(answer) == ("c5.large", "us-west-2b")
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == "InsufficientInstanceCapacity"
    assert error["Lifecycle"] == "on-demand"
    overrides = error["LaunchTemplateAndOverrides"]["Overrides"]
    assert (overrides["InstanceType"], overrides["AvailabilityZone"]) == ("c5.large", "us-west-2a")


def test_a_fleet_without_any_capacity_names_every_pool(account: Account) -> None:
    account.drain({"capacity_type": "spot", "remaining": 0})

    answer = account.fleet(account.overrides(TYPES), capacity_type="spot")

    assert not answer["Instances"]
    assert len(answer["Errors"]) == len(TYPES) * len(ZONES)
    assert error_codes(answer) == {"InsufficientInstanceCapacity"}


def test_a_quota_has_its_own_code(account: Account) -> None:
    account.drain({"capacity_type": "spot", "error": "MaxSpotInstanceCountExceeded"})

    answer = account.fleet(account.overrides(["m5.large"]), capacity_type="spot")

    assert error_codes(answer) == {"MaxSpotInstanceCountExceeded"}


def test_a_pool_gives_no_more_than_it_holds(account: Account) -> None:
    account.drain({"instance_type": "c5.large", "zone": "us-west-2a", "remaining": 2})

    answer = account.fleet(account.overrides(["c5.large"], ZONES[:2]), target=5)

    launched = {
        group["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"]: len(
            group["InstanceIds"]
        )
        for group in answer["Instances"]
    }
    assert launched == {"us-west-2a": 2, "us-west-2b": 3}
    assert account.control("GET", "ice")["pools"][0]["remaining"] == 0


def test_a_type_that_a_zone_does_not_offer_is_unsupported(account: Account) -> None:
    subnet = account.ec2.create_subnet(
        VpcId=account.vpc_id, CidrBlock="10.0.9.0/24", AvailabilityZone="us-west-2d"
    )["Subnet"]["SubnetId"]

    error = failure(account, [{"InstanceType": "m4.large", "SubnetId": subnet}])

    assert error["ErrorCode"] == "Unsupported"


def test_an_image_of_another_architecture_is_refused(account: Account) -> None:
    error = failure(account, account.overrides(["m6g.large"], ZONES[:1]))

    assert error["ErrorCode"] == "InvalidParameterValue"
    assert error["ErrorMessage"].startswith(
        "The architecture 'arm64' of the specified instance type does not match"
    )


def test_an_override_may_bring_the_image_that_fits(account: Account) -> None:
    arm = account.image_of("arm64")

    answer = account.fleet(account.overrides(["m6g.large"], ZONES[:1], ImageId=arm))

    assert account.instance(answer["Instances"][0]["InstanceIds"][0])["ImageId"] == arm


@pytest.mark.parametrize(
    ("override", "code"),
    [
        ({"SubnetId": "subnet-0000"}, "InvalidSubnetID.NotFound"),
        ({"InstanceType": "m99.large"}, "InvalidParameterValue"),
        ({"ImageId": "ami-0123"}, "InvalidAMIID.NotFound"),
        ({"AvailabilityZone": ZONES[1]}, "InvalidParameterValue"),
        ({"MaxPrice": "0.0001"}, "SpotMaxPriceTooLow"),
    ],
)
def test_a_wrong_reference_has_the_code_of_ec2(
    account: Account, override: dict[str, Any], code: str
) -> None:
    complete = {"InstanceType": "m5.large", "SubnetId": account.subnets[ZONES[0]], **override}

    assert failure(account, [complete], capacity_type="spot")["ErrorCode"] == code


def test_an_instance_profile_must_exist(account: Account) -> None:
    account.template("no-profile", IamInstanceProfile={"Name": "missing"})

    error = failure(account, account.overrides(["m5.large"], ZONES[:1]), template="no-profile")

    assert error["ErrorCode"] == "InvalidParameterValue"
    assert "Invalid IAM Instance Profile name" in error["ErrorMessage"]


def test_an_unknown_launch_template_fails_the_whole_call(account: Account) -> None:
    with pytest.raises(ClientError) as failed:
        account.fleet(account.overrides(["m5.large"]), template="missing")

    assert failed.value.response["Error"]["Code"] == "InvalidLaunchTemplateName.NotFoundException"


def test_a_dry_run_launches_nothing(account: Account) -> None:
    before = len(account.control("GET", "instances"))

    with pytest.raises(ClientError) as failed:
        account.fleet(account.overrides(["m5.large"]), DryRun=True)

    assert failed.value.response["Error"]["Code"] == "DryRunOperation"
    assert len(account.control("GET", "instances")) == before


def test_the_same_client_token_launches_once(account: Account) -> None:
    first = account.fleet(account.overrides(["m5.large"]), ClientToken="once")
    again = account.fleet(account.overrides(["m5.large"]), ClientToken="once")

    assert again["FleetId"] == first["FleetId"]
    assert again["Instances"] == first["Instances"]
    with pytest.raises(ClientError) as failed:
        account.fleet(account.overrides(["m5.xlarge"]), ClientToken="once")
    assert failed.value.response["Error"]["Code"] == "IdempotentParameterMismatch"


def test_launch_template_data_arrive_complete(account: Account) -> None:
    tags = [
        {"ResourceType": kind, "Tags": [{"Key": "karpenter.sh/nodepool", "Value": "default"}]}
        for kind in ("instance", "volume", "fleet")
    ]

    answer = account.fleet(account.overrides(["m5.large"], ZONES[:1]), TagSpecifications=tags)

    instance_id = answer["Instances"][0]["InstanceIds"][0]
    shown = account.instance(instance_id)
    listed = next(
        item for item in account.control("GET", "instances") if item["instance_id"] == instance_id
    )
    volume_id = shown["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    volume = account.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]
    assert shown["SecurityGroups"] == [{"GroupId": account.group, "GroupName": "nodes"}]
    assert shown["IamInstanceProfile"]["Arn"].endswith("/karpenter/us-west-2/demo/uid/nodes")
    assert shown["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert shown["PrivateDnsName"] == (
        f"ip-{shown['PrivateIpAddress'].replace('.', '-')}.us-west-2.compute.internal"
    )
    assert (volume["Size"], volume["Encrypted"]) == (30, True)
    assert {"Key": "karpenter.sh/nodepool", "Value": "default"} in volume["Tags"]
    assert base64.b64decode(listed["user_data_base64"]) == b"join me"
    assert listed["role_arn"] == account.node_role
    assert listed["tags"]["from"] == "template"
    assert listed["tags"]["karpenter.sh/nodepool"] == "default"
    assert listed["tags"]["aws:ec2:fleet-id"] == answer["FleetId"]


def test_efa_interfaces_over_several_cards_are_all_attached(account: Account) -> None:
    interfaces = [
        {"NetworkCardIndex": card, "DeviceIndex": 0 if card == 0 else 1,
         "InterfaceType": "efa", "Groups": [account.group]}
        for card in range(3)
    ]  # fmt: skip
    account.template("efa", NetworkInterfaces=interfaces)
    before = account.free_addresses(ZONES[0])

    answer = account.fleet(account.overrides(["m5.large"], ZONES[:1]), template="efa")

    instance_id = answer["Instances"][0]["InstanceIds"][0]
    shown = account.instance(instance_id)["NetworkInterfaces"]
    assert [item["Attachment"]["NetworkCardIndex"] for item in shown] == [0, 1, 2]
    assert {item["InterfaceType"] for item in shown} == {"efa"}
    assert account.free_addresses(ZONES[0]) == before - 3


def test_the_control_api_says_how_many_types_were_offered(account: Account) -> None:
    answer = account.fleet(account.overrides(TYPES))

    instance_id = answer["Instances"][0]["InstanceIds"][0]
    (listed,) = [
        item for item in account.control("GET", "instances") if item["instance_id"] == instance_id
    ]
    assert listed["considered_instance_types"] == len(TYPES)
    assert listed["launched_by"] == "fleet"
    assert listed["price_usd_per_hour"] == on_demand_price(REGION, listed["instance_type"])
    assert (listed["image_family"], listed["image_variant"]) == ("AL2023", "standard")


def test_a_fleet_short_of_its_minimum_keeps_nothing(account: Account) -> None:
    account.drain({"instance_type": "c5.large", "remaining": 2})

    answer = account.fleet(
        account.overrides(["c5.large"], ZONES[:1]),
        target=4,
        OnDemandOptions={"MinTargetCapacity": 4, "SingleInstanceType": True},
    )

    assert not answer["Instances"]
    assert error_codes(answer) == {"InsufficientInstanceCapacity"}


def test_weights_count_toward_the_target(account: Account) -> None:
    answer = account.fleet(
        account.overrides(["m5.xlarge"], ZONES[:1], WeightedCapacity=2.0), target=5
    )

    assert len(answer["Instances"][0]["InstanceIds"]) == 3


def test_a_full_subnet_is_reported(account: Account) -> None:
    subnet = account.ec2.create_subnet(
        VpcId=account.vpc_id, CidrBlock="10.0.200.0/28", AvailabilityZone=ZONES[0]
    )["Subnet"]["SubnetId"]

    answer = account.fleet([{"InstanceType": "m5.large", "SubnetId": subnet}], target=12)

    assert len(answer["Instances"][0]["InstanceIds"]) == 11
    assert error_codes(answer) == {"InsufficientFreeAddressesInSubnet"}


def test_too_much_user_data_is_refused(account: Account) -> None:
    account.template("chatty", UserData=base64.b64encode(b"x" * 16385).decode())

    error = failure(account, account.overrides(["m5.large"], ZONES[:1]), template="chatty")

    assert error["ErrorMessage"] == "User data is limited to 16384 bytes"


def test_calls_are_recorded_with_their_parameters(account: Account) -> None:
    account.control("DELETE", "calls")
    account.fleet(account.overrides(TYPES), target=2)

    (call,) = account.control("GET", "calls?action=CreateFleet")

    assert call["service"] == "ec2"
    assert call["request"]["TargetCapacitySpecification"]["TotalTargetCapacity"] == 2
    assert len(call["request"]["LaunchTemplateConfigs"][0]["Overrides"]) == 12
    assert call["response"]["result"]["FleetId"].startswith("fleet-")


def test_a_snapshot_that_is_not_there_is_one_pools_error_and_leaves_nothing(
    account: Account,
) -> None:
    volume = {"DeviceName": "/dev/xvdc", "Ebs": {"SnapshotId": "snap-0123456789abcdef0"}}
    account.template("no-snapshot", BlockDeviceMappings=[volume])
    free = account.free_addresses(ZONES[0])

    error = failure(account, account.overrides(["m5.large"], ZONES[:1]), template="no-snapshot")

    assert error["ErrorCode"] == "InvalidSnapshot.NotFound"
    assert account.free_addresses(ZONES[0]) == free
