"""Requirements on many labels at once, and when two sets of them can meet.

Upstream: pkg/scheduling/requirements.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from typing_extensions import override

from nodewright_controller.api.labels import WELL_KNOWN
from nodewright_controller.constraints.requirement import Operator, Requirement

_NEGATIVE = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)


class RequirementEntry(Protocol):
    """The API form of a requirement: NodePool, NodeClaim, pod and image entries all have it."""

    @property
    def key(self) -> str:
        """Label key."""

    @property
    def operator(self) -> str:
        """Operator name."""

    @property
    def values(self) -> list[str] | None:
        """Values, if the operator takes any."""


class Requirements(Mapping[str, Requirement]):
    """An immutable map from label key to requirement; an absent key may have any value."""

    __slots__ = ("_by_key", "_hash")

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        by_key: dict[str, Requirement] = {}
        for requirement in requirements:
            known = by_key.get(requirement.key)
            by_key[requirement.key] = (
                requirement if known is None else known.intersection(requirement)
            )
        self._by_key = by_key
        self._hash: int | None = None

    @classmethod
    def of_labels(cls, labels: Mapping[str, str]) -> Requirements:
        """Return the requirements that exactly these labels meet."""
        return cls(Requirement.of(key, Operator.IN, (value,)) for key, value in labels.items())

    @classmethod
    def of_entries(cls, entries: Iterable[RequirementEntry]) -> Requirements:
        """Return the requirements of API entries.

        Raises:
            ValueError: an entry is malformed; the message names its key.

        """
        return cls(
            Requirement.of(
                entry.key, entry.operator, entry.values or (), getattr(entry, "min_values", None)
            )
            for entry in entries
        )

    @override
    def __getitem__(self, key: str) -> Requirement:
        return self._by_key[key]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    @override
    def __len__(self) -> int:
        return len(self._by_key)

    @override
    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._by_key.values()))
        return self._hash

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Requirements) and self._by_key == other._by_key

    @override
    def __repr__(self) -> str:
        return f"Requirements({'; '.join(str(self._by_key[key]) for key in sorted(self._by_key))})"

    def of(self, key: str) -> Requirement:
        """Return the requirement on `key`; one that was never stated admits everything."""
        found = self._by_key.get(key)
        return Requirement(key, complement=True) if found is None else found

    def merged(self, *others: Iterable[Requirement] | Requirements) -> Requirements:
        """Return these and the others, intersected key by key."""
        everything = list(self._by_key.values())
        for other in others:
            everything.extend(other.values() if isinstance(other, Requirements) else other)
        return Requirements(everything)

    def without(self, *keys: str) -> Requirements:
        """Return the same without some keys."""
        return Requirements(found for key, found in self._by_key.items() if key not in keys)

    def intersect_conflicts(self, other: Requirements) -> tuple[str, ...]:
        """Return the keys, sorted, on which both sides have requirements that cannot meet.

        Two sides that both only exclude (NotIn, DoesNotExist) meet: the label may be absent.
        """
        small, large = (self, other) if len(self) <= len(other) else (other, self)
        conflicts = []
        for key, mine in small._by_key.items():
            theirs = large._by_key.get(key)
            if theirs is None or mine.intersects(theirs):
                continue
            if mine.operator in _NEGATIVE and theirs.operator in _NEGATIVE:
                continue
            conflicts.append(key)
        return tuple(sorted(conflicts))

    def undefined(
        self, asked: Requirements, allow_undefined: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Return the keys, sorted, that `asked` wants to have a value and nothing here defines."""
        return tuple(
            sorted(
                key
                for key, requirement in asked._by_key.items()
                if key not in allow_undefined
                and key not in self._by_key
                and requirement.operator not in _NEGATIVE
            )
        )

    def compatible(
        self, asked: Requirements, allow_undefined: frozenset[str] = frozenset()
    ) -> bool:
        """Whether something that has these can be what is `asked` for.

        New nodes pass `WELL_KNOWN` as `allow_undefined`; existing ones have just their labels.
        """
        return not self.undefined(asked, allow_undefined) and not self.intersect_conflicts(asked)

    def compatible_with_new_node(self, asked: Requirements) -> bool:
        """Whether a node still to be made can be what is `asked` for."""
        return self.compatible(asked, WELL_KNOWN)

    def labels(self) -> dict[str, str]:
        """Return the labels that are decided: keys with exactly one value."""
        return {
            key: next(iter(found.values))
            for key, found in self._by_key.items()
            if not found.complement and len(found.values) == 1
        }
