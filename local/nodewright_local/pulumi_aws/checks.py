"""What a program may write: known properties, of the right kind, with a name for what needs one.

Nothing is ignored silently: a property outside the declaration is a failure that names it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nodewright_local.pulumi_aws.documents import canonical_json, canonical_policy
from nodewright_local.pulumi_aws.names import NameRefusedError, Naming, make_name
from nodewright_local.pulumi_aws.schema import AutoName, Property, Resource, Shape
from nodewright_local.pulumi_aws.values import UNKNOWN, Values

DEFAULTS_KEY = "__defaults"
"""Input that lists the properties we filled in; the engine hides names that start with `__`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One reason why inputs are refused."""

    property: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Inputs with made-up names filled in, and what is wrong with them."""

    inputs: Values
    failures: tuple[Failure, ...]


def check(resource: Resource, news: Values, olds: Values, naming: Naming) -> Checked:
    """Check the inputs of one resource; `olds` are its last inputs, empty for a new one."""
    inputs = {name: value for name, value in news.items() if name != DEFAULTS_KEY}
    failures = list(_property_failures("", resource.properties, inputs))
    if resource.autoname is not None and inputs.get(resource.autoname.property) is None:
        failures += _fill_name(resource.autoname, inputs, olds, naming)
    return Checked(inputs=inputs, failures=tuple(failures))


def _fill_name(rule: AutoName, inputs: Values, olds: Values, naming: Naming) -> list[Failure]:
    kept = olds.get(rule.property) if rule.property in olds.get(DEFAULTS_KEY, []) else None
    prefix_changed = olds.get(f"{rule.property}Prefix") != inputs.get(f"{rule.property}Prefix")
    try:
        inputs[rule.property] = (
            kept if kept and not prefix_changed else make_name(rule, naming, inputs)
        )
    except NameRefusedError as error:
        return [Failure(property=rule.property, reason=str(error))]
    inputs[DEFAULTS_KEY] = [rule.property]
    return []


def _property_failures(
    where: str, properties: Mapping[str, Property], values: Mapping[str, Any]
) -> Iterator[Failure]:
    for name, value in values.items():
        path = f"{where}{name}"
        prop = properties.get(name)
        if prop is None:
            known = ", ".join(sorted(key for key, item in properties.items() if not item.output))
            yield Failure(
                property=path,
                reason=f"property {path!r} is not supported by this AWS provider of the "
                f"laptop cluster; supported here: {known}",
            )
        elif prop.output:
            yield Failure(property=path, reason=f"{path!r} is set by AWS, remove it")
        elif value is not None and value is not UNKNOWN:
            yield from _value_failures(path, prop, value)
    for name, prop in properties.items():
        if prop.required and values.get(name) is None:
            path = f"{where}{name}"
            yield Failure(property=path, reason=f"missing required property {path!r}")


def _value_failures(path: str, prop: Property, value: Any) -> Iterator[Failure]:
    if not _has_shape(prop.shape, value):
        yield Failure(
            property=path,
            reason=f"{path!r} must be {prop.shape.value}, got {type(value).__name__}",
        )
        return
    if prop.choices and value not in prop.choices:
        yield Failure(
            property=path,
            reason=f"{path!r} is {value!r}, expected one of {', '.join(prop.choices)}",
        )
    if prop.canonical in (canonical_json, canonical_policy) and value:
        yield from _json_failures(path, value)
    if prop.fields is not None:
        items = value if isinstance(value, list) else [value]
        for index, item in enumerate(items):
            at = f"{path}[{index}]." if isinstance(value, list) else f"{path}."
            if isinstance(item, Mapping):
                yield from _property_failures(at, prop.fields, item)


def _json_failures(path: str, value: str) -> Iterator[Failure]:
    try:
        json.loads(value)
    except ValueError as error:
        yield Failure(property=path, reason=f"{path!r} is not JSON: {error}")


def _has_shape(shape: Shape, value: Any) -> bool:
    match shape:
        case Shape.TEXT:
            return isinstance(value, str)
        case Shape.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case Shape.FLAG:
            return isinstance(value, bool)
        case Shape.LIST | Shape.SET:
            return isinstance(value, list)
        case Shape.MAP | Shape.OBJECT:
            return isinstance(value, Mapping)


def argument_failures(properties: Mapping[str, Property], args: Mapping[str, Any]) -> list[Failure]:
    """Return what is wrong with the arguments of a function."""
    return list(_property_failures("", properties, args))
