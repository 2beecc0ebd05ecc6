"""A queue of keys: each waits at most once, is handled by one worker at a time, and backs off on failure.

Upstream: client-go's rate-limiting work queue. Retry and back-off live here and nowhere else.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class WorkQueue(Generic[T]):
    """Keys that wait to be handled. Not thread-safe: lives on one event loop."""

    def __init__(self, *, base_seconds: float = 0.2, max_seconds: float = 60.0) -> None:
        self._ready: deque[T] = deque()
        self._waiting: set[T] = set()
        self._active: set[T] = set()
        self._again: set[T] = set()
        self._delayed: list[tuple[float, int, T]] = []
        self._due: dict[T, float] = {}
        self._failures: dict[T, int] = {}
        self._order = itertools.count()
        self._wakeup = asyncio.Event()
        self._base_seconds = base_seconds
        self._max_seconds = max_seconds

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: T) -> None:
        """Ask for the key to be handled; while it is being handled, once more afterwards."""
        if key in self._active:
            self._again.add(key)
            return
        if key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._wakeup.set()

    def add_after(self, key: T, seconds: float) -> None:
        """Ask for the key after a delay; the earliest wish wins."""
        if seconds <= 0:
            self.add(key)
            return
        due = asyncio.get_running_loop().time() + seconds
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._delayed, (due, next(self._order), key))
        self._wakeup.set()

    def failed(self, key: T) -> float:
        """Ask for the key again after an exponential back-off; returns its seconds."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = min(self._base_seconds * 2.0 ** min(count, 30), self._max_seconds)
        self.add_after(key, delay)
        return delay

    def succeeded(self, key: T) -> None:
        """Forget the failures of the key."""
        self._failures.pop(key, None)

    async def get(self) -> T:
        """Wait for a key and take it; call `done` when it has been handled."""
        while True:
            timeout = self._promote()
            if self._ready:
                key = self._ready.popleft()
                self._waiting.discard(key)
                self._active.add(key)
                return key
            self._wakeup.clear()
            try:
                async with asyncio.timeout(timeout):
                    await self._wakeup.wait()
            except TimeoutError:
                continue

    def done(self, key: T) -> None:
        """Say that the key has been handled."""
        self._active.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _promote(self) -> float | None:
        """Move due keys to the ready ones; return the seconds until the next is due."""
        now = asyncio.get_running_loop().time()
        while self._delayed and self._delayed[0][0] <= now:
            due, _, key = heapq.heappop(self._delayed)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        return self._delayed[0][0] - now if self._delayed else None
