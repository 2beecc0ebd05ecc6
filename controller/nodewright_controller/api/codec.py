"""JSON to typed objects and back: the one place where `Any` becomes a type.

Decoding forgives what the API server lets through (`null` where a list or an object belongs). What
it cannot forgive becomes a value, `Broken`, that names object and field, so a caller reading a
thousand objects goes on with the other nine hundred and ninety-nine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from typing_extensions import override

from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.schema import required_lists

K = TypeVar("K", bound=KubeObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """An object that cannot be read."""

    kind: str
    key: str
    """`namespace/name`, or the name; `?` if not even that can be read."""
    field: str
    """Path of the field, such as `spec.weight`; empty if the text is no JSON object."""
    problem: str
    """What is wrong with it."""

    @override
    def __str__(self) -> str:
        """One sentence: kind, name, field, problem."""
        where = f"{self.field}: " if self.field else ""
        return f"{self.kind} {self.key}: {where}{self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded(Generic[K]):
    """What a list of objects gave."""

    objects: tuple[K, ...]
    broken: tuple[Broken, ...]


def decode(kind: type[K], data: bytes | msgspec.Raw) -> K | Broken:
    """Read one object; unknown fields are passed over, nulls count as absent."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError:
        return _decode_slowly(kind, data)


def decode_all(kind: type[K], items: Iterable[bytes | msgspec.Raw]) -> Decoded[K]:
    """Read many objects; the broken ones are listed beside the good ones, each in given order."""
    objects: list[K] = []
    broken: list[Broken] = []
    for item in items:
        found = decode(kind, item)
        if isinstance(found, Broken):
            broken.append(found)
        else:
            objects.append(found)
    return Decoded(objects=tuple(objects), broken=tuple(broken))


def encode(obj: KubeObject) -> bytes:
    """Write an object as the API server takes it."""
    return msgspec.json.encode(to_wire(obj))


def to_wire(obj: KubeObject) -> dict[str, Any]:
    """Return an object as JSON values: apiVersion and kind first, defaults left out.

    A list that the API demands is written even when it is empty.
    """
    kind = type(obj).KIND
    body: dict[str, Any] = msgspec.to_builtins(obj)
    for path in _demanded(type(obj)):
        holder: Any = body
        for step in path[:-1]:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            holder.setdefault(path[-1], [])
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


@cache
def _demanded(kind: type[KubeObject]) -> tuple[tuple[str, ...], ...]:
    return required_lists(kind)


def _decode_slowly(kind: type[K], data: bytes | msgspec.Raw) -> K | Broken:
    name = kind.KIND.kind
    try:
        body = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        return Broken(kind=name, key="?", field="", problem=f"no JSON: {error}")
    if not isinstance(body, dict):
        return Broken(kind=name, key="?", field="", problem="expected an object")
    try:
        return msgspec.convert(_without_nulls(body), kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `")
        field = path.rstrip("`").removeprefix("$").removeprefix(".")
        return Broken(kind=name, key=_key(body), field=field, problem=problem)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value


def _key(body: dict[str, Any]) -> str:
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        return "?"
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
