"""A scenario, step by step, through the controller's own decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from nodewright_controller.scenario.checking import budgets, validate
from nodewright_controller.scenario.launching import launch
from nodewright_controller.scenario.lint import (
    budget_lint,
    opt_in_lint,
    pool_warnings,
    startup_taint_lint,
)
from nodewright_controller.scenario.outcome import Outcome
from nodewright_controller.scenario.provisioning import provision
from nodewright_controller.scenario.session import Session, open_session
from nodewright_controller.scenario.values import World

BETWEEN_STEPS: Final = timedelta(seconds=1)
"""The time that passes from one step to the next."""

STEPS: Final[Mapping[str, Callable[[Session], None]]] = {
    "provision": provision,
    "launch": launch,
    "validate": validate,
    "budgets": budgets,
}
PLANNED: Final = frozenset({"consolidate", "drift", "interruption", "terminate"})
"""Steps of the vocabulary that no decision code stands behind yet."""


def run(world: World, expected: Mapping[str, Any] | None = None) -> Outcome:
    """Take every step of the world's scenario and return what happened.

    Rounds of provisioning that only the expected outcome asks for (`afterRounds`) are added at the
    end. After a step that the runner cannot take, those that follow it are left out as well, since
    they would start from a world that never was.
    """
    session = open_session(world)
    outcome = session.outcome
    outcome.warnings.extend(pool_warnings(session))
    for look in (opt_in_lint, startup_taint_lint, budget_lint):
        outcome.lint.extend(look(session))
    for position, name in enumerate(world.scenario.steps):
        step = STEPS.get(name)
        if step is None:
            outcome.missing_steps.append(name)
            break
        if position:
            session.clock.advance(BETWEEN_STEPS)
        step(session)
    if not outcome.missing_steps:
        for _ in range(rounds_wanted(expected) - len(outcome.rounds)):
            session.clock.advance(BETWEEN_STEPS)
            provision(session)
    return outcome


def rounds_wanted(expected: Mapping[str, Any] | None) -> int:
    """Return the highest round that an expected outcome names."""
    after = (expected or {}).get("afterRounds")
    if not isinstance(after, Mapping):
        return 0
    return max((int(key) for key in map(str, after) if key.isdigit()), default=0)


def missing_step_text(name: str) -> str:
    """Return the sentence for a step that cannot be taken."""
    if name in PLANNED:
        return f"step {name!r} is not there yet"
    return f"step {name!r} is not known; there are {', '.join(sorted({*STEPS, *PLANNED}))}"
