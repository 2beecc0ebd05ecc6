"""A structural hash, equal to the one that Karpenter writes into its hash annotations.

Upstream hashes Go values with mitchellh/hashstructure (format 2, slices as sets, zero values
left out) over FNV-1 of 64 bits. What is fed in is described by the caller: maps, sets, and structs
as a type name with (Go field name, value hash) pairs. Reading the objects is left to `api`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import xor
from typing import Final

_OFFSET: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_MASK: Final = (1 << 64) - 1


def fnv1(data: bytes) -> int:
    """Return the 64 bit FNV-1 hash (multiply first, then xor)."""
    value = _OFFSET
    for byte in data:
        value = ((value * _PRIME) & _MASK) ^ byte
    return value


def _words(*values: int) -> int:
    return fnv1(b"".join(value.to_bytes(8, "little") for value in values))


def hash_string(text: str) -> int:
    """Return the hash of a string."""
    return fnv1(text.encode())


def hash_integer(value: int) -> int:
    """Return the hash of a signed 64 bit integer."""
    return fnv1(value.to_bytes(8, "little", signed=True))


def hash_map(entries: Mapping[str, str]) -> int:
    """Return the hash of a string map; the order of its keys does not matter."""
    pairs = (_words(hash_string(key), hash_string(value)) for key, value in entries.items())
    return _words(reduce(xor, pairs, 0))


def hash_set(elements: Iterable[int]) -> int:
    """Return the hash of a list whose order does not matter, from its elements' hashes."""
    return reduce(xor, elements, 0)


def hash_struct(name: str, fields: Iterable[tuple[str, int]]) -> int:
    """Return the hash of a struct from its type name and the fields that are not zero, in order."""
    value = hash_string(name)
    for field_name, field_hash in fields:
        value = _words(value ^ _words(hash_string(field_name), field_hash))
    return value
