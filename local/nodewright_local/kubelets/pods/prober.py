"""Carry out a container's probes and say what they lead to."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx2

from nodewright_local.kubelets.pods.probes import Probe, ProbeTracker


@dataclass(frozen=True, slots=True, kw_only=True)
class Prober:
    """Probes one run of a container."""

    probes: Mapping[str, Probe]
    """By field name: startupProbe, livenessProbe, readinessProbe."""
    pod_ip: str
    started: Callable[[], None]
    """Called once the startup probe passed."""
    ready: Callable[[bool], None]
    """Called with each verdict of the readiness probe."""

    async def run(self) -> str:
        """Probe until a startup or liveness probe fails for good; return why the container must go.

        Never returns while the container is well, so the caller cancels it.
        """
        async with httpx2.AsyncClient(verify=False, trust_env=False) as http:
            if (startup := self.probes.get("startupProbe")) is not None:
                why = await self._until_flip(startup, http, passing=None)
                if why:
                    return f"startup probe failed: {why}"
                self.started()
            readiness = asyncio.create_task(self._follow_readiness(http))
            try:
                if (liveness := self.probes.get("livenessProbe")) is not None:
                    why = await self._until_flip(liveness, http, passing=True)
                    return f"liveness probe failed: {why}"
                forever: asyncio.Future[str] = asyncio.get_running_loop().create_future()
                return await forever
            finally:
                readiness.cancel()

    async def _until_flip(
        self, probe: Probe, http: httpx2.AsyncClient, *, passing: bool | None
    ) -> str:
        """Probe until the verdict changes; return why it failed, or nothing if it passed."""
        tracker = ProbeTracker.start(probe, passing=passing)
        await asyncio.sleep(probe.initial_delay)
        while True:
            why = await look(probe, self.pod_ip, http)
            tracker = tracker.observe(why is None)
            if tracker.passing is not passing:
                return why or ""
            await asyncio.sleep(probe.period)

    async def _follow_readiness(self, http: httpx2.AsyncClient) -> None:
        probe = self.probes.get("readinessProbe")
        if probe is None:
            return
        tracker = ProbeTracker.start(probe, passing=False)
        await asyncio.sleep(probe.initial_delay)
        while True:
            tracker = tracker.observe(await look(probe, self.pod_ip, http) is None)
            self.ready(bool(tracker.passing))
            await asyncio.sleep(probe.period)


async def look(probe: Probe, pod_ip: str, http: httpx2.AsyncClient) -> str | None:
    """Make one attempt; None means success, else why it failed."""
    host = probe.host or pod_ip
    try:
        async with asyncio.timeout(probe.timeout):
            if probe.scheme == "tcp":
                _, writer = await asyncio.open_connection(host, probe.port)
                writer.close()
                return None
            url = f"{probe.scheme}://{host}:{probe.port}/{probe.path.lstrip('/')}"
            response = await http.get(url, headers=dict(probe.headers), timeout=probe.timeout)
    except (OSError, httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        return str(error) or type(error).__name__
    if 200 <= response.status_code < 400:
        return None
    return f"HTTP status {response.status_code}"
