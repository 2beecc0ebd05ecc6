"""From a typed API model to the structural schema that the API server enforces.

A field says what it is in three places: its type, its `doc(...)` (sentence, limits, default) and,
for whole objects, the `RULES` of its class. This module only translates; which kinds exist and how
they are served is decided in `crds`, what the rules are in the models and in `rules`.

Limits are written as JSON schema and never as msgspec constraints: an object that was stored under
an older schema must still decode, so that the controller can say what is wrong with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import inspect as types

from nodewright_controller.api.meta import Condition, ObjectMeta
from nodewright_controller.api.node import Taint
from nodewright_controller.api.rules import LABEL_VALUE, QUALIFIED_NAME, QUANTITY

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One CEL expression over an object, and what to say when it is false."""

    rule: str
    message: str
    field_path: str = ""
    """The field to name in the error, relative to the object, such as `.weight`."""

    def as_json(self) -> Schema:
        """Return the entry of `x-kubernetes-validations`."""
        entry = {"rule": self.rule, "message": self.message}
        if self.field_path:
            entry["fieldPath"] = self.field_path
        return entry


def doc(
    text: str, *, required: bool = False, rules: tuple[Rule, ...] = (), **schema: Any
) -> msgspec.Meta:
    """Describe a field: a sentence for `kubectl explain`, and JSON schema keywords as they are spelled.

    Items of a list need no sentence (an empty text): explain would add it to the list's own.
    `required` is the API's notion: the model may still have a Python default, so that a broken
    object decodes. `rules` are CEL expressions over the field's own value.
    """
    body: Schema = dict(schema)
    if text:
        body["description"] = " ".join(text.split())
    if rules:
        body["x-kubernetes-validations"] = [rule.as_json() for rule in rules]
    return msgspec.Meta(extra_json_schema=body, extra={"required": required})


INT_OR_STRING: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": QUANTITY,
    "x-kubernetes-int-or-string": True,
}

_CONDITION: Final[Schema] = {
    "type": "object",
    "description": "One aspect of the object's state, as it was last observed.",
    "required": ["lastTransitionTime", "status", "type"],
    "properties": {
        "type": {
            "type": "string",
            "description": "Which aspect this is, in CamelCase.",
            "maxLength": 316,
            "pattern": QUALIFIED_NAME,
        },
        "status": {
            "type": "string",
            "description": "Whether it holds: True, False or Unknown.",
            "enum": ["True", "False", "Unknown"],
        },
        "reason": {
            "type": "string",
            "description": "Why, in one CamelCase word that programs can compare.",
            "maxLength": 1024,
            "pattern": r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$",
        },
        "message": {
            "type": "string",
            "description": "Why, in words for people.",
            "maxLength": 32768,
        },
        "lastTransitionTime": {
            "type": "string",
            "format": "date-time",
            "description": "When `status` last changed.",
        },
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "description": "The metadata.generation that this was observed for.",
        },
    },
}

_TAINT: Final[Schema] = {
    "type": "object",
    "description": "A taint: pods that do not tolerate it stay away from the node.",
    "required": ["effect", "key"],
    "properties": {
        "key": {
            "type": "string",
            "description": "The taint's key, with an optional DNS prefix: example.com/team.",
            "minLength": 1,
            "maxLength": 316,
            "pattern": QUALIFIED_NAME,
        },
        "value": {
            "type": "string",
            "description": "The taint's value; may be left out.",
            "maxLength": 63,
            "pattern": LABEL_VALUE,
        },
        "effect": {
            "type": "string",
            "description": (
                "What happens to pods that do not tolerate it: NoSchedule keeps new ones away, "
                "PreferNoSchedule tries to, NoExecute also evicts running ones."
            ),
            "enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
        },
        "timeAdded": {
            "type": "string",
            "format": "date-time",
            "description": "When the taint was put on the node.",
        },
    },
}

# Types of the core API that carry no `doc` of their own.
_FIXED: Final[Mapping[type, Schema]] = {
    Condition: _CONDITION,
    Taint: _TAINT,
    ObjectMeta: {"type": "object"},
}


def object_schema(model: type) -> Schema:
    """Return the structural schema of one API object, `apiVersion` and `kind` included.

    Properties are sorted by name, so equal models give equal text.
    """
    schema = _struct(model)
    schema["properties"] = dict(
        sorted(
            {
                "apiVersion": {
                    "type": "string",
                    "description": "Group and version that this object is written in.",
                },
                "kind": {"type": "string", "description": "The kind of this object."},
                **schema["properties"],
            }.items()
        )
    )
    return schema


def required_lists(model: type, path: tuple[str, ...] = ()) -> tuple[tuple[str, ...], ...]:
    """Return the paths of arrays that the API demands even when they are empty."""
    found: list[tuple[str, ...]] = []
    for field in _fields(model):
        here = (*path, field.encode_name)
        inner, _, extra = _unwrap(field.type)
        if extra.get("required") and isinstance(inner, types.ListType):
            found.append(here)
        if isinstance(inner, types.StructType):
            found.extend(required_lists(inner.cls, here))
    return tuple(found)


def _fields(model: type) -> tuple[types.Field, ...]:
    info = types.type_info(model)
    assert isinstance(info, types.StructType)
    return info.fields


def _struct(model: type) -> Schema:
    if model in _FIXED:
        return dict(_FIXED[model])
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for field in _fields(model):
        properties[field.encode_name] = _value(field.type)
        if _unwrap(field.type)[2].get("required"):
            required.append(field.encode_name)
    schema: Schema = {
        "type": "object",
        "description": " ".join((inspect.getdoc(model) or "").split("\n\n")[0].split()),
        "properties": dict(sorted(properties.items())),
    }
    if required:
        schema["required"] = sorted(required)
    rules = getattr(model, "RULES", ())
    if rules:
        schema["x-kubernetes-validations"] = [rule.as_json() for rule in rules]
    return schema


def _value(kind: types.Type) -> Schema:
    """Return the schema of one value: what its type says, then what its `doc` says."""
    inner, extra_schema, _ = _unwrap(kind)
    schema = _typed(inner)
    merged = {**schema, **extra_schema}
    both = "x-kubernetes-validations"
    if both in schema and both in extra_schema:
        merged[both] = [*schema[both], *extra_schema[both]]
    return merged


def _unwrap(kind: types.Type) -> tuple[types.Type, Schema, Mapping[str, Any]]:
    """Take off `Annotated` and `| None`: neither changes what the wire carries."""
    schema: Schema = {}
    extra: Mapping[str, Any] = {}
    while True:
        if isinstance(kind, types.Metadata):
            schema = {**(kind.extra_json_schema or {}), **schema}
            extra = {**(kind.extra or {}), **extra}
            kind = kind.type
            continue
        if isinstance(kind, types.UnionType):
            rest = [member for member in kind.types if not isinstance(member, types.NoneType)]
            if len(rest) == 1:
                kind = rest[0]
                continue
        return kind, schema, extra


def _typed(kind: types.Type) -> Schema:
    match kind:
        case types.StrType():
            return {"type": "string"}
        case types.BoolType():
            return {"type": "boolean"}
        case types.IntType():
            return {"type": "integer", "format": "int64"}
        case types.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case types.ListType():
            return {"type": "array", "items": _value(kind.item_type)}
        case types.DictType(value_type=types.AnyType()):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case types.DictType():
            return {"type": "object", "additionalProperties": _value(kind.value_type)}
        case types.UnionType() if _is_quantity(kind):
            return dict(INT_OR_STRING)
        case types.StructType():
            return _struct(kind.cls)
        case _:
            raise TypeError(f"no structural schema for {kind}")


def _is_quantity(kind: types.UnionType) -> bool:
    members = {type(member) for member in kind.types}
    return members == {types.StrType, types.IntType, types.FloatType}
