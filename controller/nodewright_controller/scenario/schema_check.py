"""What the API server would say to an object of ours: its schema, field by field.

Only `spec` is looked at: nobody but the controller writes a status. CEL rules are not evaluated
here; `api.validation` says the same of an object that was stored all the same.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from nodewright_controller.api.crds import crds

Schema = Mapping[str, Any]

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (Mapping,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_BOUNDS: Final[Mapping[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "minimum": (lambda value, bound: value >= bound, "must be at least {}"),
    "maximum": (lambda value, bound: value <= bound, "must be at most {}"),
    "minLength": (lambda value, bound: len(value) >= bound, "must have {} characters or more"),
    "maxLength": (lambda value, bound: len(value) <= bound, "must have at most {} characters"),
    "minItems": (lambda value, bound: len(value) >= bound, "must have {} entries or more"),
    "maxItems": (lambda value, bound: len(value) <= bound, "must have at most {} entries"),
    "maxProperties": (lambda value, bound: len(value) <= bound, "must have at most {} entries"),
}
_APPLIES: Final[Mapping[str, tuple[type, ...]]] = {
    "minimum": (int, float),
    "maximum": (int, float),
    "minLength": (str,),
    "maxLength": (str,),
    "minItems": (list,),
    "maxItems": (list,),
    "maxProperties": (Mapping,),
}


@dataclass(frozen=True, slots=True)
class SchemaFindings:
    """What is wrong, and what would be dropped."""

    problems: tuple[str, ...] = ()
    """Sentences that begin with the field."""
    unknown: tuple[str, ...] = ()
    """Paths of fields that the schema does not have."""


def check_schema(body: Mapping[str, Any]) -> SchemaFindings:
    """Return what the API server finds in an object's spec; nothing for kinds without a schema."""
    schema = _schemas().get((str(body.get("apiVersion")), str(body.get("kind"))))
    spec = body.get("spec")
    if schema is None or spec is None:
        return SchemaFindings()
    looking = _Looking()
    looking.at(spec, schema, "spec")
    return SchemaFindings(tuple(looking.problems), tuple(looking.unknown))


@functools.cache
def _schemas() -> Mapping[tuple[str, str], Schema]:
    found = {}
    for definition in crds():
        spec = definition["spec"]
        for version in spec["versions"]:
            whole = version["schema"]["openAPIV3Schema"]
            key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
            found[key] = whole["properties"]["spec"]
    return found


class _Looking:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.unknown: list[str] = []

    def at(self, value: Any, schema: Schema, path: str) -> None:
        if value is None:
            return  # the API server drops nulls, or puts the default in their place
        self.problems.extend(f"{path}: {text}" for text in _wrong(value, schema))
        if isinstance(value, Mapping):
            self._fields(value, schema, path)
        elif isinstance(value, list) and "items" in schema:
            for position, item in enumerate(value):
                self.at(item, schema["items"], f"{path}[{position}]")

    def _fields(self, value: Mapping[str, Any], schema: Schema, path: str) -> None:
        known = schema.get("properties", {})
        others = schema.get("additionalProperties")
        self.problems.extend(
            f"{path}.{field}: must be given"
            for field in schema.get("required", ())
            if value.get(field) is None and "default" not in known.get(field, {})
        )
        for key, item in value.items():
            if key in known:
                self.at(item, known[key], f"{path}.{key}")
            elif isinstance(others, Mapping):
                self.at(item, others, f"{path}[{key}]")
            elif known and not schema.get("x-kubernetes-preserve-unknown-fields"):
                self.unknown.append(f"{path}.{key}")


def _wrong(value: Any, schema: Schema) -> Iterator[str]:
    if schema.get("x-kubernetes-int-or-string"):
        # Numbers with a fraction are no integers; the API server takes them as quantities all the
        # same, since clients send them as text.
        if not isinstance(value, int | float | str) or isinstance(value, bool):
            yield f"{value!r} is no amount"
        return
    wanted = str(schema.get("type", ""))
    if wanted in _TYPES and not _is_a(value, wanted):
        article = "an" if wanted[0] in "aeio" else "a"
        yield f"{value!r} must be {article} {wanted}"
        return
    for keyword, (holds, text) in _BOUNDS.items():
        applies = keyword in schema and isinstance(value, _APPLIES[keyword])
        if applies and not holds(value, schema[keyword]):
            yield f"{text.format(schema[keyword])}, and is {_short(value)}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{value!r} is not one of {', '.join(map(str, schema['enum']))}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{value!r} does not match {schema['pattern']}"


def _is_a(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, _TYPES[wanted])


def _short(value: Any) -> str:
    return str(len(value)) if isinstance(value, str | list | Mapping) else str(value)
