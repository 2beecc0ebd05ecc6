"""Quantities and vectors of resources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nodewright_controller.kernel.resources import (
    Resources,
    amount,
    format_amount,
    parse_quantity,
    total,
    unreadable,
)

amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "x/gpu"]), st.integers(0, 2**50)
)


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        ("cpu", "1500m", 1500),
        ("cpu", 2, 2000),
        ("cpu", "0.1", 100),
        ("cpu", "100n", 1),
        ("memory", "1Gi", 2**30),
        ("memory", "1e3", 1000),
        ("memory", "1.5G", 1_500_000_000),
        ("memory", "1Ei", 2**60),
        ("pods", "110", 110),
        ("memory", "100m", 1),
    ],
)
def test_quantities_are_read_exactly_and_rounded_up(
    resource: str, text: str | int, expected: int
) -> None:
    assert amount(resource, text) == expected


@pytest.mark.parametrize("text", ["", "lots", "1 Gi", "1Zi", "--1", "1e"])
def test_what_is_no_quantity_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), True])
def test_a_number_that_is_none_is_refused_too(value: float) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(value)


def test_a_negative_amount_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="resource cpu: '-1' is negative"):
        Resources.parse({"cpu": "-1"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1e999999999999", 2**63 - 1), ("9" * 60 + "Ei", 2**63 - 1), ("1e-999999999", 1), ("0e99", 0)],
)
def test_an_amount_beyond_all_measure_is_cut_as_the_api_server_does(
    text: str, expected: int
) -> None:
    assert amount("memory", text) == expected


def test_what_can_be_read_of_a_list_is_read() -> None:
    listed = {"cpu": "2", "memory": "much", "pods": "-1"}

    assert Resources.readable(listed) == Resources({"cpu": 2000})
    assert list(unreadable(listed)) == [("memory", "much"), ("pods", "-1")]
    assert Resources.readable(None) == Resources()


@given(st.sampled_from(["cpu", "memory", "pods"]), st.integers(0, 2**60))
def test_an_amount_reads_back_as_it_was_written(resource: str, value: int) -> None:
    assert amount(resource, format_amount(resource, value)) == value


@given(amounts, amounts)
def test_adding_and_taking_away_come_back_to_the_start(
    one: dict[str, int], other: dict[str, int]
) -> None:
    assert Resources(one) + other - other == Resources(one)
    assert total([one, other]) == Resources(one) + other


@given(amounts, amounts)
def test_a_vector_fits_where_nothing_is_left_over_below_zero(
    one: dict[str, int], room: dict[str, int]
) -> None:
    left = Resources(room) - one
    assert Resources(one).fits_in(room) == all(value >= 0 for value in left.values())


def test_a_room_below_zero_holds_nothing() -> None:
    assert not Resources({"cpu": 1}).fits_in({"cpu": 5, "memory": -1})


def test_zero_and_absent_are_the_same() -> None:
    assert Resources({"cpu": 0, "memory": 1}) == Resources({"memory": 1})
    assert hash(Resources({"cpu": 0})) == hash(Resources())
