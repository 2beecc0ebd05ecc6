"""A small map whose entries lapse; the clock is the caller's, so tests own time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Generic, TypeVar

from nodewright_controller.ports.clock import Clock

K = TypeVar("K")
V = TypeVar("V")


class ExpiringMap(Generic[K, V]):
    """Keeps values for a time to live; a lapsed entry is as good as absent."""

    def __init__(self, clock: Clock, time_to_live: timedelta) -> None:
        self._clock = clock
        self._time_to_live = time_to_live
        self._entries: dict[K, tuple[datetime, V]] = {}

    def get(self, key: K) -> V | None:
        """Return the value, or None."""
        entry = self._entries.get(key)
        if entry is None or entry[0] <= self._clock.now():
            return None
        return entry[1]

    def put(self, key: K, value: V, time_to_live: timedelta | None = None) -> None:
        """Keep the value from now on."""
        if time_to_live is None:
            time_to_live = self._time_to_live
        self._entries[key] = (self._clock.now() + time_to_live, value)

    def drop(self, key: K) -> None:
        """Forget one entry."""
        self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def take_lapsed(self) -> list[tuple[K, V]]:
        """Remove and return the entries whose time is over."""
        now = self._clock.now()
        lapsed = [(key, value) for key, (until, value) in self._entries.items() if until <= now]
        for key, _ in lapsed:
            del self._entries[key]
        return lapsed

    def live(self) -> dict[K, V]:
        """Return what has not lapsed."""
        now = self._clock.now()
        return {key: value for key, (until, value) in self._entries.items() if until > now}
