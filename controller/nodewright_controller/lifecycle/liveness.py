"""A NodeClaim that does not come to life in time is given up.

Upstream: pkg/controllers/nodeclaim/lifecycle/liveness.go.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from nodewright_controller.api.conditions import Conditions

LAUNCH_TIMEOUT: Final = timedelta(minutes=5)
REGISTRATION_TIMEOUT: Final = timedelta(minutes=15)


class GivenUp(enum.StrEnum):
    """Why a claim was given up; these are metric reasons."""

    LAUNCH = "launch_timeout"
    REGISTRATION = "registration_timeout"


@dataclass(frozen=True, slots=True)
class Alive:
    """The claim may go on; `check_after` is when the next deadline falls due, if any."""

    check_after: timedelta | None


def liveness(conditions: Conditions, now: datetime) -> Alive | GivenUp:
    """Decide whether the claim still has time.

    Deadlines count from the transition time of the pending condition, which is the claim's creation.
    """
    for type_, limit, reason in (
        ("Launched", LAUNCH_TIMEOUT, GivenUp.LAUNCH),
        ("Registered", REGISTRATION_TIMEOUT, GivenUp.REGISTRATION),
    ):
        if conditions.is_true(type_):
            continue
        left = conditions.transition_time(type_) + limit - now
        return reason if left <= timedelta() else Alive(left)
    return Alive(None)
