"""Why a pod got no place: every check of every pool, not just the first that fails.

A second, slower pass that runs once per class of equal pods. It asks the same tables as the solver
does, each check by itself (`scheduling.pool_checks`); where all checks pass one by one and only
together fail, it says so. Rules of the pod that no pool could meet are told without any pool.
"""

from __future__ import annotations

from collections.abc import Iterator

from nodewright_controller.api.labels import (
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    HOSTNAME,
    INITIALIZED,
    REGISTERED,
    is_restricted,
)
from nodewright_controller.constraints.requirement import Operator, Requirement
from nodewright_controller.scheduling.bins import Bins
from nodewright_controller.scheduling.checks import listed, values_text
from nodewright_controller.scheduling.classes import PodClass
from nodewright_controller.scheduling.compiled import Compiled
from nodewright_controller.scheduling.decision import Refusal
from nodewright_controller.scheduling.domains import DemandReader
from nodewright_controller.scheduling.edits import Edit
from nodewright_controller.scheduling.hints import near_value
from nodewright_controller.scheduling.pod_edits import DropRule, ReplaceValue
from nodewright_controller.scheduling.pool_checks import PoolChecks
from nodewright_controller.scheduling.reasons import NOT_MEANT, Reason
from nodewright_controller.scheduling.states import NEGATIVE, Constraint


class Explainer:
    """Explains failures against the tables as the round left them."""

    def __init__(self, compiled: Compiled, bins: Bins, demands: DemandReader) -> None:
        self._compiled = compiled
        self._bins = bins
        self._demands = demands
        self._known: dict[PodClass, tuple[Refusal, ...]] = {}

    def refusals(self, pod_class: PodClass) -> tuple[Refusal, ...]:
        """Return every check that fails, nearest misses first; never empty."""
        found = self._known.get(pod_class)
        if found is None:
            found = self._known[pod_class] = self._explain(pod_class)
        return found

    def _explain(self, pod_class: PodClass) -> tuple[Refusal, ...]:
        if not self._compiled.pools:
            return (Refusal(reason=Reason.NO_POOLS),)
        own = _own_fault(pod_class)
        if own is not None:
            return (own,)
        level = self._compiled.class_level(pod_class, len(pod_class.shape.levels) - 1)
        by_pool = []
        for position, pool in enumerate(self._compiled.pools):
            checks = PoolChecks(self._compiled, self._demands, pod_class, level, pool)
            refusals = list(checks.failures()) or [checks.only_together()]
            apart = any(refusal.reason in NOT_MEANT for refusal in refusals)
            by_pool.append((apart, len(refusals), position, refusals))
        by_pool.sort(key=lambda row: row[:3])
        return tuple(refusal for *_, refusals in by_pool for refusal in refusals)


def _own_fault(pod_class: PodClass) -> Refusal | None:
    """Return the refusal of a pod whose own rules no node can ever meet, whatever the pools."""
    required = pod_class.shape.required
    if not required:
        return Refusal(reason=Reason.CONTRADICTION, parameters={"key": "node affinity"})
    faults = []
    for alternative in required:
        fault = next(_faults(alternative), None)
        if fault is None:
            return None
        faults.append(fault)
    return faults[0]


def _faults(alternative: Constraint) -> Iterator[Refusal]:
    stated = {r.key for r in alternative.stated if not r.empty}
    for key in sorted(stated):
        if alternative.merged.of(key).empty:
            yield Refusal(
                reason=Reason.CONTRADICTION, parameters={"key": key}, edits=(DropRule(key),)
            )
    for requirement in sorted(alternative.stated, key=lambda r: (r.key, r.operator)):
        if requirement.operator not in NEGATIVE:
            yield from _unmeetable(requirement)


def _unmeetable(requirement: Requirement) -> Iterator[Refusal]:
    key, edits = requirement.key, (DropRule(requirement.key),)
    concrete = requirement.operator is Operator.IN
    if key == HOSTNAME:
        if concrete:
            parameters = {"asked": values_text(requirement)}
            yield Refusal(reason=Reason.HOST_WANTED, parameters=parameters, edits=edits)
    elif is_restricted(key) and key not in (REGISTERED, INITIALIZED):
        yield Refusal(reason=Reason.RESTRICTED_LABEL, parameters={"key": key}, edits=edits)
    elif key == CAPACITY_TYPE and concrete and not requirement.values & set(CAPACITY_TYPES):
        parameters = {
            "key": "capacity type",
            "asked": values_text(requirement),
            "found": listed(sorted(CAPACITY_TYPES)),
        }
        corrected: list[Edit] = []
        for value in sorted(requirement.values):
            meant = near_value(value, CAPACITY_TYPES)
            if meant:
                corrected.append(ReplaceValue(key, value, meant))
        yield Refusal(reason=Reason.CLOSED_VALUE, parameters=parameters, edits=(*corrected, *edits))
