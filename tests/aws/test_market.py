"""Prices and shortages."""

from __future__ import annotations

import json

from nodewright_controller.aws.error_codes import UNREACHABLE, AwsError
from nodewright_controller.aws.pricing import parse_spot_prices
from nodewright_controller.aws.unavailable import TIME_TO_LIVE, UnavailableOfferings

from tests.aws.world import Clock, World


def product(instance_type: str, usd: float) -> str:
    dimension = {"pricePerUnit": {"USD": str(usd)}}
    return json.dumps(
        {
            "product": {"attributes": {"instanceType": instance_type}},
            "terms": {"OnDemand": {"t": {"priceDimensions": {"d": dimension}}}},
        }
    )


def spot(zone: str, usd: str, at: str = "2026-01-01") -> dict[str, str]:
    return {
        "InstanceType": "m5.large",
        "AvailabilityZone": zone,
        "SpotPrice": usd,
        "Timestamp": at,
    }


def test_the_built_in_table_prices_everything_before_aws_does() -> None:
    pricing = World().provider.pricing

    assert pricing.on_demand("m5.large") == 0.096
    assert pricing.usd_per_hour("m5.large", "us-west-2a", "spot") == 0.096
    assert pricing.usd_per_hour("m5.large", "us-west-2a", "reserved") is None


async def test_after_the_first_spot_prices_a_zone_without_one_has_none() -> None:
    world = World()
    world.aws.ec2.spot_prices = [spot("us-west-2a", "0.03")]

    await world.provider.pricing.refresh_spot()

    price = world.provider.pricing.usd_per_hour
    assert price("m5.large", "us-west-2a", "spot") == 0.03
    assert price("m5.large", "us-west-2b", "spot") is None
    assert price("m5.large", "us-west-2b", "on-demand") == 0.096


def test_the_newest_spot_price_counts() -> None:
    prices = parse_spot_prices([spot("a", "2", "2026-01-02"), spot("a", "1", "2026-01-01")])

    assert prices == {("m5.large", "a"): 2.0}


async def test_live_on_demand_prices_replace_the_table() -> None:
    world = World()
    world.aws.pricing.products = {
        "Shared": [product("m5.large", 0.1), product("free.large", 0)],
        "Dedicated": [product("m5.metal", 5)],
    }
    version = world.provider.pricing.version

    await world.provider.pricing.refresh()

    pricing = world.provider.pricing
    assert pricing.on_demand("m5.large") == 0.1
    assert pricing.on_demand("m5.metal") == 5
    assert pricing.on_demand("free.large") is None
    assert pricing.version == version + 1


async def test_a_partial_or_failed_refresh_keeps_the_old_prices() -> None:
    world = World()
    world.aws.pricing.products = {"Shared": [product("m5.large", 0.1)]}
    world.aws.ec2.refuse["describe_spot_price_history"] = AwsError(UNREACHABLE, "timed out")

    await world.provider.pricing.refresh()

    assert world.provider.pricing.on_demand("m5.large") == 0.096
    assert world.provider.pricing.version == 0


async def test_an_isolated_vpc_never_asks_for_the_price_list() -> None:
    world = World(more_options={"isolated_vpc": True})

    await world.provider.pricing.refresh()

    assert world.aws.pricing.calls == []


def test_shortages_lapse_after_three_minutes_and_change_the_sequence_twice() -> None:
    clock = Clock()
    offerings = UnavailableOfferings(clock)
    before = offerings.sequence("m5.large"), offerings.sequence("c5.large")

    offerings.mark("m5.large", "a", "spot")
    marked = offerings.sequence("m5.large")
    assert offerings.is_unavailable("m5.large", "a", "spot")
    assert not offerings.is_unavailable("m5.large", "a", "on-demand")
    assert not offerings.is_unavailable("m5.large", "b", "spot")
    clock.move(minutes=3)

    assert not offerings.is_unavailable("m5.large", "a", "spot")
    assert before[0] < marked < offerings.sequence("m5.large")
    assert offerings.sequence("c5.large") == before[1]


def test_a_second_shortage_extends_the_first() -> None:
    clock = Clock()
    offerings = UnavailableOfferings(clock)
    offerings.mark("m5.large", "a", "spot")
    clock.move(minutes=2)
    offerings.mark("m5.large", "a", "spot")
    clock.move(minutes=2)

    assert offerings.is_unavailable("m5.large", "a", "spot")


def test_a_shortage_says_until_when_it_lasts() -> None:
    clock = Clock()
    offerings = UnavailableOfferings(clock)
    offerings.mark("m5.large", "a", "spot")
    clock.move(minutes=1)
    offerings.mark_capacity_type("spot")

    longest = clock.now() + TIME_TO_LIVE
    assert offerings.until("m5.large", "a", "spot") == longest
    assert offerings.until("m5.large", "a", "on-demand") is None


def test_a_whole_capacity_type_can_be_out() -> None:
    offerings = UnavailableOfferings(Clock())
    offerings.mark_capacity_type("spot")

    assert offerings.is_unavailable("any", "a", "spot")
    assert not offerings.is_unavailable("any", "a", "on-demand")
    assert offerings.sequence("any") == 1


def test_a_zone_is_full_when_every_subnet_there_is_and_for_three_minutes() -> None:
    clock = Clock()
    offerings = UnavailableOfferings(clock)
    subnets = [("a", "subnet-1"), ("a", "subnet-2"), ("b", "subnet-3")]

    offerings.mark_subnet("subnet-1")
    assert offerings.full_zones(subnets) == frozenset()
    offerings.mark_subnet("subnet-2")
    assert offerings.full_zones(subnets) == {"a"}
    assert offerings.full_zones([*subnets, ("a", "subnet-4")]) == frozenset()
    assert not offerings.is_unavailable("any", "a", "on-demand")
    before = offerings.sequence("any")
    clock.move(minutes=3)
    assert offerings.full_zones(subnets) == frozenset()
    assert offerings.sequence("any") > before
