"""Over generated worlds, what Karpenter can place we place, and for no more money."""

from __future__ import annotations

import sys

import pytest

from tests.parity.binary import BuildError, Program, binary
from tests.parity.compare import Comparison, compare, table
from tests.parity.worlds import parity_worlds

pytestmark = [pytest.mark.parity, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def compared() -> list[Comparison]:
    try:
        program = binary(Program.PARITY)
    except BuildError as error:
        pytest.skip(str(error))
    found = compare(program, parity_worlds())
    sys.stdout.write("\n" + table(found) + "\n")
    return found


def test_every_world_is_decided_by_both_sides(compared: list[Comparison]) -> None:
    assert len(compared) > 100
    assert [one.theirs.failure for one in compared if one.theirs.failure] == []


def test_what_karpenter_places_we_place(compared: list[Comparison]) -> None:
    assert {one.world.name: one.missed for one in compared if one.missed and not one.reason} == {}


def test_our_decisions_keep_every_rule_of_kubernetes(compared: list[Comparison]) -> None:
    assert {one.world.name: one.faults for one in compared if one.faults} == {}


def test_no_world_costs_noticeably_more_without_a_written_reason(
    compared: list[Comparison],
) -> None:
    assert {one.world.name: one.problems for one in compared if one.problems} == {}


def test_in_total_we_buy_no_more_than_karpenter_does(compared: list[Comparison]) -> None:
    ours = sum(one.fair_usd_per_hour for one in compared)

    assert ours <= sum(one.theirs.usd_per_hour for one in compared)
