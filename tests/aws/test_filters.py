"""Which types a launch offers: cheapest sixty, one capacity type, nothing exotic without need."""

from __future__ import annotations

import pytest
from nodewright_controller.aws.filters import Choice, NoChoice, choose
from nodewright_controller.aws.offerings import offering_requirements
from nodewright_controller.constraints.instance_type import InstanceType, Offering
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import EMPTY, Resources

NOTHING = Requirements()


def offering(capacity_type: str, usd: float, zone: str = "a", available: bool = True) -> Offering:
    return Offering(offering_requirements(zone, "", capacity_type), usd, available)


def machine(name: str, *offerings: Offering, **capacity: int) -> InstanceType:
    labels = {"node.kubernetes.io/instance-type": name, "kubernetes.io/arch": "amd64"}
    amounts = {"cpu": 4000} | {key.replace("_", "/"): value for key, value in capacity.items()}
    return InstanceType(name, Requirements.of_labels(labels), offerings, Resources(amounts))


def names(choice: Choice | NoChoice) -> list[str]:
    assert isinstance(choice, Choice), choice
    return [found.instance_type.name for found in choice.candidates]


def requirement(key: str, *values: str, min_values: int | None = None) -> Requirements:
    return Requirements([Requirement.of(key, "In", values, min_values)])


def test_the_cheapest_comes_first_and_ties_go_by_name() -> None:
    types = (
        machine("b", offering("on-demand", 2)),
        machine("c", offering("on-demand", 1)),
        machine("a", offering("on-demand", 2)),
    )

    assert names(choose(types, NOTHING, EMPTY)) == ["c", "a", "b"]


def test_no_more_than_sixty_types_are_offered() -> None:
    types = tuple(machine(f"t{n:03}", offering("on-demand", 1 + n)) for n in range(100))

    assert names(choose(types, NOTHING, EMPTY)) == [f"t{n:03}" for n in range(60)]


def test_spot_goes_before_on_demand_but_not_when_it_is_dearer() -> None:
    cheap = machine("cheap", offering("spot", 0.5), offering("on-demand", 1))
    dear = machine("dear", offering("spot", 3), offering("on-demand", 5))

    both = choose((cheap, dear), NOTHING, EMPTY)
    only_dear_spot = choose((dear, machine("x", offering("on-demand", 2))), NOTHING, EMPTY)

    assert isinstance(both, Choice)
    assert both.capacity_type == "spot"
    assert names(both) == ["cheap"]
    assert isinstance(only_dear_spot, Choice)
    assert only_dear_spot.capacity_type == "on-demand"


@pytest.mark.parametrize("exotic", ["m5.metal", "g4dn.xlarge"])
def test_exotic_types_are_a_last_resort(exotic: str) -> None:
    gpu = {"nvidia.com_gpu": 1} if exotic == "g4dn.xlarge" else {}
    special = machine(exotic, offering("on-demand", 1), **gpu)
    plain = machine("m5.large", offering("on-demand", 2))

    assert names(choose((special, plain), NOTHING, EMPTY)) == ["m5.large"]
    assert names(choose((special,), NOTHING, EMPTY)) == [exotic]


def test_min_values_keep_everything_and_refuse_too_little_breadth() -> None:
    key = "node.kubernetes.io/instance-type"
    types = (
        machine("m5.metal", offering("on-demand", 1)),
        machine("m5.large", offering("on-demand", 2)),
    )

    broad = choose(types, requirement(key, "m5.metal", "m5.large", min_values=2), EMPTY)
    narrow = choose(types, requirement(key, "m5.large", "m5.xlarge", min_values=2), EMPTY)

    assert names(broad) == ["m5.metal", "m5.large"]
    assert isinstance(narrow, NoChoice)
    assert "has 1 of 2" in narrow.because


def test_what_does_not_fit_or_is_out_of_stock_is_explained() -> None:
    small = (machine("small", offering("on-demand", 1)),)
    sold_out = (machine("gone", offering("on-demand", 1, available=False)),)

    too_big = choose(small, NOTHING, Resources({"cpu": 5000}))
    gone = choose(sold_out, NOTHING, EMPTY)

    assert isinstance(too_big, NoChoice)
    assert "fits {'cpu': '5'}" in too_big.because
    assert isinstance(gone, NoChoice)
    assert "out of stock" in gone.because


def test_only_zones_that_are_asked_for_are_offered() -> None:
    types = (machine("m", offering("on-demand", 1, "a"), offering("on-demand", 2, "b")),)

    choice = choose(types, requirement("topology.kubernetes.io/zone", "b"), EMPTY)

    assert isinstance(choice, Choice)
    assert [o.zone for o in choice.candidates[0].offerings] == ["b"]
