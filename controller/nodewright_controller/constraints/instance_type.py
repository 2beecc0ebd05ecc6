"""An instance type, and the offerings (zone, capacity type, price) in which it can be bought.

Upstream: pkg/cloudprovider/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodewright_controller.api.labels import CAPACITY_TYPE, RESERVED, ZONE
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import EMPTY, MEMORY, Resources


@dataclass(frozen=True, slots=True)
class Offering:
    """One way to buy an instance type."""

    requirements: Requirements
    """Zone, capacity type and whatever else is fixed by buying it this way; one value per key."""
    usd_per_hour: float
    available: bool = True
    """Whether it is healthy: priced, not out of stock, in a zone that may be used."""
    reservation_capacity: int = 0
    """Instances left of a capacity reservation; matters for `reserved` only."""
    price_overlaid: bool = False
    """Whether the price is a NodeOverlay's."""
    short_until: datetime | None = None
    """Until when it is not tried, having been out of stock; None when it is not for that reason."""

    @property
    def zone(self) -> str:
        """The zone."""
        return self.requirements.of(ZONE).any_value()

    @property
    def capacity_type(self) -> str:
        """`spot`, `on-demand` or `reserved`."""
        return self.requirements.of(CAPACITY_TYPE).any_value()

    @property
    def launchable(self) -> bool:
        """Whether an instance can be had now: available, and not from a full reservation."""
        return self.available and (self.capacity_type != RESERVED or self.reservation_capacity > 0)


@dataclass(frozen=True, slots=True)
class Overhead:
    """What a node keeps for itself."""

    kube_reserved: Resources = EMPTY
    system_reserved: Resources = EMPTY
    eviction_threshold: Resources = EMPTY

    @property
    def total(self) -> Resources:
        """The sum of all three."""
        return self.kube_reserved + self.system_reserved + self.eviction_threshold


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An instance type as a node of one node class would have it."""

    name: str
    requirements: Requirements
    offerings: tuple[Offering, ...]
    capacity: Resources
    overhead: Overhead = field(default_factory=Overhead)
    volume_limits: Mapping[str, int] = field(default_factory=dict, hash=False)
    """CSI driver to how many volumes it can attach; a driver that is missing has no known bound."""
    boots: bool = True
    """Whether the node class has an image for it; one that does not boot is never offered."""
    capacity_overlaid: bool = False
    """Whether part of the capacity is a NodeOverlay's."""
    _allocatable: list[Resources] = field(
        default_factory=list, init=False, repr=False, compare=False, hash=False
    )
    _short: list[tuple[Offering, ...]] = field(
        default_factory=list, init=False, repr=False, compare=False, hash=False
    )

    @property
    def allocatable(self) -> Resources:
        """Capacity without overhead; huge pages come out of memory, which never goes below zero."""
        if not self._allocatable:
            left = self.capacity - self.overhead.total
            pages = sum(v for name, v in self.capacity.items() if name.startswith("hugepages-"))
            memory = max(0, left.get(MEMORY, 0) - pages)
            self._allocatable.append(Resources({**left, MEMORY: memory}))
        return self._allocatable[0]

    @property
    def out_of_stock(self) -> tuple[Offering, ...]:
        """The offerings that are not tried for a while, having been out of stock."""
        if not self._short:
            self._short.append(tuple(o for o in self.offerings if o.short_until is not None))
        return self._short[0]

    def launchable(self, asked: Requirements) -> tuple[Offering, ...]:
        """Return the offerings that `asked` allows and that can be had now, cheapest first."""
        found = (o for o in self.offerings if o.launchable and allows(asked, o.requirements))
        return tuple(sorted(found, key=lambda o: (o.usd_per_hour, o.zone, o.capacity_type)))


def allows(asked: Requirements, offered: Requirements) -> bool:
    """Whether every key of `offered` is allowed by `asked`, and nothing well known is missing."""
    return asked.compatible_with_new_node(offered)
