"""The process that starts the laptop cluster's processes, watches them and ends them.

Decides the order (a process starts when those it needs are ready, and stops before them), restarts
one that died after a pause that grows, and gives up when one never becomes ready. Everything it
knows is in the process table (`runtime.py`). Making the state directory is `lifecycle.py`'s matter.

Run as `python -m nodewright_local.supervisor --dir DIRECTORY`.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from nodewright_local.control_plane import ProcessSpec, base_environment, process_specs
from nodewright_local.probes import is_ready
from nodewright_local.runtime import Phase, ProcessStatus, Runtime, identify
from nodewright_local.state import ClusterState

READY_WITHIN_S: Final = 120.0
PROBE_EVERY_S: Final = 0.15
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
STEADY_AFTER_S: Final = 60.0
"""A process that ran this long starts again with the shortest pause."""
STARTS_BEFORE_GIVING_UP: Final = 3
"""Starts of a process that has never been ready."""

Watcher = Callable[[ProcessStatus], None]


class Supervisor:
    """Keeps the processes of one cluster running until it is told to stop."""

    def __init__(
        self, state: ClusterState, specs: Sequence[ProcessSpec], watcher: Watcher | None = None
    ) -> None:
        identity = identify(os.getpid())
        if identity is None:
            raise RuntimeError("the system does not tell this process's own start time")
        self._state = state
        self._specs = {spec.name: spec for spec in specs}
        self._watcher = watcher
        self._stopping = asyncio.Event()
        self._ready = {name: asyncio.Event() for name in self._specs}
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._starting = asyncio.Lock()
        self._gave_up = False
        rows = tuple(
            ProcessStatus(
                name=spec.name,
                phase=Phase.WAITING,
                version=spec.version,
                log_file=str(state.log_file(spec.name)),
            )
            for spec in specs
        )
        self._runtime = Runtime(supervisor=identity, processes=rows)

    async def run(self) -> bool:
        """Run until SIGTERM or SIGINT; return False when a process never became ready."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        self._runtime.save(self._state.state_dir)
        async with asyncio.TaskGroup() as group:
            keepers = [
                group.create_task(self._keep(spec), name=name) for name, spec in self._specs.items()
            ]
            try:
                await self._stopping.wait()
            finally:  # also when a keeper broke: no process may outlive its supervisor
                self._stopping.set()
                await self._stop_all()
                for keeper in keepers:
                    keeper.cancel()
        return not self._gave_up

    async def _keep(self, spec: ProcessSpec) -> None:
        """Start a process whenever it is not running."""
        for name in spec.after:
            if name in self._ready:
                await self._ready[name].wait()
        starts, pause = 0, FIRST_PAUSE_S
        while not self._stopping.is_set():
            starts += 1
            begun = time.monotonic()
            because = await self._run_once(spec)
            if self._stopping.is_set():
                return
            if not self._ready[spec.name].is_set() and starts >= STARTS_BEFORE_GIVING_UP:
                self._update(spec.name, phase=Phase.FAILED, identity=None, detail=because)
                self._gave_up = True
                self._stopping.set()
                return
            if time.monotonic() - begun > STEADY_AFTER_S:
                pause = FIRST_PAUSE_S
            self._update(spec.name, phase=Phase.RESTARTING, identity=None, detail=because)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
            self._update(spec.name, restarts=self._row(spec.name).restarts + 1)

    async def _run_once(self, spec: ProcessSpec) -> str:
        """Run a process until it ends; return why it is not running any more."""
        try:
            async with self._starting:
                if self._stopping.is_set():
                    return "stopped"
                process = await self._start(spec)
        except OSError as error:
            return f"cannot be started: {error}"
        ended = asyncio.create_task(process.wait())
        ready = asyncio.create_task(self._until_ready(spec))
        try:
            await asyncio.wait({ended, ready}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done() and not ready.result():
                await _end(process, spec.grace_s)
                return f"not ready within {READY_WITHIN_S:.0f} s"
            code = await ended
        finally:
            ready.cancel()
            if process.returncode is not None:  # else a stop is under way and will see it end
                self._running.pop(spec.name, None)
        return f"killed by signal {-code}" if code < 0 else f"exited with code {code}"

    async def _start(self, spec: ProcessSpec) -> asyncio.subprocess.Process:
        log = self._state.log_file(spec.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stream:
            process = await asyncio.create_subprocess_exec(
                *spec.command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=self._state.state_dir,
                env={**base_environment(), **spec.environment},
                start_new_session=True,  # a Ctrl-C reaches the supervisor alone, which ends all
            )
        self._running[spec.name] = process
        self._update(
            spec.name,
            phase=Phase.STARTING,
            identity=identify(process.pid),
            started_at=time.time(),
            ready_after_s=None,
        )
        return process

    async def _until_ready(self, spec: ProcessSpec) -> bool:
        begun = time.monotonic()
        while not await asyncio.to_thread(is_ready, self._state, spec.ready):
            if time.monotonic() - begun > READY_WITHIN_S:
                return False
            await asyncio.sleep(PROBE_EVERY_S)
        after = round(time.monotonic() - begun, 2)
        self._update(spec.name, phase=Phase.READY, ready_after_s=after, detail="")
        self._ready[spec.name].set()
        return True

    async def _stop_all(self) -> None:
        """End every process, each before those it needs."""
        async with self._starting:  # what is being started now has to be ended too
            pass
        while self._running:
            needed = {name for running in self._running for name in self._specs[running].after}
            last = [name for name in self._running if name not in needed]
            await asyncio.gather(*(self._stop(name) for name in last))

    async def _stop(self, name: str) -> None:
        await _end(self._running[name], self._specs[name].grace_s)
        self._running.pop(name, None)
        if self._row(name).phase is not Phase.FAILED:
            self._update(name, phase=Phase.STOPPED, identity=None)

    def _row(self, name: str) -> ProcessStatus:
        return next(row for row in self._runtime.processes if row.name == name)

    def _update(self, name: str, **changes: object) -> None:
        changed = replace(self._row(name), **changes)  # type: ignore[arg-type]
        rows = tuple(changed if row.name == name else row for row in self._runtime.processes)
        self._runtime = replace(self._runtime, processes=rows)
        self._runtime.save(self._state.state_dir)
        pids = {row.name: row.identity.pid for row in rows if row.identity}
        self._state.with_pids(pids).save()
        if self._watcher:
            self._watcher(changed)


async def _end(process: asyncio.subprocess.Process, grace_s: float) -> None:
    """End a child: SIGTERM, then SIGKILL to its whole group when the grace is over."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), grace_s)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def select(specs: Sequence[ProcessSpec], only: Sequence[str]) -> tuple[ProcessSpec, ...]:
    """Return the named processes, or all when none is named."""
    return tuple(spec for spec in specs if not only or spec.name in only)


def supervise(state: ClusterState, only: Sequence[str], watcher: Watcher | None = None) -> bool:
    """Run the supervisor in this process until it is told to stop."""

    async def run() -> bool:
        return await Supervisor(state, select(process_specs(state), only), watcher).run()

    return asyncio.run(run())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the supervisor of a prepared state directory."""
    parser = argparse.ArgumentParser(prog="nodewright-local-supervisor")
    parser.add_argument("--dir", required=True, type=Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args(arguments)
    state = ClusterState.load(options.dir)
    only = [name for name in options.only.split(",") if name]
    return 0 if supervise(state, only) else 1


if __name__ == "__main__":
    sys.exit(main())
