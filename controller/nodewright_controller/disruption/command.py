"""What a disruption method decides: which nodes go, and what must come first."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from nodewright_controller.disruption.candidates import Candidate
from nodewright_controller.disruption.reasons import DisruptionReason
from nodewright_controller.scheduling.decision import PlannedClaim


class Action(enum.StrEnum):
    """What a command does; these are metric values."""

    DELETE = "delete"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Nodes to remove, after their replacements are there."""

    reason: DisruptionReason
    candidates: tuple[Candidate, ...]
    replacements: tuple[PlannedClaim, ...] = ()
    consolidation_type: str = ""
    """`empty`, `multi`, `single` or empty: a metric value."""

    @property
    def action(self) -> Action:
        """Whether anything must be launched first."""
        return Action.REPLACE if self.replacements else Action.DELETE

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the nodes that go."""
        return tuple(candidate.name for candidate in self.candidates)
