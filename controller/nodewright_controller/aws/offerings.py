"""The ways to buy an instance type: one offering per zone and capacity type, priced or not.

Offerings that cannot be had now stay in the list, marked; the core tells a type that is out of
stock from one that does not exist. Upstream: pkg/providers/instancetype/offering.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from nodewright_controller.api.labels import (
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_TYPE,
    ON_DEMAND,
    SPOT,
    ZONE,
    ZONE_ID,
)
from nodewright_controller.aws.instance_type_info import InstanceTypeInfo
from nodewright_controller.constraints.instance_type import Offering
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements

RESERVATION_LABELS = (
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
)


class Prices(Protocol):
    """What things cost."""

    def usd_per_hour(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        """Return the price, or None when there is none."""


class Shortages(Protocol):
    """What is out of stock."""

    def until(self, instance_type: str, zone: str, capacity_type: str) -> datetime | None:
        """Return until when the offering should not be tried; None when it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """Everything that decides which offerings there are, apart from the type itself."""

    all_zones: tuple[str, ...]
    """Every zone of the region, sorted."""
    zone_ids: tuple[tuple[str, str], ...]
    """(zone, zone id) where the node class has subnets."""
    prices: Prices
    shortages: Shortages
    full_zones: frozenset[str] = frozenset()
    """Zones in which no subnet of the node class has a free address."""


@functools.lru_cache(maxsize=1024)
def offering_requirements(zone: str, zone_id: str, capacity_type: str) -> Requirements:
    """Return what is fixed by buying in a zone as a capacity type; shared by all types."""
    fixed = [
        Requirement.of(CAPACITY_TYPE, "In", (capacity_type,)),
        Requirement.of(ZONE, "In", (zone,)),
    ]
    if zone_id:
        fixed.append(Requirement.of(ZONE_ID, "In", (zone_id,)))
    fixed.extend(Requirement.of(label, "DoesNotExist") for label in RESERVATION_LABELS)
    return Requirements(fixed)


def capacity_types(info: InstanceTypeInfo) -> tuple[str, ...]:
    """Return the capacity types the type can be bought as."""
    return tuple(found for found in (SPOT, ON_DEMAND) if found in info.usage_classes)


def offerings(
    info: InstanceTypeInfo, offered_zones: Iterable[str], usable: bool, market: Market
) -> tuple[Offering, ...]:
    """Return the offerings of a type.

    `offered_zones` are the zones where it exists; `usable` is False when the node class cannot
    use the type at all.
    """
    return tuple(_offerings(info, frozenset(offered_zones), usable, market))


def _offerings(
    info: InstanceTypeInfo, offered: frozenset[str], usable: bool, market: Market
) -> Iterator[Offering]:
    ids = dict(market.zone_ids)
    for zone in market.all_zones:
        here = usable and zone in offered and zone in ids and zone not in market.full_zones
        for capacity_type in capacity_types(info):
            price = market.prices.usd_per_hour(info.name, zone, capacity_type)
            sold = here and price is not None
            until = market.shortages.until(info.name, zone, capacity_type) if sold else None
            requirements = offering_requirements(zone, ids.get(zone, ""), capacity_type)
            yield Offering(requirements, price or 0.0, sold and until is None, short_until=until)
