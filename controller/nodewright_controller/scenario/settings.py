"""The settings of a scenario as the options of the parts that read them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.scenario.values import World
from nodewright_controller.scheduling.problem import (
    MinValuesPolicy,
    PreferencePolicy,
    SolverOptions,
)

T = TypeVar("T")

_ELSEWHERE: Final = frozenset({"featuregates", "registrationttl"})
"""Settings that steps other than provisioning and launching read."""
_ZONE: Final = re.compile(r"(.*\d)[a-z]$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the settings come to."""

    aws: AwsOptions
    solver: SolverOptions
    overlays: bool = True
    """Whether NodeOverlays apply; a world that has some means them, unless their gate is closed."""
    warnings: tuple[str, ...] = ()
    """Settings that cannot be used, or that nothing here reads."""


def options_of(world: World) -> Options:
    """Return the options of a world's scenario; names may be written in any of Karpenter's ways."""
    given = {_plain(key): (key, value) for key, value in world.scenario.settings.items()}
    reading = _Reading(given)
    aws = AwsOptions(
        cluster_name=world.scenario.cluster_name,
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
    )
    gates = world.scenario.settings.get("featureGates")
    closed = isinstance(gates, Mapping) and gates.get("NodeOverlay") is False
    return Options(aws=aws, solver=solver, overlays=not closed, warnings=reading.finish())


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
