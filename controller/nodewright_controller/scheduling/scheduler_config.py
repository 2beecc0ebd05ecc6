"""The setting SCHEDULER_CONFIG: which default spread constraints the cluster's kube-scheduler has.

Two forms are read. Karpenter's own, since 1.15 (verified in its design document
designs/default-topology-spread-awareness.md: the value itself is YAML or JSON, not a path, without
`apiVersion` and `kind`; unknown fields, a `labelSelector`, `matchLabelKeys`, and two constraints of the
same key and `whenUnsatisfiable` are refused at start):

    podTopologySpread:
      defaultConstraints:
      - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}

It counts for the pods of every scheduler. And kube-scheduler's own file as it is (verified in the
Kubernetes documentation, "Cluster-level default constraints"): `kind: KubeSchedulerConfiguration` with
`profiles[].pluginConfig[]`, whose entry of the name PodTopologySpread holds in `args` the same
`defaultConstraints`, which count when `defaultingType` is `List`. There each profile speaks for the
pods of its `schedulerName`; all else in the file is kube-scheduler's business and passed over.
With `defaultingType: System` (kube-scheduler's default) it only prefers to spread, and so do we not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from nodewright_controller.api.pod import TopologySpreadConstraint
from nodewright_controller.scheduling.default_spreads import (
    DEFAULT_SCHEDULER,
    EVERY_SCHEDULER,
    DefaultSpread,
    DefaultSpreads,
)

_KIND: Final = "KubeSchedulerConfiguration"
_GROUP: Final = "kubescheduler.config.k8s.io/"
_PLUGIN: Final = "PodTopologySpread"
_KNOWN: Final = frozenset(
    found.encode_name for found in msgspec.structs.fields(TopologySpreadConstraint)
)
_DEDUCED: Final = {
    "labelSelector": "leave it out: the selector is deduced for each pod",
    "matchLabelKeys": "leave it out: kube-scheduler does not look at it in default constraints",
}
_KEY: Final = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?")
_MOST: Final = 2**31 - 1
"""Kubernetes keeps these numbers in 32 bits."""
_MODES: Final = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES: Final = ("Honor", "Ignore")


def read_scheduler_config(document: object) -> DefaultSpreads:
    """Return the constraints of a document that was YAML or JSON; nothing at all means none.

    Raises:
        ValueError: it cannot be used; the message names every bad field and the way out.

    """
    if document is None:
        return DefaultSpreads()
    problems: list[str] = []
    reading = _Reading(problems)
    found = reading.document(document)
    if problems:
        raise ValueError("; ".join(problems))
    return found


class _Reading:
    """Walks through a document and notes what cannot be used, by path."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems

    def document(self, document: object) -> DefaultSpreads:
        if not isinstance(document, Mapping):
            self._note("", f"{document!r} is no map: write podTopologySpread, as YAML or JSON")
            return DefaultSpreads()
        version = str(document.get("apiVersion", ""))
        if document.get("kind") == _KIND or version.startswith(_GROUP):
            return DefaultSpreads(by_scheduler=dict(self._profiles(document)))
        self._refuse_unknown(document, "", ("podTopologySpread",))
        spread = self._map(document.get("podTopologySpread"), "podTopologySpread")
        self._refuse_unknown(spread, "podTopologySpread", ("defaultConstraints",))
        path = "podTopologySpread.defaultConstraints"
        constraints = self._constraints(spread.get("defaultConstraints"), path)
        return DefaultSpreads(by_scheduler={EVERY_SCHEDULER: constraints})

    def _profiles(
        self, document: Mapping[str, Any]
    ) -> Iterator[tuple[str, tuple[DefaultSpread, ...]]]:
        for position, profile in enumerate(self._list(document.get("profiles"), "profiles")):
            path = f"profiles[{position}]"
            whole = self._map(profile, path)
            name = str(whole.get("schedulerName") or DEFAULT_SCHEDULER)
            yield name, self._plugin(whole.get("pluginConfig"), f"{path}.pluginConfig")

    def _plugin(self, listed: object, path: str) -> tuple[DefaultSpread, ...]:
        for position, entry in enumerate(self._list(listed, path)):
            here = f"{path}[{position}]"
            plugin = self._map(entry, here)
            if plugin.get("name") != _PLUGIN:
                continue
            args = self._map(plugin.get("args"), f"{here}.args")
            constraints = args.get("defaultConstraints")
            if args.get("defaultingType", "System") == "List":
                return self._constraints(constraints, f"{here}.args.defaultConstraints")
            if constraints:
                self._note(
                    f"{here}.args.defaultingType",
                    f"must be List beside defaultConstraints, not {args.get('defaultingType')!r}",
                )
        return ()

    def _constraints(self, listed: object, path: str) -> tuple[DefaultSpread, ...]:
        found: list[DefaultSpread] = []
        seen: set[tuple[str, str]] = set()
        for position, entry in enumerate(self._list(listed, path)):
            here = f"{path}[{position}]"
            before = len(self._problems)
            body = self._map(entry, here)
            self._check(body, here)
            if len(self._problems) > before:
                continue
            try:
                constraint = msgspec.convert(dict(body), DefaultSpread)
            except msgspec.ValidationError as error:
                problem, _, field = str(error).partition(" - at `$")
                self._note(f"{here}{field.rstrip('`')}", problem)
                continue
            pair = (constraint.topology_key, constraint.when_unsatisfiable)
            if pair in seen:
                self._note(here, f"repeats {pair[0]} with {pair[1]}: keep one of them")
            seen.add(pair)
            found.append(constraint)
        return tuple(found)

    def _check(self, body: Mapping[str, Any], path: str) -> None:
        for name, way_out in _DEDUCED.items():
            if body.get(name) is not None:
                self._note(f"{path}.{name}", way_out)
        rest = {name: value for name, value in body.items() if name not in _DEDUCED}
        self._refuse_unknown(rest, path, tuple(sorted(_KNOWN - set(_DEDUCED))))
        self._count(body.get("maxSkew"), f"{path}.maxSkew")
        if body.get("minDomains") is not None:
            self._count(body["minDomains"], f"{path}.minDomains")
        key = body.get("topologyKey")
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            self._note(
                f"{path}.topologyKey",
                f"{key!r} is no label key: write one such as topology.kubernetes.io/zone",
            )
        self._one_of(body.get("whenUnsatisfiable"), f"{path}.whenUnsatisfiable", _MODES)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if body.get(name) is not None:
                self._one_of(body[name], f"{path}.{name}", _POLICIES)

    def _count(self, value: object, path: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST:
            self._note(path, f"{value!r} must be a whole number from 1 to {_MOST}")

    def _one_of(self, value: object, path: str, allowed: tuple[str, ...]) -> None:
        if value not in allowed:
            self._note(path, f"{value!r} must be {' or '.join(allowed)}")

    def _refuse_unknown(self, body: Mapping[str, Any], path: str, known: tuple[str, ...]) -> None:
        for name in body:
            if name not in known:
                where = f"{path}.{name}" if path else str(name)
                self._note(where, f"is not known: use {', '.join(known)}")

    def _map(self, value: object, path: str) -> Mapping[str, Any]:
        if value is None or isinstance(value, Mapping):
            return value or {}
        self._note(path, f"{value!r} must be a map")
        return {}

    def _list(self, value: object, path: str) -> list[Any]:
        if value is None or isinstance(value, list):
            return value or []
        self._note(path, f"{value!r} must be a list")
        return []

    def _note(self, path: str, problem: str) -> None:
        self._problems.append(f"{path}: {problem}" if path else problem)
