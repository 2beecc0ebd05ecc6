"""The catalogue: what EC2 sells, resolved for a node class and kept until an input changes.

Raw data comes from two Describe calls every 12 hours. A resolved list is kept by node class shape;
its offerings are renewed type by type when a price or a shortage changed, so that types nothing
happened to stay the very same objects. Upstream: pkg/providers/instancetype/instancetype.go.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

import structlog

from nodewright_controller.api.ec2nodeclass import AMIStatus, EC2NodeClass
from nodewright_controller.aws.capacity_reservations import CapacityReservations
from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.expiring import ExpiringMap
from nodewright_controller.aws.instance_type_info import InstanceTypeInfo, parse_instance_type
from nodewright_controller.aws.instance_types import describe, offer, resolve
from nodewright_controller.aws.offerings import Market
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.pricing import Pricing
from nodewright_controller.aws.reserved import Slots
from nodewright_controller.aws.shape import NodeShape, shape_of
from nodewright_controller.aws.unavailable import UnavailableOfferings
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.ports.clock import Clock

log = structlog.get_logger(__name__)

RESOLVED_TIME_TO_LIVE: Final = timedelta(minutes=5)
MEMORY_TIME_TO_LIVE: Final = timedelta(days=60)
_TYPE_FILTERS: Final = [
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawCatalog:
    """What EC2 said, parsed."""

    types: Mapping[str, InstanceTypeInfo] = field(default_factory=dict)
    described: Mapping[str, tuple[Requirement, ...]] = field(default_factory=dict)
    zones: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Zones where a type is offered, sorted."""
    all_zones: tuple[str, ...] = ()


@dataclass(slots=True)
class _Resolved:
    """A node class's types, and for each the state its offerings were made in."""

    shape: NodeShape
    types: dict[str, InstanceType]
    made_at: dict[str, tuple[object, ...]] = field(default_factory=dict)


class Catalog:
    """Instance types for node classes."""

    def __init__(
        self,
        clients: AwsClients,
        options: AwsOptions,
        clock: Clock,
        pricing: Pricing,
        unavailable: UnavailableOfferings,
        reservations: CapacityReservations,
    ) -> None:
        self._clients = clients
        self._options = options
        self._pricing = pricing
        self._unavailable = unavailable
        self._reservations = reservations
        self._raw = RawCatalog()
        self._resolved: ExpiringMap[bytes, _Resolved] = ExpiringMap(clock, RESOLVED_TIME_TO_LIVE)
        self._memory: ExpiringMap[tuple[str, str], int] = ExpiringMap(clock, MEMORY_TIME_TO_LIVE)
        self._loading = asyncio.Lock()

    @property
    def loaded(self) -> bool:
        """Whether EC2 was read at least once."""
        return bool(self._raw.types)

    async def ensure_loaded(self) -> None:
        """Read EC2 if that has not happened yet. Raises AwsError."""
        async with self._loading:
            if not self.loaded:
                await self._refresh()

    async def refresh(self) -> None:
        """Read EC2 anew; the old catalogue stays when that fails. Raises AwsError."""
        async with self._loading:
            await self._refresh()

    async def _refresh(self) -> None:
        ec2 = self._clients.ec2
        type_pages, offering_pages = await asyncio.gather(
            self._clients.pages(ec2.describe_instance_types, Filters=_TYPE_FILTERS, MaxResults=100),
            self._clients.pages(
                ec2.describe_instance_type_offerings,
                LocationType="availability-zone",
                MaxResults=1000,
            ),
        )
        infos = [parse_instance_type(raw) for page in type_pages for raw in page["InstanceTypes"]]
        zones: dict[str, set[str]] = {}
        for page in offering_pages:
            for entry in page["InstanceTypeOfferings"]:
                zones.setdefault(entry["InstanceType"], set()).add(entry["Location"])
        raw = RawCatalog(
            types={info.name: info for info in sorted(infos, key=lambda info: info.name)},
            described={info.name: describe(info) for info in infos},
            zones={name: tuple(sorted(found)) for name, found in zones.items()},
            all_zones=tuple(sorted({zone for found in zones.values() for zone in found})),
        )
        if raw != self._raw:
            self._raw = raw
            self._resolved.clear()
            log.info("read instance types", types=len(raw.types), zones=list(raw.all_zones))

    def info(self, instance_type: str) -> InstanceTypeInfo | None:
        """Return EC2's description of a type, or None if it sells no such type."""
        return self._raw.types.get(instance_type)

    def types_for(self, node_class: EC2NodeClass) -> tuple[InstanceType, ...]:
        """Return every type as the node class would have it, sorted by name.

        Types it cannot use are there as well, with offerings that are not available.

        Raises:
            ValueError: the node class names no known image family.

        """
        shape = shape_of(node_class, self._options)
        key = shape.key()
        resolved = self._resolved.get(key)
        if resolved is None:
            resolved = self._resolve(shape)
            self._resolved.put(key, resolved)
        self._renew_offerings(resolved)
        return tuple(resolved.types.values())

    def _resolve(self, shape: NodeShape) -> _Resolved:
        raw, amis = self._raw, _ami_key(shape.amis)
        types = {
            name: resolve(
                info,
                raw.described[name],
                raw.zones.get(name, ()),
                shape,
                self._memory.get((name, amis)),
            )
            for name, info in raw.types.items()
        }
        return _Resolved(shape, types)

    def _renew_offerings(self, resolved: _Resolved) -> None:
        market = Market(
            all_zones=self._raw.all_zones,
            zone_ids=resolved.shape.zones,
            prices=self._pricing,
            shortages=self._unavailable,
            full_zones=self._unavailable.full_zones(resolved.shape.subnets),
        )
        slots_of = self._slots(resolved.shape)
        for name, instance_type in resolved.types.items():
            slots = slots_of.get(name, ())
            state = (self._pricing.version, self._unavailable.sequence(name), slots)
            if resolved.made_at.get(name) == state:
                continue
            made = offer(
                instance_type,
                self._raw.types[name],
                self._raw.zones.get(name, ()),
                resolved.shape,
                market,
                slots,
            )
            resolved.made_at[name] = state
            if made != instance_type.offerings:
                resolved.types[name] = replace(instance_type, offerings=made)

    def _slots(self, shape: NodeShape) -> Mapping[str, tuple[Slots, ...]]:
        """Return what is left of the capacity reservations, by instance type."""
        found: dict[str, tuple[Slots, ...]] = {}
        for status in shape.reservations:
            left = self._reservations.available(status.id)
            until = self._unavailable.reservation_until(status.instance_type, status.id)
            known = found.get(status.instance_type, ())
            found[status.instance_type] = (*known, Slots(status, left, until))
        return found

    def record_memory(self, node_class: EC2NodeClass, instance_type: str, memory: int) -> None:
        """Remember the memory, in bytes, that a node of this type and these images reported."""
        key = (instance_type, _ami_key(tuple(node_class.status.amis or ())))
        known = self._memory.get(key)
        self._memory.put(key, memory if known is None else min(known, memory))
        if known is None or memory < known:
            self._resolved.clear()


def _ami_key(amis: tuple[AMIStatus, ...]) -> str:
    return hashlib.sha256("\n".join(sorted(ami.id for ami in amis)).encode()).hexdigest()
