"""Label selectors as values that can be compared, hashed and asked.

A selector that is absent selects nothing, an empty one selects everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodewright_controller.api.pod import LabelSelector, LabelSelectorRequirement


@dataclass(frozen=True, slots=True)
class Expression:
    """One test on one label."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels pass; an absent label passes `NotIn`, as in Kubernetes."""
        found = labels.get(self.key)
        match self.operator:
            case "In":
                return found is not None and found in self.values
            case "NotIn":
                return found is None or found not in self.values
            case "Exists":
                return found is not None
            case "DoesNotExist":
                return found is None
            case _:
                return False


@dataclass(frozen=True, slots=True)
class Selector:
    """Tests that must all pass; `nothing` marks the selector that selects nothing."""

    expressions: frozenset[Expression] = frozenset()
    nothing: bool = False

    @classmethod
    def of(cls, selector: LabelSelector | None) -> Selector:
        """Compile a selector of the API; `matchLabels` become `In` with one value."""
        if selector is None:
            return cls(nothing=True)
        found = [
            Expression(key, "In", frozenset((value,)))
            for key, value in (selector.match_labels or {}).items()
        ]
        found.extend(_expression(entry) for entry in selector.match_expressions or ())
        return cls(frozenset(found))

    def requiring(self, expressions: Iterable[Expression]) -> Selector:
        """Return the selector with more tests; one that selects nothing stays so."""
        if self.nothing:
            return self
        return Selector(self.expressions | frozenset(expressions))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if self.nothing:
            return False
        return all(expression.matches(labels) for expression in self.expressions)

    def anchor(self) -> tuple[str, str] | None:
        """Return a (key, value) that every selected object has, or None; used as an index."""
        exact = (e for e in self.expressions if e.operator == "In" and len(e.values) == 1)
        return min(((e.key, next(iter(e.values))) for e in exact), default=None)


def _expression(entry: LabelSelectorRequirement) -> Expression:
    return Expression(entry.key, entry.operator, frozenset(entry.values or ()))
