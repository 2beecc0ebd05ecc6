"""What Ctrl-C and SIGTERM do while the story is told.

Pulumi's engine must end by itself, or its providers stay behind: while it works, a signal is led to
it, and the story stops when it has ended. At any other time the step is broken off at once, as it
is by a second signal.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Final

from nodewright_local.demo.figures import Process, running

ENGINE: Final = "pulumi"


@dataclass(slots=True)
class Interruption:
    """Whether somebody wants the story to end."""

    came: bool = False

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self.came:
            raise KeyboardInterrupt


@contextmanager
def interruptions() -> Iterator[Interruption]:
    """Take SIGINT and SIGTERM for as long as the block runs."""
    interruption = Interruption()

    def take(number: int, frame: FrameType | None) -> None:
        engines = engines_of(os.getpid(), running())
        if interruption.came or not engines:
            interruption.came = True
            raise KeyboardInterrupt
        interruption.came = True
        if number == signal.SIGINT and sys.stdin.isatty():
            return  # the terminal has told the engine as well
        for engine in engines:
            with suppress(ProcessLookupError):
                os.kill(engine.pid, signal.SIGINT)

    before = {number: signal.signal(number, take) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def engines_of(parent: int, processes: list[Process]) -> list[Process]:
    """Return the engines that a process runs right now."""
    return [
        process
        for process in processes
        if process.parent == parent and process.command.split(" ", 1)[0].endswith(ENGINE)
    ]
