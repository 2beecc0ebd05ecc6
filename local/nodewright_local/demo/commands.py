"""Runs the commands that the demo shows, in the environment that leads to the cluster."""

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from nodewright_local.demo.errors import StoryError
from nodewright_local.demo.screen import Screen

WITHIN_S = 180.0


class Commands:
    """Runs commands; each is shown first, and fails the story when it fails."""

    def __init__(self, environ: Mapping[str, str], screen: Screen) -> None:
        self._environ = dict(environ)
        self._screen = screen

    def show(self, *command: str, longest_line: int | None = None) -> str:
        """Run a command, show it and what it prints, and return its answer.

        Raises `StoryError` when it fails.
        """
        self._screen.command(shlex.join(command))
        answer = self._run(command)
        self._screen.output(_cut(answer.stdout or answer.stderr, longest_line))
        return answer.stdout

    def _run(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        program = shutil.which(command[0], path=self._environ["PATH"])
        if program is None:
            raise StoryError(f"{command[0]} is not on the PATH {self._environ['PATH']}")
        try:
            answer = subprocess.run(
                [program, *command[1:]],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=WITHIN_S,
            )
        except subprocess.TimeoutExpired as error:
            raise StoryError(f"{shlex.join(command)} did not end in {WITHIN_S:.0f} s") from error
        if answer.returncode != 0:
            said = (answer.stderr or answer.stdout).strip()
            raise StoryError(f"{shlex.join(command)} failed: {said}")
        return answer


def write_kubeconfig(text: str, path: Path) -> Path:
    """Write a kubeconfig that only its owner may read."""
    path.touch(mode=0o600, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def _cut(text: str, longest_line: int | None) -> str:
    if longest_line is None:
        return text
    return "\n".join(
        line if len(line) <= longest_line else f"{line[: longest_line - 1]}…"
        for line in text.splitlines()
    )
