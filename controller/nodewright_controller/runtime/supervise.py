"""Named tasks with an owner: one that ends by an error is restarted, and everybody hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from nodewright_controller.runtime.controller_name import CONTROLLER

log = structlog.get_logger()

Loop = Callable[[], Awaitable[None]]


async def keep_running(name: str, loop: Loop, *, max_seconds: float = 30.0) -> None:
    """Run `loop` for ever; start it again with back-off when it fails or returns."""
    CONTROLLER.set(name)
    delay = 0.5
    while True:
        started = asyncio.get_running_loop().time()
        try:
            await loop()
            log.warning("loop ended", loop=name)
        except Exception as error:
            log.exception("loop failed", loop=name, error=str(error) or type(error).__name__)
        if asyncio.get_running_loop().time() - started > max_seconds:
            delay = 0.5
        await asyncio.sleep(delay)
        delay = min(delay * 2, max_seconds)


async def run_all(loops: Mapping[str, Loop]) -> None:
    """Keep all loops running until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        for name, loop in loops.items():
            tasks.create_task(keep_running(name, loop), name=name)
