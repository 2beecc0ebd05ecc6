"""Runs a reconcile function over a work queue with bounded concurrency.

A reconciler gets a name and never the event that woke it; `Result.requeue_after` is its one way to wait.
Errors that it does not expect rise to here: they are logged, counted and tried again with back-off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog

from nodewright_controller.ports.errors import Conflict, NotFound
from nodewright_controller.runtime.metrics import RECONCILE_ERRORS, RECONCILE_SECONDS
from nodewright_controller.runtime.work_queue import WorkQueue

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Result:
    """When to look at the key again without being asked; None means only when something changes."""

    requeue_after: float | None = None
    """Seconds."""


DONE: Final = Result()

_ONE_CORE: Final = 1_000
_MOST_CORES: Final = 60_000


def workers(cpu_millicores: int, least: int, most: int) -> int:
    """Return how many keys to handle at once: `least` up to one core, `most` from sixty cores on.

    In between it grows with the cores, as upstream. Zero and less say nothing about the cores.
    """
    cores = min(max(cpu_millicores, _ONE_CORE), _MOST_CORES)
    return least + round((most - least) * (cores - _ONE_CORE) / (_MOST_CORES - _ONE_CORE))


Reconcile = Callable[[str], Awaitable[Result]]


class Controller:
    """A reconcile function, its queue and its workers."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        concurrency: int = 10,
        base_seconds: float = 0.2,
        max_seconds: float = 60.0,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[str] = WorkQueue(base_seconds=base_seconds, max_seconds=max_seconds)
        self._reconcile = reconcile
        self._concurrency = concurrency

    def enqueue(self, key: str) -> None:
        """Ask for a key to be reconciled."""
        self.queue.add(key)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as workers:
            for index in range(self._concurrency):
                workers.create_task(self._work(), name=f"{self.name}-{index}")

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._handle(key)
            finally:
                self.queue.done(key)

    async def _handle(self, key: str) -> None:
        started = asyncio.get_running_loop().time()
        try:
            result = await self._reconcile(key)
        except (Conflict, NotFound) as error:
            # Somebody else was faster: look again soon, it is no failure.
            log.debug("reconcile raced", controller=self.name, key=key, error=str(error))
            self.queue.add_after(key, 0.5)
        except Exception as error:
            RECONCILE_ERRORS.labels(self.name).inc()
            delay = self.queue.failed(key)
            log.exception(
                "reconcile failed",
                controller=self.name,
                key=key,
                error=str(error) or type(error).__name__,
                retry_seconds=round(delay, 1),
            )
        else:
            self.queue.succeeded(key)
            if result.requeue_after is not None:
                self.queue.add_after(key, result.requeue_after)
        finally:
            elapsed = asyncio.get_running_loop().time() - started
            RECONCILE_SECONDS.labels(self.name).observe(elapsed)


class Singleton:
    """A loop with one key: periodic work that must not overlap itself."""

    def __init__(self, name: str, step: Callable[[], Awaitable[Result]]) -> None:
        self.name = name

        async def once(_: str) -> Result:
            return await step()

        self._controller = Controller(name, once, concurrency=1)

    def wake(self) -> None:
        """Run soon, without waiting for the period."""
        self._controller.enqueue(self.name)

    async def run(self) -> None:
        """Work until cancelled."""
        self.wake()
        await self._controller.run()
