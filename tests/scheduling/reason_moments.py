"""How it stands with one pod at certain moments: an answer of the product for every reason of a pod.

Most come from the solver in the worlds of `reason_worlds`; the others from what the pod and the claim
that was made for it say. They are the examples of the reference too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Final

from nodewright_controller.api.pod import Pod, SchedulingGate
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.scheduling.explanations import PodExplanation
from nodewright_controller.scheduling.pod_why import decided, standing
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.solver import solve

from tests.builders import NOW, node_claim
from tests.scheduling.reason_worlds import NAME, WORLDS, B, cart


def judged(make: Callable[[], Problem]) -> PodExplanation:
    """Ask the solver about the pod."""
    problem = make()
    found = next(one for one in problem.pods if one.name == NAME)
    return decided(found, problem, solve(problem))


def stands(found: Pod, claim: StateNode | None = None) -> PodExplanation:
    """Ask the pod and its claim."""
    answer = standing(found, NOW, claim)
    assert answer is not None, "the solver has to be asked"
    return answer


def fresh() -> Pod:
    """Return the pod before kube-scheduler has looked at it."""
    made = cart()
    made.status.conditions = None
    return made


def gated() -> PodExplanation:
    """A quota controller has not let it in."""
    made = fresh()
    made.spec.scheduling_gates = [SchedulingGate(name="quota.example.com/admitted")]
    return stands(made)


def coming() -> PodExplanation:
    """Its instance starts."""
    made = node_claim("general-k2x4q", instance_type="m7g.large", capacity_type="spot", zone=B)
    return stands(cart(), StateNode(node_claim=made))


def preempting() -> PodExplanation:
    """kube-scheduler is emptying a place for it."""
    made = cart()
    made.status.nominated_node_name = "ip-10-0-3-7"
    return stands(made)


def ended() -> PodExplanation:
    """It is done."""
    made = cart()
    made.status.phase = "Succeeded"
    return stands(made)


def deleting() -> PodExplanation:
    """Somebody has deleted it."""
    made = cart()
    made.metadata.deletion_timestamp = NOW - timedelta(seconds=3)
    return stands(made)


EXAMPLES: Final[Mapping[Reason, Callable[[], PodExplanation]]] = {
    **{reason: partial(judged, make) for reason, make in WORLDS.items()},
    Reason.GATED: gated,
    Reason.CLAIM_COMING: coming,
    Reason.PREEMPTING: preempting,
    Reason.NOT_TOLD: lambda: stands(fresh()),
    Reason.BOUND: lambda: stands(cart(node="ip-10-0-3-7")),
    Reason.ENDED: ended,
    Reason.DELETING: deleting,
    Reason.DAEMON: lambda: stands(cart(owner="DaemonSet/cart")),
}
