"""The batching window: wait until triggers stop for a while, but not for ever.

Upstream: pkg/controllers/provisioning/batcher.go.
"""

from __future__ import annotations

import asyncio


class BatchWindow:
    """Collects triggers; a repeated element does not extend the window."""

    def __init__(self, *, idle_seconds: float, max_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._max_seconds = max_seconds
        self._elements: set[str] = set()
        self._triggered = asyncio.Event()

    @property
    def max_seconds(self) -> float:
        """How long a window stays open at most."""
        return self._max_seconds

    @property
    def is_open(self) -> bool:
        """Whether something waits that no window has closed over yet."""
        return bool(self._elements)

    def trigger(self, element: str) -> None:
        """Say that `element` waits."""
        if element not in self._elements:
            self._elements.add(element)
            self._triggered.set()

    async def wait(self) -> int:
        """Return when a window has closed, with the number of its elements."""
        await self._triggered.wait()
        loop = asyncio.get_running_loop()
        closes = loop.time() + self._max_seconds
        while True:
            self._triggered.clear()
            patience = min(self._idle_seconds, closes - loop.time())
            if patience <= 0:
                break
            try:
                async with asyncio.timeout(patience):
                    await self._triggered.wait()
            except TimeoutError:
                break
        count = len(self._elements)
        self._elements.clear()
        self._triggered.clear()
        return count
