"""The figures the demo measures."""

import os
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from nodewright_local.demo.figures import (
    PROGRAM,
    Process,
    controller_processes,
    descendants,
    running,
    seconds_until_first,
)
from nodewright_local.demo.interruption import engines_of

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def process(pid: int, parent: int, command: str = "x") -> Process:
    return Process(pid=pid, parent=parent, resident_mib=1.0, command=command)


def test_the_first_call_after_the_moment_counts() -> None:
    calls = [NOON + timedelta(seconds=offset) for offset in (9, -3, 4.5)]
    assert seconds_until_first(NOON, calls) == pytest.approx(4.5)


def test_no_call_after_the_moment_is_no_figure() -> None:
    assert seconds_until_first(NOON, [NOON - timedelta(seconds=1)]) is None


def test_descendants_are_found_at_any_depth_and_strangers_are_not() -> None:
    table = [process(4, 3), process(3, 2), process(2, 1), process(9, 1)]
    assert [item.pid for item in descendants(table, 2)] == [3, 4]


def test_this_process_is_running_and_uses_memory() -> None:
    own = next(item for item in running() if item.pid == os.getpid())
    assert own.resident_mib > 1
    assert own.parent == os.getppid()


def test_a_controller_process_is_found_below_its_ancestor_only() -> None:
    command = ["sh", "-c", "sleep 30 & wait", PROGRAM]
    with subprocess.Popen(command, start_new_session=True) as shell:
        try:
            assert shell.pid in [item.pid for item in controller_processes(os.getpid())]
            assert controller_processes(shell.pid) == []
        finally:
            os.killpg(shell.pid, 9)


def test_engines_are_own_children_called_pulumi() -> None:
    table = [
        process(2, 1, "/tools/pulumi up --yes"),
        process(3, 1, "python pulumi-resource-aws"),
        process(4, 7, "pulumi up"),
    ]
    assert [item.pid for item in engines_of(1, table)] == [2]
