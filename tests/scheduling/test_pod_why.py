"""How it stands with a pod: what it, its claim and the solver say, in one answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from nodewright_controller.api.meta import Condition
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.pod import Pod, SchedulingGate
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.scheduling.claims import node_claim_from
from nodewright_controller.scheduling.decision import message
from nodewright_controller.scheduling.explanations import PodExplanation
from nodewright_controller.scheduling.fixes import with_fixes
from nodewright_controller.scheduling.pod_why import decided, standing
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.solver import solve
from nodewright_controller.scheduling.why_text import as_tree

from tests.builders import NOW, instance_type, node, node_claim, nodepool, pod, world


def unjudged(name: str = "web") -> Pod:
    """Return a pod of which kube-scheduler has not said anything."""
    made = pod(name)
    made.status.conditions = None
    return made


def ask(problem: Problem, name: str = "web") -> PodExplanation:
    found = next(one for one in problem.pods if one.name == name)
    return decided(found, problem, solve(problem))


def own(found: Pod, claim: StateNode | None = None) -> PodExplanation:
    answer = standing(found, NOW, claim)
    assert answer is not None
    return answer


# What the pod says by itself.


def test_a_pod_with_a_node_is_placed_since_it_was_bound() -> None:
    bound = pod("web", node="n1")
    since = NOW - timedelta(minutes=5)
    bound.status.conditions = [
        Condition(type="PodScheduled", status="True", last_transition_time=since)
    ]

    answer = own(bound)

    assert answer.line == "pod/default/web placed: it is on node/n1  [P511]"
    assert (answer.node, answer.since) == ("n1", since)
    assert next(as_tree(answer)) == "placed for 5m0s · checked 2030-01-02T10:00:00Z  [P511]"


def test_a_gate_holds_a_pod() -> None:
    gated = unjudged()
    gated.spec.scheduling_gates = [SchedulingGate(name="quota")]

    assert own(gated).line == (
        "pod/default/web held: scheduling gate quota is closed → when the gate is gone  [P503]"
    )


def test_a_pod_that_kube_scheduler_has_not_judged_is_held() -> None:
    assert (own(unjudged()).verdict, own(unjudged()).code) == ("held", "P510")


@pytest.mark.parametrize(
    ("phase", "owner", "code"),
    [("Succeeded", "", "P512"), ("Pending", "DaemonSet/agent", "P514")],
)
def test_what_needs_no_node_of_ours_is_not_ours(phase: str, owner: str, code: str) -> None:
    found = pod("web", owner=owner or "ReplicaSet")
    found.status.phase = phase

    assert (own(found).verdict, own(found).code) == ("not ours", code)


def test_a_pod_that_is_being_deleted_is_not_ours_since_then() -> None:
    found = pod("web")
    found.metadata.deletion_timestamp = NOW - timedelta(seconds=3)

    assert (own(found).code, own(found).since) == ("P513", NOW - timedelta(seconds=3))


def test_a_pod_that_preempts_others_is_coming() -> None:
    found = pod("web")
    found.status.nominated_node_name = "n1"

    assert "coming: it preempts others on node/n1" in own(found).line


# What its claim says.


def unlaunched() -> NodeClaim:
    problem = world(nodepool(), instance_type("m7g.large"), instance_type("m7i.large"), pod("web"))
    (planned,) = solve(problem).new_claims
    made = node_claim_from(planned, nodepool())
    metadata = msgspec.structs.replace(
        made.metadata, name="general-k2x", creation_timestamp=NOW - timedelta(seconds=2)
    )
    return msgspec.structs.replace(made, metadata=metadata)


def test_a_claim_that_waits_for_ec2_names_no_type_yet() -> None:
    answer = own(pod("web"), StateNode(node_claim=unlaunched()))

    assert answer.line == (
        "pod/default/web coming: claim general-k2x is being launched as one of 2 instance types"
        " → when EC2 answers  [P504]"
    )
    assert answer.node_claim == "general-k2x"
    assert answer.since == NOW - timedelta(seconds=2)


def test_a_launched_claim_names_its_type_and_place() -> None:
    claim = node_claim("general-k2x", instance_type="m7g.xlarge", capacity_type="spot", zone="b")

    assert own(pod("web"), StateNode(node_claim=claim)).line == (
        "pod/default/web coming: claim general-k2x is m7g.xlarge spot in b and has not joined yet"
        " → when its node joins  [P504]"
    )


def test_a_node_that_has_joined_is_awaited_until_it_is_ready() -> None:
    joined = node("n1", pool="general", initialized=False)
    claim = node_claim("general-k2x", node=joined)
    claim.status.conditions = [Condition(type="Launched", status="True")]

    answer = own(pod("web"), StateNode(node=joined, node_claim=claim))

    assert "claim general-k2x is node n1, which is not ready yet → when the node is ready" in (
        answer.line
    )
    assert answer.node == "n1"


def ready_since(seconds: float) -> StateNode:
    joined = node("n1", pool="general")
    claim = node_claim("general-k2x", node=joined)
    ready = Condition(
        type="Initialized", status="True", last_transition_time=NOW - timedelta(seconds=seconds)
    )
    claim.status.conditions = [ready]
    return StateNode(node=joined, node_claim=claim)


def test_a_node_that_has_just_become_ready_only_waits_for_kube_scheduler() -> None:
    assert "which is ready → when kube-scheduler binds it" in own(pod("web"), ready_since(5)).line


def test_a_node_that_was_ready_for_long_is_no_longer_what_the_pod_waits_for() -> None:
    assert standing(pod("web"), NOW, ready_since(21)) is None


def test_a_claim_that_is_going_is_no_answer() -> None:
    claim = unlaunched()
    claim.metadata.deletion_timestamp = NOW

    assert standing(pod("web"), NOW, StateNode(node_claim=claim)) is None


def test_a_waiting_pod_without_a_claim_is_the_solvers_business() -> None:
    assert standing(pod("web"), NOW) is None


# What the solver says.


def test_a_pod_that_the_next_round_will_buy_for_is_coming() -> None:
    problem = world(nodepool(), instance_type("m7g.large", zones={"a": 0.08}), pod("web"), pod("b"))

    assert ask(problem).line == (
        "pod/default/web coming: pool general makes m7g.large on-demand in a, $0.0800/h, with 1"
        " other pod → in the next round  [P507]"
    )


def test_a_running_node_with_room_is_named() -> None:
    answer = ask(world(nodepool(), node("n1", pool="general"), pod("web", cpu="100m")))

    assert answer.line == (
        "pod/default/web coming: node/n1 has room for it → when kube-scheduler binds it  [P508]"
    )


def test_room_on_a_node_that_is_still_starting_is_told_as_its_claim() -> None:
    claim = node_claim("general-1", instance_type="m7g.large")

    answer = ask(world(nodepool(), instance_type("m7g.large"), claim, pod("web", cpu="100m")))

    assert (answer.code, answer.node_claim) == ("P504", "general-1")


def stuck() -> Problem:
    return world(
        nodepool(requires="zone in a"),
        instance_type("m7g.large"),
        node("n1", pool="general"),
        pod("web", requires="zone in b"),
        pod("api", requires="zone in b"),
    )


def test_the_line_of_a_blocked_pod_is_that_of_its_event() -> None:
    problem = stuck()
    event = next(
        message(one)
        for one in with_fixes(problem, solve(problem)).unschedulable
        if one.pod == "default/web"
    )

    assert ask(problem).line == event


def test_fixes_that_are_known_are_not_looked_for_again() -> None:
    problem = stuck()
    decision = solve(problem)
    known = with_fixes(problem, decision).unschedulable[0].fixes
    broken = replace(problem, node_pools=())  # nothing could be proven with this

    answer = decided(problem.pods[0], broken, decision, known_fixes=lambda _: known)

    assert answer.fixes
    assert "→" in answer.line


def test_pools_tell_their_codes_and_nodes_what_they_lack() -> None:
    answer = ask(stuck())

    assert [pool.codes for pool in answer.pools] == [("P101",)]
    assert answer.nodes is not None
    assert answer.nodes.lacking == {"zone": 1}
    assert answer.needs[1] == "topology.kubernetes.io/zone In b"


def test_an_explanation_survives_the_wire() -> None:
    answer = ask(stuck())

    raw = msgspec.json.encode(answer)

    assert msgspec.json.decode(raw, type=PodExplanation) == answer
    assert b'"asOf":"2030-01-02T10:00:00Z"' in raw
    assert b'"next":' in raw


def test_fields_of_a_newer_controller_are_skipped_and_missing_ones_have_defaults() -> None:
    raw = (
        b'{"pod":"a/b","verdict":"blocked","code":"P101","line":"x",'
        b'"asOf":"2030-01-02T10:00:00Z","colour":"red"}'
    )

    assert msgspec.json.decode(raw, type=PodExplanation).fixes == ()
