"""Schedules of disruption budgets: five cron fields or `@daily` and its like, in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from cronsim import CronSim, CronSimError

_MACROS: Final = {
    "@annually": "0 0 1 1 *",
    "@yearly": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DAY_SEVEN: Final = re.compile(r"(?<![/\d])[7-9](?!\d)")


def check_schedule(schedule: str) -> None:
    """Check a schedule.

    Raises:
        ValueError: it cannot be read; the message names it.
    """
    next_hit(schedule, datetime(2024, 1, 1, tzinfo=UTC))


def next_hit(schedule: str, after: datetime) -> datetime:
    """Return the first time of the schedule that is later than `after`.

    Raises:
        ValueError: the schedule cannot be read, or never comes (such as 31 February).
    """
    fields = _MACROS.get(schedule.strip(), schedule)
    if len(fields.split()) != 5:
        raise ValueError(f"schedule {schedule!r} must have 5 fields or be one of {list(_MACROS)}")
    # Upstream's parser knows the days 0 to 6 only; what it refuses must not mean something here.
    if _DAY_SEVEN.search(fields.split()[4]):
        raise ValueError(f"schedule {schedule!r} cannot be read: days of the week are 0 to 6")
    try:
        return next(CronSim(fields, after.astimezone(UTC)))
    except CronSimError as error:
        raise ValueError(f"schedule {schedule!r} cannot be read: {error}") from error
    except StopIteration:
        raise ValueError(f"schedule {schedule!r} never comes") from None


def is_active(schedule: str, duration: timedelta, now: datetime) -> bool:
    """Whether a window that opened on schedule is still open.

    Raises:
        ValueError: the schedule cannot be read.
    """
    return next_hit(schedule, now - duration) <= now
