"""The wire form of property values, and nothing else knows it.

On the wire a property bag is a protobuf Struct in which secrets, unknowns and resource references
are objects with magic keys. Inside this package it is a plain dict: `UNKNOWN` stands for a value
that is not known before the deployment, and the names of secret properties travel beside the dict.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from google.protobuf.struct_pb2 import ListValue, NullValue, Struct, Value
from typing_extensions import override

Values = dict[str, Any]
"""Property name (camelCase, as on the wire) to str, int, float, bool, None, list, dict, UNKNOWN."""

# Fixed by the Pulumi wire protocol (its developer documentation, "property values").
_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
_SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"
_OUTPUT: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_RESOURCE: Final = "5cf8f73096256a8f31e491e813e4eb8e"
_UNKNOWN_TEXT: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_UNKNOWNS: Final = frozenset(
    {
        _UNKNOWN_TEXT,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # boolean
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # list
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)


@final
class Unknown:
    """The type of `UNKNOWN`; it compares equal to itself only."""

    @override
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


class UnsupportedValueError(ValueError):
    """A value of a kind that no AWS property of ours takes (asset, archive)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bag:
    """A decoded property bag."""

    values: Values
    secrets: frozenset[str] = frozenset()
    """Names of the top-level properties that are secret or hold a secret somewhere inside."""


def decode(struct: Struct) -> Bag:
    """Return the plain values of a wire struct; a null property counts as absent.

    Raises `UnsupportedValueError` naming the property that holds an asset or archive.
    """
    values: Values = {}
    secrets: set[str] = set()
    for name, wire in struct.fields.items():
        found: list[str] = []
        value = _plain(wire, name, found)
        if found:
            secrets.add(name)
        if value is not None:
            values[name] = value
    return Bag(values=values, secrets=frozenset(secrets))


def encode(values: Mapping[str, Any], secrets: Iterable[str] = ()) -> Struct:
    """Return the wire struct; properties named in `secrets` are marked secret, None is left out."""
    hidden = frozenset(secrets)
    result = Struct()
    for name, value in values.items():
        if value is None:
            continue
        wire = _wire(value)
        if name in hidden:
            wire = _object({_SIGNATURE: Value(string_value=_SECRET), "value": wire})
        result.fields[name].CopyFrom(wire)
    return result


def has_unknown(value: object) -> bool:
    """Say whether the value is UNKNOWN or holds it at any depth."""
    if isinstance(value, Unknown):
        return True
    if isinstance(value, Mapping):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(has_unknown(item) for item in value)
    return False


def _plain(wire: Value, where: str, secrets: list[str]) -> Any:
    match wire.WhichOneof("kind"):
        case "string_value":
            return UNKNOWN if wire.string_value in _UNKNOWNS else wire.string_value
        case "bool_value":
            return wire.bool_value
        case "number_value":
            number = wire.number_value
            return int(number) if number.is_integer() else number
        case "list_value":
            return [
                _plain(item, f"{where}[{index}]", secrets)
                for index, item in enumerate(wire.list_value.values)
            ]
        case "struct_value":
            return _plain_object(wire.struct_value.fields, where, secrets)
    return None


def _plain_object(fields: Mapping[str, Value], where: str, secrets: list[str]) -> Any:
    if _SIGNATURE not in fields:
        return {key: _plain(item, f"{where}.{key}", secrets) for key, item in fields.items()}
    signature = fields[_SIGNATURE].string_value
    if signature == _SECRET:
        secrets.append(where)
        return _plain(fields["value"], where, secrets)
    if signature == _OUTPUT:
        if "secret" in fields and fields["secret"].bool_value:
            secrets.append(where)
        return _plain(fields["value"], where, secrets) if "value" in fields else UNKNOWN
    if signature == _RESOURCE:
        return _plain(fields["id" if "id" in fields else "urn"], where, secrets)
    raise UnsupportedValueError(f"{where}: AWS takes no asset or archive here")


def _wire(value: Any) -> Value:
    if isinstance(value, Unknown):
        return Value(string_value=_UNKNOWN_TEXT)
    if isinstance(value, bool):
        return Value(bool_value=value)
    if isinstance(value, int | float):
        return Value(number_value=value)
    if isinstance(value, str):
        return Value(string_value=value)
    if isinstance(value, Mapping):
        return _object({key: _wire(item) for key, item in value.items() if item is not None})
    if isinstance(value, list | tuple):
        return Value(list_value=ListValue(values=[_wire(item) for item in value]))
    if value is None:
        return Value(null_value=NullValue.NULL_VALUE)
    raise TypeError(f"no wire form for {type(value).__name__}")


def _object(fields: Mapping[str, Value]) -> Value:
    return Value(struct_value=Struct(fields=fields))
