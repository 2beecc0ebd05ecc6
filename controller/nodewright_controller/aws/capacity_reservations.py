"""Capacity reservations: which ones a node class selects, and how many instances of each are left.

EC2 is asked for them once a minute. Between two answers the count follows what this process does:
a launch takes one, an instance that is gone gives it back, and an error that says the reservation
is used up empties it. Upstream: pkg/providers/capacityreservation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from nodewright_controller.api.ec2nodeclass import (
    CapacityReservationSelectorTerm,
    CapacityReservationStatus,
    EC2NodeClass,
)
from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.error_codes import AwsError
from nodewright_controller.aws.expiring import ExpiringMap
from nodewright_controller.aws.selectors import Filter, tag_filters
from nodewright_controller.ports.clock import Clock

DEFAULT: Final = "default"
CAPACITY_BLOCK: Final = "capacity-block"
ACTIVE: Final = "active"
EXPIRING: Final = "expiring"
LEAD_TIME: Final = timedelta(minutes=40)
"""A capacity block is left this long before its end: EC2 itself ends its instances 30 minutes
before, and nodes need time to drain."""
REFRESH: Final = timedelta(minutes=1)
_REMEMBERED: Final = timedelta(hours=24)
_RETURNED: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReservation:
    """A capacity reservation as EC2 describes it."""

    id: str
    owner_id: str
    instance_type: str
    zone: str
    match_criteria: str
    """`open` or `targeted`."""
    type: str
    """`default` or `capacity-block`."""
    interruptible: bool
    end: datetime | None
    available: int
    """Instances that can still be launched into it."""

    def status(self, now: datetime) -> CapacityReservationStatus:
        """Return it as a node class's status shows it."""
        return CapacityReservationStatus(
            availability_zone=self.zone,
            end_time=self.end,
            id=self.id,
            instance_match_criteria=self.match_criteria,
            instance_type=self.instance_type,
            owner_id=self.owner_id,
            reservation_type=self.type,
            interruptible=self.interruptible,
            state=EXPIRING if is_expiring(self.type, self.end, now) else ACTIVE,
        )


def is_expiring(type_: str, end: datetime | None, now: datetime) -> bool:
    """Whether a reservation is so near its end that nothing is launched into it any more."""
    return type_ == CAPACITY_BLOCK and end is not None and now >= end - LEAD_TIME


def parse_reservation(raw: Mapping[str, Any]) -> CapacityReservation:
    """Read an entry of DescribeCapacityReservations."""
    return CapacityReservation(
        id=raw["CapacityReservationId"],
        owner_id=raw.get("OwnerId", ""),
        instance_type=raw["InstanceType"],
        zone=raw.get("AvailabilityZone", ""),
        match_criteria=raw.get("InstanceMatchCriteria", "open"),
        type=raw.get("ReservationType", DEFAULT),
        interruptible=bool(raw.get("Interruptible", False)),
        end=raw.get("EndDate"),
        available=raw.get("AvailableInstanceCount", 0),
    )


def reservation_queries(terms: Sequence[CapacityReservationSelectorTerm]) -> list[dict[str, Any]]:
    """Return the requests that the terms need: one for all ids, one for each other term."""
    state: Filter = {"Name": "state", "Values": [ACTIVE]}
    ids = sorted({term.id for term in terms if term.id})
    queries: list[dict[str, Any]] = []
    if ids:
        queries.append({"CapacityReservationIds": ids, "Filters": [state]})
    for term in terms:
        if term.id:
            continue
        filters = [state, *tag_filters(term.tags)]
        if term.owner_id:
            filters.append({"Name": "owner-id", "Values": [term.owner_id]})
        if term.instance_match_criteria:
            criteria = term.instance_match_criteria
            filters.append({"Name": "instance-match-criteria", "Values": [criteria]})
        queries.append({"Filters": filters})
    return queries


class CapacityReservations:
    """The reservations that node classes select, and what is left of them."""

    def __init__(self, clients: AwsClients, clock: Clock) -> None:
        self._clients = clients
        self._clock = clock
        self._cache: ExpiringMap[str, tuple[CapacityReservation, ...]] = ExpiringMap(clock, REFRESH)
        self._left: ExpiringMap[str, int] = ExpiringMap(clock, _REMEMBERED)
        self._returned: ExpiringMap[str, bool] = ExpiringMap(clock, _RETURNED)
        self._turn = asyncio.Lock()
        self._changes: dict[str, int] = {}
        """How often this process has changed a count, by reservation."""

    async def select(
        self, terms: Sequence[CapacityReservationSelectorTerm]
    ) -> tuple[CapacityReservation, ...]:
        """Return the active reservations that any term selects, by id. Raises AwsError."""
        found: dict[str, CapacityReservation] = {}
        for query in reservation_queries(terms):
            for reservation in await self._ask(query):
                found[reservation.id] = reservation
        return tuple(found[id_] for id_ in sorted(found))

    async def _ask(self, query: Mapping[str, Any]) -> tuple[CapacityReservation, ...]:
        key = repr(query)
        async with self._turn:  # a hundred launches may want to know the same at once
            cached = self._cache.get(key)
            if cached is None:
                cached = await self._ask_ec2(query)
                self._cache.take_lapsed()
                self._cache.put(key, cached)
        return cached

    async def _ask_ec2(self, query: Mapping[str, Any]) -> tuple[CapacityReservation, ...]:
        before = dict(self._changes)
        found = await self._describe(query)
        for reservation in found:
            # A launch during the call may or may not be in EC2's number: ours is the newer one.
            if before.get(reservation.id) == self._changes.get(reservation.id):
                self._left.put(reservation.id, reservation.available)
        return found

    async def _describe(self, query: Mapping[str, Any]) -> tuple[CapacityReservation, ...]:
        ec2 = self._clients.ec2
        try:
            pages = await self._clients.pages(ec2.describe_capacity_reservations, **query)
        except AwsError as error:
            ids = query.get("CapacityReservationIds", ())
            if not error.not_found:
                raise
            if len(ids) < 2:
                return ()
            # One id that does not exist must not hide the others.
            singly = [await self._describe({**query, "CapacityReservationIds": [i]}) for i in ids]
            return tuple(found for each in singly for found in each)
        return tuple(
            parse_reservation(raw)
            for page in pages
            for raw in page["CapacityReservations"]
            if raw.get("State", ACTIVE) == ACTIVE
        )

    async def ensure_known(self, node_class: EC2NodeClass) -> None:
        """Ask for what is left of a node class's reservations, if nobody has yet. Raises AwsError."""
        listed = node_class.status.capacity_reservations or ()
        if any(self._left.get(found.id) is None for found in listed):
            await self.select(node_class.spec.capacity_reservation_selector_terms or ())

    def available(self, reservation_id: str) -> int:
        """Return how many instances can still be launched into a reservation."""
        return self._left.get(reservation_id) or 0

    def mark_launched(self, reservation_id: str) -> None:
        """Take one instance."""
        self._set(reservation_id, max(0, self.available(reservation_id) - 1))

    def mark_used_up(self, reservation_id: str) -> None:
        """Believe EC2 that nothing is left, until it is asked again."""
        self._set(reservation_id, 0)

    def mark_terminated(self, reservation_id: str, instance_id: str) -> None:
        """Give back the place of an instance that is gone; only once for each instance."""
        self._returned.take_lapsed()
        if self._returned.get(instance_id):
            return
        self._returned.put(instance_id, True)
        if self._left.get(reservation_id) is not None:
            self._set(reservation_id, self.available(reservation_id) + 1)

    def _set(self, reservation_id: str, left: int) -> None:
        self._changes[reservation_id] = self._changes.get(reservation_id, 0) + 1
        self._left.put(reservation_id, left)


def nearest_end(reservations: Iterable[CapacityReservation], now: datetime) -> timedelta | None:
    """Return how long until one of them begins to expire; None when none will."""
    spans = [
        found.end - LEAD_TIME - now
        for found in reservations
        if found.type == CAPACITY_BLOCK and found.end is not None
    ]
    ahead = [span for span in spans if span > timedelta(0)]
    return min(ahead, default=None)
