"""The steps `validate` and `budgets`: what is wrong with objects, and how many nodes may go when."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.validation import (
    validate_node_claim,
    validate_node_class,
    validate_nodepool,
)
from nodewright_controller.aws.validation import problem_in_text
from nodewright_controller.disruption.budgets import allowance
from nodewright_controller.disruption.reasons import DisruptionReason
from nodewright_controller.kernel.timing import format_instant
from nodewright_controller.scenario.session import Session

BUDGETED: Final = (
    DisruptionReason.DRIFTED,
    DisruptionReason.EMPTY,
    DisruptionReason.UNDERUTILIZED,
)


def validate(session: Session) -> None:
    """Look at every pool, class and claim; what is wrong is kept by the object's name."""
    world, found = session.world, session.outcome.validation
    for pool in world.node_pools:
        found[pool.name] = tuple(validate_nodepool(pool))
    for claim in world.node_claims:
        found[claim.name] = tuple(validate_node_claim(claim))
    for node_class in world.node_classes:
        found[node_class.name] = tuple(_class_problems(node_class))


def _class_problems(node_class: EC2NodeClass) -> Iterator[str]:
    yield from validate_node_class(node_class)
    try:
        found = problem_in_text(node_class)
    except ValueError as error:
        yield str(error)
        return
    if found is not None:
        yield f"{found.reason}: {found.message}"


def budgets(session: Session) -> None:
    """Ask every pool's budgets at every instant of the scenario."""
    validate(session)
    scenario = session.world.scenario
    for at in scenario.evaluate_at or (session.clock.now(),):
        snapshot = session.cluster.snapshot(at)
        for pool in session.world.node_pools:
            counts = {}
            for reason in BUDGETED:
                found = allowance(pool, snapshot.nodes, reason, at)
                # Where nothing limits a reason, every node of the pool may go.
                counts[reason.value] = min(found.allowed, found.total - found.disrupting)
            by_instant = session.outcome.allowed.setdefault(pool.name, {})
            by_instant[_text(at)] = counts


def _text(instant: datetime) -> str:
    return format_instant(instant)
