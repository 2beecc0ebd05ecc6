"""Runs the steps of a story: times each, and says what to do when one fails.

Decides what a failure and an interruption leave behind: a failed story keeps its cluster, so that
one can look; an interrupted one clears up. What the steps do is `walkthrough.py`'s matter.
"""

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nodewright_local.demo.errors import PLAIN_ERRORS
from nodewright_local.demo.interruption import interruptions
from nodewright_local.demo.screen import Screen
from nodewright_local.lifecycle import down, tail
from nodewright_local.state import LOGS

FAILED: Final = 1
INTERRUPTED: Final = 130
SHOWN_LINES: Final = 12
LONGEST_LINE: Final = 400
CONTROLLER_LOGS: Final = "pods/karpenter_*_controller.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the story."""

    title: str
    words: str
    """What is going to happen, for somebody who has never seen it."""
    act: Callable[[], None]
    logs: tuple[str, ...] = ()
    """Logs that explain a failure, as patterns below the cluster's folder of logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long a step took."""

    title: str
    seconds: float


def tell(steps: Sequence[Step], directory: Path, screen: Screen) -> tuple[int, list[Timing]]:
    """Run the steps; return an exit status and what each finished step took.

    A step that fails ends the story with status 1 and leaves the cluster of `directory` running;
    Ctrl-C and SIGTERM take it down and end with 130.
    """
    timings: list[Timing] = []
    story_begun = time.time()
    with interruptions() as interruption:
        for number, step in enumerate(steps, start=1):
            screen.heading(number, len(steps), step.title, step.words)
            begun = time.monotonic()
            try:
                step.act()
                interruption.check()
            except (Exception, KeyboardInterrupt) as error:
                if interruption.came or isinstance(error, KeyboardInterrupt):
                    screen.bad("interrupted; taking everything down")
                    down(directory, screen)
                    return INTERRUPTED, timings
                _explain(step, number, error, screen)
                _leave(step, directory, story_begun, screen)
                return FAILED, timings
            seconds = time.monotonic() - begun
            screen.ended(seconds)
            timings.append(Timing(title=step.title, seconds=seconds))
    return 0, timings


def show_timings(timings: Sequence[Timing], screen: Screen) -> None:
    """Show a table of what each step took."""
    screen.title("How long each step took")
    rows = [
        (f"{number:2}", timing.title, f"{timing.seconds:.1f}")
        for number, timing in enumerate(timings, start=1)
    ]
    total = sum(timing.seconds for timing in timings)
    screen.table(("", "step", "seconds"), [*rows, ("", "total", f"{total:.1f}")], right=1)


def _explain(step: Step, number: int, error: Exception, screen: Screen) -> None:
    screen.bad(f"step {number} failed: {step.title}")
    if isinstance(error, PLAIN_ERRORS):
        screen.output(str(error))
    else:
        screen.output("".join(traceback.format_exception(error)))


def _leave(step: Step, directory: Path, story_begun: float, screen: Screen) -> None:
    """Show the logs that may tell more, and how to go on from here."""
    for log in _logs(step, directory / LOGS, story_begun):
        screen.note(f"{log} ends with:")
        screen.output(_short(tail(log, SHOWN_LINES)))
    screen.note("The cluster is left as it is, so that you can look at it:")
    screen.command(f'eval "$(nodewright local env --dir {directory})"')
    screen.note("Take it down when you have seen enough (the next demo does so too):")
    screen.command(f"nodewright local down --dir {directory}")


def _logs(step: Step, folder: Path, story_begun: float) -> list[Path]:
    """Return the step's logs that this story wrote; those of earlier demos stay in the folder."""
    found = [log for pattern in step.logs for log in sorted(folder.glob(pattern))]
    return [log for log in found if log.is_file() and log.stat().st_mtime >= story_begun]


def _short(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(
        line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} …" for line in lines
    )
