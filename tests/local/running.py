"""Handles on a running laptop cluster, for end-to-end tests."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nodewright_local.state import ClusterState

START_ALLOWANCE_S = 1800
"""Enough to build every binary once; a start with a warm cache takes seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaptopCluster:
    """A laptop cluster that is up, and how to speak to it."""

    state: ClusterState
    environ: Mapping[str, str]
    """Environment for kubectl, aws, pulumi and the project's own commands."""

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as the administrator and return what it prints; fail when it fails."""
        answer = subprocess.run(
            [self.state.binaries["kubectl"], *arguments],
            env=dict(self.environ),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert answer.returncode == 0, f"kubectl {' '.join(arguments)}: {answer.stderr}"
        return answer.stdout

    def get(self, *arguments: str) -> Any:
        """Return what `kubectl get` finds, as data; an absent object is None."""
        text = self.kubectl("get", "--ignore-not-found", "-o", "json", *arguments)
        return json.loads(text) if text.strip() else None

    def apply(self, document: Mapping[str, Any]) -> None:
        """Create or update one object."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(document))


def nodewright(*arguments: str, environ: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run the `nodewright` command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "from nodewright.cli import main; main()", *arguments],
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=START_ALLOWANCE_S,
    )


def eventually(is_so: Callable[[], object], *, within_s: float = 20.0, what: str = "") -> Any:
    """Return the first true answer of a question that is asked again and again."""
    deadline = time.monotonic() + within_s
    while not (answer := is_so()):
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what or is_so}"
        time.sleep(0.2)
    return answer
