"""Memory of what could not be had: offerings, quotas, addresses of subnets.

Each mark holds for three minutes. A full subnet takes its zone away only from node classes that
have no other subnet there; the offerings themselves are not to blame.
Each change raises the sequence number of the types it touches, so that whoever caches offerings
knows which to make anew. Upstream: pkg/cache/unavailableofferings.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from nodewright_controller.api.labels import RESERVED
from nodewright_controller.aws.quotas import quota_group
from nodewright_controller.ports.clock import Clock

TIME_TO_LIVE: Final = timedelta(minutes=3)
_ANY: Final = "*"
_QUOTA: Final = "quota "
"""Begins what stands in the place of a type where a whole quota is used up."""
_SUBNET: Final = "subnet"
"""Stands in the place of a capacity type where a subnet has no free address."""
_Key = tuple[str, str, str]
"""Capacity type, instance type and zone; or a subnet's id in the place of the zone."""


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

    def mark_quota(self, group: str, capacity_type: str) -> None:
        """Remember that the account's quota for a group of types (see `quotas`) is used up."""
        self._mark((capacity_type, f"{_QUOTA}{group}", _ANY))

    def mark_reservation(self, instance_type: str, reservation_id: str) -> None:
        """Remember that a capacity reservation, which is for this type, gave nothing just now."""
        self._mark((RESERVED, instance_type, reservation_id))

    def reservation_until(self, instance_type: str, reservation_id: str) -> datetime | None:
        """Return until when not to try a reservation; None when it may be tried."""
        self._forget_lapsed()
        return self._until.get((RESERVED, instance_type, reservation_id))

    def mark_subnet(self, subnet_id: str) -> None:
        """Remember that a subnet has no free addresses."""
        self._mark((_SUBNET, _ANY, subnet_id))

    def is_subnet_full(self, subnet_id: str) -> bool:
        """Whether the subnet had no free addresses just now."""
        self._forget_lapsed()
        return (_SUBNET, _ANY, subnet_id) in self._until

    def full_zones(self, subnets: Iterable[tuple[str, str]]) -> frozenset[str]:
        """Return the zones in which every one of these subnets, given as (zone, id), is full."""
        places = tuple(subnets)
        usable = {zone for zone, subnet_id in places if not self.is_subnet_full(subnet_id)}
        return frozenset(zone for zone, _ in places) - usable

    def is_unavailable(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        """Whether one of the marks covers this offering."""
        return self.until(instance_type, zone, capacity_type) is not None

    def until(self, instance_type: str, zone: str, capacity_type: str) -> datetime | None:
        """Return until when not to try this offering; None when no mark covers it."""
        self._forget_lapsed()
        if not self._until:
            return None
        keys = (
            (capacity_type, instance_type, zone),
            (capacity_type, _ANY, _ANY),
            (capacity_type, f"{_QUOTA}{quota_group(instance_type)}", _ANY),
        )
        return max((self._until[key] for key in keys if key in self._until), default=None)

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
        if key[1] == _ANY or key[1].startswith(_QUOTA):
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
