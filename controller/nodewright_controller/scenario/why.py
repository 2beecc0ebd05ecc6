"""Why a pod has its place or none, and why a claim is of its type: the world as files, looked at once.

The answers are those of a running controller: the same solver and the same functions
(`scheduling.pod_why`, `scheduling.type_choice`) on the world's cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.pod import Pod
from nodewright_controller.aws.filters import Choice, NoChoice
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.scenario.buying import choice_for
from nodewright_controller.scenario.launching import launch_quietly
from nodewright_controller.scenario.provisioning import problem_of
from nodewright_controller.scenario.session import Session
from nodewright_controller.scheduling.claims import node_claim_from
from nodewright_controller.scheduling.decision import Offer, PlannedClaim
from nodewright_controller.scheduling.explanations import PodExplanation, TypeExplanation
from nodewright_controller.scheduling.hints import names_like
from nodewright_controller.scheduling.lighter_pools import LighterPools
from nodewright_controller.scheduling.pod_why import decided, standing
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.solver import solve
from nodewright_controller.scheduling.type_choice import (
    explain_type,
    replayed_type,
    with_detail,
)
from nodewright_controller.scheduling.type_plan import Stock, plan_of


class NoSuchSubject(Exception):
    """The world has no such pod or claim; the message names those with like names."""


def explain_pod(session: Session, key: str) -> PodExplanation:
    """Explain a pod by `namespace/name`, or by its name where that is unique.

    Raises:
        NoSuchSubject: there is none, or there are several.

    """
    pod = _find(session.world.pods, key)
    answer = standing(pod, session.clock.now())
    if answer is not None:
        return answer
    problem = problem_of(session)
    return decided(pod, problem, solve(problem))


def _find(pods: Iterable[Pod], key: str) -> Pod:
    listed = list(pods)
    found = [pod for pod in listed if key in (pod.key, pod.name)]
    exact = [pod for pod in found if pod.key == key]
    if len(exact) == 1 or len(found) == 1:
        return (exact or found)[0]
    if found:
        raise NoSuchSubject(f"there are several pods {key}: {', '.join(pod.key for pod in found)}")
    near = names_like(key, (pod.key for pod in listed))
    hint = f"; there is {', '.join(near)}" if near else f" among the {len(listed)} pods"
    raise NoSuchSubject(f"there is no pod {key}{hint}")


def explain_claim(session: Session, name: str) -> TypeExplanation:
    """Explain the type of a claim of the world, or of one that the next round makes.

    The latter have the names that `nodewright scenario run` shows: the pool's, and a number.

    Raises:
        NoSuchSubject: there is no such claim, or nothing can be bought for it.

    """
    launch_quietly(session)
    snapshot = session.cluster.snapshot(session.clock.now())
    made = {node.node_claim.name: node.node_claim for node in snapshot.nodes if node.node_claim}
    if name in made:
        return _replayed(session, made[name])
    problem = problem_of(session)
    planned = {
        f"{one.node_pool}-{session.made + number}": one
        for number, one in enumerate(solve(problem).new_claims, start=1)
    }
    if name not in planned:
        known = ", ".join([*sorted(made), *planned]) or "none at all"
        raise NoSuchSubject(f"there is no NodeClaim {name}; there is {known}")
    return _planned(session, name, planned[name], problem)


def _replayed(session: Session, claim: NodeClaim) -> TypeExplanation:
    try:
        found = replayed_type(claim, session.types_of(claim), session.clock.now())
    except ValueError as error:
        raise NoSuchSubject(f"NodeClaim {claim.name}: {error}") from error
    if found is None:
        raise NoSuchSubject(f"NodeClaim {claim.name}: nothing that it allows can be had now")
    return found


def _planned(
    session: Session, name: str, planned: PlannedClaim, problem: Problem
) -> TypeExplanation:
    pool = session.node_pools[planned.node_pool]
    wanted = node_claim_from(planned, pool)
    claim = structs.replace(wanted, metadata=structs.replace(wanted.metadata, name=name))
    types = _types(problem, planned.node_pool)
    plan = plan_of(planned, Stock(types), LighterPools(problem).cheaper(planned))
    choice = choice_for(session, claim)
    found = explain_type(name, plan, None, session.clock.now(), offers=_offers(choice))
    return with_detail(found, claim, types)


def _types(problem: Problem, pool: str) -> tuple[InstanceType, ...]:
    return next(o.instance_types for o in problem.node_pools if o.node_pool.name == pool)


def _offers(choice: Choice | NoChoice) -> tuple[Offer, ...]:
    """Return what a launch would offer to EC2."""
    if isinstance(choice, NoChoice):
        return ()
    return tuple(
        Offer(
            instance_type=found.instance_type.name,
            zone=offering.zone,
            capacity_type=offering.capacity_type,
            usd_per_hour=offering.usd_per_hour,
        )
        for found in choice.candidates
        for offering in found.offerings
    )
