"""The life of instances, and what the describing calls say of it."""

from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError

from tests.local.aws.account import ZONES, Account, eventually


def code_of(failed: pytest.ExceptionInfo[ClientError]) -> str:
    """The AWS error code."""
    return str(failed.value.response["Error"]["Code"])


def test_an_instance_is_pending_then_running(account: Account) -> None:
    (launched,) = account.ec2.run_instances(
        LaunchTemplate={"LaunchTemplateName": "nodes"},
        InstanceType="m5.large",
        SubnetId=account.subnets[ZONES[0]],
        MinCount=1,
        MaxCount=1,
    )["Instances"]
    instance_id = launched["InstanceId"]

    assert launched["State"]["Name"] == "pending"
    eventually(lambda: account.state(instance_id) == "running")


def test_a_terminated_instance_lingers_and_is_then_forgotten(account: Account) -> None:
    instance_id = account.launch()

    (change,) = account.ec2.terminate_instances(InstanceIds=[instance_id])["TerminatingInstances"]

    assert change["CurrentState"]["Name"] == "shutting-down"
    eventually(lambda: account.state(instance_id) == "terminated")

    def gone() -> bool:
        try:
            account.instance(instance_id)
        except ClientError as error:
            return bool(error.response["Error"]["Code"] == "InvalidInstanceID.NotFound")
        return False

    eventually(gone)


def test_addresses_volumes_and_interfaces_come_back(account: Account) -> None:
    free = account.free_addresses(ZONES[0])
    volumes = len(account.ec2.describe_volumes()["Volumes"])
    instance_id = account.launch()
    assert account.free_addresses(ZONES[0]) == free - 1

    account.ec2.terminate_instances(InstanceIds=[instance_id])

    eventually(lambda: account.free_addresses(ZONES[0]) == free)
    assert len(account.ec2.describe_volumes()["Volumes"]) == volumes


def test_a_freed_address_rests_before_another_instance_has_it(account: Account) -> None:
    first = account.launch()
    address = account.instance(first)["PrivateIpAddress"]
    account.ec2.terminate_instances(InstanceIds=[first])
    eventually(lambda: account.state(first) == "terminated")

    second = account.launch()

    assert account.instance(second)["PrivateIpAddress"] != address


def test_unknown_instances_are_named_in_the_error(account: Account) -> None:
    with pytest.raises(ClientError) as failed:
        account.ec2.terminate_instances(InstanceIds=["i-0123456789abcdef0"])

    assert code_of(failed) == "InvalidInstanceID.NotFound"
    assert "i-0123456789abcdef0" in str(failed.value)


def test_filters_select_by_tag_and_state(account: Account) -> None:
    instance_id = account.launch()
    eventually(lambda: account.state(instance_id) == "running")
    account.ec2.create_tags(
        Resources=[instance_id], Tags=[{"Key": "karpenter.sh/nodeclaim", "Value": "c-1"}]
    )

    def ids(*filters: tuple[str, str]) -> set[str]:
        answer = account.ec2.describe_instances(
            Filters=[{"Name": name, "Values": [value]} for name, value in filters]
        )
        return {
            instance["InstanceId"]
            for reservation in answer["Reservations"]
            for instance in reservation["Instances"]
        }

    assert ids(("tag-key", "karpenter.sh/nodeclaim")) == {instance_id}
    assert ids(("tag:karpenter.sh/nodeclaim", "c-*")) == {instance_id}
    assert ids(("tag:karpenter.sh/nodeclaim", "other")) == set()
    assert instance_id in ids(("instance-state-name", "running"))
    assert instance_id not in ids(("instance-state-name", "terminated"))
    assert instance_id in ids(("subnet-id", account.subnets[ZONES[0]]))


def test_an_unknown_filter_is_an_error(account: Account) -> None:
    account.launch()

    with pytest.raises(ClientError) as failed:
        account.ec2.describe_instances(Filters=[{"Name": "colour", "Values": ["red"]}])

    assert code_of(failed) == "InvalidParameterValue"


def test_pages_of_instances_add_up(account: Account) -> None:
    account.fleet(account.overrides(["m5.large"], ZONES[:1]), target=7)

    pages = list(
        account.ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5})
    )

    listed = {r["Instances"][0]["InstanceId"] for page in pages for r in page["Reservations"]}
    assert len(pages) >= 2
    assert {len(page["Reservations"]) for page in pages[:-1]} == {5}
    assert listed == {item["instance_id"] for item in account.control("GET", "instances")}


def test_run_instances_launches_from_a_template_with_changes(account: Account) -> None:
    reservation = account.ec2.run_instances(
        LaunchTemplate={"LaunchTemplateName": "nodes"},
        InstanceType="c5.large",
        SubnetId=account.subnets[ZONES[1]],
        MinCount=2,
        MaxCount=2,
        ClientToken="pair",
    )

    assert [item["InstanceType"] for item in reservation["Instances"]] == ["c5.large"] * 2
    assert {item["Placement"]["AvailabilityZone"] for item in reservation["Instances"]} == {
        ZONES[1]
    }


def test_run_instances_launches_all_or_nothing_below_its_minimum(account: Account) -> None:
    account.drain({"instance_type": "c5.large", "remaining": 1})
    before = {item["instance_id"] for item in account.control("GET", "instances")}

    with pytest.raises(ClientError) as failed:
        account.ec2.run_instances(
            LaunchTemplate={"LaunchTemplateName": "nodes"},
            InstanceType="c5.large",
            SubnetId=account.subnets[ZONES[0]],
            MinCount=2,
            MaxCount=2,
        )

    assert code_of(failed) == "InsufficientInstanceCapacity"
    new = [i for i in account.control("GET", "instances") if i["instance_id"] not in before]
    assert all(item["state"] in ("shutting-down", "terminated") for item in new)


def test_a_dry_run_of_run_instances_checks_the_profile(account: Account) -> None:
    account.template("wrong-profile", IamInstanceProfile={"Name": "missing"})

    def dry_run(template: str) -> str:
        with pytest.raises(ClientError) as failed:
            account.ec2.run_instances(
                LaunchTemplate={"LaunchTemplateName": template},
                InstanceType="m5.large",
                SubnetId=account.subnets[ZONES[0]],
                MinCount=1,
                MaxCount=1,
                DryRun=True,
            )
        return code_of(failed)

    assert dry_run("nodes") == "DryRunOperation"
    assert dry_run("wrong-profile") == "InvalidParameterValue"


def test_status_checks_of_running_instances_can_be_made_to_fail(account: Account) -> None:
    instance_id = account.launch()
    eventually(lambda: account.state(instance_id) == "running")
    since = datetime(2026, 1, 1, tzinfo=UTC)
    account.control(
        "POST",
        "instance-status",
        {
            "instance_id": instance_id,
            "system": "impaired",
            "impaired_since": since.isoformat(),
            "events": ["instance-retirement"],
        },
    )

    (status,) = account.ec2.describe_instance_status(InstanceIds=[instance_id])["InstanceStatuses"]

    assert status["SystemStatus"]["Status"] == "impaired"
    assert status["SystemStatus"]["Details"][0]["ImpairedSince"] == since
    assert status["InstanceStatus"]["Status"] == "ok"
    assert [event["Code"] for event in status["Events"]] == ["instance-retirement"]


def test_an_on_demand_instance_stops_and_starts(account: Account) -> None:
    instance_id = account.launch()
    eventually(lambda: account.state(instance_id) == "running")

    account.ec2.stop_instances(InstanceIds=[instance_id])
    eventually(lambda: account.state(instance_id) == "stopped")
    account.ec2.start_instances(InstanceIds=[instance_id])

    eventually(lambda: account.state(instance_id) == "running")


def test_what_an_instance_uses_can_not_be_deleted(account: Account) -> None:
    group = account.ec2.create_security_group(
        GroupName="in-use", Description="d", VpcId=account.vpc_id
    )["GroupId"]
    account.template("guarded", NetworkInterfaces=[{"DeviceIndex": 0, "Groups": [group]}])
    instance_id = account.launch(template="guarded")

    with pytest.raises(ClientError) as group_failed:
        account.ec2.delete_security_group(GroupId=group)
    with pytest.raises(ClientError) as subnet_failed:
        account.ec2.delete_subnet(SubnetId=account.subnets[ZONES[0]])

    assert code_of(group_failed) == code_of(subnet_failed) == "DependencyViolation"
    account.ec2.terminate_instances(InstanceIds=[instance_id])
    eventually(lambda: account.state(instance_id) == "terminated")
    account.ec2.delete_security_group(GroupId=group)


def test_tags_of_instances_that_are_not_there_are_refused(account: Account) -> None:
    with pytest.raises(ClientError) as failed:
        account.ec2.create_tags(
            Resources=["i-0123456789abcdef0"], Tags=[{"Key": "a", "Value": "b"}]
        )

    assert code_of(failed) == "InvalidInstanceID.NotFound"


def test_a_launch_template_that_is_not_there_is_named(account: Account) -> None:
    with pytest.raises(ClientError) as failed:
        account.ec2.delete_launch_template(LaunchTemplateName="missing")

    assert code_of(failed) == "InvalidLaunchTemplateName.NotFoundException"
