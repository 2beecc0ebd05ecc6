"""A set of values that a label may take: the algebra under every scheduling decision.

A requirement is a set or its complement, with optional inclusive integer bounds. `Gt` and `Lt`
become inclusive bounds when they are made, so only one form of bound exists afterwards.
Upstream: pkg/scheduling/requirement.go.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from typing_extensions import override

from nodewright_controller.api.labels import NORMALIZED

MAX_INT: Final = 2**63 - 1


class Operator(enum.StrEnum):
    """The operators of the API."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"
    GTE = "Gte"
    LTE = "Lte"


def integer(value: str) -> int | None:
    """Return the value as an integer, or None if it is none."""
    try:
        return int(value)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Requirement:
    """The values that `key` may have."""

    key: str
    complement: bool = False
    """Whether `values` are the ones that are excluded."""
    values: frozenset[str] = frozenset()
    gte: int | None = None
    """Inclusive lower bound; a bounded requirement admits integers only."""
    lte: int | None = None
    """Inclusive upper bound."""
    min_values: int | None = None
    """How many distinct values the chosen instance types must cover."""

    @classmethod
    def of(
        cls,
        key: str,
        operator: str,
        values: Iterable[str] = (),
        min_values: int | None = None,
    ) -> Requirement:
        """Make a requirement from its API form; deprecated keys become their stable ones.

        Raises:
            ValueError: the operator is unknown, or a comparison has no single integer value.

        """
        key = NORMALIZED.get(key, key)
        listed = tuple(values)
        if operator == Operator.IN:
            return cls(key, False, frozenset(listed), None, None, min_values)
        if operator == Operator.NOT_IN:
            return cls(key, True, frozenset(listed), None, None, min_values)
        if operator == Operator.EXISTS:
            return cls(key, True, frozenset(), None, None, min_values)
        if operator == Operator.DOES_NOT_EXIST:
            return cls(key, False, frozenset(), None, None, min_values)
        bound = integer(listed[0]) if len(listed) == 1 else None
        if operator not in tuple(Operator):
            raise ValueError(f"requirement on {key}: operator {operator!r} is not known")
        if bound is None:
            raise ValueError(
                f"requirement on {key}: {operator} needs exactly one integer, got {list(listed)}"
            )
        return cls._bounded(key, Operator(operator), bound, min_values)

    @classmethod
    def _bounded(
        cls, key: str, operator: Operator, bound: int, min_values: int | None
    ) -> Requirement:
        if operator is Operator.GT and bound >= MAX_INT:
            return cls(key, False, frozenset(), None, None, min_values)
        low = {Operator.GT: bound + 1, Operator.GTE: bound}.get(operator)
        high = {Operator.LT: bound - 1, Operator.LTE: bound}.get(operator)
        return cls(key, True, frozenset(), low, high, min_values)

    @property
    def operator(self) -> Operator:
        """The operator that describes the set; bounds do not show."""
        if self.complement:
            return Operator.NOT_IN if self.values else Operator.EXISTS
        return Operator.IN if self.values else Operator.DOES_NOT_EXIST

    @property
    def empty(self) -> bool:
        """Whether no value is allowed (the label must be absent)."""
        return not self.complement and not self.values

    @property
    def _unbounded(self) -> bool:
        return self.gte is None and self.lte is None

    def _in_bounds(self, value: str) -> bool:
        if self._unbounded:
            return True
        number = integer(value)
        if number is None:
            return False
        return (self.gte is None or number >= self.gte) and (self.lte is None or number <= self.lte)

    def has(self, value: str) -> bool:
        """Whether the label may have this value."""
        return ((value in self.values) != self.complement) and self._in_bounds(value)

    def intersection(self, other: Requirement) -> Requirement:
        """Return what both sides allow."""
        gte = _largest(self.gte, other.gte)
        lte = _smallest(self.lte, other.lte)
        min_values = _largest(self.min_values, other.min_values)
        if gte is not None and lte is not None and gte > lte:
            return Requirement(self.key, min_values=min_values)
        if self.complement and other.complement:
            both = Requirement(self.key, True, self.values | other.values, gte, lte, min_values)
            kept = frozenset(value for value in both.values if both._in_bounds(value))
            return replace(both, values=kept)
        values = self._listed_by_both(other)
        if gte is not None or lte is not None:
            bounds = Requirement(self.key, True, frozenset(), gte, lte)
            values = frozenset(value for value in values if bounds._in_bounds(value))
        return Requirement(self.key, False, values, min_values=min_values)

    def _listed_by_both(self, other: Requirement) -> frozenset[str]:
        """Return the values that both sides allow, bounds apart; one side at least lists its own."""
        if self.complement:
            return other.values - self.values
        if other.complement:
            return self.values - other.values
        return self.values & other.values

    def intersects(self, other: Requirement) -> bool:
        """Whether some value satisfies both sides."""
        if self._unbounded and other._unbounded:
            return (self.complement and other.complement) or bool(self._listed_by_both(other))
        both = self.intersection(other)
        return both.complement or bool(both.values)

    def entries(self) -> tuple[tuple[str, Operator, tuple[str, ...]], ...]:
        """Return the API form: bounds come before exclusions, which they replace."""
        bounds: list[tuple[str, Operator, tuple[str, ...]]] = []
        if self.gte is not None:
            bounds.append((self.key, Operator.GTE, (str(self.gte),)))
        if self.lte is not None:
            bounds.append((self.key, Operator.LTE, (str(self.lte),)))
        if bounds:
            return tuple(bounds)
        return ((self.key, self.operator, tuple(sorted(self.values))),)

    def any_value(self) -> str:
        """Return one allowed value, always the same one; empty when none exists or is needed."""
        if not self.complement:
            return min(self.values, default="")
        candidate = self.gte if self.gte is not None else 0
        if self.lte is not None and self.gte is None:
            candidate = min(candidate, self.lte)
        while str(candidate) in self.values and (self.lte is None or candidate < self.lte):
            candidate += 1
        return str(candidate)

    @override
    def __str__(self) -> str:
        parts = []
        for key, operator, values in self.entries():
            parts.append(f"{key} {operator} {list(values)}" if values else f"{key} {operator}")
        suffix = f" minValues {self.min_values}" if self.min_values is not None else ""
        return " and ".join(parts) + suffix


def _largest(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _smallest(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)
