"""The two kinds of our own: `Scenario`, read here, and `InstanceCatalog` (see `catalog`)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from nodewright_controller.kernel.timing import parse_instant
from nodewright_controller.scenario.values import ScenarioSpec

OURS: Final = "test.local"
SCENARIO: Final = "Scenario"
CATALOG: Final = "InstanceCatalog"

_KNOWN: Final = frozenset(
    {
        "area",
        "sources",
        "run",
        "now",
        "evaluateAt",
        "settings",
        "timeline",
        "queue",
        "aws",
        "clusterName",
        "controller",
    }
)


def no_scenario(name: str, now: datetime) -> ScenarioSpec:
    """Return the scenario of a world that has none: one round of provisioning."""
    return ScenarioSpec(name=name, steps=("provision",), now=now)


def read_spec(body: Mapping[str, Any], folder: str, warnings: list[str]) -> ScenarioSpec:
    """Return the scenario; what is malformed is left at its default and added to `warnings`."""
    metadata, given = body.get("metadata"), body.get("spec")
    name = str(metadata.get("name") or folder) if isinstance(metadata, Mapping) else folder
    spec = given if isinstance(given, Mapping) else {}
    reading = _Reading(f"Scenario {name}", spec, warnings)
    unknown = sorted(set(spec) - _KNOWN)
    warnings.extend(f"Scenario {name}: spec.{key}: is not known" for key in unknown)
    default = parse_instant("2030-01-01T00:00:00Z")
    return ScenarioSpec(
        name=name,
        steps=tuple(str(step) for step in reading.items("run")) or ("provision",),
        now=reading.instant(spec.get("now"), "now") or default,
        settings=reading.mapping("settings"),
        evaluate_at=tuple(
            at
            for text in reading.items("evaluateAt")
            if (at := reading.instant(text, "evaluateAt"))
        ),
        timeline=tuple(e for e in reading.items("timeline") if isinstance(e, Mapping)),
        queue=tuple(e for e in reading.items("queue") if isinstance(e, Mapping)),
        aws=reading.mapping("aws"),
        cluster_name=str(spec.get("clusterName") or "scenario"),
        controller=reading.mapping("controller"),
    )


class _Reading:
    """Takes fields out of a map and notes those of the wrong shape."""

    def __init__(self, who: str, spec: Mapping[str, Any], warnings: list[str]) -> None:
        self._who = who
        self._spec = spec
        self._warnings = warnings

    def _note(self, field: str, problem: str) -> None:
        self._warnings.append(f"{self._who}: spec.{field}: {problem}")

    def items(self, field: str) -> list[Any]:
        value = self._spec.get(field)
        if value is None or isinstance(value, list):
            return value or []
        self._note(field, "must be a list")
        return []

    def mapping(self, field: str) -> Mapping[str, Any]:
        value = self._spec.get(field)
        if value is None or isinstance(value, Mapping):
            return value or {}
        self._note(field, "must be a map")
        return {}

    def instant(self, value: Any, field: str) -> datetime | None:
        if value is None:
            return None
        try:
            return parse_instant(str(value))
        except ValueError:
            self._note(field, f"{value!r} is no instant such as 2030-01-02T10:00:00Z")
            return None
