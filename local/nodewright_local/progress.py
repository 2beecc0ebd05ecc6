"""What a person sees while something takes time: the step's name and how long it took.

On a terminal the running step counts its seconds in place; elsewhere (a log, a pipe) a line is
written when a step begins to be long and one when it ends. Decides only the look.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.markup import escape

FIRST_NOTE_AFTER_S = 15.0


class Progress(Protocol):
    """Told about steps and notes while work goes on."""

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show a step for as long as the block runs."""
        yield

    def note(self, text: str) -> None:
        """Show one line."""


class ConsoleProgress:
    """Progress on a console (stderr, so that stdout stays for answers)."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)

    def note(self, text: str) -> None:
        """Print one line."""
        self._console.print(f"  {escape(text)}", soft_wrap=True)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show the title with its seconds, then one line with the total."""
        begun = time.monotonic()
        ended = threading.Event()
        shows = self._count if self._console.is_terminal else self._report
        watcher = threading.Thread(target=shows, args=(title, begun, ended), daemon=True)
        watcher.start()
        mark = "[red]✗[/red]"
        try:
            yield
            mark = "[green]✓[/green]"
        finally:
            ended.set()
            watcher.join()
            seconds = time.monotonic() - begun
            self._console.print(f"{mark} {escape(title)} ({seconds:.1f} s)", soft_wrap=True)

    def _count(self, title: str, begun: float, ended: threading.Event) -> None:
        with self._console.status(escape(title)) as status:
            while not ended.wait(0.5):
                status.update(f"{escape(title)} … {time.monotonic() - begun:.0f} s")

    def _report(self, title: str, begun: float, ended: threading.Event) -> None:
        pause = FIRST_NOTE_AFTER_S
        while not ended.wait(pause):
            seconds = time.monotonic() - begun
            self._console.print(f"  {escape(title)} … {seconds:.0f} s", soft_wrap=True)
            pause = min(pause * 2, 60.0)


class Silence:
    """Progress that nobody watches."""

    def note(self, text: str) -> None:
        """Drop the line."""

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show nothing."""
        yield
