"""Property tests of the subnet plan."""

import ipaddress
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nodewright.subnets import SubnetPlan, SubnetPlanError, plan_subnets, usable_zones


@st.composite
def ranges(draw: st.DrawFn) -> str:
    prefix = draw(st.integers(16, 22))
    block = draw(st.integers(0, 2**prefix - 1))
    return str(ipaddress.IPv4Network((block << (32 - prefix), prefix)))


zone_lists = st.integers(1, 7).map(lambda count: [f"us-west-2{'abcdefg'[i]}" for i in range(count)])


def networks(plans: tuple[SubnetPlan, ...]) -> list[ipaddress.IPv4Network]:
    return [ipaddress.IPv4Network(plan.cidr_block) for plan in plans]


@given(ranges(), zone_lists)
def test_each_zone_gets_one_private_and_one_public_subnet(cidr: str, zones: list[str]) -> None:
    plans = plan_subnets(cidr, zones)

    assert zones == [plan.zone for plan in plans if not plan.public]
    assert zones == [plan.zone for plan in plans if plan.public]


@given(ranges(), zone_lists)
def test_subnets_lie_inside_the_range_and_never_overlap(cidr: str, zones: list[str]) -> None:
    planned = networks(plan_subnets(cidr, zones))

    assert all(network.subnet_of(ipaddress.IPv4Network(cidr)) for network in planned)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(planned, 2))


@given(ranges(), zone_lists)
def test_every_subnet_has_a_size_that_aws_allows(cidr: str, zones: list[str]) -> None:
    assert all(16 <= network.prefixlen <= 28 for network in networks(plan_subnets(cidr, zones)))


@given(ranges(), st.integers(1, 3).map(lambda count: list("abc"[:count])))
def test_up_to_three_zones_have_a_quarter_of_the_range_each_for_pods(
    cidr: str, zones: list[str]
) -> None:
    whole = ipaddress.IPv4Network(cidr).num_addresses
    private = [
        ipaddress.IPv4Network(plan.cidr_block)
        for plan in plan_subnets(cidr, zones)
        if not plan.public
    ]

    assert [whole // 4] * len(zones) == [network.num_addresses for network in private]


@given(ranges(), st.integers(1, 2))
def test_a_zone_appended_later_moves_no_subnet(cidr: str, count: int) -> None:
    zones = ["a", "b", "c"]

    assert set(plan_subnets(cidr, zones[:count])) < set(plan_subnets(cidr, zones))


@pytest.mark.parametrize(
    ("cidr", "zones", "message"),
    [
        ("10.0.0.1/16", ["a"], "is no IPv4 network .* write it like"),
        ("10.0.0.0/15", ["a"], "wider than AWS allows"),
        ("10.0.0.0/24", ["a"], "too small for 1 zones.*use a range of /23 or wider"),
        ("10.0.0.0/23", list("abcd"), "too small for 4 zones.*use a range of /22 or wider"),
        ("10.0.0.0/16", [], "is empty; name at least one zone"),
        ("10.0.0.0/16", ["a", "a"], "names a zone twice"),
        ("10.0.0.0/16", list("abcdefgh"), "names 8 zones; name at most 7"),
    ],
)
def test_a_plan_that_cannot_be_made_is_refused_with_the_way_out(
    cidr: str, zones: list[str], message: str
) -> None:
    with pytest.raises(SubnetPlanError, match=message):
        plan_subnets(cidr, zones)


def test_local_zones_and_zones_without_eks_are_left_out() -> None:
    names = ["us-east-1b", "us-east-1a", "us-east-1e", "us-east-1-bos-1a"]
    zone_ids = ["use1-az2", "use1-az1", "use1-az3", "use1-bos1-az1"]

    assert usable_zones("us-east-1", names, zone_ids) == ("us-east-1a", "us-east-1b")
