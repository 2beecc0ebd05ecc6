"""The settings of a scenario as the options of the parts that read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.scenario.values import World
from nodewright_controller.scheduling.default_spreads import NO_DEFAULT_SPREADS
from nodewright_controller.scheduling.problem import (
    MinValuesPolicy,
    PreferencePolicy,
    SolverOptions,
)
from nodewright_controller.scheduling.scheduler_config import read_scheduler_config
from nodewright_controller.settings import FEATURE_GATES

T = TypeVar("T")

_ELSEWHERE: Final = frozenset({"registrationttl"})
"""Settings that steps other than provisioning and launching read."""
_ZONE: Final = re.compile(r"(.*\d)[a-z]$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the settings come to."""

    aws: AwsOptions
    solver: SolverOptions
    gates: Mapping[str, bool] = field(default_factory=lambda: dict(FEATURE_GATES))
    """Feature gate to whether it is open."""
    warnings: tuple[str, ...] = ()
    """Settings that cannot be used, or that nothing here reads."""


def options_of(world: World) -> Options:
    """Return the options of a world's scenario; names may be written in any of Karpenter's ways."""
    given = {_plain(key): (key, value) for key, value in world.scenario.settings.items()}
    reading = _Reading(given)
    aws = AwsOptions(
        cluster_name=reading.take("clusterName", str, world.scenario.cluster_name),
        region=region_of(world),
        cluster_endpoint="https://cluster.test",
        service_cidr="10.100.0.0/16",
        dns_ip="10.100.0.10",
        kubernetes_version=str(reading.take("kubernetesVersion", str, "1.36")),
        vm_memory_overhead_percent=reading.take("vmMemoryOverheadPercent", float, 0.075),
        reserved_enis=reading.take("reservedENIs", int, 0),
    )
    solver = SolverOptions(
        preference_policy=reading.take(
            "preferencePolicy", PreferencePolicy, PreferencePolicy.RESPECT
        ),
        min_values_policy=reading.take("minValuesPolicy", MinValuesPolicy, MinValuesPolicy.STRICT),
        default_spreads=reading.take("schedulerConfig", read_scheduler_config, NO_DEFAULT_SPREADS),
    )
    gates = reading.take("featureGates", _gates, dict(FEATURE_GATES))
    return Options(aws=aws, solver=solver, gates=gates, warnings=reading.finish())


def _gates(given: Any) -> dict[str, bool]:
    """Return all gates; given as the controller takes them (`A=true,B=false`), or as a map."""
    entries = list(given.items()) if isinstance(given, Mapping) else _pairs(given)
    known = {_plain(name): name for name in FEATURE_GATES}
    gates = dict(FEATURE_GATES)
    for name, value in entries:
        found = known.get(_plain(str(name)))
        if found is None:
            raise ValueError(f"there is no feature gate {name}")
        if str(value).lower() not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, not {value!r}")
        gates[found] = str(value).lower() == "true"
    return gates


def _pairs(given: Any) -> list[tuple[str, str]]:
    parts = given if isinstance(given, list) else str(given).split(",")
    pairs = [str(part).strip().partition("=") for part in parts if str(part).strip()]
    return [(name, value) for name, _, value in pairs]


def region_of(world: World) -> str:
    """Return the region of the first zone that anything is offered in: eu-test-1a is in eu-test-1."""
    zones = sorted({sold.zone for entry in world.catalog for sold in entry.sold})
    for zone in zones:
        match = _ZONE.fullmatch(zone)
        if match is not None:
            return match.group(1)
    return ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


class _Reading:
    def __init__(self, given: Mapping[str, tuple[str, Any]]) -> None:
        self._given = dict(given)
        self._warnings: list[str] = []

    def take(self, name: str, parse: Callable[[Any], T], default: T) -> T:
        found = self._given.pop(_plain(name), None)
        if found is None:
            return default
        key, value = found
        try:
            return parse(value)
        except (TypeError, ValueError) as error:
            self._warnings.append(f"Scenario settings.{key}: {value!r} cannot be used: {error}")
            return default

    def finish(self) -> tuple[str, ...]:
        unread = (key for plain, (key, _) in self._given.items() if plain not in _ELSEWHERE)
        unread_texts = [f"Scenario settings.{key}: nothing here reads it" for key in sorted(unread)]
        return (*self._warnings, *unread_texts)
