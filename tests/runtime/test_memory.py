"""Near the limit garbage is collected; what stays in use is told of; below it nothing happens."""

from __future__ import annotations

import gc
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from nodewright_controller.runtime.memory import MemoryWatch, resident_bytes
from nodewright_controller.runtime.undisturbed import undisturbed
from structlog.testing import capture_logs

Logs = list[MutableMapping[str, Any]]
LIMIT = 1000 * 2**20


class Process:
    """Its memory, and how much of that collecting frees."""

    def __init__(self, used_mib: int, garbage_mib: int = 0, limit: int = LIMIT) -> None:
        self.used_mib, self.garbage_mib, self.collections = used_mib, garbage_mib, 0
        self.watch = MemoryWatch(
            limit, used_bytes=lambda: self.used_mib * 2**20, collect=self.collect
        )

    def collect(self) -> None:
        self.collections += 1
        self.used_mib -= self.garbage_mib


@pytest.fixture
def logs() -> Iterator[Logs]:
    with capture_logs() as found:
        yield found


def test_below_nine_tenths_nothing_is_collected(logs: Logs) -> None:
    process = Process(used_mib=899)

    assert process.watch.step() == 10
    assert process.collections == 0


def test_garbage_goes_before_the_limit_is_reached(logs: Logs) -> None:
    process = Process(used_mib=950, garbage_mib=300)

    assert process.watch.step() == 60
    assert process.collections == 1
    assert logs == []


def test_memory_that_is_in_use_is_told_of_with_the_way_out(logs: Logs) -> None:
    Process(used_mib=950, garbage_mib=10).watch.step()

    (told,) = logs
    assert (told["used_mib"], told["limit_mib"]) == (940, 1000)
    assert "raise the controller's memory limit" in str(told["help"])


@pytest.mark.parametrize("limit", [-1, 0])
def test_without_a_limit_nothing_is_collected(limit: int) -> None:
    process = Process(used_mib=10**6, limit=limit)

    process.watch.step()

    assert process.collections == 0


def test_a_computation_that_wants_no_collection_is_left_alone() -> None:
    process = Process(used_mib=950)

    assert undisturbed(process.watch.step) == 10
    assert process.collections == 0
    assert gc.isenabled()


def test_the_memory_of_this_process_is_known() -> None:
    assert 2**20 < resident_bytes() < 2**40
