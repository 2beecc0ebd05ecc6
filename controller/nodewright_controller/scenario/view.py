"""The outcome as seen from one moment: the whole run, or one round of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodewright_controller.scenario.outcome import LaunchPass, Outcome, Round


class NoSuchRound(Exception):
    """The expectation is about something that was never done; the message says what."""


@dataclass(frozen=True, slots=True)
class View:
    """What the checks look at."""

    outcome: Outcome
    number: int | None = None
    """The round that is looked at, from 1; None: the run as a whole."""

    def after_round(self, number: int) -> View:
        """Return the view of one round."""
        return replace(self, number=number)

    @property
    def first(self) -> Round:
        """The round in which claims are looked for: the first, unless one is named."""
        return self._round((self.number or 1) - 1)

    @property
    def last(self) -> Round:
        """The round in which pods stay pending: the last, unless one is named."""
        return self._round(-1 if self.number is None else self.number - 1)

    def _round(self, position: int) -> Round:
        rounds = self.outcome.rounds
        if not rounds or position >= len(rounds):
            shown = "any" if position < 0 else str(position + 1)
            raise NoSuchRound(f"there was no provisioning round {shown} (there were {len(rounds)})")
        return rounds[position]

    @property
    def launches(self) -> tuple[LaunchPass, ...]:
        """The launch steps that are looked at.

        Raises:
            NoSuchRound: there was none.

        """
        passes = self.outcome.launches
        chosen = passes if self.number is None else passes[self.number - 1 : self.number]
        if not chosen:
            raise NoSuchRound(f"there was no such launch step (there were {len(passes)})")
        return tuple(chosen)
