"""Bringing the laptop cluster up and taking it down.

Decides what is made before anything starts, what a cluster that was not shut down leaves to its
successor (nothing, unless it was kept on purpose), and what `down` removes. The processes
themselves are `supervisor.py`'s matter.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from nodewright_local.control_plane import PROCESS_NAMES, base_environment, write_configuration
from nodewright_local.environment import prepare_environment
from nodewright_local.pki import ensure_pki
from nodewright_local.progress import Progress
from nodewright_local.runtime import (
    RUNTIME_FILE,
    Phase,
    ProcessStatus,
    Runtime,
    end_process,
    end_processes,
    identify,
    load_runtime,
    wait_until,
)
from nodewright_local.state import CLUSTER_FILE, LOGS, ClusterState, StateError, plan_state
from nodewright_local.supervisor import Watcher, supervise
from nodewright_local.toolbox import CLUSTER_TOOLS, Binary, ensure

MARKER: Final = ".nodewright-local"
"""Says that the directory is ours; only then is anything in it removed."""
KEPT: Final = "kept"
DATA: Final = (
    CLUSTER_FILE,
    RUNTIME_FILE,
    KEPT,
    "admin.kubeconfig",
    "kubelets.json",
    "pki",
    "etcd",
    "aws",
    "aws-config",
    "pods",
    "pulumi",
    "pulumi-home",
)
"""Everything a cluster keeps in its directory beside its logs."""
UP_WITHIN_S: Final = 420.0
DOWN_WITHIN_S: Final = 60.0
TAIL_LINES: Final = 15


class LifecycleError(Exception):
    """The cluster did not come up or cannot be touched; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """How `up` behaves."""

    only: tuple[str, ...] = ()
    """Processes to start; all when empty."""
    foreground: bool = False
    """Supervise in this process until it is interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpResult:
    """What `up` found or made."""

    state: ClusterState
    was_running: bool
    """The cluster ran already; nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DownResult:
    """What `down` did."""

    ended: tuple[str, ...]
    """Processes that ran and were ended."""
    removed_data: bool


def up(directory: Path, progress: Progress, options: UpOptions | None = None) -> UpResult:
    """Start the cluster of a state directory and wait until every process is ready.

    Raises LifecycleError when a process does not become ready, ToolError when a binary is missing.
    """
    options = options or UpOptions()
    _claim(directory)
    with _exclusively(directory, progress):
        runtime = load_runtime(directory)
        if runtime and runtime.is_supervised():
            return UpResult(state=ClusterState.load(directory), was_running=True)
        binaries = ensure(CLUSTER_TOOLS, progress)
        _end_leftovers(runtime, progress)
        previous = _previous(directory, progress)
        state = prepare(directory, binaries, previous)
        if not options.foreground:
            _start_in_background(state, options, progress)
    if options.foreground:
        _stay(state, options, progress)
    return UpResult(state=state, was_running=False)


def _stay(state: ClusterState, options: UpOptions, progress: Progress) -> None:
    """Supervise in this process until it is interrupted, then clear up as `down` does."""
    progress.note(f"Kubernetes API {state.api_server_url}, AWS {state.aws_url}; Ctrl-C ends all")
    if not supervise(state, options.only, _announcer(progress)):
        raise LifecycleError(_failure(state.state_dir))
    if not (state.state_dir / KEPT).exists():
        remove_data(state.state_dir)


def prepare(
    directory: Path, binaries: Mapping[str, Binary], previous: ClusterState | None
) -> ClusterState:
    """Write everything the processes need: `cluster.json`, keys, kubeconfigs, settings."""
    versions = {name: binary.version for name, binary in binaries.items()}
    versions["kubernetes"] = versions["kube-apiserver"]
    versions["nodewright-local"] = metadata.version("nodewright-local")
    state = plan_state(
        directory,
        versions=versions,
        binaries={name: str(binary.path) for name, binary in binaries.items()},
        previous=previous,
    )
    _rotate_logs(state.logs_dir)
    state.pods_dir.mkdir(exist_ok=True)
    state.save()
    ensure_pki(state)
    write_configuration(state)
    prepare_environment(state)
    return state


def down(directory: Path, progress: Progress, *, keep_data: bool = False) -> DownResult:
    """End what `up` started, and remove the cluster's data unless it is to be kept."""
    if not (directory / MARKER).exists():
        return DownResult(ended=(), removed_data=False)
    with _exclusively(directory, progress):
        runtime = load_runtime(directory)
        ended = _end_all(runtime, progress) if runtime else ()
        if keep_data:
            (directory / KEPT).touch()
            (directory / RUNTIME_FILE).unlink(missing_ok=True)
            return DownResult(ended=ended, removed_data=False)
        had_data = (directory / CLUSTER_FILE).exists()
        remove_data(directory)
    return DownResult(ended=ended, removed_data=had_data)


def remove_data(directory: Path) -> None:
    """Remove what a cluster keeps in its directory, except its logs."""
    for name in DATA:
        path = directory / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _claim(directory: Path) -> None:
    """Make the directory ours; refuse one that holds something else."""
    marker = directory / MARKER
    if marker.exists():
        return
    if directory.exists() and any(directory.iterdir()):
        raise LifecycleError(
            f"{directory} is not empty and was not made by `nodewright local up`: "
            "choose another directory with --dir or NODEWRIGHT_LOCAL_DIR"
        )
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    marker.write_text("State of a Nodewright laptop cluster; `nodewright local down` clears it.\n")


@contextmanager
def _exclusively(directory: Path, progress: Progress) -> Iterator[None]:
    """Let one `up` or `down` at a time work on a directory."""
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.step("waiting for another `nodewright local` command"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _previous(directory: Path, progress: Progress) -> ClusterState | None:
    """Return the state of a cluster kept on purpose; clear what any other one left."""
    if (directory / KEPT).exists():
        progress.note("continuing with the data that `down --keep-data` kept")
        try:
            return ClusterState.load(directory)
        except StateError:
            return None  # the data continues on other ports
    if (directory / CLUSTER_FILE).exists():
        progress.note("clearing the data of a cluster that was not shut down")
        remove_data(directory)
    return None


def _end_leftovers(runtime: Runtime | None, progress: Progress) -> None:
    """End processes whose supervisor is gone."""
    alive = _alive(runtime)
    if alive:
        with progress.step(f"ending what a lost supervisor left: {', '.join(alive)}"):
            _end_rows(runtime)


def _alive(runtime: Runtime | None) -> tuple[str, ...]:
    rows = runtime.processes if runtime else ()
    return tuple(row.name for row in rows if row.identity and row.identity.is_alive())


def _end_rows(runtime: Runtime | None) -> None:
    rows = reversed(runtime.processes) if runtime else ()
    end_processes([row.identity for row in rows if row.identity], grace_s=10.0)


def _end_all(runtime: Runtime, progress: Progress) -> tuple[str, ...]:
    alive = _alive(runtime)
    if not alive and not runtime.is_supervised():
        return ()
    with progress.step(f"ending {', '.join(alive) or 'the supervisor'}"):
        end_process(runtime.supervisor, grace_s=DOWN_WITHIN_S)
        _end_rows(runtime)
    return alive


def _rotate_logs(logs: Path) -> None:
    """Keep the logs of the last run beside the new ones."""
    logs.mkdir(parents=True, exist_ok=True)
    for log in logs.glob("*.log"):
        log.replace(log.with_suffix(".log.1"))


def _start_in_background(state: ClusterState, options: UpOptions, progress: Progress) -> None:
    command = [sys.executable, "-m", "nodewright_local.supervisor", "--dir", str(state.state_dir)]
    if options.only:
        command += ["--only", ",".join(options.only)]
    with state.log_file("supervisor").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=state.state_dir,
            env=base_environment(),
            start_new_session=True,
        )
    expected = len(options.only or PROCESS_NAMES)
    try:
        with progress.step(f"starting {expected} processes"):
            _follow(state, process, _announcer(progress))
    except BaseException:
        if identity := identify(process.pid):
            end_process(identity, grace_s=DOWN_WITHIN_S)
        process.wait()
        raise


def _follow(state: ClusterState, process: "subprocess.Popen[bytes]", announce: Watcher) -> None:
    """Tell what becomes ready until all is; raise LifecycleError when something does not."""
    told: set[str] = set()
    deadline = time.monotonic() + UP_WITHIN_S
    while time.monotonic() < deadline:
        runtime = load_runtime(state.state_dir)
        if runtime and runtime.supervisor.pid == process.pid:
            for row in runtime.processes:
                if row.phase is Phase.READY and row.name not in told:
                    told.add(row.name)
                    announce(row)
            if runtime.is_ready():
                return
        if process.poll() is not None:
            raise LifecycleError(_failure(state.state_dir))
        wait_until(lambda: process.poll() is not None, timeout_s=0.1)
    raise LifecycleError(_failure(state.state_dir))


def _announcer(progress: Progress) -> Watcher:
    def announce(row: ProcessStatus) -> None:
        if row.phase is Phase.READY:
            progress.note(f"{row.name} {row.version} ready after {row.ready_after_s:.1f} s")
        elif row.phase is Phase.RESTARTING:
            progress.note(f"{row.name} {row.detail}; starting it again")

    return announce


def _failure(directory: Path) -> str:
    """Say which process kept the cluster from coming up, with the end of its log."""
    runtime = load_runtime(directory)
    rows = runtime.processes if runtime else ()
    failed = [row for row in rows if row.phase is Phase.FAILED]
    blamed = failed or [row for row in rows if row.detail]
    if not blamed:
        log = directory / LOGS / "supervisor.log"
        return f"the supervisor did not bring the cluster up; {log} ends with:\n{tail(log)}"
    row = blamed[0]
    log = Path(row.log_file)
    return f"{row.name} did not come up ({row.detail}); {log} ends with:\n{tail(log)}"


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a log, or say that there is none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - 64 * 1024))
            text = stream.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:])
