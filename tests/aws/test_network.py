"""Subnets, security groups and instance profiles as the providers find and keep them."""

from __future__ import annotations

import pytest
from nodewright_controller.api.ec2nodeclass import SecurityGroupSelectorTerm, SubnetSelectorTerm
from nodewright_controller.aws.error_codes import UNREACHABLE, AwsError
from nodewright_controller.aws.instance_profiles import profile_name
from nodewright_controller.aws.security_groups import security_group_queries
from nodewright_controller.aws.subnets import Subnet, subnet_per_zone, subnet_queries

from tests.aws.world import World, node_claim, node_class, options


def subnet(subnet_id: str, zone: str, free: int) -> Subnet:
    return Subnet(id=subnet_id, zone=zone, zone_id="", free_ips=free)


def test_ids_go_into_one_query_and_every_tag_set_into_its_own() -> None:
    terms = [
        SubnetSelectorTerm(id="subnet-2"),
        SubnetSelectorTerm(tags={"b": "*", "a": "1"}),
        SubnetSelectorTerm(id="subnet-1"),
    ]

    assert subnet_queries(terms) == [
        [{"Name": "subnet-id", "Values": ["subnet-1", "subnet-2"]}],
        [{"Name": "tag:a", "Values": ["1"]}, {"Name": "tag-key", "Values": ["b"]}],
    ]
    groups = [SecurityGroupSelectorTerm(name="x"), SecurityGroupSelectorTerm(id="sg-1")]
    assert security_group_queries(groups) == [
        [{"Name": "group-id", "Values": ["sg-1"]}],
        [{"Name": "group-name", "Values": ["x"]}],
    ]


def test_the_roomiest_subnet_of_a_zone_takes_the_next_node() -> None:
    subnets = [subnet("s-2", "a", 50), subnet("s-1", "a", 50), subnet("s-3", "b", 10)]

    assert {zone: each.id for zone, each in subnet_per_zone(subnets, {}).items()} == {
        "a": "s-1",
        "b": "s-3",
    }
    assert subnet_per_zone(subnets, {"s-1": 5})["a"].id == "s-2"


async def test_terms_are_alternatives_and_the_roomiest_comes_first() -> None:
    world = World()
    terms = [
        SubnetSelectorTerm(id="subnet-a"),
        SubnetSelectorTerm(tags={"karpenter.sh/discovery": "demo"}),
    ]

    found = await world.provider.subnets.select(terms)

    assert [each.id for each in found] == ["subnet-c", "subnet-b", "subnet-a"]


async def test_addresses_under_way_are_deducted_until_ec2_counts_them() -> None:
    world = World()
    world.aws.ec2.subnets.append(world.aws.ec2.subnets[0] | {"SubnetId": "subnet-a2"})
    subnets, ids = world.provider.subnets, ["subnet-a", "subnet-a2"]

    first = (await subnets.for_launch(ids))["us-west-2a"].id
    subnets.deduct([first], 30)
    second = (await subnets.for_launch(ids))["us-west-2a"].id
    world.aws.ec2.subnets[0]["AvailableIpAddressCount"] = 99
    world.aws.ec2.subnets[-1]["AvailableIpAddressCount"] = 50
    world.clock.move(minutes=2)
    third = (await subnets.for_launch(ids))["us-west-2a"].id

    assert [first, second, third] == ["subnet-a", "subnet-a2", "subnet-a"]


async def test_deducting_and_giving_back_cancel_out() -> None:
    world = World()
    world.aws.ec2.subnets.append(
        world.aws.ec2.subnets[0] | {"SubnetId": "subnet-a2", "AvailableIpAddressCount": 50}
    )
    subnets, ids = world.provider.subnets, ["subnet-a", "subnet-a2"]
    await subnets.for_launch(ids)

    subnets.deduct(["subnet-a"], 100)
    assert (await subnets.for_launch(ids))["us-west-2a"].id == "subnet-a2"
    subnets.give_back(["subnet-a"], 100)
    assert (await subnets.for_launch(ids))["us-west-2a"].id == "subnet-a"


async def test_the_profile_is_made_once_and_survives_lost_answers() -> None:
    world = World()
    made = node_class()
    world.aws.iam.lose_answers = {
        "create_instance_profile": 1,
        "add_role_to_instance_profile": 1,
    }

    for _ in range(2):
        with pytest.raises(AwsError):
            await world.provider.profiles.ensure(made)
    name = await world.provider.profiles.ensure(made)

    assert list(world.aws.iam.profiles) == [name]
    assert world.aws.iam.profiles[name]["Roles"] == [{"RoleName": "KarpenterNodeRole-demo"}]


async def test_another_role_gets_another_profile() -> None:
    world = World()
    made = node_class()
    first = await world.provider.profiles.ensure(made)
    made.spec.role = "arn:aws:iam::123456789012:role/team/Other"

    second = await world.provider.profiles.ensure(made)

    assert first != second
    assert world.aws.iam.profiles[second]["Roles"] == [{"RoleName": "Other"}]
    assert world.aws.iam.profiles[first]["Roles"] == [{"RoleName": "KarpenterNodeRole-demo"}]


async def test_old_profiles_that_nothing_uses_are_garbage() -> None:
    world = World()
    profiles = world.provider.profiles
    made = node_class()
    used = await profiles.ensure(made)
    made.spec.role = "Other"
    unused = await profiles.ensure(made)

    young = await profiles.garbage(frozenset({used}))
    world.clock.move(hours=1)
    old = await profiles.garbage(frozenset({used}))

    assert young == ()
    assert [each.name for each in old] == [unused]


def test_profile_names_fit_into_iams_limit_and_follow_the_role() -> None:
    long = options(cluster_name="c" * 100)

    assert len(profile_name(node_class(), "r" * 60, long)) <= 128
    assert profile_name(node_class(), "path/role", long) == profile_name(node_class(), "role", long)


async def test_launch_templates_out_of_use_are_deleted_after_a_minute() -> None:
    world = World()
    await world.provider.create(node_claim())
    made = len(world.aws.ec2.templates)

    assert await world.provider.templates.delete_unused() == 0
    world.clock.move(minutes=1)
    world.aws.ec2.refuse["delete_launch_template"] = AwsError(UNREACHABLE, "timed out")
    with pytest.raises(AwsError):
        await world.provider.templates.delete_unused()
    del world.aws.ec2.refuse["delete_launch_template"]
    world.clock.move(minutes=1)

    assert await world.provider.templates.delete_unused() == made
    assert world.aws.ec2.templates == {}


async def test_templates_of_a_former_leader_are_found_and_deleted() -> None:
    world = World()
    await world.provider.create(node_claim())
    provider = world.restart()

    await provider.templates.hydrate()
    world.clock.move(minutes=1)
    await provider.templates.delete_unused()

    assert world.aws.ec2.templates == {}
