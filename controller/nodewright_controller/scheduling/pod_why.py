"""How it stands with one pod, explained: the same function for a running cluster and for files.

Two steps. `standing` answers from the pod and the claim that was made for it, where these say enough;
`decided` answers from what the solver decided. Both only put values together: who keeps count of the
time, and how often a round came to the same code, is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import msgspec

from nodewright_controller.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from nodewright_controller.api.meta import condition
from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.pods import (
    is_mirror,
    is_owned_by_daemon_set,
    is_provisionable,
    is_terminal,
)
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.scheduling.decision import (
    Decision,
    Fix,
    Refusal,
    Unschedulable,
    message,
    next_step,
)
from nodewright_controller.scheduling.explanations import PodExplanation, PoolAnswer, one_line
from nodewright_controller.scheduling.fixes import DEFAULT_BUDGET, with_fixes
from nodewright_controller.scheduling.node_fit import fitting, needs
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.reasons import AWAITED, NOT_MEANT, Reason

SETTLING: Final = timedelta(seconds=20)
"""How long kube-scheduler may take to use a node that has become ready."""

KnownFixes = Callable[[Unschedulable], tuple[Fix, ...] | None]


def standing(pod: Pod, now: datetime, claim: StateNode | None = None) -> PodExplanation | None:
    """Return the answer where pod and claim say enough; None when the solver must be asked.

    `claim` is the node or claim in flight that was made for the pod, if there is one.
    """
    if is_provisionable(pod):
        if claim is None or _is_settled(claim, now):
            return None
        return _coming(pod, now, claim)
    reason, parameters = _own_standing(pod)
    told = _plain(pod, now, Refusal(reason=reason, parameters=parameters), _since(pod, reason))
    return msgspec.structs.replace(told, node=parameters.get("node", ""))


def _own_standing(pod: Pod) -> tuple[Reason, dict[str, str]]:
    """Return how it stands with a pod that asks for no new node."""
    if is_terminal(pod):
        return Reason.ENDED, {"phase": pod.status.phase}
    if pod.spec.node_name:
        return Reason.BOUND, {"node": pod.spec.node_name}
    if pod.deleting:
        return Reason.DELETING, {}
    if pod.spec.scheduling_gates:
        return Reason.GATED, {"gate": ", ".join(gate.name for gate in pod.spec.scheduling_gates)}
    if pod.status.nominated_node_name:
        return Reason.PREEMPTING, {"node": pod.status.nominated_node_name}
    if is_owned_by_daemon_set(pod) or is_mirror(pod):
        return Reason.DAEMON, {"owner": "a DaemonSet" if not is_mirror(pod) else "its node"}
    return Reason.NOT_TOLD, {}


def _since(pod: Pod, reason: Reason) -> datetime | None:
    """Return since when the pod has stood so, where it says so itself."""
    if reason is Reason.DELETING:
        return pod.metadata.deletion_timestamp
    scheduled = condition(pod.status.conditions, "PodScheduled")
    if reason in (Reason.BOUND, Reason.GATED) and scheduled is not None:
        return scheduled.last_transition_time
    return pod.metadata.creation_timestamp if reason is Reason.NOT_TOLD else None


def _is_settled(claim: StateNode, now: datetime) -> bool:
    """Whether the node has been ready for so long that it will not help the pod any more."""
    made = claim.node_claim
    if made is None or claim.marked_for_deletion:
        return True
    ready = condition(made.status.conditions, "Initialized")
    if ready is None or ready.status != "True":
        return False
    return ready.last_transition_time is None or now - ready.last_transition_time >= SETTLING


def _coming(pod: Pod, now: datetime, claim: StateNode) -> PodExplanation:
    """Answer for a pod whose claim is on its way."""
    made = claim.node_claim
    name = made.name if made is not None else claim.name
    stage, awaited = _stage(claim)
    refusal = Refusal(reason=Reason.CLAIM_COMING, parameters={"claim": name, "stage": stage})
    since = made.metadata.creation_timestamp if made is not None else None
    told = _plain(pod, now, refusal, since, awaited)
    node = claim.node.name if claim.node is not None else ""
    return msgspec.structs.replace(told, node_claim=name, node=node)


def _stage(claim: StateNode) -> tuple[str, str]:
    """Return how far a claim is, and what is awaited."""
    made = claim.node_claim
    if made is None or claim.initialized:
        return f"is node {claim.name}, which is ready", "when kube-scheduler binds it"
    if claim.registered:
        return f"is node {claim.name}, which is not ready yet", "when the node is ready"
    if claim.provider_id:
        kind, sold, zone = (made.labels.get(k, "") for k in (INSTANCE_TYPE, CAPACITY_TYPE, ZONE))
        return f"is {kind} {sold} in {zone} and has not joined yet", "when its node joins"
    named = len(Requirements.of_entries(made.spec.requirements).of(INSTANCE_TYPE).values)
    choice = f" as one of {named} instance types" if named > 1 else ""
    return f"is being launched{choice}", "when EC2 answers"


def decided(
    pod: Pod,
    problem: Problem,
    decision: Decision,
    *,
    known_fixes: KnownFixes = lambda _: None,
    budget: int = DEFAULT_BUDGET,
) -> PodExplanation:
    """Explain what the solver decided about a pod of the problem.

    `decision` is the solver's answer without fixes. Those that `known_fixes` has are shown, else
    they are looked for within `budget`, for this pod and its equals alone.
    """
    pod = next((one for one in problem.pods if one.key == pod.key), pod)
    refused = next(
        (one for one in (*decision.unschedulable, *decision.deferred) if one.pod == pod.key), None
    )
    if refused is None:
        return _placed(pod, problem, decision)
    refused = _with_fixes(refused, problem, decision, known_fixes(refused), budget)
    fixes = tuple(fix.text for fix in refused.fixes or ())
    answer = PodExplanation(
        pod=pod.key,
        verdict=str(refused.reason.verdict),
        code=refused.code,
        line=message(refused),
        as_of=_whole(problem.now),
        pools=_pool_answers(refused, problem),
        fixes=fixes,
        following=next_step(replace(refused, fixes=None) if fixes else refused),
    )
    try:
        return _with_detail(answer, pod, problem)
    except ValueError:
        return answer  # a pod that cannot be read; the line says what is wrong with it


def _with_fixes(
    refused: Unschedulable,
    problem: Problem,
    decision: Decision,
    known: tuple[Fix, ...] | None,
    budget: int,
) -> Unschedulable:
    if known is not None:
        return replace(refused, fixes=known)
    alike = tuple(
        one for one in decision.unschedulable if one.pod == refused.pod or one.like == refused.like
    )
    searched = with_fixes(problem, replace(decision, unschedulable=alike), budget)
    return next((one for one in searched.unschedulable if one.pod == refused.pod), refused)


def _with_detail(answer: PodExplanation, pod: Pod, problem: Problem) -> PodExplanation:
    running = [node for node in problem.nodes if node.node is not None]
    in_flight = [node for node in problem.nodes if node.node is None]
    return msgspec.structs.replace(
        answer,
        needs=tuple(needs(pod, problem.volumes)),
        nodes=fitting(pod, running, problem.volumes) if running else None,
        coming=fitting(pod, in_flight, problem.volumes) if in_flight else None,
    )


def _placed(pod: Pod, problem: Problem, decision: Decision) -> PodExplanation:
    """Answer for a pod that the round finds a place for."""
    name = decision.placements.get(pod.key)
    if name is not None:
        found = next((node for node in problem.nodes if node.name == name), None)
        if found is not None and found.managed and not found.initialized:
            return _coming(pod, problem.now, found)
        room = Refusal(reason=Reason.ROOM, parameters={"node": name})
        return msgspec.structs.replace(_plain(pod, problem.now, room), node=name)
    claim = decision.new_node(pod.key)
    sold = claim.cheapest
    what = f"{sold.instance_type} {sold.capacity_type} in {sold.zone}, ${sold.usd_per_hour:.4f}/h"
    others = len(claim.pods) - 1
    if others:
        what += f", with {others} other pod{'s' if others > 1 else ''}"
    parameters = {"pool": claim.node_pool, "what": what}
    return _plain(pod, problem.now, Refusal(reason=Reason.PLANNED, parameters=parameters))


def _plain(
    pod: Pod,
    now: datetime,
    refusal: Refusal,
    since: datetime | None = None,
    awaited: str = "",
) -> PodExplanation:
    """Return an answer that is all in its line."""
    reason = refusal.reason
    following = awaited or AWAITED.get(reason, "")
    return PodExplanation(
        pod=pod.key,
        verdict=str(reason.verdict),
        code=reason.code,
        line=one_line(
            f"pod/{pod.key}",
            str(reason.verdict),
            refusal.text,
            code=reason.code,
            following=following,
        ),
        as_of=_whole(now),
        since=since,
        following=following,
    )


def _pool_answers(refused: Unschedulable, problem: Problem) -> tuple[PoolAnswer, ...]:
    by_pool: dict[str, list[Refusal]] = {}
    for refusal in refused.refusals:
        if refusal.node_pool:
            by_pool.setdefault(refusal.node_pool, []).append(refusal)
    return tuple(
        PoolAnswer(
            name=name,
            misses=tuple(dict.fromkeys(refusal.text for refusal in found)),
            codes=tuple(dict.fromkeys(refusal.code for refusal in found)),
            meant=not any(refusal.reason in NOT_MEANT for refusal in found),
        )
        for name, found in by_pool.items()
    ) or tuple(PoolAnswer(name=offer.node_pool.name) for offer in problem.node_pools)


def _whole(now: datetime) -> datetime:
    return now.replace(microsecond=0)
