"""The figures the demo measures: waiting times from timestamps, and memory of processes.

Kubernetes cuts its timestamps to whole seconds, so a span from one is up to a second too long.
"""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

PROGRAM: Final = "nodewright-controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One running process."""

    pid: int
    parent: int
    resident_mib: float
    command: str


def seconds_until_first(begun: datetime, calls: Iterable[datetime]) -> float | None:
    """Return the seconds from a moment to the first call after it; None when there is none.

    The moment may be cut to whole seconds.
    """
    later = sorted(call for call in calls if call >= begun)
    return (later[0] - begun).total_seconds() if later else None


def descendants(processes: Iterable[Process], ancestor: int) -> list[Process]:
    """Return the processes that a process started, directly or not, by pid."""
    by_parent: dict[int, list[Process]] = {}
    for process in processes:
        by_parent.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [ancestor]
    while waiting:
        children = by_parent.get(waiting.pop(), [])
        found += children
        waiting += [child.pid for child in children]
    return sorted(found, key=lambda process: process.pid)


def controller_processes(ancestor: int) -> list[Process]:
    """Return the controller's processes among those that a process started."""
    return [item for item in descendants(running(), ancestor) if PROGRAM in item.command]


def running() -> list[Process]:
    """Return every process of the machine that can be looked at."""
    if Path("/proc/self/statm").exists():
        return [process for entry in Path("/proc").iterdir() if (process := _from_proc(entry))]
    answer = subprocess.run(
        ["ps", "-axo", "pid=,ppid=,rss=,command="], capture_output=True, text=True, check=True
    )
    return [_from_ps(line) for line in answer.stdout.splitlines() if line.strip()]


def _from_proc(entry: Path) -> Process | None:
    if not entry.name.isdigit():
        return None
    try:
        status = (entry / "status").read_text("utf-8", errors="replace")
        command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None  # it has ended, or is another user's
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return Process(
        pid=int(entry.name),
        parent=int(fields["PPid"]),
        resident_mib=int(fields.get("VmRSS", "0 kB").split()[0]) / 1024,
        command=command.strip(),
    )


def _from_ps(line: str) -> Process:
    pid, parent, resident_kib, command = line.split(None, 3)
    return Process(
        pid=int(pid), parent=int(parent), resident_mib=int(resident_kib) / 1024, command=command
    )
