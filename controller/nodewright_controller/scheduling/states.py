"""What the requirements of a claim can come to: states, and the steps between them.

A claim starts in its pool's first state; every pod, volume and topology domain that narrows it is
a `Constraint`, and the step from a state by a constraint is worked out once, however many claims
take it. Claims only ever narrow, so a step that fails keeps failing. What a step comes to depends
on requirements and instance types only, so steps are kept for the rounds to come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from nodewright_controller.api.labels import REGION, ZONE_ID
from nodewright_controller.constraints.requirement import Operator, Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.scheduling.type_index import TypeIndex

NEGATIVE: Final = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)
_FROM_CLOUD: Final = frozenset({REGION, ZONE_ID})
"""Labels that a node gets at launch although no instance type need define them."""
_KEPT_STATES: Final = 16384
"""Of one pool; states of former rounds are forgotten when there are more."""


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """Requirements that are asked of a node together; equal ones are one object."""

    stated: tuple[Requirement, ...]
    """One by one, as they were written: each must hold by itself."""
    merged: Requirements
    """Intersected key by key."""


class ConstraintTable:
    """Makes constraints, one object for each distinct set of requirements."""

    def __init__(self) -> None:
        self._known: dict[frozenset[Requirement], Constraint] = {}
        self._equal: dict[tuple[str, str], Constraint] = {}
        self.nothing = Constraint((), Requirements())

    def __len__(self) -> int:
        return len(self._known)

    def of(self, stated: Iterable[Requirement]) -> Constraint:
        """Return the constraint of these requirements."""
        listed = tuple(stated)
        if not listed:
            return self.nothing
        identity = frozenset(listed)
        found = self._known.get(identity)
        if found is None:
            found = self._known.setdefault(identity, Constraint(listed, Requirements(listed)))
        return found

    def both(self, one: Constraint, other: Constraint) -> Constraint:
        """Return the constraint of both together."""
        if not one.stated:
            return other
        return self.of((*one.stated, *other.stated)) if other.stated else one

    def equals(self, key: str, value: str) -> Constraint:
        """Return the constraint that a label has one value."""
        found = self._equal.get((key, value))
        if found is None:
            found = self.of((Requirement(key, False, frozenset((value,))),))
            self._equal[(key, value)] = found
        return found


@dataclass(slots=True, eq=False)
class State:
    """Requirements of a claim, and which types and offerings they leave."""

    index: TypeIndex
    requirements: Requirements
    types: int
    """Types whose labels are allowed and that have a healthy offering among `kinds`."""
    kinds: int
    """Offering kinds that are allowed."""
    siblings: dict[tuple[Requirements, int, int], State]
    """All states of the pool, so that equal ones are one object."""
    _steps: dict[Constraint, State | None] = field(default_factory=dict)
    _values: dict[str, dict[str, int] | None] = field(default_factory=dict)
    _launchable_values: dict[str, dict[str, int] | None] = field(default_factory=dict)
    told: dict[int, Requirements] = field(default_factory=dict)
    """What a claim in this state asks for, by the kinds it can be bought as; see `decode`."""

    def step(self, constraint: Constraint) -> State | None:
        """Return the state after the constraint, or None if it cannot be met."""
        try:
            return self._steps[constraint]
        except KeyError:
            found = self._steps[constraint] = self._step(constraint)
            return found

    def _step(self, constraint: Constraint) -> State | None:
        if not constraint.stated:
            return self if self.types else None
        if self.undefined(constraint) or self.requirements.intersect_conflicts(constraint.merged):
            return None
        requirements = self.requirements.merged(constraint.merged)
        types = self.types & self.narrowed_types(constraint, requirements)
        kinds = self.kinds & self.index.allowed_kinds(requirements)
        types &= self.index.offered(kinds)
        if not types:
            return None
        found = State(self.index, requirements, types, kinds, self.siblings)
        return self.siblings.setdefault((requirements, types, kinds), found)

    def narrowed_types(self, constraint: Constraint, requirements: Requirements) -> int:
        """Return the types that meet each requirement, and all of them together."""
        mask = self.index.everything
        for requirement in constraint.stated:
            mask &= self.index.allowing(requirement) & self.index.allowing(
                requirements.of(requirement.key)
            )
            if self._must_be_on_type(requirement):
                mask &= self.index.having(requirement.key)
        return mask

    def _must_be_on_type(self, requirement: Requirement) -> bool:
        """Whether only the instance type can give the node this label."""
        key = requirement.key
        if requirement.operator in NEGATIVE or key in self.requirements:
            return False
        return key not in self.index.kind_values and key not in _FROM_CLOUD

    def undefined(self, constraint: Constraint) -> tuple[str, ...]:
        """Return the labels, sorted, that are asked for and that no node made here would have."""
        missing = {
            requirement.key
            for requirement in constraint.stated
            if requirement.operator not in NEGATIVE
            and requirement.key not in self.requirements
            and requirement.key not in self.index.labels
            and requirement.key not in self.index.kind_values
            and requirement.key not in _FROM_CLOUD
        }
        return tuple(sorted(missing))

    def values(self, key: str) -> dict[str, int] | None:
        """Return each value the label may take, with the types that it leaves.

        None when the values cannot be told: the label is open (any value, if it may exist at all).
        """
        try:
            return self._values[key]
        except KeyError:
            found = self._values[key] = self._find_values(key)
            return found

    def launchable_values(self, key: str) -> dict[str, int] | None:
        """Return the same as `values`, without types of which none can be had with the value."""
        try:
            return self._launchable_values[key]
        except KeyError:
            found = self.values(key)
            kinds_of = self.index.kind_values.get(key)
            if found is not None and kinds_of is not None:
                found = {
                    value: mask & self.index.launchable(kinds_of.get(value, 0) & self.kinds)
                    for value, mask in found.items()
                }
            self._launchable_values[key] = found
            return found

    def _find_values(self, key: str) -> dict[str, int] | None:
        requirement = self.requirements.of(key)
        found = self.index.values_of(key, self.types, self.kinds)
        if found is not None:
            return {value: mask for value, mask in found.items() if requirement.has(value)}
        if not requirement.complement:
            return dict.fromkeys(requirement.values, self.types)
        if key in self.requirements and requirement.operator is not Operator.NOT_IN:
            return None
        return {}


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """Where the claims of pools with the same requirements begin."""

    base: State
    """Before types are looked at."""
    root: State | None
    """None if no type will do."""


def start(index: TypeIndex, requirements: Requirements, table: ConstraintTable) -> Start:
    """Return where claims with these requirements begin, as former rounds with the table left it."""
    if index.starts_by is not table:
        index.starts_by, index.starts = table, {}
    found = index.starts.get(requirements)
    if found is None or len(found.base.siblings) > _KEPT_STATES:
        found = index.starts[requirements] = _start(index, requirements)
    return found


def _start(index: TypeIndex, requirements: Requirements) -> Start:
    every_kind = (1 << len(index.kinds)) - 1
    base = State(index, requirements, index.everything, every_kind, {})
    types = index.allowing_all(requirements.values())
    kinds = index.allowed_kinds(requirements)
    types &= index.offered(kinds)
    if not types:
        return Start(base, None)
    return Start(base, State(index, requirements, types, kinds, base.siblings))
