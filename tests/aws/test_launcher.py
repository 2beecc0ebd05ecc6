"""A claim gets exactly one instance, whatever is lost, sold out or deleted on the way."""

from __future__ import annotations

from datetime import timedelta

import pytest
from nodewright_controller.api.ec2nodeclass import SubnetStatus
from nodewright_controller.api.meta import Condition
from nodewright_controller.aws.error_codes import AwsError
from nodewright_controller.ports.errors import (
    CreateFailed,
    InsufficientCapacity,
    NodeClassNotReady,
)

from tests.aws.world import ON_DEMAND, SPOT, X86, World, node_claim


async def test_a_claim_gets_the_cheapest_type_that_fits() -> None:
    world = World()

    launched = await world.provider.create(node_claim(requires=X86 | ON_DEMAND))

    assert launched.labels["node.kubernetes.io/instance-type"] == "t3a.small"
    assert launched.labels["karpenter.sh/capacity-type"] == "on-demand"
    assert launched.labels["topology.kubernetes.io/zone"] in launched.provider_id
    assert launched.usd_per_hour == 0.0188
    assert launched.image_id == "ami-x86"
    assert launched.considered_types == 4


async def test_spot_is_chosen_where_it_is_allowed() -> None:
    world = World()

    launched = await world.provider.create(node_claim(requires=X86))

    assert launched.labels["karpenter.sh/capacity-type"] == "spot"
    instances = await world.provider.list()
    assert [each.capacity_type for each in instances] == ["spot"]


async def test_the_instance_carries_the_name_of_its_claim_from_the_start() -> None:
    world = World()

    launched = await world.provider.create(node_claim("claim-7"))

    (instance,) = await world.provider.list()
    assert instance.node_claim == "claim-7"
    assert instance.provider_id == launched.provider_id
    assert instance.tags["kubernetes.io/cluster/demo"] == "owned"
    assert instance.tags["eks:eks-cluster-name"] == "demo"


async def test_a_lost_answer_never_buys_a_second_instance() -> None:
    world = World()
    claim = node_claim(requires=X86 | ON_DEMAND)
    world.aws.ec2.lose_answers["create_fleet"] = 1

    with pytest.raises(CreateFailed):
        await world.provider.create(claim)
    launched = await world.provider.create(claim)

    assert [launched.provider_id.rpartition("/")[2]] == world.instance_ids()
    assert launched.considered_types > 1


async def test_a_request_that_was_not_answered_is_sent_again_unchanged() -> None:
    world = World()
    claim = node_claim()
    world.aws.ec2.lose_answers["create_fleet"] = 1
    with pytest.raises(CreateFailed):
        await world.provider.create(claim)
    # The instance cannot be seen yet (EC2 is eventually consistent), and prices have changed.
    (hidden,) = world.aws.ec2.instances.values()
    tags, hidden["Tags"] = hidden["Tags"], []
    world.provider.pricing.version += 1
    world.provider.unavailable.mark("t3a.small", "us-west-2a", "spot")

    launched = await world.provider.create(claim)

    first, second = world.aws.ec2.requests("create_fleet")
    assert first == second
    assert launched.provider_id.rpartition("/")[2] == hidden["InstanceId"]
    assert tags


async def test_another_leader_adopts_the_instance_of_an_older_claim() -> None:
    world = World()
    claim = node_claim()
    first = await world.provider.create(claim)
    world.clock.move(seconds=20)

    second = await world.restart().create(claim)

    assert first.provider_id == second.provider_id
    assert len(world.instance_ids()) == 1
    assert len(world.aws.ec2.requests("create_fleet")) == 1


async def test_a_token_used_for_another_request_leads_to_the_instance_it_bought() -> None:
    world = World()
    claim = node_claim()
    first = await world.provider.create(claim)
    world.restart().unavailable.mark("t3a.small", "us-west-2a", "spot")

    second = await world.provider.create(claim)

    assert first.provider_id == second.provider_id
    assert len(world.instance_ids()) == 1


async def test_a_token_that_bought_nothing_is_left_behind_after_a_restart() -> None:
    world = World()
    claim = node_claim(requires=X86 | ON_DEMAND)
    world.aws.ec2.sold_out = {("*", "*")}
    with pytest.raises(InsufficientCapacity):
        await world.provider.create(claim)
    world.aws.ec2.sold_out = set()
    world.clock.move(seconds=20)
    provider = world.restart()
    await provider.catalog.ensure_loaded()
    provider.unavailable.mark("t3a.small", "us-west-2a", "on-demand")

    with pytest.raises(CreateFailed, match="Idempotent"):
        await provider.create(claim)
    launched = await provider.create(claim)

    assert [launched.provider_id.rpartition("/")[2]] == world.instance_ids()


async def test_sold_out_offerings_are_not_offered_again_for_three_minutes() -> None:
    world = World()
    world.aws.ec2.sold_out = {("t3a.small", "*")}
    first = await world.provider.create(node_claim("claim-1", X86 | ON_DEMAND))
    world.aws.ec2.sold_out = set()

    second = await world.provider.create(node_claim("claim-2", X86 | ON_DEMAND))
    world.clock.move(minutes=3, seconds=1)
    third = await world.provider.create(
        node_claim("claim-3", X86 | ON_DEMAND, created=world.clock.now())
    )

    types = [each.labels["node.kubernetes.io/instance-type"] for each in (first, second, third)]
    assert types == ["t3.small", "t3.small", "t3a.small"]


async def test_a_full_subnet_gives_way_to_the_other_one_of_its_zone() -> None:
    world = World()
    world.aws.ec2.subnets.append(
        world.aws.ec2.subnets[0] | {"SubnetId": "subnet-a2", "AvailableIpAddressCount": 5}
    )
    status = world.node_classes["default"].status
    status.subnets = [
        SubnetStatus(id=subnet_id, zone="us-west-2a", zone_id="usw2-az2")
        for subnet_id in ("subnet-a", "subnet-a2")
    ]
    world.aws.ec2.full_subnets = {"subnet-a"}

    with pytest.raises(InsufficientCapacity, match="InsufficientFreeAddressesInSubnet"):
        await world.provider.create(node_claim("claim-1", X86 | ON_DEMAND))
    await world.provider.create(node_claim("claim-2", X86 | ON_DEMAND))

    (instance,) = world.aws.ec2.instances.values()
    assert instance["SubnetId"] == "subnet-a2"


async def test_a_zone_without_any_address_is_left_out_until_three_minutes_have_passed() -> None:
    world = World()
    world.aws.ec2.full_subnets = {"subnet-a"}
    only_there = X86 | ON_DEMAND | {"topology.kubernetes.io/zone": ["us-west-2a"]}
    with pytest.raises(InsufficientCapacity, match="InsufficientFreeAddressesInSubnet"):
        await world.provider.create(node_claim("claim-1", only_there))
    tries = len(world.aws.ec2.requests("create_fleet"))

    with pytest.raises(InsufficientCapacity, match="out of stock"):
        await world.provider.create(node_claim("claim-2", only_there))
    elsewhere = await world.provider.create(node_claim("claim-3", X86 | ON_DEMAND))

    assert len(world.aws.ec2.requests("create_fleet")) == tries + 1
    assert elsewhere.labels["topology.kubernetes.io/zone"] != "us-west-2a"
    offered = world.aws.ec2.requests("create_fleet")[-1]["LaunchTemplateConfigs"]
    zones = {each["AvailabilityZone"] for config in offered for each in config["Overrides"]}
    assert zones == {"us-west-2b", "us-west-2c"}

    world.aws.ec2.full_subnets = set()
    world.clock.move(minutes=3, seconds=1)
    late = node_claim("claim-4", only_there, created=world.clock.now())
    assert (await world.provider.create(late)).labels["topology.kubernetes.io/zone"] == "us-west-2a"


async def test_everything_sold_out_is_insufficient_capacity() -> None:
    world = World()
    world.aws.ec2.sold_out = {("*", "*")}

    with pytest.raises(InsufficientCapacity, match="InsufficientInstanceCapacity"):
        await world.provider.create(node_claim(requires=X86 | SPOT))

    assert world.provider.unavailable.is_unavailable("t3a.small", "us-west-2b", "spot")


async def test_requirements_that_nothing_meets_say_so() -> None:
    world = World()

    with pytest.raises(InsufficientCapacity, match="no instance type meets"):
        await world.provider.create(node_claim(requests={"cpu": "1000"}))


async def test_a_refusal_for_another_reason_is_a_failed_launch_with_its_reason() -> None:
    world = World()
    world.aws.ec2.refuse["create_fleet"] = AwsError("UnauthorizedOperation", "no CreateFleet")

    with pytest.raises(CreateFailed, match="no CreateFleet") as caught:
        await world.provider.create(node_claim())

    assert caught.value.reason == "Unauthorized"
    assert world.instance_ids() == []


async def test_a_deleted_launch_template_is_made_again_and_the_launch_repeated() -> None:
    world = World()
    await world.provider.create(node_claim("claim-1"))
    world.aws.ec2.templates.clear()

    launched = await world.provider.create(node_claim("claim-2"))

    assert launched.provider_id
    assert len(world.instance_ids()) == 2


async def test_launch_templates_are_shared_by_equal_claims() -> None:
    world = World()
    await world.provider.create(node_claim("claim-1"))
    made = len(world.aws.ec2.requests("create_launch_template"))

    await world.provider.create(node_claim("claim-2"))

    assert len(world.aws.ec2.requests("create_launch_template")) == made


async def test_a_launch_template_whose_creation_was_not_answered_is_used() -> None:
    world = World()
    world.aws.ec2.lose_answers["create_launch_template"] = 1

    with pytest.raises(CreateFailed):
        await world.provider.create(node_claim())
    await world.provider.create(node_claim())

    assert len(world.instance_ids()) == 1


@pytest.mark.parametrize(
    ("ready", "error", "words"),
    [
        (Condition(type="Ready", status="False", message="x"), NodeClassNotReady, "not ready: x"),
        (Condition(type="Ready", status="Unknown"), CreateFailed, "default"),
        (
            Condition(type="Ready", status="True", observed_generation=0),
            NodeClassNotReady,
            "changed",
        ),
        (None, CreateFailed, "not looked at yet"),
    ],
    ids=["false", "unknown", "older generation", "absent"],
)
async def test_a_node_class_must_be_ready(
    ready: Condition | None, error: type[Exception], words: str
) -> None:
    world = World()
    world.node_classes["default"].status.conditions = [ready] if ready else []

    with pytest.raises(error, match=words):
        await world.provider.create(node_claim())


async def test_a_node_class_that_does_not_exist_is_insufficient_capacity() -> None:
    world = World()

    with pytest.raises(InsufficientCapacity, match="EC2NodeClass other does not exist"):
        await world.provider.create(node_claim(of="other"))


async def test_accelerated_types_are_left_out_while_ordinary_ones_fit() -> None:
    world = World()

    launched = await world.provider.create(
        node_claim(
            requires=X86 | {"node.kubernetes.io/instance-type": ["g4dn.xlarge", "m5.xlarge"]}
        )
    )

    assert launched.labels["node.kubernetes.io/instance-type"] == "m5.xlarge"
    assert launched.considered_types == 1


async def test_a_gpu_claim_boots_the_gpu_image() -> None:
    world = World()

    launched = await world.provider.create(node_claim(requests={"nvidia.com/gpu": 1}))

    assert launched.labels["node.kubernetes.io/instance-type"] == "g4dn.xlarge"
    assert launched.image_id == "ami-gpu"
    assert launched.capacity["nvidia.com/gpu"] == 1


async def test_a_launch_says_what_was_offered_and_what_of_it_was_out_of_stock() -> None:
    world = World()
    world.aws.ec2.sold_out = {("t3a.small", "*")}

    launched = await world.provider.create(node_claim("claim-1", X86 | ON_DEMAND))

    prices = [each.usd_per_hour for each in launched.offers]
    assert prices == sorted(prices)
    assert len({each.instance_type for each in launched.offers}) == launched.considered_types
    assert {each.capacity_type for each in launched.offers} == {"on-demand"}
    assert {each.offer.instance_type for each in launched.shortages} == {"t3a.small"}
    assert {each.until for each in launched.shortages} == {world.clock.now() + timedelta(minutes=3)}
