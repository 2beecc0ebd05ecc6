"""The look of the demo, on a terminal and in a plain log.

On a terminal a line at the bottom counts the seconds of what runs; in a log a line is written now
and then. Everything that stays is the same in both, except colours.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table
from rich.text import Text

NOTE_EVERY_S: Final = 15.0
WIDTH: Final = 100


class Waiting:
    """What is being waited for right now; its text may change."""

    def __init__(self, text: str) -> None:
        self.text = text


class Screen:
    """Prints the story; also a `Progress` for the cluster's own start and end."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)

    def heading(self, number: int, total: int, title: str, words: str) -> None:
        """Open a step: its number, its name, and a sentence on what is going to happen."""
        prefix = f"── {number}/{total}  "
        rule = "─" * max(3, min(self._console.width, WIDTH) - len(prefix) - len(title) - 1)
        self._console.print()
        self._console.print(
            Text.assemble((prefix, "dim"), (title, "bold cyan"), (f" {rule}", "dim"))
        )
        self._console.print(Text(words), width=min(self._console.width, WIDTH))

    def command(self, line: str) -> None:
        """Show a command a person would type."""
        self._console.print(Text.assemble(("  $ ", "dim"), (line, "bold")), soft_wrap=True)

    def output(self, text: str) -> None:
        """Show what a command printed."""
        for line in text.rstrip("\n").splitlines():
            self._console.print(Text(f"    {line}"), soft_wrap=True)

    def note(self, text: str) -> None:
        """Show one line."""
        self._console.print(f"  {escape(text)}", soft_wrap=True)

    def change(self, seconds: float, text: str) -> None:
        """Show something that has happened, with the seconds since the step began."""
        self._console.print(f"  [dim]{seconds:6.1f} s[/dim]  {escape(text)}", soft_wrap=True)

    def good(self, text: str) -> None:
        """Show what has been reached."""
        self._console.print(f"  [green]✓[/green] {escape(text)}", soft_wrap=True)

    def bad(self, text: str) -> None:
        """Show what has failed."""
        self._console.print(f"  [red]✗[/red] {escape(text)}", soft_wrap=True)

    def ended(self, seconds: float) -> None:
        """Close a step."""
        self._console.print(f"  [dim]took {seconds:.1f} s[/dim]")

    def title(self, text: str) -> None:
        """Show a heading that is no step."""
        self._console.print()
        self._console.print(f"[bold cyan]{escape(text)}[/bold cyan]")

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: int) -> None:
        """Show rows under headers, if there are any; the last `right` columns are numbers."""
        table = Table(
            box=None,
            pad_edge=False,
            padding=(0, 2, 0, 0),
            header_style="dim",
            show_header=any(headers),
        )
        for index, header in enumerate(headers):
            is_number = index >= len(headers) - right
            table.add_column(header, justify="right" if is_number else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(escape(cell) for cell in row))
        with self._console.capture() as capture:
            self._console.print(table)
        for line in capture.get().rstrip("\n").splitlines():
            self._console.print(Text.from_ansi(f"  {line.rstrip()}"), soft_wrap=True)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show a part of a step, then one line with what it took."""
        begun = time.monotonic()
        with self.waiting(title):
            yield
        self.good(f"{title} ({time.monotonic() - begun:.1f} s)")

    @contextmanager
    def waiting(self, text: str) -> Iterator[Waiting]:
        """Show that something is going on for as long as the block runs."""
        waiting = Waiting(text)
        ended = threading.Event()
        if self._console.is_terminal:
            with self._console.status(escape(text)) as status:
                counter = self._in_background(self._count, waiting, ended, status)
                try:
                    yield waiting
                finally:
                    ended.set()
                    counter.join()
            return
        reporter = self._in_background(self._report, waiting, ended)
        try:
            yield waiting
        finally:
            ended.set()
            reporter.join()

    @staticmethod
    def _in_background(target: object, *arguments: object) -> threading.Thread:
        assert callable(target)
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        return thread

    def _count(self, waiting: Waiting, ended: threading.Event, status: Status) -> None:
        begun = time.monotonic()
        while not ended.wait(0.25):
            status.update(f"{escape(waiting.text)} … {time.monotonic() - begun:.0f} s")

    def _report(self, waiting: Waiting, ended: threading.Event) -> None:
        begun = time.monotonic()
        while not ended.wait(NOTE_EVERY_S):
            self.note(f"… {waiting.text} ({time.monotonic() - begun:.0f} s so far)")
