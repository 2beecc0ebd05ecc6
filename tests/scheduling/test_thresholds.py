"""Masks by amount, against the obvious loops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from nodewright_controller.scheduling.thresholds import Threshold, members

amounts = st.lists(st.integers(-5, 20), min_size=1, max_size=12)


def mask(numbers: list[int]) -> int:
    """The mask of these members."""
    return sum(1 << number for number in numbers)


@given(amounts, st.integers(-10, 25))
def test_a_threshold_splits_its_members_by_amount(values: list[int], limit: int) -> None:
    threshold = Threshold(values)

    assert threshold.at_least(limit) == mask([i for i, v in enumerate(values) if v >= limit])
    assert threshold.at_most(limit) == mask([i for i, v in enumerate(values) if v <= limit])


@given(amounts, st.data())
def test_the_largest_and_smallest_amounts_are_those_of_the_members(
    values: list[int], data: st.DataObject
) -> None:
    chosen = data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1))

    assert Threshold(values).largest(mask(list(chosen))) == max(values[i] for i in chosen)
    assert Threshold(values).smallest(mask(list(chosen))) == min(values[i] for i in chosen)
    assert Threshold(values).largest(0) == 0


@given(st.sets(st.integers(0, 200)))
def test_members_come_in_order(chosen: set[int]) -> None:
    assert list(members(mask(list(chosen)))) == sorted(chosen)
