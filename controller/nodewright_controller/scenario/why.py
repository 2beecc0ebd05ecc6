"""Why one pod has its place, will get one, or gets none: the world as files, looked at once.

The verdict and every reason of every pool come from the solver's own explanation; this module adds
what a person asks next: what the pod needs, and what each running node lacks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.pods import (
    is_owned_by_daemon_set,
    is_provisionable,
    is_terminal,
    pod_requests,
)
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.cluster.volumes import VolumeCatalog, VolumeProblem
from nodewright_controller.constraints.host_ports import host_ports
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.constraints.taints import untolerated
from nodewright_controller.kernel.resources import Resources, human_amount
from nodewright_controller.scenario.provisioning import problem_of
from nodewright_controller.scenario.session import Session
from nodewright_controller.scheduling.decision import (
    Decision,
    Refusal,
    Unschedulable,
    message,
    next_step,
)
from nodewright_controller.scheduling.fixes import with_fixes
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.reasons import NOT_MEANT, Verdict
from nodewright_controller.scheduling.solver import solve

_PLACED: Final = "placed"
_COMING: Final = "coming"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """How many nodes would take the pod, and what the others lack."""

    fit: int
    total: int
    lacking: Mapping[str, int] = field(default_factory=dict)
    """What is in the way, to the number of nodes it is in the way of first; most frequent first."""
    nearest: str = ""
    """The node that lacks least of a resource, and how much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAnswer:
    """What one pool says."""

    name: str
    misses: tuple[str, ...] = ()
    """Empty: it can make a node for the pod."""
    meant: bool = True
    """Whether the pool is for pods like this at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodExplanation:
    """The answer to `why pod`."""

    pod: str
    verdict: str
    code: str
    line: str
    """All of it in one line."""
    checked: datetime
    needs: tuple[str, ...] = ()
    """Amounts first, then rules, one text each."""
    nodes: Fitting | None = None
    coming: Fitting | None = None
    pools: tuple[PoolAnswer, ...] = ()
    fixes: tuple[str, ...] = ()
    """Changes of which the solver has proven that each by itself places the pod."""
    following: str = ""
    """What is awaited, where something is; or that no small change helps."""


class NoSuchPod(Exception):
    """The world has no such pod; the message names those with like names."""


def explain_pod(session: Session, key: str) -> PodExplanation:
    """Explain a pod by `namespace/name`, or by its name where that is unique.

    Raises:
        NoSuchPod: there is none, or there are several.

    """
    pod = _find(session.world.pods, key)
    now = session.clock.now()
    if not is_provisionable(pod):
        return _not_asked(pod, now)
    problem = problem_of(session)
    decision = with_fixes(problem, solve(problem))
    refused = next(
        (one for one in (*decision.unschedulable, *decision.deferred) if one.pod == pod.key), None
    )
    if refused is None:
        return _placed(pod, decision, now)
    fixes = tuple(fix.text for fix in refused.fixes or ())
    answer = PodExplanation(
        pod=pod.key,
        verdict=str(refused.reason.verdict),
        code=refused.code,
        line=message(refused),
        checked=now,
        pools=_pool_answers(refused, problem),
        fixes=fixes,
        following=next_step(replace(refused, fixes=None) if fixes else refused),
    )
    try:
        return _with_detail(answer, pod, problem)
    except ValueError:
        return answer  # a pod that cannot be read; the line says what is wrong with it


def _with_detail(answer: PodExplanation, pod: Pod, problem: Problem) -> PodExplanation:
    running = [node for node in problem.nodes if node.node is not None]
    in_flight = [node for node in problem.nodes if node.node is None]
    return replace(
        answer,
        needs=tuple(_needs(pod, problem.volumes)),
        nodes=_fitting(pod, running, problem.volumes) if running else None,
        coming=_fitting(pod, in_flight, problem.volumes) if in_flight else None,
    )


def _find(pods: Iterable[Pod], key: str) -> Pod:
    listed = list(pods)
    found = [pod for pod in listed if key in (pod.key, pod.name)]
    exact = [pod for pod in found if pod.key == key]
    if len(exact) == 1 or len(found) == 1:
        return (exact or found)[0]
    if found:
        raise NoSuchPod(f"there are several pods {key}: {', '.join(pod.key for pod in found)}")
    stem = key.rpartition("/")[2][:4]
    near = [pod.key for pod in listed if pod.name.startswith(stem)][:5]
    hint = f"; there is {', '.join(near)}" if near else f" among the {len(listed)} pods"
    raise NoSuchPod(f"there is no pod {key}{hint}")


def _not_asked(pod: Pod, now: datetime) -> PodExplanation:
    verdict, cause = _standing(pod)
    return PodExplanation(
        pod=pod.key,
        verdict=verdict,
        code="",
        line=f"pod/{pod.key} {verdict}: {cause}",
        checked=now,
    )


def _standing(pod: Pod) -> tuple[str, str]:
    """Return verdict and cause of a pod that does not wait for a node."""
    if is_terminal(pod):
        return str(Verdict.NOT_OURS), f"it has ended ({pod.status.phase})"
    if pod.spec.node_name:
        return _PLACED, f"it is on node/{pod.spec.node_name}"
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return str(Verdict.HELD), f"scheduling gate {gates} is closed"
    if pod.status.nominated_node_name:
        return _COMING, f"it preempts others on node/{pod.status.nominated_node_name}"
    if is_owned_by_daemon_set(pod):
        return str(Verdict.NOT_OURS), "it belongs to a DaemonSet, which brings no nodes"
    if pod.deleting:
        return str(Verdict.NOT_OURS), "it is being deleted"
    return str(Verdict.HELD), "kube-scheduler has not said yet that it finds no place"


def _placed(pod: Pod, decision: Decision, now: datetime) -> PodExplanation:
    node = decision.placements.get(pod.key)
    if node is not None:
        verdict, cause = _PLACED, f"it fits on {node}"
    else:
        claim, verdict = decision.new_node(pod.key), _COMING
        sold = claim.cheapest
        what = f"{sold.instance_type} {sold.capacity_type} in {sold.zone}"
        others = len(claim.pods) - 1
        beside = f", with {others} other pods" if others else ""
        cause = f"pool {claim.node_pool} makes {what}, ${sold.usd_per_hour:.4f}/h{beside}"
    return PodExplanation(
        pod=pod.key, verdict=verdict, code="", line=f"pod/{pod.key} {verdict}: {cause}", checked=now
    )


# What it needs.


def _needs(pod: Pod, volumes: VolumeCatalog) -> Iterator[str]:
    amounts = pod_requests(pod)
    listed = [_amount(name, value) for name, value in amounts.items() if value and name != "pods"]
    yield " · ".join([*listed, "1 pod"])
    for alternative in _alternatives(pod):
        rules = [_rule(found) for found in alternative.values()]
        if rules:
            yield ", ".join(rules)
    found = volumes.resolve(pod)
    if not isinstance(found, VolumeProblem) and found.origin:
        places = " or ".join(
            ", ".join(_rule(rule) for rule in place.values()) for place in found.alternatives
        )
        yield f"{places}, because its volume claim {found.origin} is there"
    for port in host_ports(pod):
        yield f"host port {port}"
    for spread in pod.spec.topology_spread_constraints or ():
        soft = "" if spread.when_unsatisfiable == "DoNotSchedule" else " if possible"
        yield f"spread over {spread.topology_key}, skew at most {spread.max_skew}{soft}"


def _amount(name: str, value: int) -> str:
    return f"{human_amount(name, value)} {name}"


def _rule(requirement: Requirement) -> str:
    return str(requirement).replace("['", "").replace("']", "").replace("', '", ", ")


def _alternatives(pod: Pod) -> tuple[Requirements, ...]:
    """Return what the node must be by selector and required affinity; one of them will do."""
    selector = Requirements.of_labels(pod.spec.node_selector or {})
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None or affinity.required is None:
        return (selector,)
    terms = affinity.required.node_selector_terms or ()
    return tuple(
        selector.merged(Requirements.of_entries(term.match_expressions or ())) for term in terms
    )


# What nodes lack.


def _fitting(pod: Pod, nodes: Iterable[StateNode], volumes: VolumeCatalog) -> Fitting:
    counts: Counter[str] = Counter()
    total, fit, gaps = 0, 0, list[tuple[float, str, str]]()
    asked = pod_requests(pod)
    for node in nodes:
        total += 1
        lacks = _first_obstacle(pod, node, asked, volumes)
        if lacks:
            counts[lacks] += 1
            if lacks in asked:
                gaps.append(_gap(node, lacks, asked))
        else:
            fit += 1
    nearest = min(gaps, default=None)
    return Fitting(
        fit=fit,
        total=total,
        lacking=dict(sorted(counts.items(), key=lambda row: (-row[1], row[0]))),
        nearest=f"nearest {nearest[1]} lacks {nearest[2]}" if nearest else "",
    )


def _gap(node: StateNode, resource: str, asked: Resources) -> tuple[float, str, str]:
    missing = asked[resource] - node.available.get(resource, 0)
    return missing / asked[resource], node.name, _amount(resource, missing)


def _first_obstacle(pod: Pod, node: StateNode, asked: Resources, volumes: VolumeCatalog) -> str:
    """Return the first thing on the node that is in the pod's way; empty when nothing here is."""
    for taint in untolerated(pod.spec.tolerations or (), node.taints):
        return f"taint {taint.key}"
    labels = Requirements.of_labels(node.labels)
    wrong = [_mismatch(labels, alternative) for alternative in _alternatives(pod)]
    if wrong and all(wrong):
        return min(wrong, key=len)
    found = volumes.resolve(pod)
    if not isinstance(found, VolumeProblem) and not any(
        labels.compatible(place) for place in found.alternatives
    ):
        return "volume zone"
    taken = [port for other in node.pods for port in host_ports(other)]
    if any(port.conflicts(used) for port in host_ports(pod) for used in taken):
        return "host port"
    short = [name for name, value in asked.items() if value > node.available.get(name, 0)]
    return short[0] if short else ""


def _mismatch(labels: Requirements, asked: Requirements) -> str:
    keys = (*labels.undefined(asked), *labels.intersect_conflicts(asked))
    return keys[0].rpartition("/")[2] if keys else ""


# What pools say.


def _pool_answers(refused: Unschedulable, problem: Problem) -> tuple[PoolAnswer, ...]:
    by_pool: dict[str, list[Refusal]] = {}
    for refusal in refused.refusals:
        if refusal.node_pool:
            by_pool.setdefault(refusal.node_pool, []).append(refusal)
    return tuple(
        PoolAnswer(
            name=name,
            misses=tuple(dict.fromkeys(refusal.text for refusal in found)),
            meant=not any(refusal.reason in NOT_MEANT for refusal in found),
        )
        for name, found in by_pool.items()
    ) or tuple(PoolAnswer(name=offer.node_pool.name) for offer in problem.node_pools)
