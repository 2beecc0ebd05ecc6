"""The pure parts: allocation order, capacity, filters, overlaying templates, the timeline."""

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nodewright_local.aws.ec2.allocation import (
    ON_DEMAND_STRATEGIES,
    SPOT_STRATEGIES,
    Candidate,
    order,
)
from nodewright_local.aws.ec2.capacity import Capacity, Pool
from nodewright_local.aws.ec2.filters import matches
from nodewright_local.aws.ec2.launch_spec import overlay, tags_by_resource
from nodewright_local.aws.ec2.paging import page
from nodewright_local.aws.errors import AwsError
from nodewright_local.aws.timeline import Timeline


@pytest.fixture(autouse=True)
def full_capacity() -> None:
    """These tests need no server."""


def candidate(index: int = 0, **changes: Any) -> Candidate:
    """A pool of m5.large with sensible values."""
    values: dict[str, Any] = {
        "index": index,
        "instance_type": "m5.large",
        "zone": "us-west-2a",
        "capacity_type": "spot",
        "price": 0.1,
        "depth": 5,
        "priority": None,
        "weight": 1.0,
        "config_index": 0,
        "override": {},
    }
    return Candidate(**(values | changes))


pool_values = st.fixed_dictionaries(
    {
        "price": st.one_of(st.none(), st.floats(0.01, 10)),
        "depth": st.integers(1, 10),
        "priority": st.one_of(st.none(), st.floats(0, 10)),
    }
)
candidates = st.lists(pool_values, max_size=12).map(
    lambda values: [candidate(index, **pool) for index, pool in enumerate(values)]
)


@given(candidates, st.sampled_from(sorted(SPOT_STRATEGIES)))
def test_every_strategy_tries_every_pool_once(pools: list[Candidate], strategy: str) -> None:
    ordered = order(pools, strategy, spot=True)

    assert sorted(pool.index for pool in ordered) == list(range(len(pools)))


@given(candidates)
def test_lowest_price_is_sorted_by_price(pools: list[Candidate]) -> None:
    prices = [pool.price for pool in order(pools, "lowest-price", spot=False)]

    known = [price for price in prices if price is not None]
    assert known == sorted(known)
    assert prices[: len(known)] == known


def test_price_capacity_optimized_passes_over_shallow_pools_only() -> None:
    shallow = candidate(0, price=0.01, depth=1)
    cheap = candidate(1, price=0.02, depth=3)
    deep = candidate(2, price=0.03, depth=10)

    ordered = order([deep, shallow, cheap], "price-capacity-optimized", spot=True)

    assert [pool.index for pool in ordered] == [1, 2, 0]


def test_capacity_optimized_goes_by_depth() -> None:
    ordered = order([candidate(0, depth=2), candidate(1, depth=9)], "capacity-optimized", spot=True)

    assert [pool.index for pool in ordered] == [1, 0]


def test_a_weight_makes_a_unit_cheaper() -> None:
    single = candidate(0, price=0.10)
    double = candidate(1, price=0.15, weight=2.0)

    assert order([single, double], "lowest-price", spot=False)[0] is double


def test_a_spot_strategy_is_unknown_on_demand() -> None:
    assert set(ON_DEMAND_STRATEGIES) == {"lowest-price", "prioritized"}
    with pytest.raises(KeyError):
        order([candidate()], "capacity-optimized", spot=False)


def test_a_launch_needs_room_in_every_pool_that_covers_it() -> None:
    capacity = Capacity()
    capacity.replace([Pool(capacity_type="spot", remaining=5), Pool(zone="a", remaining=1)])

    assert capacity.take("m5.large", "a", "spot") is None
    assert capacity.take("m5.large", "a", "spot") == "InsufficientInstanceCapacity"
    assert capacity.take("m5.large", "b", "spot") is None
    assert [pool.remaining for pool in capacity.pools()] == [3, 0]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, True),
        ({"kind": ["m5.*"]}, True),
        ({"kind": ["c5.*", "m?.large"]}, True),
        ({"kind": ["M5.LARGE"]}, False),
        ({"kind": ["m5.large"], "up": ["false"]}, False),
        ({"tag:team": ["a"]}, True),
        ({"tag-key": ["te*"]}, True),
        ({"tag:other": ["*"]}, False),
        ({"empty": ["*"]}, False),
    ],
)
def test_filters_combine_as_in_ec2(filters: dict[str, list[str]], expected: bool) -> None:
    attributes = {"kind": "m5.large", "up": True, "empty": None}

    assert matches(filters, attributes, {"team": "a"}) is expected


def test_an_unknown_filter_is_refused() -> None:
    with pytest.raises(AwsError, match="The filter 'colour' is invalid"):
        matches({"colour": ["red"]}, {})


def test_a_request_wins_over_its_template_and_tags_are_united() -> None:
    template = {
        "ImageId": "ami-1",
        "InstanceType": "m5.large",
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]}
        ],
    }  # fmt: skip
    request = {
        "InstanceType": "c5.large",
        "SubnetId": None,
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "b", "Value": "3"}]}],
    }

    merged = overlay(template, request)

    assert (merged["ImageId"], merged["InstanceType"]) == ("ami-1", "c5.large")
    assert tags_by_resource(merged["TagSpecifications"]) == {"instance": {"a": "1", "b": "3"}}


@given(st.integers(0, 30), st.integers(1, 9))
def test_pages_give_every_item_once(count: int, size: int) -> None:
    items = list(range(count))
    token: str | None = None
    seen: list[int] = []
    while True:
        chosen, token = page(items, {"NextToken": token, "MaxResults": size}, limit=7)
        seen += chosen
        if token is None:
            break

    assert seen == items


def test_a_foreign_token_is_refused() -> None:
    with pytest.raises(AwsError, match="is not valid"):
        page([1], {"NextToken": "garbage"}, limit=1)


def test_the_timeline_runs_in_order_and_outlives_an_error() -> None:
    timeline = Timeline(threading.Lock())
    seen: list[str] = []
    done = threading.Event()

    def fail() -> None:
        raise RuntimeError("on purpose")

    def finish() -> None:
        seen.append("second")
        done.set()

    timeline.after(0.06, finish)
    timeline.after(0.0, fail)
    timeline.after(0.03, lambda: seen.append("first"))

    assert done.wait(5)
    timeline.close()
    assert seen == ["first", "second"]
