"""The algebra of requirements, against what sets of values say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nodewright_controller.api.labels import ZONE
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements

from tests.strategies import label_values, requirements

_CANDIDATES = ["a", "b", "c", "x", "zz", *map(str, range(12))]


@given(requirements(), requirements(), st.sampled_from(_CANDIDATES))
def test_an_intersection_allows_exactly_what_both_sides_allow(
    one: Requirement, other: Requirement, value: str
) -> None:
    assert one.intersection(other).has(value) == (one.has(value) and other.has(value))


@given(requirements(), requirements())
def test_intersecting_is_symmetric(one: Requirement, other: Requirement) -> None:
    assert one.intersection(other) == other.intersection(one)
    assert one.intersects(other) == other.intersects(one)


@given(requirements())
def test_any_value_is_allowed_where_one_can_be(one: Requirement) -> None:
    value = one.any_value()
    if not one.empty and any(one.has(candidate) for candidate in _CANDIDATES):
        assert one.has(value)


@given(requirements(), label_values)
def test_a_label_meets_a_requirement_that_has_its_value(one: Requirement, value: str) -> None:
    labels = Requirements.of_labels({"key": value})

    assert labels.compatible(Requirements([one])) == one.has(value)


def test_bounds_are_inclusive_and_admit_integers_only() -> None:
    above = Requirement.of("cpu", "Gt", ["4"])

    assert above.entries() == (("cpu", "Gte", ("5",)),)
    assert not above.has("4")
    assert above.has("5")
    assert not above.has("many")


def test_deprecated_and_driver_keys_mean_the_stable_one() -> None:
    assert Requirement.of("failure-domain.beta.kubernetes.io/zone", "In", ["a"]).key == ZONE
    assert Requirement.of("topology.ebs.csi.aws.com/zone", "In", ["a"]).key == ZONE


def test_a_missing_label_is_fine_for_what_only_excludes() -> None:
    nothing = Requirements()

    assert nothing.compatible(Requirements([Requirement.of("team", "NotIn", ["x"])]))
    assert nothing.compatible(Requirements([Requirement.of("team", "DoesNotExist")]))
    assert not nothing.compatible(Requirements([Requirement.of("team", "Exists")]))
    assert nothing.undefined(Requirements([Requirement.of("team", "In", ["x"])])) == ("team",)


def test_a_comparison_without_one_integer_is_refused_by_key() -> None:
    with pytest.raises(ValueError, match="requirement on cpu: Gt needs exactly one integer"):
        Requirement.of("cpu", "Gt", ["many"])
