"""One container's process: start it, keep its output, end it, and find it again after a crash.

Output goes to a file whose lines begin with a timestamp, the form in which a container runtime
keeps logs; the kubelet server reads it.
"""

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 16
_LONGEST_LINE_BYTES = 1 << 18
_ORPHAN_GRACE_SECONDS = 3.0


class LogFile:
    """The log of one container; a new run moves the old one to ``.previous.log``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: BinaryIO | None = None
        self._rest = b""

    def start_run(self) -> None:
        """Begin a new file, keeping the last one as the previous run's."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            self._path.replace(previous_log(self._path))
        self._stream = self._path.open("ab", buffering=0)

    def write(self, chunk: bytes) -> None:
        """Take output as it comes; whole lines are written at once."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LONGEST_LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        if lines and self._stream is not None:
            stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode()
            self._stream.write(b"".join(stamp + line + b"\n" for line in lines))

    def end_run(self) -> None:
        """Write an unfinished last line and close."""
        if self._rest:
            self.write(b"\n")
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def previous_log(path: Path) -> Path:
    """Return where the run before the current one is kept (``x.log`` → ``x.previous.log``)."""
    return path.with_name(f"{path.stem}.previous.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to execute."""

    words: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    pid_file: Path


class Process:
    """A running process in a session of its own, so that its children end with it."""

    def __init__(self, process: asyncio.subprocess.Process, output: LogFile, pid: Path) -> None:
        self._process = process
        self._output = output
        self._pid_file = pid
        self._pump = asyncio.create_task(self._keep_output())

    @classmethod
    async def start(cls, command: Command, output: LogFile) -> "Process":
        """Start the command; raises OSError if it cannot be executed."""
        process = await asyncio.create_subprocess_exec(
            *command.words,
            env=dict(command.environment),
            cwd=command.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        started = process_start(process.pid)
        command.pid_file.write_text(json.dumps({"pid": process.pid, "started": started}))
        output.start_run()
        return cls(process, output, command.pid_file)

    async def _keep_output(self) -> None:
        stream = self._process.stdout
        while stream is not None and (chunk := await stream.read(_CHUNK_BYTES)):
            self._output.write(chunk)

    async def wait(self) -> int:
        """Return the exit code once the process ended (128 + number for a signal)."""
        code = await self._process.wait()
        self._kill_session()  # what it left behind in its session
        await asyncio.wait({self._pump}, timeout=2.0)
        if not self._pump.done():
            self._pump.cancel()
        self._output.end_run()
        self._pid_file.unlink(missing_ok=True)
        return code if code >= 0 else 128 - code

    async def end(self, grace_seconds: float) -> None:
        """Ask the process to end, and end it when the grace is over."""
        if self._process.returncode is not None:
            return
        if grace_seconds > 0:
            # Only the first process of a container is asked; its children are its own business.
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(grace_seconds):
                    await self._process.wait()
            except TimeoutError:
                log.warning("process %d outlived its grace and is killed", self._process.pid)
        self._kill_session()
        await self._process.wait()

    def _kill_session(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left in it
            os.killpg(self._process.pid, signal.SIGKILL)


def process_start(pid: int) -> str:
    """Return a text that tells this process from a later one of the same pid; empty if none."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        if Path("/proc/self/stat").exists():
            return ""
        found = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return found.stdout.strip()
    fields = line.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


async def end_orphans(pods_dir: Path) -> None:
    """End the processes that an earlier run of this program started and did not end.

    Their pods' folders go too: whatever is started again gets a new one.
    """
    for pid_file in _pid_files(pods_dir):
        pid = _living(pid_file)
        if pid is not None:
            log.warning("ending process %d, left by an earlier run (%s)", pid, pid_file)
            await _end_session(pid, pid_file)
        shutil.rmtree(pid_file.parent, ignore_errors=True)


def _pid_files(pods_dir: Path) -> list[Path]:
    return sorted(pods_dir.glob("*/*.pid"))


def _living(pid_file: Path) -> int | None:
    """Return the pid if that very process still lives."""
    try:
        noted = json.loads(pid_file.read_text())
        pid = int(noted["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if noted.get("started") and process_start(pid) == noted["started"] else None


async def _end_session(pid: int, pid_file: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            return
        deadline = asyncio.get_running_loop().time() + _ORPHAN_GRACE_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            if _living(pid_file) is None:
                return
            await asyncio.sleep(0.1)
