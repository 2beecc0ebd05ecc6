"""Memory of what could not be had: offerings that were out of stock, for three minutes.

Each change raises the sequence number of the types it touches, so that whoever caches offerings
knows which to make anew. Upstream: pkg/cache/unavailableofferings.go.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from nodewright_controller.ports.clock import Clock

TIME_TO_LIVE: Final = timedelta(minutes=3)
_ANY: Final = "*"
_Key = tuple[str, str, str]


class UnavailableOfferings:
    """Which (capacity type, instance type, zone) not to try again for a while."""

    def __init__(self, clock: Clock, time_to_live: timedelta = TIME_TO_LIVE) -> None:
        self._clock = clock
        self._time_to_live = time_to_live
        self._until: dict[_Key, datetime] = {}
        self._next_lapse: datetime | None = None
        self._sequence: dict[str, int] = {}
        self._everything = 0

    def mark(self, instance_type: str, zone: str, capacity_type: str) -> None:
        """Remember that this offering was out of stock just now."""
        self._mark((capacity_type, instance_type, zone))

    def mark_capacity_type(self, capacity_type: str) -> None:
        """Remember that nothing of a capacity type can be had (spot without its IAM role)."""
        self._mark((capacity_type, _ANY, _ANY))

    def mark_zone(self, zone: str) -> None:
        """Remember that a zone has no subnet with free addresses."""
        self._mark((_ANY, _ANY, zone))

    def is_unavailable(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        """Whether one of the marks covers this offering."""
        self._forget_lapsed()
        if not self._until:
            return False
        return any(
            key in self._until
            for key in (
                (capacity_type, instance_type, zone),
                (capacity_type, _ANY, _ANY),
                (_ANY, _ANY, zone),
            )
        )

    def sequence(self, instance_type: str) -> int:
        """Return a number that changes whenever an answer about this type may have changed."""
        self._forget_lapsed()
        return self._everything + self._sequence.get(instance_type, 0)

    def _mark(self, key: _Key) -> None:
        until = self._clock.now() + self._time_to_live
        self._until[key] = until
        if self._next_lapse is None or until < self._next_lapse:
            self._next_lapse = until
        self._touch(key)

    def _touch(self, key: _Key) -> None:
        if key[1] == _ANY:
            self._everything += 1
        else:
            self._sequence[key[1]] = self._sequence.get(key[1], 0) + 1

    def _forget_lapsed(self) -> None:
        now = self._clock.now()
        if self._next_lapse is None or now < self._next_lapse:
            return
        for key in [key for key, until in self._until.items() if until <= now]:
            del self._until[key]
            self._touch(key)
        self._next_lapse = min(self._until.values(), default=None)
