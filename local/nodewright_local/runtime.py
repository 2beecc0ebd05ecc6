"""What runs right now: the process table the supervisor writes and everyone else reads.

Decides how a process is told from another one that got its pid later (start time beside the pid),
and how a process that we started is ended. Which processes there are is `supervisor.py`'s matter.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from nodewright_local.state import write_whole

RUNTIME_FILE: Final = "runtime.json"
POLL_S: Final = 0.1


class Phase(StrEnum):
    """Where a supervised process stands."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A pid together with what tells it from a later process with the same pid."""

    pid: int
    started: str
    """Boot and start time as the system reports them; compared, never read."""

    def is_alive(self) -> bool:
        """Say whether this very process still runs (a zombie does not)."""
        return start_mark(self.pid) == self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """One row of the process table."""

    name: str
    phase: Phase
    version: str
    log_file: str
    identity: ProcessIdentity | None = None
    started_at: float | None = None
    """Unix time of the last start, in seconds."""
    ready_after_s: float | None = None
    """Seconds from the last start to readiness."""
    restarts: int = 0
    detail: str = ""
    """Why it is restarting or has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The supervisor and its processes."""

    supervisor: ProcessIdentity
    processes: tuple[ProcessStatus, ...] = field(default=())

    def save(self, directory: Path) -> None:
        """Write the table whole into a state directory."""
        write_whole(directory / RUNTIME_FILE, json.dumps(asdict(self), indent=2))

    def is_supervised(self) -> bool:
        """Say whether the supervisor that wrote the table still runs."""
        return self.supervisor.is_alive()

    def is_ready(self) -> bool:
        """Say whether every process is ready."""
        return all(process.phase is Phase.READY for process in self.processes)


def load_runtime(directory: Path) -> Runtime | None:
    """Return the process table of a state directory; None when there is none to be read."""
    try:
        document = json.loads((directory / RUNTIME_FILE).read_text("utf-8"))
        return Runtime(
            supervisor=ProcessIdentity(**document["supervisor"]),
            processes=tuple(_status(row) for row in document["processes"]),
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None  # a torn or foreign table names nothing that could be ended safely


def _status(row: dict[str, Any]) -> ProcessStatus:
    identity = row.pop("identity")
    phase = Phase(row.pop("phase"))
    return ProcessStatus(
        **row, phase=phase, identity=ProcessIdentity(**identity) if identity else None
    )


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of a running process, None when it has ended."""
    mark = start_mark(pid)
    return ProcessIdentity(pid=pid, started=mark) if mark else None


def start_mark(pid: int) -> str | None:
    """Return boot and start time of a running process; None when there is none with this pid."""
    if Path("/proc/self/stat").exists():
        return _linux_start_mark(pid)
    answer = subprocess.run(
        ["ps", "-o", "lstart=,stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    *began, condition = answer.stdout.split() or ["Z"]
    return None if condition.startswith("Z") else " ".join(began)


def _linux_start_mark(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name stands in parentheses and may hold anything; fields count from after it.
    condition, *rest = stat.rpartition(")")[2].split()
    return None if condition in "ZX" else f"{boot}:{rest[18]}"


def end_process(identity: ProcessIdentity, *, grace_s: float) -> bool:
    """End a process that we started and wait for it; return whether force was needed.

    SIGTERM to the process, then, after the grace, SIGKILL to its process group: what a part
    started itself must not outlive it. A process that is not the recorded one is left alone.
    """
    if not _signal(identity, signal.SIGTERM):
        return False
    if wait_until(lambda: not identity.is_alive(), timeout_s=grace_s):
        return False
    if identity.is_alive():
        _kill_group(identity.pid)
    wait_until(lambda: not identity.is_alive(), timeout_s=5.0)
    return True


def end_processes(identities: Sequence[ProcessIdentity], *, grace_s: float) -> None:
    """End several processes, one after the other."""
    for identity in identities:
        end_process(identity, grace_s=grace_s)


def _signal(identity: ProcessIdentity, number: signal.Signals) -> bool:
    if not identity.is_alive():
        return False
    try:
        os.kill(identity.pid, number)
    except ProcessLookupError:
        return False
    return True


def _kill_group(pid: int) -> None:
    try:
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_until(is_so: Callable[[], bool], *, timeout_s: float) -> bool:
    """Wait for a condition; return False when it does not hold in time."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
