"""One container from its first start to its last end: start, probe, restart, stop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from nodewright_local.kubelets.api import ApiError, ApiUnreachable
from nodewright_local.kubelets.pods.environment import ConfigurationError
from nodewright_local.kubelets.pods.prober import Prober
from nodewright_local.kubelets.pods.probes import Probe, container_ports, parse_probe
from nodewright_local.kubelets.pods.process import Command, LogFile, Process
from nodewright_local.kubelets.pods.restarts import Backoff, restarts
from nodewright_local.kubelets.pods.status import (
    ContainerReport,
    Ended,
    Running,
    Waiting,
)

log = logging.getLogger(__name__)

CONFIGURATION_RETRY_SECONDS = 5.0
SHUTDOWN_GRACE_SECONDS = 5.0
"""For a container when this whole program stops."""
START_FAILED = 128
"""Exit code reported for a command that cannot be executed."""


@dataclass(slots=True)
class StopOrder:
    """The one way in which a pod's containers are told to end for good."""

    grace_seconds: float = 30.0
    given: asyncio.Event = field(default_factory=asyncio.Event)

    def give(self, grace_seconds: float) -> None:
        """Order the end; a second order can only shorten what is left."""
        if self.given.is_set():
            grace_seconds = min(grace_seconds, self.grace_seconds)
        self.grace_seconds = grace_seconds
        self.given.set()


@dataclass(slots=True, kw_only=True)
class Container:
    """Runs one container; ``report`` is always its current status."""

    spec: Mapping[str, Any]
    pod_name: str
    """``namespace/name``, for messages."""
    restart_policy: str
    grace_seconds: float
    """The pod's, for a container that its liveness probe condemns."""
    pod_ip: str
    stop: StopOrder
    output: LogFile
    prepare: Callable[[Mapping[str, Any]], Awaitable[Command]]
    """Compose the command; raises ConfigurationError, ApiError or ApiUnreachable."""
    changed: Callable[[], None]
    report: ContainerReport
    id_prefix: str
    """What the container's id begins with; each run gets an id of its own."""

    async def run(self) -> None:
        """Run until the stop order, or until the restart policy says the container is done."""
        backoff = Backoff()
        while not self.stop.given.is_set():
            command = await self._command()
            if command is None:
                continue
            ended = await self._run_once(command)
            done = self.stop.given.is_set() or not restarts(self.restart_policy, ended.exit_code)
            if done:
                self._set(replace(self.report, state=ended))
                return
            ran_for = (ended.finished_at - ended.started_at).total_seconds()
            backoff = backoff.after_end(ran_for_seconds=ran_for)
            await self._back_off(backoff, ended)

    async def _back_off(self, backoff: Backoff, ended: Ended) -> None:
        delay = backoff.delay_seconds
        log.warning(
            "container %s of %s ended with %d (%s), starts again in %.0f s",
            self.spec["name"],
            self.pod_name,
            ended.exit_code,
            ended.reason,
            delay,
        )
        message = (
            f"back-off {delay:.0f}s restarting failed container={self.spec['name']} "
            f"pod={self.pod_name}"
        )
        waiting = Waiting(reason="CrashLoopBackOff", message=message)
        self._set(replace(self.report, state=waiting, last_state=ended))
        await self._pause(delay)
        if self.stop.given.is_set():
            self._set(replace(self.report, state=ended))
        else:
            self._set(replace(self.report, restart_count=self.report.restart_count + 1))

    async def _command(self) -> Command | None:
        try:
            self._probes()
            return await self.prepare(self.spec)
        except ConfigurationError as error:
            self._wait_for("CreateContainerConfigError", error)
        except (ApiError, ApiUnreachable) as error:
            self._wait_for("ContainerCreating", error)
        await self._pause(CONFIGURATION_RETRY_SECONDS)
        return None

    def _wait_for(self, reason: str, error: Exception) -> None:
        self._set(replace(self.report, state=Waiting(reason=reason, message=str(error))))

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until the stop order."""
        try:
            async with asyncio.timeout(seconds):
                await self.stop.given.wait()
        except TimeoutError:
            return

    async def _run_once(self, command: Command) -> Ended:
        started_at = datetime.now(UTC)
        try:
            process = await Process.start(command, self.output)
        except OSError as error:
            message = f"{command.words[0]}: {error.strerror or error}"
            return Ended(
                exit_code=START_FAILED,
                reason="StartError",
                started_at=started_at,
                finished_at=started_at,
                message=message,
            )
        probes = self._probes()
        self._set(
            replace(
                self.report,
                container_id=f"{self.id_prefix}/{self.report.restart_count}",
                state=Running(started_at=started_at),
                started="startupProbe" not in probes,
                ready="readinessProbe" not in probes and "startupProbe" not in probes,
            )
        )
        exit_code, message = await self._supervise(process, probes)
        self._set(replace(self.report, ready=False, started=False))
        return Ended(
            exit_code=exit_code,
            reason="Completed" if exit_code == 0 else "Error",
            started_at=started_at,
            finished_at=datetime.now(UTC),
            message=message,
        )

    async def _supervise(self, process: Process, probes: Mapping[str, Probe]) -> tuple[int, str]:
        """Wait for the end of the process, or bring it about; return exit code and why."""
        exited = asyncio.create_task(process.wait())
        ordered = asyncio.create_task(self.stop.given.wait())
        prober = Prober(probes=probes, pod_ip=self.pod_ip, started=self._started, ready=self._ready)
        condemned = asyncio.create_task(prober.run())
        message = ""
        try:
            await asyncio.wait({exited, ordered, condemned}, return_when=asyncio.FIRST_COMPLETED)
            if not exited.done():
                grace = self.grace_seconds
                if ordered.done():
                    grace = self.stop.grace_seconds
                else:
                    message = condemned.result()
                    log.warning("container %s of %s: %s", self.spec["name"], self.pod_name, message)
                await process.end(grace)
            return await exited, message
        except asyncio.CancelledError:
            await process.end(SHUTDOWN_GRACE_SECONDS)
            await exited
            raise
        finally:
            ordered.cancel()
            condemned.cancel()

    def _probes(self) -> dict[str, Probe]:
        ports = container_ports(self.spec)
        kinds = ("startupProbe", "livenessProbe", "readinessProbe")
        return {kind: parse_probe(self.spec[kind], ports) for kind in kinds if self.spec.get(kind)}

    def _started(self) -> None:
        ready = not self.spec.get("readinessProbe")
        self._set(replace(self.report, started=True, ready=ready))

    def _ready(self, ready: bool) -> None:
        self._set(replace(self.report, ready=ready))

    def _set(self, report: ContainerReport) -> None:
        if report != self.report:
            self.report = report
            self.changed()
