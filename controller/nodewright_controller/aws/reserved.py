"""Buying from capacity reservations: the offerings they make, and how EC2 is asked for them. Pure.

An instance from a reservation is paid for anyway, so it is priced at next to nothing: just enough
of its on-demand price is left for reservations to be ordered among each other.
Upstream: pkg/providers/instancetype/offering, pkg/providers/launchtemplate.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from nodewright_controller.api.ec2nodeclass import CapacityReservationStatus
from nodewright_controller.api.labels import (
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_TYPE,
    ON_DEMAND,
    RESERVED,
    ZONE,
    ZONE_ID,
)
from nodewright_controller.aws.capacity_reservations import ACTIVE, CAPACITY_BLOCK, DEFAULT
from nodewright_controller.aws.instance_type_info import InstanceTypeInfo
from nodewright_controller.aws.offerings import Market
from nodewright_controller.constraints.instance_type import Offering
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements

_DISCOUNT: Final = 10_000_000.0
_INTERRUPTIBLE_MARKET: Final = "interruptible-capacity-reservation"


@dataclass(frozen=True, slots=True)
class Reservation:
    """The reservation behind an offering."""

    id: str
    type: str
    """`default` or `capacity-block`."""
    interruptible: bool

    @property
    def market(self) -> str:
        """What EC2 calls buying from such a reservation; empty for an ordinary one."""
        if self.type == CAPACITY_BLOCK:
            return CAPACITY_BLOCK
        return _INTERRUPTIBLE_MARKET if self.interruptible else ""

    @property
    def target(self) -> str:
        """The fleet's target capacity type: an ordinary reservation counts as on-demand."""
        if self.type == CAPACITY_BLOCK:
            return CAPACITY_BLOCK
        return "reserved-capacity" if self.interruptible else "on-demand"

    def template_data(self) -> dict[str, Any]:
        """Return what a launch template says so that instances come from this reservation alone."""
        data: dict[str, Any] = {
            "CapacityReservationSpecification": {
                "CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationId": self.id},
            }
        }
        if self.market:
            data["InstanceMarketOptions"] = {"MarketType": self.market}
        return data

    def fleet_options(self, strategy: str) -> dict[str, Any]:
        """Return the part of a CreateFleet request that says how EC2 chooses."""
        if self.type == CAPACITY_BLOCK:
            return {}  # one type from one block: there is nothing to choose
        if self.interruptible:
            return {"ReservedCapacityOptions": {"ReservationTypes": [_INTERRUPTIBLE_MARKET]}}
        return {"OnDemandOptions": {"AllocationStrategy": strategy}}

    def labels(self) -> dict[str, str]:
        """Return the labels of a node that came from it."""
        return {
            CAPACITY_RESERVATION_ID: self.id,
            CAPACITY_RESERVATION_TYPE: self.type,
            CAPACITY_RESERVATION_INTERRUPTIBLE: str(self.interruptible).lower(),
        }


def reservation_of(offering: Offering) -> Reservation | None:
    """Return the reservation that an offering buys from; None if it buys from none."""
    if offering.capacity_type != RESERVED:
        return None
    fixed = offering.requirements.labels()
    return Reservation(
        fixed.get(CAPACITY_RESERVATION_ID, ""),
        fixed.get(CAPACITY_RESERVATION_TYPE, DEFAULT),
        fixed.get(CAPACITY_RESERVATION_INTERRUPTIBLE) == "true",
    )


def of_status(status: CapacityReservationStatus) -> Reservation:
    """Return a reservation that a node class's status lists."""
    return Reservation(status.id, status.reservation_type, status.interruptible)


def type_requirements(reservations: Iterable[CapacityReservationStatus]) -> Iterator[Requirement]:
    """Yield which reservations nodes of a type may be from, given those for the type."""
    known = [of_status(found).labels() for found in reservations]
    for key in (
        CAPACITY_RESERVATION_ID,
        CAPACITY_RESERVATION_TYPE,
        CAPACITY_RESERVATION_INTERRUPTIBLE,
    ):
        yield Requirement.of(key, "In", sorted({found[key] for found in known}))


@functools.lru_cache(maxsize=1024)
def _fixed(reservation: Reservation, zone: str, zone_id: str) -> Requirements:
    values = {CAPACITY_TYPE: RESERVED, ZONE: zone, **reservation.labels()}
    if zone_id:
        values[ZONE_ID] = zone_id
    return Requirements(Requirement.of(key, "In", (value,)) for key, value in values.items())


@dataclass(frozen=True, slots=True)
class Slots:
    """A reservation of a type, and what can be had of it now."""

    status: CapacityReservationStatus
    left: int
    until: datetime | None
    """Until when it is not to be tried; None when it may be."""


def reserved_offerings(
    info: InstanceTypeInfo, slots: Iterable[Slots], usable: bool, market: Market
) -> tuple[Offering, ...]:
    """Return an offering for each reservation of the type.

    A reservation that is used up stays available, with nothing left: it may have room again soon.
    """
    return tuple(_offering(info, each, usable, market) for each in slots)


def _offering(info: InstanceTypeInfo, slots: Slots, usable: bool, market: Market) -> Offering:
    status, ids = slots.status, dict(market.zone_ids)
    zone = status.availability_zone
    price = market.prices.usd_per_hour(info.name, zone, ON_DEMAND) or 0.0
    here = usable and zone in ids and zone not in market.full_zones and status.state == ACTIVE
    return Offering(
        _fixed(of_status(status), zone, ids.get(zone, "")),
        price / _DISCOUNT,
        here and slots.until is None,
        reservation_capacity=slots.left,
        short_until=slots.until if here else None,
    )
