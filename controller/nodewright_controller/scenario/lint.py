"""Pools that are valid and yet hardly what their owner meant: what deserves a warning.

One sentence each, beginning with the pool's name; nothing here forbids anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from nodewright_controller.api.labels import GROUP, INSTANCE_TYPE, WELL_KNOWN, ZONE
from nodewright_controller.api.nodepool import Budget, NodePool
from nodewright_controller.api.validation import validate_nodepool
from nodewright_controller.constraints.requirement import Operator
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.constraints.taints import format_taint, is_ephemeral, same_taint
from nodewright_controller.disruption.budgets import applies
from nodewright_controller.kernel.timing import parse_duration
from nodewright_controller.scenario.checking import BUDGETED
from nodewright_controller.scenario.readiness import node_class_problem
from nodewright_controller.scenario.session import Session

_DAYS: Final = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_FULL_WEEK: Final = "*"


def pool_warnings(session: Session) -> Iterator[str]:
    """Yield what keeps a pool or class, or a part of it, from ever launching a node."""
    for node_class in session.world.node_classes:
        problem = node_class_problem(node_class)
        if problem:
            yield problem
    for pool in session.world.node_pools:
        yield from (f"NodePool {pool.name}: {text}" for text in validate_nodepool(pool))
        try:
            stated = Requirements.of_entries(pool.spec.template.spec.requirements)
        except ValueError:
            continue  # validation has named what is malformed
        yield from _unreachable_zones(session, pool, stated)
        yield from _unknown_types(session, pool, stated)


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


def opt_in_lint(session: Session) -> Iterator[str]:
    """Yield requirements that look as if they kept other pods out, which only a taint does."""
    for pool in session.world.node_pools:
        for entry in pool.spec.template.spec.requirements:
            if entry.operator == Operator.EXISTS and entry.key not in WELL_KNOWN:
                yield (
                    f"NodePool {pool.name}: requirement {entry.key} Exists does not keep other "
                    "pods out; use a taint"
                )


def startup_taint_lint(session: Session) -> Iterator[str]:
    """Yield taints of starting nodes that hold pods off and that nobody declared."""
    for node in session.cluster.snapshot(session.clock.now()).nodes:
        claim = node.node_claim
        if node.node is None or claim is None or node.initialized:
            continue
        declared = [*(claim.spec.taints or ()), *(claim.spec.startup_taints or ())]
        for taint in node.node.spec.taints or ():
            ours = taint.key.startswith(f"{GROUP}/") or is_ephemeral(taint)
            soft = taint.effect == "PreferNoSchedule"
            if not ours and not soft and not any(same_taint(taint, known) for known in declared):
                yield (
                    f"NodePool {node.node_pool_name}: node {node.name} starts with taint "
                    f"{format_taint(taint)}, which is not among startupTaints"
                )


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
