"""The InstanceCatalog: every instance type there is, as the files state it.

Reading only; what a type comes to for a node class is decided in `machines`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from nodewright_controller.api.labels import RESERVED
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scenario.values import CatalogType, SoldAs

_TYPE_KEYS: Final = frozenset(
    {
        "name",
        "labels",
        "capacity",
        "allocatable",
        "offerings",
        "volumeLimits",
        "interfaces",
        "ipv4PerInterface",
    }
)
_OFFERING_KEYS: Final = frozenset(
    {
        "zone",
        "capacityType",
        "price",
        "available",
        "zoneID",
        "reservationID",
        "reservationCapacity",
    }
)
_MANY: Final = 1_000_000


def read_catalog(
    bodies: Iterable[Mapping[str, Any]], warnings: list[str]
) -> tuple[CatalogType, ...]:
    """Return all types of all catalogues, by name; what cannot be read is left out and noted."""
    found: dict[str, CatalogType] = {}
    for body in bodies:
        for position, entry in enumerate(_types_of(body)):
            where = f"InstanceCatalog types[{position}]"
            if not isinstance(entry, Mapping) or not entry.get("name"):
                warnings.append(f"{where}: name: must be given")
                continue
            where = f"InstanceCatalog type {entry['name']}"
            _note_unknown(where, entry, _TYPE_KEYS, warnings)
            try:
                parsed = _type(entry, where, warnings)
            except ValueError as error:
                warnings.append(f"{where}: {error}")
                continue
            if parsed.name in found:
                warnings.append(f"{where} is there twice; the first counts")
            found.setdefault(parsed.name, parsed)
    return tuple(found[name] for name in sorted(found))


def _types_of(body: Mapping[str, Any]) -> Iterable[Any]:
    spec = body.get("spec")
    types = body.get("types") or (spec.get("types") if isinstance(spec, Mapping) else None)
    return types if isinstance(types, list) else ()


def _type(entry: Mapping[str, Any], where: str, warnings: list[str]) -> CatalogType:
    allocatable = entry.get("allocatable")
    offerings = entry.get("offerings") or []
    if not isinstance(offerings, list):
        raise ValueError("offerings: must be a list")
    labels = _map(entry, "labels")
    return CatalogType(
        name=str(entry["name"]),
        labels={str(key): str(value) for key, value in labels.items()},
        capacity=_amounts(entry, "capacity"),
        allocatable=None if allocatable is None else _amounts(entry, "allocatable"),
        sold=tuple(_offerings(offerings, where, warnings)),
        volume_limits={str(k): _count(v, "volumeLimits") for k, v in _limits(entry).items()},
        interfaces=_optional_count(entry, "interfaces"),
        ipv4_per_interface=_optional_count(entry, "ipv4PerInterface"),
    )


def _limits(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return _map(entry, "volumeLimits")


def _offerings(entries: Iterable[Any], where: str, warnings: list[str]) -> Iterator[SoldAs]:
    for position, entry in enumerate(entries):
        at = f"{where}, offerings[{position}]"
        if not isinstance(entry, Mapping):
            warnings.append(f"{at}: must be a map")
            continue
        _note_unknown(at, entry, _OFFERING_KEYS, warnings)
        try:
            yield _offering(entry)
        except ValueError as error:
            warnings.append(f"{at}: {error}")


def _offering(entry: Mapping[str, Any]) -> SoldAs:
    for field in ("zone", "capacityType", "price"):
        if entry.get(field) is None:
            raise ValueError(f"{field}: must be given")
    capacity_type = str(entry["capacityType"])
    left = entry.get("reservationCapacity")
    available = entry.get("available", True)
    if not isinstance(available, bool):
        raise ValueError(f"available: {available!r} is neither true nor false")
    try:
        price = float(entry["price"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"price: {entry['price']!r} is no number of dollars per hour") from error
    return SoldAs(
        zone=str(entry["zone"]),
        capacity_type=capacity_type,
        usd_per_hour=price,
        available=available,
        zone_id=str(entry.get("zoneID") or ""),
        reservation=_reservation(entry, capacity_type),
        reservation_capacity=_MANY if left is None else _count(left, "reservationCapacity"),
    )


def _reservation(entry: Mapping[str, Any], capacity_type: str) -> str:
    if capacity_type != RESERVED:
        return ""
    return str(entry.get("reservationID") or f"cr-{entry['zone']}")


def _note_unknown(
    where: str, entry: Mapping[str, Any], known: frozenset[str], warnings: list[str]
) -> None:
    unknown = sorted(set(entry) - known)
    warnings.extend(f"{where}: {key}: is not known, so it changes nothing" for key in unknown)


def _amounts(entry: Mapping[str, Any], field: str) -> Resources:
    found = _map(entry, field)
    for name, quantity in found.items():
        if not isinstance(quantity, str | int | float):
            raise ValueError(f"{field}.{name}: {quantity!r} is no amount")
    return Resources.parse({str(name): quantity for name, quantity in found.items()})


def _map(entry: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = entry.get(field)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{field}: must be a map")
    return value


def _count(value: Any, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{field}: {value!r} is no count")
    return value


def _optional_count(entry: Mapping[str, Any], field: str) -> int | None:
    value = entry.get(field)
    return None if value is None else _count(value, field)
