"""Amounts of Kubernetes resources as integers, and vectors of them.

`cpu` is counted in millicores, everything else in its base unit (bytes for memory and storage,
pieces for pods and devices). Integers keep sums exact: a node filled to the last byte is filled.
Upstream: pkg/utils/resources.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Final

from typing_extensions import override

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"

_SUFFIXES: Final[Mapping[str, Decimal]] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60,
}
_MOST: Final = Decimal(2**63 - 1)
_MOST_DIGITS: Final = 40
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?$")
_BINARY: Final = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def parse_quantity(text: str | float) -> Decimal:
    """Return the exact value of a Kubernetes quantity such as `1500m`, `2Gi` or `1e3`.

    Raises:
        ValueError: the text is no quantity; the message names it.

    """
    if isinstance(text, int | float):
        if isinstance(text, bool) or not math.isfinite(text):
            raise ValueError(f"{text!r} is not a quantity (such as 500m, 2, 4Gi)")
        return _capped(Decimal(str(text)))
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a quantity (such as 500m, 2, 4Gi)")
    number, suffix = match.group(1), match.group(2) or ""
    if suffix in _SUFFIXES:
        return _capped(Decimal(number) * _SUFFIXES[suffix])
    # Digits of the exponent beyond these say no more than "too much" or "next to nothing".
    exponent = max(-_MOST_DIGITS, min(_MOST_DIGITS, int(suffix[1:][:9])))
    return _capped(Decimal(number) * Decimal(10) ** exponent)


def _capped(value: Decimal) -> Decimal:
    """Return a value of at most 2^63 - 1, as the API server keeps it."""
    return max(-_MOST, min(_MOST, value))


@lru_cache(maxsize=65536)  # a cluster has many pods and few distinct quantities
def amount(resource: str, text: str | float) -> int:
    """Return a quantity in the integer unit of `resource`, rounded up as the kubelet does.

    Raises:
        ValueError: the text is no quantity, or negative; the message names resource and text.

    """
    try:
        value = parse_quantity(text)
    except ValueError as error:
        raise ValueError(f"resource {resource}: {error}") from error
    if value < 0:
        raise ValueError(f"resource {resource}: {text!r} is negative")
    if resource == CPU:
        value *= 1000
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def format_amount(resource: str, value: int) -> str:
    """Return `value` as a canonical Kubernetes quantity."""
    if resource == CPU:
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-"):
        for suffix, unit in _BINARY:
            if value and value % unit == 0:
                return f"{value // unit}{suffix}"
    return str(value)


def human_amount(resource: str, value: int) -> str:
    """Return an amount for a person: `1500m`, `43.8 GiB`, `110`."""
    if resource not in (MEMORY, EPHEMERAL_STORAGE) and not resource.startswith("hugepages-"):
        return format_amount(resource, value)
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(value) >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value} bytes"


def _step(resource: str, value: int) -> int:
    """Return the unit in which a person would write such an amount."""
    if resource == CPU:
        return 1000 if value >= 1000 else 1
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-"):
        return 2**30 if value >= 2**30 else 2**20
    return 1


def rounded_up(resource: str, value: int) -> int:
    """Return the next amount that a person would write: whole cores, GiB or MiB."""
    step = _step(resource, value)
    return -(-value // step) * step


def rounded_down(resource: str, value: int) -> int:
    """Return an amount that a person would write and that is no more: MiB for memory."""
    step = 1 if resource == CPU else min(_step(resource, value), 2**20)
    return value // step * step


class Resources(Mapping[str, int]):
    """An immutable vector of resource amounts; a resource that is not named counts as zero."""

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int] | Iterable[tuple[str, int]] = ()) -> None:
        self._amounts: dict[str, int] = dict(amounts)
        self._hash: int | None = None

    @classmethod
    def parse(cls, quantities: Mapping[str, str | int | float] | None) -> Resources:
        """Read a resource list of the API.

        Raises:
            ValueError: a quantity is malformed; the message names resource and text.

        """
        return cls({name: amount(name, text) for name, text in (quantities or {}).items()})

    @classmethod
    def readable(cls, quantities: Mapping[str, str | int | float] | None) -> Resources:
        """Read what can be read of a resource list, and leave the rest out."""
        unread = {name for name, _ in unreadable(quantities)}
        return cls.parse({n: q for n, q in (quantities or {}).items() if n not in unread})

    def format(self) -> dict[str, str]:
        """Return the resource list as the API writes it."""
        return {name: format_amount(name, value) for name, value in self._amounts.items()}

    @override
    def __getitem__(self, name: str) -> int:
        return self._amounts[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    @override
    def __len__(self) -> int:
        return len(self._amounts)

    @override
    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(item for item in self._amounts.items() if item[1]))
        return self._hash

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resources):
            return NotImplemented
        mine = {name: value for name, value in self._amounts.items() if value}
        return mine == {name: value for name, value in other._amounts.items() if value}

    @override
    def __repr__(self) -> str:
        return f"Resources({self.format()})"

    def __add__(self, other: Mapping[str, int]) -> Resources:
        total = dict(self._amounts)
        for name, value in other.items():
            total[name] = total.get(name, 0) + value
        return Resources(total)

    def __sub__(self, other: Mapping[str, int]) -> Resources:
        rest = dict(self._amounts)
        for name, value in other.items():
            rest[name] = rest.get(name, 0) - value
        return Resources(rest)

    def maximum(self, other: Mapping[str, int]) -> Resources:
        """Return the larger amount of each resource named by either side."""
        largest = dict(self._amounts)
        for name, value in other.items():
            largest[name] = max(largest.get(name, value), value)
        return Resources(largest)

    def fits_in(self, room: Mapping[str, int]) -> bool:
        """Whether `room` holds every positive amount; a room below zero holds nothing."""
        if any(value < 0 for value in room.values()):
            return False
        return all(value <= room.get(name, 0) for name, value in self._amounts.items() if value > 0)


EMPTY: Final = Resources()


def unreadable(
    quantities: Mapping[str, str | int | float] | None,
) -> Iterator[tuple[str, str | int | float]]:
    """Yield name and text of every quantity of a resource list that cannot be read."""
    for name, text in (quantities or {}).items():
        try:
            amount(name, text)
        except ValueError:
            yield name, text


def total(vectors: Iterable[Mapping[str, int]]) -> Resources:
    """Return the sum of resource vectors."""
    amounts: dict[str, int] = {}
    for vector in vectors:
        for name, value in vector.items():
            amounts[name] = amounts.get(name, 0) + value
    return Resources(amounts)
