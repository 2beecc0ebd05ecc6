"""A soft limit of memory: near MEMORY_LIMIT, garbage is collected at once, and what stays is told of.

Upstream sets the limit of Go's collector. Python frees most things by itself; what can pile up are
cycles, and those that a long computation left (see `undisturbed`). What is in use stays in use.
"""

from __future__ import annotations

import asyncio
import gc
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger()

SOFT_SHARE: Final = 0.9
"""Of the limit, as upstream."""
_LOOK_SECONDS: Final = 10.0
_AFTER_COLLECTING_SECONDS: Final = 60.0
_MIB: Final = 2**20


def resident_bytes() -> int:
    """Return how much memory the process has now; 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


class MemoryWatch:
    """Keeps the process under a limit as far as that can be done."""

    def __init__(
        self,
        limit_bytes: int,
        *,
        used_bytes: Callable[[], int] = resident_bytes,
        collect: Callable[[], object] = gc.collect,
    ) -> None:
        self._limit = limit_bytes
        self._used = used_bytes
        self._collect = collect

    async def run(self) -> None:
        """Watch until cancelled; with a limit of 0 or less there is nothing to see."""
        while True:
            seconds = self.step()
            await asyncio.sleep(seconds)

    def step(self) -> float:
        """Look once; return the seconds until the next look."""
        if not self._is_high() or not gc.isenabled():
            return _LOOK_SECONDS  # a computation that wants no collection is short
        self._collect()
        if self._is_high():
            log.warning(
                "memory is near its limit",
                used_mib=self._used() // _MIB,
                limit_mib=self._limit // _MIB,
                help="raise the controller's memory limit before the kernel ends the process",
            )
        return _AFTER_COLLECTING_SECONDS

    def _is_high(self) -> bool:
        return 0 < self._limit * SOFT_SHARE < self._used()
