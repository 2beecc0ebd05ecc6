"""What changes between a state and a program's inputs, and which changes need a new resource.

One comparison for all types, driven by the declared properties. The state holds what AWS last told,
so a change made behind Pulumi's back shows up here after a refresh. Nothing in here calls AWS.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from nodewright_local.pulumi_aws.schema import Property, Shape
from nodewright_local.pulumi_aws.values import has_unknown


class ChangeKind(Enum):
    """What happens to one property."""

    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference."""

    path: str
    """Pulumi's property path: `vpcConfig.subnetIds`, `tags.Name`, `tags["a/b"]`."""
    kind: ChangeKind
    replaces: bool

    @property
    def name(self) -> str:
        """The top-level property."""
        return self.path.split(".", 1)[0].split("[", 1)[0]


def compare(
    properties: Mapping[str, Property], old: Mapping[str, Any], new: Mapping[str, Any]
) -> tuple[Change, ...]:
    """Return the differences that turn state `old` into inputs `new`, in declaration order."""
    return tuple(
        change
        for name, prop in properties.items()
        if not prop.output
        for change in _changes(name, prop, old.get(name), new.get(name))
    )


def map_changes(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return the differences of a map, one per key."""
    return tuple(_map_changes(name, Property(shape=Shape.MAP), old, new))


def same(prop: Property, left: Any, right: Any) -> bool:
    """Say whether two values of a property mean the same to AWS."""
    return not any(_changes("x", prop, left, right))


def is_empty(prop: Property, value: Any) -> bool:
    """Say whether a value is what AWS takes an absent one for."""
    return canonical(prop, value) == canonical(prop, None)


def canonical(prop: Property, value: Any) -> object:
    """Return the form of a value in which values that mean the same compare equal."""
    if prop.canonical is not None and value is not None:
        value = prop.canonical(value)
    if value is None or value == "" or value == [] or value == {}:
        value = prop.default
    if value is None:
        return None
    if prop.shape is Shape.SET and isinstance(value, list | tuple | set | frozenset):
        return sorted({json.dumps(_element(prop, item), sort_keys=True) for item in value})
    if prop.shape is Shape.LIST and isinstance(value, list):
        return [_element(prop, item) for item in value]
    if prop.shape is Shape.OBJECT and isinstance(value, Mapping):
        return _element(prop, value)
    return value


def _element(prop: Property, item: Any) -> object:
    if prop.fields is None or not isinstance(item, Mapping):
        return item
    filled = {name: canonical(field, item.get(name)) for name, field in prop.fields.items()}
    return {name: value for name, value in filled.items() if value is not None}


def _changes(path: str, prop: Property, old: Any, new: Any) -> Iterator[Change]:
    if new is None and prop.computed:
        return
    if has_unknown(new):
        kind = ChangeKind.ADD if old is None else ChangeKind.UPDATE
        yield Change(path=path, kind=kind, replaces=prop.replaces)
    elif prop.shape is Shape.OBJECT and _both_objects(old, new):
        for name, field in (prop.fields or {}).items():
            if not field.output:
                inherited = _inherit(field, replaces=prop.replaces)
                yield from _changes(f"{path}.{name}", inherited, old.get(name), new.get(name))
    elif prop.shape is Shape.MAP and _both_objects(old or {}, new or {}):
        yield from _map_changes(path, prop, old or {}, new or {})
    elif canonical(prop, old) != canonical(prop, new):
        yield Change(path=path, kind=_kind(old, new), replaces=prop.replaces)


def _map_changes(
    path: str, prop: Property, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Change]:
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            kind = _kind(old.get(key), new.get(key))
            yield Change(path=_join(path, key), kind=kind, replaces=prop.replaces)


def _kind(old: Any, new: Any) -> ChangeKind:
    if old is None:
        return ChangeKind.ADD
    return ChangeKind.DELETE if new is None else ChangeKind.UPDATE


def _inherit(field: Property, *, replaces: bool) -> Property:
    if field.replaces or not replaces:
        return field
    return Property(
        shape=field.shape,
        replaces=True,
        computed=field.computed,
        default=field.default,
        fields=field.fields,
        canonical=field.canonical,
    )


def _both_objects(old: Any, new: Any) -> bool:
    return isinstance(old, Mapping) and isinstance(new, Mapping)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if key.isidentifier() else f"{path}[{json.dumps(key)}]"
