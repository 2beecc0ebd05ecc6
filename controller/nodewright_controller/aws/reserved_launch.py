"""Launches into capacity reservations: whose place was taken, and what a refusal means for it.

A refusal speaks about the reservation alone: the same instance type may be in stock on demand, and
in another reservation. Upstream: pkg/providers/instance, pkg/cache/unavailableofferings.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from nodewright_controller.api.labels import RESERVED
from nodewright_controller.aws.capacity_reservations import CapacityReservations
from nodewright_controller.aws.error_codes import SUBNET_FULL, is_out_of_capacity
from nodewright_controller.aws.fleet import FleetError, FleetResult
from nodewright_controller.aws.launch_template import LaunchTemplate
from nodewright_controller.aws.reserved import Reservation
from nodewright_controller.aws.unavailable import UnavailableOfferings

USED_UP: Final = "ReservationCapacityExceeded"
Places = Mapping[tuple[str, str], Reservation]
"""(instance type, zone) to the reservation that a launch buys it from."""


def reserved_places(templates: Iterable[LaunchTemplate]) -> Places:
    """Return where a launch with these templates buys from reservations."""
    return {
        (candidate.instance_type.name, offering.zone): template.reservation
        for template in templates
        if template.reservation is not None
        for candidate in template.candidates
        for offering in candidate.offerings
    }


class ReservedLaunches:
    """Books what came of launches into reservations."""

    def __init__(
        self, reservations: CapacityReservations, unavailable: UnavailableOfferings
    ) -> None:
        self._reservations = reservations
        self._unavailable = unavailable

    def settle(self, result: FleetResult, places: Places) -> FleetResult:
        """Book an answer, and return it with the instance known as reserved."""
        for error in result.errors:
            self._refused(error, places)
        instance = result.instance
        if instance is None or instance.reservation_id:
            return result
        reservation = places.get((instance.instance_type, instance.zone))
        if reservation is None:
            return result
        self._reservations.mark_launched(reservation.id)
        reserved = replace(instance, capacity_type=RESERVED, reservation_id=reservation.id)
        return replace(result, instance=reserved)

    def _refused(self, error: FleetError, places: Places) -> None:
        if error.code == SUBNET_FULL and error.subnet_id:
            self._unavailable.mark_subnet(error.subnet_id)
            return
        for instance_type, reservation in _meant(error, places):
            if error.code == USED_UP:
                self._reservations.mark_used_up(reservation.id)
            elif is_out_of_capacity(error.code):
                self._unavailable.mark_reservation(instance_type, reservation.id)


def _meant(error: FleetError, places: Places) -> Iterator[tuple[str, Reservation]]:
    """Yield type and reservation that an error is about: all of them if it names no place."""
    for (instance_type, zone), reservation in places.items():
        if not error.instance_type or (error.instance_type, error.zone) == (instance_type, zone):
            yield instance_type, reservation
