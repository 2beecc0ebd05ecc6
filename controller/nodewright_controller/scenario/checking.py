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
from nodewright_controller.constraints.overlay import read_overlay
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
    """Look at every pool, class, claim and overlay: what the API server says, then what we say.

    What is wrong is kept by `Kind/name`, and by the name alone.
    """
    world, found = session.world, session.outcome.validation
    problems: dict[str, list[str]] = {key: list(texts) for key, texts in world.refused.items()}
    for pool in world.node_pools:
        problems.setdefault(f"NodePool/{pool.name}", []).extend(validate_nodepool(pool))
    for claim in world.node_claims:
        problems.setdefault(f"NodeClaim/{claim.name}", []).extend(validate_node_claim(claim))
    for node_class in world.node_classes:
        named = problems.setdefault(f"EC2NodeClass/{node_class.name}", [])
        named.extend(_class_problems(node_class))
    for overlay in world.node_overlays:
        named = problems.setdefault(f"NodeOverlay/{overlay.name}", [])
        try:
            read_overlay(overlay)
        except ValueError as error:
            named.append(str(error))
    for key, texts in problems.items():
        name = key.partition("/")[2]
        found[name] = tuple(dict.fromkeys((*found.get(name, ()), *texts)))
        session.outcome.by_kind[key] = tuple(dict.fromkeys(texts))


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
