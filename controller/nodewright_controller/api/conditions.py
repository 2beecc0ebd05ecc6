"""Status conditions with a root that follows its dependents.

Reading an object that has no conditions yet initialises them to Unknown; a dependent or root condition
that is first made takes the *object's creation time* as its transition time, which the liveness
deadlines count from. Upstream: awslabs/operatorpkg, `status.ConditionSet`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from nodewright_controller.api.meta import Condition, ObjectMeta
from nodewright_controller.kernel.timing import format_instant

TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"
READY: Final = "Ready"


@dataclass(frozen=True, slots=True)
class ConditionTypes:
    """The root condition of a kind and the conditions that it sums up."""

    dependents: tuple[str, ...]
    root: str = READY


NODE_CLAIM: Final = ConditionTypes(("Launched", "Registered", "Initialized"))
NODE_POOL: Final = ConditionTypes(("ValidationSucceeded", "NodeClassReady"))


class Conditions:
    """The conditions of one object while a reconciler works on it; `result` is what to store."""

    def __init__(
        self,
        types: ConditionTypes,
        meta: ObjectMeta,
        stored: list[Condition] | None,
        now: datetime,
    ) -> None:
        self._types = types
        self._meta = meta
        self._now = now.replace(microsecond=0)
        self._stored = [msgspec.structs.replace(c) for c in stored or ()]
        self._by_type = {c.type: msgspec.structs.replace(c) for c in stored or ()}
        for type_ in (types.root, *types.dependents):
            if type_ not in self._by_type:
                self._write(
                    type_, UNKNOWN, "AwaitingReconciliation", "object is awaiting reconciliation"
                )

    def get(self, type_: str) -> Condition | None:
        """Return the condition, or None."""
        return self._by_type.get(type_)

    def status(self, type_: str) -> str:
        """Return True, False or Unknown; Unknown when the condition is absent."""
        found = self._by_type.get(type_)
        return found.status if found else UNKNOWN

    def is_true(self, type_: str) -> bool:
        """Whether the condition is True."""
        return self.status(type_) == TRUE

    def transition_time(self, type_: str) -> datetime:
        """Return since when the condition has its status."""
        found = self._by_type.get(type_)
        return (found.last_transition_time if found else None) or self._now

    def set_true(self, type_: str, reason: str = "", message: str = "") -> None:
        """Set to True; the reason defaults to the type."""
        self._write(type_, TRUE, reason or type_, message)

    def set_false(self, type_: str, reason: str, message: str) -> None:
        """Set to False."""
        self._write(type_, FALSE, reason, message)

    def set_unknown(self, type_: str, reason: str, message: str) -> None:
        """Set to Unknown."""
        self._write(type_, UNKNOWN, reason, message)

    def clear(self, type_: str) -> None:
        """Remove a condition that is not a dependent."""
        if type_ not in self._types.dependents and type_ != self._types.root:
            self._by_type.pop(type_, None)

    def _write(self, type_: str, status: str, reason: str, message: str) -> None:
        known = self._by_type.get(type_)
        if known is not None and known.status == status:
            since = known.last_transition_time or self._now
        elif known is None and type_ in (self._types.root, *self._types.dependents):
            since = self._meta.creation_timestamp or self._now
        else:
            since = self._now
        self._by_type[type_] = Condition(
            type=type_,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=since,
            observed_generation=self._meta.generation,
        )

    def _settle_root(self) -> None:
        generation = self._meta.generation
        dependents = [self._by_type[type_] for type_ in self._types.dependents]
        current = [c for c in dependents if c.observed_generation == generation]
        unhealthy = [c for c in current if c.status == FALSE]
        if len(current) == len(dependents) and all(c.status == TRUE for c in dependents):
            self._write(self._types.root, TRUE, self._types.root, "")
        elif unhealthy:
            self._write(self._types.root, FALSE, "UnhealthyDependents", _summary(unhealthy))
        else:
            waiting = [c for c in dependents if c.status != TRUE or c not in current]
            self._write(self._types.root, UNKNOWN, "ReconcilingDependents", _summary(waiting))

    def result(self) -> list[Condition]:
        """Return the conditions to store: by transition time, the root last."""
        if self._meta.deletion_timestamp is not None:
            for found in self._by_type.values():
                found.observed_generation = self._meta.generation
        self._settle_root()
        root = self._by_type[self._types.root]
        others = [c for c in self._by_type.values() if c is not root]
        others.sort(key=lambda c: (c.last_transition_time or self._now, c.type))
        return [*others, root]

    @property
    def changed(self) -> bool:
        """Whether `result` differs from what was stored."""
        return {c.type: c for c in self.result()} != {c.type: c for c in self._stored}

    def patch(self) -> list[dict[str, Any]]:
        """Return `result` as the API writes it."""
        return [condition_document(condition) for condition in self.result()]


def condition_document(condition: Condition) -> dict[str, Any]:
    """Return a condition with all the fields that the CRDs require."""
    since = condition.last_transition_time
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": format_instant(since) if since else None,
        "observedGeneration": condition.observed_generation,
    }


def _summary(conditions: list[Condition]) -> str:
    newest = sorted(
        conditions,
        key=lambda c: c.last_transition_time.timestamp() if c.last_transition_time else 0.0,
        reverse=True,
    )
    return ", ".join(f"{c.type}={c.status}" for c in newest)
