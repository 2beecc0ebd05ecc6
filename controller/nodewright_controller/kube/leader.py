"""Leader election by a Lease, so that one replica acts and the other waits.

Upstream: client-go's leaderelection with Karpenter's lease name. Times are measured on our own clock:
a lease counts as dead when it was not renewed for its duration since *we* last saw it change.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from nodewright_controller.api.coordination import Lease, LeaseSpec
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.ports.errors import Conflict, KubeError, NotFound
from nodewright_controller.ports.kube import Kube

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOptions:
    """Where the lease is and how long it lasts."""

    name: str
    namespace: str
    identity: str
    """`<pod>_<uuid>`."""
    duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0


class LostLeadership(Exception):
    """The lease could not be renewed in time; everything that leads must stop at once."""


class LeaderElection:
    """Holds the lease while the leader's work runs."""

    def __init__(self, kube: Kube, options: LeaseOptions) -> None:
        self._kube = kube
        self._options = options
        self._seen: tuple[str, float] = ("", 0.0)
        self._holder = ""

    @property
    def leader(self) -> str:
        """The pod that held the lease when we last looked; empty when none did."""
        return self._holder.rpartition("_")[0]

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, run `work` while holding it, and release it on the way out.

        Raises:
            LostLeadership: the lease could not be renewed before the deadline.
        """
        await self._acquire()
        log.info("became leader", identity=self._options.identity)
        task = asyncio.ensure_future(work())
        renewal = asyncio.create_task(self._renew(), name="lease-renewal")
        try:
            done, _ = await asyncio.wait({task, renewal}, return_when=asyncio.FIRST_COMPLETED)
            for finished in done:
                finished.result()
        finally:
            for pending in (task, renewal):
                pending.cancel()
            await asyncio.gather(task, renewal, return_exceptions=True)
            await self._release()

    async def _acquire(self) -> None:
        while True:
            with contextlib.suppress(KubeError):
                if await self._try():
                    return
            await asyncio.sleep(self._options.retry_seconds)

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            await asyncio.sleep(self._options.retry_seconds)
            left = self._options.renew_deadline_seconds - (loop.time() - renewed)
            try:
                async with asyncio.timeout(max(left, 0.1)):
                    if not await self._try():
                        raise LostLeadership("another replica took the lease")
                renewed = loop.time()
            except (KubeError, TimeoutError) as error:
                if loop.time() - renewed >= self._options.renew_deadline_seconds:
                    raise LostLeadership("the lease was not renewed in time") from error
                log.warning("lease not renewed yet", error=str(error) or "timeout")

    async def _try(self) -> bool:
        """Take or renew the lease once; False when somebody else holds it."""
        options, now = self._options, asyncio.get_running_loop().time()
        try:
            lease = await self._kube.get(Lease, options.name, options.namespace)
        except NotFound:
            return await self._create()
        spec = lease.spec
        self._holder = spec.holder_identity
        if lease.metadata.resource_version != self._seen[0]:
            # Whoever has just started lets those that were waiting go first: a leader that crashed and
            # came back at once must not take its own lease again before its standby may.
            deference = 0.0 if self._seen[0] else 2 * options.retry_seconds
            self._seen = (lease.metadata.resource_version, now + deference)
        mine = spec.holder_identity == options.identity
        alive = now - self._seen[1] < (spec.lease_duration_seconds or options.duration_seconds)
        if spec.holder_identity and not mine and alive:
            return False
        body = {
            "holderIdentity": options.identity,
            "leaseDurationSeconds": int(options.duration_seconds),
            "acquireTime": spec.acquire_time if mine else _timestamp(),
            "renewTime": _timestamp(),
            "leaseTransitions": spec.lease_transitions + (0 if mine else 1),
        }
        return await self._write(lease, body)

    async def _create(self) -> bool:
        options = self._options
        spec = LeaseSpec(
            holder_identity=options.identity,
            lease_duration_seconds=int(options.duration_seconds),
            acquire_time=_timestamp(),
            renew_time=_timestamp(),
        )
        meta = ObjectMeta(name=options.name, namespace=options.namespace)
        try:
            await self._kube.create(Lease(metadata=meta, spec=spec))
        except Conflict:
            return False
        return True

    async def _write(self, lease: Lease, spec: dict[str, object]) -> bool:
        options = self._options
        body = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        try:
            written = await self._kube.patch(Lease, options.name, body, namespace=options.namespace)
        except Conflict:
            return False
        self._holder = written.spec.holder_identity
        self._seen = (written.metadata.resource_version, asyncio.get_running_loop().time())
        return True

    async def _release(self) -> None:
        """Give the lease up, so that the other replica need not wait for it to run out."""
        options = self._options
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(3):
                lease = await self._kube.get(Lease, options.name, options.namespace)
                if lease.spec.holder_identity == options.identity:
                    released = {
                        "holderIdentity": "",
                        "leaseDurationSeconds": 1,
                        "renewTime": _timestamp(),
                    }
                    await self._write(lease, released)


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
