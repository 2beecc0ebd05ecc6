"""The step `provision`: one round of the real solver, and the claims that it leads to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import structs

from nodewright_controller.api import labels
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.filters import NoChoice
from nodewright_controller.cluster.snapshot import Snapshot
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import EMPTY
from nodewright_controller.scenario.buying import (
    Purchase,
    cheapest,
    choice_for,
)
from nodewright_controller.scenario.launching import launch_quietly
from nodewright_controller.scenario.outcome import ClaimView, OfferingKey, Refused, Round
from nodewright_controller.scenario.session import Session
from nodewright_controller.scheduling.claims import node_claim_from
from nodewright_controller.scheduling.decision import (
    Decision,
    PlannedClaim,
    Refusal,
    Unschedulable,
    message,
)
from nodewright_controller.scheduling.fixes import with_fixes
from nodewright_controller.scheduling.problem import Problem, problem_from
from nodewright_controller.scheduling.reasons import NOT_MEANT, Reason
from nodewright_controller.scheduling.solver import solve

_OFFERED_KEYS: Final = (labels.ZONE, labels.ZONE_ID, labels.CAPACITY_TYPE)


def problem_of(session: Session) -> Problem:
    """Return the question that the next round asks."""
    return _question(session, session.cluster.snapshot(session.clock.now()))


def _question(session: Session, snapshot: Snapshot) -> Problem:
    return problem_from(
        snapshot,
        session.offers(),
        session.options.solver,
        barred=session.guard.bars(snapshot),
    )


def provision(session: Session) -> None:
    """Take one round; what earlier rounds asked for is launched first."""
    launch_quietly(session)
    if session.unlaunched:
        _wait(session)
        return
    snapshot = session.cluster.snapshot(session.clock.now())
    problem = _question(session, snapshot)
    decision = with_fixes(problem, solve(problem))
    views = tuple(_create(session, planned) for planned in decision.new_claims)
    after = session.cluster.snapshot(session.clock.now())
    session.outcome.rounds.append(
        Round(
            claims=views,
            nominations=_nominations(decision),
            aliases=_aliases(snapshot),
            pending=_pending(decision),
            zones_of_pods=_zones_of_pods(views),
            total_node_claims=sum(1 for node in after.nodes if node.node_claim is not None),
        )
    )


def _wait(session: Session) -> None:
    """Take a round in which nothing is planned: what a claim will be is not known before its launch."""
    names = ", ".join(session.unlaunched)
    session.outcome.warnings.append(f"nothing is planned before NodeClaim {names} is launched")
    after = session.cluster.snapshot(session.clock.now())
    before = session.outcome.rounds[-1:]
    session.outcome.rounds.append(
        Round(
            pending=before[0].pending if before else (),
            total_node_claims=sum(1 for node in after.nodes if node.node_claim is not None),
        )
    )


def _create(session: Session, planned: PlannedClaim) -> ClaimView:
    pool = session.node_pools[planned.node_pool]
    session.made += 1
    wanted = node_claim_from(planned, pool)
    name = f"{pool.name}-{session.made}"
    metadata = structs.replace(
        wanted.metadata,
        name=name,
        generate_name="",
        uid=f"NodeClaim/{name}",
        creation_timestamp=session.clock.now(),
    )
    claim = structs.replace(wanted, metadata=metadata)
    session.cluster.apply_node_claim(claim)
    session.unlaunched[name] = claim
    session.guard.bought(name, pool.name, planned.pods)
    return _view(session, planned, claim)


def _view(session: Session, planned: PlannedClaim, claim: NodeClaim) -> ClaimView:
    choice = choice_for(session, claim)
    purchase: Purchase | None = None
    offered: frozenset[OfferingKey] = frozenset()
    if isinstance(choice, NoChoice):
        session.outcome.warnings.append(f"NodeClaim {claim.name} cannot launch: {choice.because}")
    else:
        purchase = cheapest(choice)
        offered = frozenset(
            (found.instance_type.name, offering.zone, offering.capacity_type)
            for found in choice.candidates
            for offering in found.offerings
        )
    requirements = Requirements.of_entries(claim.spec.requirements)
    plan, sold = planned.cheapest, purchase and purchase.offering
    return ClaimView(
        name=claim.name,
        node_pool=planned.node_pool,
        pods=planned.pods,
        instance_type=purchase.instance_type.name if purchase else plan.instance_type,
        zone=sold.zone if sold else plan.zone,
        capacity_type=sold.capacity_type if sold else plan.capacity_type,
        usd_per_hour=sold.usd_per_hour if sold else plan.usd_per_hour,
        instance_types=planned.instance_types,
        labels={**requirements.labels(), **claim.labels},
        daemon_overhead=planned.daemon_overhead,
        allocatable=purchase.instance_type.allocatable if purchase else EMPTY,
        offered=offered,
    )


def _nominations(decision: Decision) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for pod, node in decision.placements.items():
        found.setdefault(node, []).append(pod)
    return {node: tuple(sorted(pods)) for node, pods in sorted(found.items())}


def _aliases(snapshot: Snapshot) -> Mapping[str, str]:
    return {
        node.node_claim.name: node.name for node in snapshot.nodes if node.node_claim is not None
    }


def _zones_of_pods(views: Iterable[ClaimView]) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for view in views:
        counts[view.zone] += len(view.pods)
    return dict(sorted(counts.items()))


# What a person is told about a pod.


def _pending(decision: Decision) -> tuple[Refused, ...]:
    found = [_refused(one) for one in (*decision.unschedulable, *decision.deferred)]
    return tuple(sorted(found, key=lambda one: one.pod))


def _refused(unschedulable: Unschedulable) -> Refused:
    text = message(unschedulable)
    return Refused(
        pod=unschedulable.pod,
        kind=words_for(unschedulable.refusals[0])[0],
        kinds=frozenset(_nearest_kinds(unschedulable.refusals)),
        text=text,
        event=f"Failed to schedule pod, {text}",
    )


def _nearest_kinds(refusals: Iterable[Refusal]) -> Iterable[str]:
    """Yield the kinds of the foremost pool, and of pools that miss by no more checks than it."""
    by_pool: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        by_pool.setdefault(refusal.node_pool, []).append(refusal)
    foremost = next(iter(by_pool))
    least, meant = len(by_pool[foremost]), not _is_apart(by_pool[foremost])
    for pool, found in by_pool.items():
        near = len(found) <= least and not (meant and _is_apart(found))
        if pool == foremost or near:
            for refusal in found:
                yield from words_for(refusal)


def _is_apart(refusals: Iterable[Refusal]) -> bool:
    """Whether the pool was never meant for the pod."""
    return any(refusal.reason in NOT_MEANT for refusal in refusals)


def words_for(refusal: Refusal) -> tuple[str, ...]:
    """Return the error kinds that a refusal counts as: its own, then wider ones.

    The vocabulary has no words of its own for label conflicts: what is refused because of where or
    how something is sold counts as `no-offering`, what no machine is, as `no-instance-type-fits`,
    and what other pods forbid, as `topology-spread`.
    """
    kinds = [refusal.reason.kind]
    match refusal.reason:
        case Reason.CONFLICT:
            placed = refusal.parameters.get("key") in _OFFERED_KEYS
            kinds.append("no-offering" if placed else "no-instance-type-fits")
        case Reason.VOLUME_PLACE:
            kinds.append("no-offering")
        case Reason.MIN_VALUES | Reason.ATTACH_LIMIT:
            kinds.append("no-instance-type-fits")
        case Reason.ANTI_AFFINITY | Reason.AFFINITY:
            kinds.append("topology-spread")
        case _:
            pass
    return tuple(kinds)
