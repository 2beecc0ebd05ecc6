"""What every check of one pool for one class of pods starts from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.scheduling.classes import ClassLevel, PodClass
from nodewright_controller.scheduling.compiled import Compiled
from nodewright_controller.scheduling.decision import Refusal
from nodewright_controller.scheduling.domains import DemandReader
from nodewright_controller.scheduling.edits import Edit
from nodewright_controller.scheduling.pools import CompiledPool
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.states import State


class Checks:
    """A pool, a class of pods, and the tables of the round as it left them."""

    def __init__(
        self,
        compiled: Compiled,
        demands: DemandReader,
        pod_class: PodClass,
        level: ClassLevel,
        pool: CompiledPool,
    ) -> None:
        self._compiled = compiled
        self._demands = demands
        self._class = pod_class
        self._level = level
        self._pool = pool
        self._index = pool.index

    def _refuse(self, reason: Reason, *edits: Edit, **parameters: str) -> Refusal:
        return Refusal(reason=reason, parameters=parameters, node_pool=self._pool.name, edits=edits)

    def _restricts(self, key: str) -> bool:
        """Whether a requirement of the pool, rather than a label of its template, is about it."""
        template = self._pool.node_pool.spec.template
        if key in (template.metadata.labels or {}):
            return False
        return any(Requirements.of_entries([e]).get(key) for e in template.spec.requirements)

    def _after(self, state: State, stated: Iterable[Requirement]) -> State:
        constraint = self._compiled.table.of(stated)
        requirements = state.requirements.merged(constraint.merged)
        types = state.types & state.narrowed_types(constraint, requirements)
        kinds = state.kinds & self._index.allowed_kinds(requirements)
        return State(self._index, requirements, types, kinds, {})

    def _listed_kinds(self, types: int) -> int:
        mask = 0
        for position, kind in enumerate(self._index.kinds):
            if kind.listed & types:
                mask |= 1 << position
        return mask

    def _values(self, state: State, key: str) -> frozenset[str]:
        """Return the domains in which nodes are sold to the pod, in stock or not."""
        in_kinds = self._index.kind_values.get(key)
        if in_kinds is None:
            return frozenset(state.values(key) or ())
        listed_kinds = state.kinds & self._listed_kinds(state.types)
        return frozenset(value for value, kinds in in_kinds.items() if kinds & listed_kinds)


def values_text(requirement: Requirement) -> str:
    """Return the values of a requirement for a person: `a, b`, `not c`, `4 or more`."""
    if requirement.gte is not None or requirement.lte is not None:
        low = f"at least {requirement.gte}" if requirement.gte is not None else ""
        high = f"at most {requirement.lte}" if requirement.lte is not None else ""
        return " and ".join(part for part in (low, high) if part)
    if requirement.complement:
        return f"not {listed(sorted(requirement.values))}" if requirement.values else "any value"
    return listed(sorted(requirement.values)) or "no value"


def listed(values: Sequence[str], word: str = "") -> str:
    """Return at most four values, and how many more there are."""
    shown, more = values[:4], len(values) - 4
    text = f" {word} ".join(shown) if word else ", ".join(shown)
    return f"{text}, +{more}" if more > 0 else text
