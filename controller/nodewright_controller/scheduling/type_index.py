"""The instance types of a pool as bit masks: by label value, by offering, by price.

Requirements become masks of types here, once per requirement. Which requirements a claim has is
kept in `scheduling.states`. An index outlives its round: as long as the same instance types are
offered, the next round finds everything as it was (`type_index`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nodewright_controller.api.labels import CAPACITY_RESERVATION_ID
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.requirement import Operator, Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import CPU, MEMORY, Resources
from nodewright_controller.scheduling.thresholds import Threshold

if TYPE_CHECKING:
    from nodewright_controller.scheduling.states import ConstraintTable, Start

_NEGATIVE: Final = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)
_KEPT_INDEXES: Final = 8
"""Each pool with a node class of its own has one; most clusters have a few."""
_KEPT_REQUIREMENTS: Final = 4096
_KEPT_ORDERS: Final = 256
_KEPT_ROOMS: Final = 16
_KEPT_STARTS: Final = 64
_CPU_UNIT: Final = 1000
_AS_MUCH_AS_ONE_CPU: Final = 4 * 2**30
"""Bytes of memory that count as much as one cpu when types of different shape are compared."""
_SMALLEST: Final = 1e-3


@dataclass(slots=True)
class OfferingKind:
    """All offerings with the same requirements: (zone, capacity type, …) over the types."""

    requirements: Requirements
    available: int = 0
    """Types that are offered this way, and healthy."""
    launchable: int = 0
    """Of those, the ones that can be had now."""
    listed: int = 0
    """Types that are offered this way at all."""
    reservation: str = ""
    """Id of the capacity reservation; empty for other capacity types."""
    reserved_capacity: int = 0


@dataclass(slots=True)
class Room:
    """What daemons leave of each type."""

    left: list[Resources]
    usable: int
    """Types of which daemons do not take more than there is."""
    thresholds: dict[str, Threshold] = field(default_factory=dict)

    def of(self, resource: str) -> Threshold:
        """Return the types by what is left of a resource."""
        found = self.thresholds.get(resource)
        if found is None:
            found = Threshold([left.get(resource, 0) for left in self.left])
            self.thresholds[resource] = found
        return found


class _LabelIndex:
    """For one label: which types have which value."""

    __slots__ = ("absent", "by_value", "empty", "wide")

    def __init__(self) -> None:
        self.by_value: dict[str, int] = {}
        self.absent = 0
        self.empty = 0
        self.wide: list[tuple[Requirement, int]] = []

    def allowing(self, asked: Requirement) -> int:
        """Return the types that may be what is asked for."""
        mask = self.absent
        if asked.operator in _NEGATIVE:
            mask |= self.empty
        if not asked.complement and len(asked.values) < len(self.by_value):
            for value in asked.values:
                mask |= self.by_value.get(value, 0)
        else:
            for value, found in self.by_value.items():
                if asked.has(value):
                    mask |= found
        for requirement, found in self.wide:
            if requirement.intersects(asked) or (
                requirement.operator in _NEGATIVE and asked.operator in _NEGATIVE
            ):
                mask |= found
        return mask


class TypeIndex:
    """Masks over a fixed sequence of instance types; bit `i` is `types[i]`."""

    def __init__(self, types: Sequence[InstanceType], reservation_label: str) -> None:
        self.types = tuple(types)
        self.names = [instance_type.name for instance_type in self.types]
        self.everything = (1 << len(self.types)) - 1
        self.labels = _label_indexes(self.types)
        self.kinds = _offering_kinds(self.types, reservation_label)
        self.prices = _prices(self.types, self.kinds)
        self.rooms: dict[Hashable, Room] = {}
        """What is left of the types, by what daemons take of them; kept by `scheduling.pools`."""
        self.starts: dict[Requirements, Start] = {}
        """Where claims begin, by their pool's requirements; kept by `scheduling.states`."""
        self.starts_by: ConstraintTable | None = None
        """The table whose constraints the steps from there were asked by."""
        self._capacity: dict[str, Threshold] = {}
        self._allowing: dict[Requirement, int] = {}
        self._by_price: dict[int, tuple[Sequence[float], Sequence[int]]] = {}
        self._offered: dict[int, int] = {}
        self._launchable: dict[int, int] = {}
        self._usable = [kind.launchable or kind.available for kind in self.kinds]
        self._by_price_and_size: dict[int, tuple[Sequence[float], Sequence[int]]] = {}
        self._sizes = [_size(instance_type) for instance_type in self.types]
        self.kind_values: dict[str, dict[str, int]] = {}
        for position, kind in enumerate(self.kinds):
            for key, value in kind.requirements.labels().items():
                values = self.kind_values.setdefault(key, {})
                values[value] = values.get(value, 0) | (1 << position)

    def capacity(self, resource: str) -> Threshold:
        """Return the types by what their machines have of a resource."""
        found = self._capacity.get(resource)
        if found is None:
            found = Threshold([t.capacity.get(resource, 0) for t in self.types])
            self._capacity[resource] = found
        return found

    def trim(self) -> None:
        """Forget answers to questions of former rounds, where there are many."""
        if len(self._allowing) > _KEPT_REQUIREMENTS:
            self._allowing = {}
        if len(self._by_price) > _KEPT_ORDERS:
            self._by_price = {}
            self._by_price_and_size = {}
        if len(self._offered) > _KEPT_ORDERS or len(self._launchable) > _KEPT_ORDERS:
            self._offered, self._launchable = {}, {}
        if len(self.rooms) > _KEPT_ROOMS:
            self.rooms = {}
        if len(self.starts) > _KEPT_STARTS:
            self.starts = {}

    def allowing(self, asked: Requirement) -> int:
        """Return the types whose own labels meet the requirement; a type without it does, too."""
        found = self._allowing.get(asked)
        if found is None:
            index = self.labels.get(asked.key)
            found = self.everything if index is None else index.allowing(asked)
            self._allowing[asked] = found
        return found

    def allowing_all(self, asked: Iterable[Requirement]) -> int:
        """Return the types that meet all of them."""
        mask = self.everything
        for requirement in asked:
            mask &= self.allowing(requirement)
        return mask

    def having(self, key: str) -> int:
        """Return the types that define the label themselves."""
        index = self.labels.get(key)
        return 0 if index is None else self.everything & ~index.absent

    def allowed_kinds(self, asked: Requirements) -> int:
        """Return the kinds of offerings that the requirements allow, as a mask over `kinds`.

        A label that some offerings define must be defined where it is asked for.
        """
        wanted = [
            key
            for key in self.kind_values
            if key in asked and asked.of(key).operator not in _NEGATIVE
        ]
        mask = 0
        for position, kind in enumerate(self.kinds):
            complete = all(key in kind.requirements for key in wanted)
            if complete and not asked.intersect_conflicts(kind.requirements):
                mask |= 1 << position
        return mask

    def offered(self, kinds: int) -> int:
        """Return the types with a healthy offering among these kinds."""
        found = self._offered.get(kinds)
        if found is None:
            found = self._offered[kinds] = self._any_of([k.available for k in self.kinds], kinds)
        return found

    def launchable(self, kinds: int) -> int:
        """Return the types of which one can be had now, among these kinds of offerings."""
        found = self._launchable.get(kinds)
        if found is None:
            found = self._any_of([kind.launchable for kind in self.kinds], kinds)
            self._launchable[kinds] = found
        return found

    @staticmethod
    def _any_of(types_by_kind: Sequence[int], kinds: int) -> int:
        mask = 0
        for position, types in enumerate(types_by_kind):
            if kinds >> position & 1:
                mask |= types
        return mask

    def listable(self, kinds: int, types: int) -> int:
        """Return those of the kinds by which one of the types can be bought, in stock or not."""
        mask = 0
        for position, usable in enumerate(self._usable):
            if usable & types:
                mask |= 1 << position
        return mask & kinds

    def by_price(self, kinds: int) -> Sequence[int]:
        """Return all types by cheapest launchable offering, then name; those without come last."""
        return self._priced(kinds)[1]

    def cheapest(self, types: int, kinds: int, *, by_size: bool = False) -> float:
        """Return the lowest price among the types and kinds; infinite if nothing can be had.

        With `by_size` it is the lowest price per cpu, 4 GiB of memory counting as much as one.
        """
        prices, order = self._priced_by_size(kinds) if by_size else self._priced(kinds)
        for price, number in zip(prices, order, strict=True):
            if types >> number & 1:
                return price
        return float("inf")

    def _priced(self, kinds: int) -> tuple[Sequence[float], Sequence[int]]:
        found = self._by_price.get(kinds)
        if found is None:
            rows = []
            for number, name in enumerate(self.names):
                prices = [
                    price
                    for position, price in self.prices[number].items()
                    if kinds >> position & 1 and self.kinds[position].launchable >> number & 1
                ]
                rows.append((min(prices, default=float("inf")), name, number))
            rows.sort()
            found = [price for price, _, _ in rows], [number for _, _, number in rows]
            self._by_price[kinds] = found
        return found

    def _priced_by_size(self, kinds: int) -> tuple[Sequence[float], Sequence[int]]:
        found = self._by_price_and_size.get(kinds)
        if found is None:
            prices, order = self._priced(kinds)
            rows = sorted(
                (price / self._sizes[number], number)
                for price, number in zip(prices, order, strict=True)
            )
            found = [price for price, _ in rows], [number for _, number in rows]
            self._by_price_and_size[kinds] = found
        return found

    def cheapest_kind(self, number: int, kinds: int) -> tuple[float, OfferingKind] | None:
        """Return the cheapest launchable way to buy a type; ties go to what sorts first by name."""
        ways = [
            (price, position)
            for position, price in self.prices[number].items()
            if kinds >> position & 1 and self.kinds[position].launchable >> number & 1
        ]
        if not ways:
            return None
        price, position = min(ways)
        return price, self.kinds[position]

    def values_of(self, key: str, types: int, kinds: int) -> dict[str, int] | None:
        """Return value to types for a label that offerings or types define; None if none does."""
        in_kinds = self.kind_values.get(key)
        if in_kinds is not None:
            found = {v: self.offered(kinds & mask) & types for v, mask in in_kinds.items()}
            return {value: mask for value, mask in found.items() if mask}
        index = self.labels.get(key)
        if index is None:
            return None
        return {value: mask & types for value, mask in index.by_value.items() if mask & types}


_indexes: OrderedDict[tuple[int, ...], TypeIndex] = OrderedDict()
# By the identity of the types, which the index itself keeps alive. Rounds in several threads share
# it, like the rule book: what they write there is the same whoever writes it, so only speed depends
# on who comes first.


def type_index(types: Sequence[InstanceType]) -> TypeIndex:
    """Return the index of the types; rounds that offer the same objects share it."""
    identity = tuple(map(id, types))
    found = _indexes.get(identity)
    if found is None:
        found = TypeIndex(types, CAPACITY_RESERVATION_ID)
        _indexes[identity] = found
        while len(_indexes) > _KEPT_INDEXES:
            _indexes.popitem(last=False)
    found.trim()
    return found


def _size(instance_type: InstanceType) -> float:
    """Return how much a type holds, in cpus; positive."""
    allocatable = instance_type.allocatable
    cpus = allocatable.get(CPU, 0) / _CPU_UNIT + allocatable.get(MEMORY, 0) / _AS_MUCH_AS_ONE_CPU
    return max(cpus, _SMALLEST)


def _label_indexes(types: Sequence[InstanceType]) -> dict[str, _LabelIndex]:
    keys = sorted({key for instance_type in types for key in instance_type.requirements})
    indexes = {key: _LabelIndex() for key in keys}
    for number, instance_type in enumerate(types):
        bit = 1 << number
        for key, index in indexes.items():
            requirement = instance_type.requirements.get(key)
            if requirement is None:
                index.absent |= bit
            elif requirement.complement:
                index.wide.append((requirement, bit))
            elif not requirement.values:
                index.empty |= bit
            else:
                for value in requirement.values:
                    index.by_value[value] = index.by_value.get(value, 0) | bit
    for index in indexes.values():
        index.wide = _grouped(index.wide)
    return indexes


def _grouped(rows: Iterable[tuple[Requirement, int]]) -> list[tuple[Requirement, int]]:
    masks: dict[Requirement, int] = {}
    for requirement, bit in rows:
        masks[requirement] = masks.get(requirement, 0) | bit
    return list(masks.items())


def _offering_kinds(
    types: Sequence[InstanceType], reservation_label: str
) -> tuple[OfferingKind, ...]:
    kinds: dict[Requirements, OfferingKind] = {}
    for number, instance_type in enumerate(types):
        bit = 1 << number
        for offering in instance_type.offerings:
            kind = kinds.setdefault(offering.requirements, OfferingKind(offering.requirements))
            kind.listed |= bit
            kind.available |= bit if offering.available else 0
            kind.launchable |= bit if offering.launchable else 0
            reservation = offering.requirements.get(reservation_label)
            if reservation is not None and not reservation.complement and reservation.values:
                kind.reserved_capacity = (
                    min(kind.reserved_capacity, offering.reservation_capacity)
                    if kind.reservation
                    else offering.reservation_capacity
                )
                kind.reservation = reservation.any_value()
    return tuple(sorted(kinds.values(), key=lambda kind: repr(kind.requirements)))


def _prices(
    types: Sequence[InstanceType], kinds: Sequence[OfferingKind]
) -> tuple[Mapping[int, float], ...]:
    position = {kind.requirements: number for number, kind in enumerate(kinds)}
    rows: list[Mapping[int, float]] = []
    for instance_type in types:
        row: dict[int, float] = {}
        for offering in instance_type.offerings:
            kind = position[offering.requirements]
            row[kind] = min(offering.usd_per_hour, row.get(kind, float("inf")))
        rows.append(row)
    return tuple(rows)
