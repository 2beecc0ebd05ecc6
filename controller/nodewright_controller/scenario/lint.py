"""Pools that are valid and yet hardly what their owner meant: what deserves a warning.

One sentence each, beginning with the pool's name; nothing here forbids anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from nodewright_controller.api.labels import INSTANCE_TYPE, NODEPOOL, ZONE
from nodewright_controller.api.nodepool import Budget, NodePool
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.disruption.budgets import applies
from nodewright_controller.kernel.timing import parse_duration
from nodewright_controller.scenario.checking import BUDGETED
from nodewright_controller.scenario.session import Session

_DAYS: Final = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_FULL_WEEK: Final = "*"


def pool_warnings(session: Session) -> Iterator[str]:
    """Yield what makes a pool, or part of it, unable to ever launch a node."""
    for pool in session.world.node_pools:
        try:
            stated = Requirements.of_entries(pool.spec.template.spec.requirements)
        except ValueError:
            continue  # validation names what is malformed
        yield from _unreachable_zones(session, pool, stated)
        yield from _unknown_types(session, pool, stated)
        if pool.labels.get(NODEPOOL):
            yield f"NodePool {pool.name}: metadata.labels[{NODEPOOL}]: has no meaning on a NodePool"


def _unreachable_zones(session: Session, pool: NodePool, stated: Requirements) -> Iterator[str]:
    node_class = session.node_class_of(pool)
    if ZONE not in stated or node_class is None or node_class.status.subnets is None:
        return
    asked, here = stated.of(ZONE), {found.zone for found in node_class.status.subnets}
    if asked.complement:
        return
    for zone in sorted(asked.values - here):
        yield (
            f"NodePool {pool.name}: zone {zone} matches no subnet of EC2NodeClass {node_class.name}"
        )


def _unknown_types(session: Session, pool: NodePool, stated: Requirements) -> Iterator[str]:
    asked = stated.of(INSTANCE_TYPE)
    if asked.complement or not session.world.catalog:
        return
    for name in sorted(asked.values - {entry.name for entry in session.world.catalog}):
        yield f"NodePool {pool.name}: instance type {name} does not exist"


def budget_lint(session: Session) -> Iterator[str]:
    """Yield the reasons of each pool that no budget limits, always or outside its windows."""
    for pool in session.world.node_pools:
        budgets = pool.spec.disruption.budgets or []
        gaps: dict[str, list[str]] = {}
        for reason in BUDGETED:
            covering = [budget for budget in budgets if applies(budget, reason)]
            if any(budget.schedule is None for budget in covering):
                continue
            windows = ", ".join(window_text(budget) for budget in covering)
            gaps.setdefault(windows, []).append(reason.value)
        for windows, reasons in sorted(gaps.items()):
            outside = f" outside {windows}" if windows else ""
            word = "reason" if len(reasons) == 1 else "reasons"
            verb = "has" if len(reasons) == 1 else "have"
            yield f"{pool.name}: {word} {', '.join(reasons)} {verb} no budget{outside}"


def window_text(budget: Budget) -> str:
    """Return when a budget applies, as people write it: `Mon 01:00-05:00`; else its schedule."""
    schedule, duration = budget.schedule or "", budget.duration or ""
    fields = schedule.split()
    plain = len(fields) == 5 and fields[0].isdigit() and fields[1].isdigit()
    if not plain or fields[2] != _FULL_WEEK or fields[3] != _FULL_WEEK:
        return f"{schedule} for {duration}"
    try:
        minutes = int(parse_duration(duration).total_seconds()) // 60
    except ValueError:
        return f"{schedule} for {duration}"
    start = int(fields[1]) * 60 + int(fields[0])
    span = f"{_clock(start)}-{_clock(start + minutes)}"
    if minutes > 24 * 60:
        return f"{schedule} for {duration}"
    days = _days_text(fields[4])
    return f"{days} {span}".strip()


def _clock(minutes: int) -> str:
    hours, rest = divmod(minutes, 60)
    return f"{hours % 24:02d}:{rest:02d}"


def _days_text(field: str) -> str:
    if field == _FULL_WEEK:
        return ""
    return re.sub(
        r"[0-7]|[A-Za-z]{3}",
        lambda found: (
            _DAYS[int(found.group(0)) % 7] if found.group(0).isdigit() else found.group(0).title()
        ),
        field,
    )
