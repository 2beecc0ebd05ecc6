"""How a story is told, fails and is broken off."""

import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nodewright_local.demo import story
from nodewright_local.demo.errors import StoryError
from nodewright_local.demo.screen import Screen
from nodewright_local.demo.story import FAILED, INTERRUPTED, Step, show_timings, tell
from rich.console import Console


@pytest.fixture
def paper() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def screen(paper: io.StringIO) -> Screen:
    return Screen(Console(file=paper, width=100, highlight=False))


def nothing() -> None:
    """Do nothing."""


def fail() -> None:
    raise StoryError("the node did not come")


def step(act: Callable[[], None] = nothing, **more: Any) -> Step:
    return Step(**{"title": "A step", "words": "Something happens.", "act": act, **more})


def test_every_step_is_announced_and_timed(
    screen: Screen, paper: io.StringIO, tmp_path: Path
) -> None:
    status, timings = tell([step(), step(title="Another")], tmp_path, screen)
    assert status == 0
    assert [timing.title for timing in timings] == ["A step", "Another"]
    text = paper.getvalue()
    assert "── 1/2  A step ─" in text
    assert "── 2/2  Another ─" in text
    assert text.count("took 0.0 s") == 2


def test_a_failure_names_the_step_and_the_reason_and_how_to_go_on(
    screen: Screen, paper: io.StringIO, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()

    def log_and_fail() -> None:
        (logs / "aws.log").write_text("it was the network\n")
        fail()

    steps = [step(log_and_fail, logs=("aws.log", "absent.log")), step(title="Never reached")]
    status, timings = tell(steps, tmp_path, screen)
    assert status == FAILED
    assert timings == []
    text = paper.getvalue()
    assert "step 1 failed: A step" in text
    assert "the node did not come" in text
    assert "Traceback" not in text
    assert "it was the network" in text
    assert "absent.log" not in text
    assert f"nodewright local down --dir {tmp_path}" in text
    assert "Never reached" not in text


def test_logs_of_an_earlier_story_are_not_shown(
    screen: Screen, paper: io.StringIO, tmp_path: Path
) -> None:
    old = tmp_path / "logs" / "aws.log"
    old.parent.mkdir()
    old.write_text("long ago\n")
    os.utime(old, (1, 1))
    tell([step(fail, logs=("aws.log",))], tmp_path, screen)
    assert "long ago" not in paper.getvalue()


def test_an_error_nobody_thought_of_shows_its_traceback(
    screen: Screen, paper: io.StringIO, tmp_path: Path
) -> None:
    def stumble() -> None:
        raise ZeroDivisionError("by zero")

    assert tell([step(stumble)], tmp_path, screen)[0] == FAILED
    assert "Traceback" in paper.getvalue()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_takes_everything_down(
    number: int,
    screen: Screen,
    paper: io.StringIO,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken_down: list[Path] = []
    monkeypatch.setattr(story, "down", lambda directory, _: taken_down.append(directory))
    handlers = [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]

    status, _ = tell([step(lambda: os.kill(os.getpid(), number)), step()], tmp_path, screen)

    assert status == INTERRUPTED
    assert taken_down == [tmp_path]
    assert "interrupted; taking everything down" in paper.getvalue()
    assert [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)] == handlers


def test_the_table_of_times_ends_with_their_sum(screen: Screen, paper: io.StringIO) -> None:
    show_timings(
        [story.Timing(title="One", seconds=1.25), story.Timing(title="Two", seconds=2.0)], screen
    )
    lines = [line.split() for line in paper.getvalue().splitlines()]
    assert ["1", "One", "1.2"] in lines
    assert ["total", "3.2"] in lines
