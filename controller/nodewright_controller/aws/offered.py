"""What a CreateFleet request offered, and what EC2 refused of it, in the words of the core. Pure.

A price is the one that we had when we asked; it is the request's own `Priority`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nodewright_controller.aws.error_codes import is_out_of_capacity
from nodewright_controller.aws.fleet import FleetResult
from nodewright_controller.aws.offerings import Shortages
from nodewright_controller.scheduling.decision import Offer
from nodewright_controller.scheduling.type_plan import Shortage


def offered(request: Mapping[str, Any], capacity_type: str) -> tuple[Offer, ...]:
    """Return every way that a request lets EC2 choose from, cheapest first.

    One launch buys one capacity type, which the request does not name: a reservation is asked for
    as on-demand. It is known from what was bought.
    """
    found = _offered(request, capacity_type)
    return tuple(sorted(found, key=lambda o: (o.usd_per_hour, o.instance_type, o.zone)))


def _offered(request: Mapping[str, Any], capacity_type: str) -> Iterator[Offer]:
    for config in request["LaunchTemplateConfigs"]:
        for each in config["Overrides"]:
            yield Offer(
                instance_type=each["InstanceType"],
                zone=each["AvailabilityZone"],
                capacity_type=capacity_type,
                usd_per_hour=each["Priority"],
            )


def refused(
    result: FleetResult, offers: tuple[Offer, ...], shortages: Shortages
) -> tuple[Shortage, ...]:
    """Return what of the offers an answer says to be out of stock; ask once that is remembered."""
    codes = {
        (error.instance_type, error.zone)
        for error in result.errors
        if is_out_of_capacity(error.code)
    }
    return tuple(
        Shortage(offer=offer, until=until)
        for offer in offers
        if (offer.instance_type, offer.zone) in codes
        and (until := shortages.until(offer.instance_type, offer.zone, offer.capacity_type))
    )
