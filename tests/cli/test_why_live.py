"""`nodewright why` about a running cluster: the controller is asked, else its events are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest
from click.testing import CliRunner, Result
from nodewright_controller.cli import asking
from nodewright_controller.cli.why import why
from nodewright_controller.kube.client import KubeClient

Json: TypeAlias = dict[str, Any]
POD = "/api/v1/namespaces/shop/pods/web"
EVENTS = "/api/v1/namespaces/shop/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/karpenter-leader-election"
LEASE = LEASES.format("karpenter")
PROXY = "/api/v1/namespaces/karpenter/pods/karpenter-abc:8080/proxy/api/v1/why"
HELD: Json = {"spec": {"holderIdentity": "karpenter-abc_7d1f"}}
BLOCKED: Json = {
    "pod": "shop/web",
    "verdict": "blocked",
    "code": "P203",
    "line": "pod/shop/web blocked: its volume is elsewhere  [P203]",
    "asOf": "2030-01-02T10:00:00Z",
    "since": "2030-01-02T09:53:48Z",
    "evaluated": 214,
    "lookBy": "2030-01-02T10:00:20Z",
    "needs": ["2 cpu · 1 pod"],
}
Answers: TypeAlias = dict[str, tuple[int, Any]]


def failure(code: int, message: str, group: str = "") -> tuple[int, Json]:
    details = {"details": {"group": group}} if group else {}
    return code, {"kind": "Status", "code": code, "message": message, **details}


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], list[httpx2.URL]]:
    """Stand in for the API server; what is not named does not exist."""

    def start(answers: Answers) -> list[httpx2.URL]:
        asked: list[httpx2.URL] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            asked.append(request.url)
            code, body = answers.get(request.url.path, failure(404, "not found"))
            if isinstance(body, str):
                return httpx2.Response(code, text=body)
            return httpx2.Response(code, json=body)

        def connect() -> KubeClient:
            transport = httpx2.MockTransport(answer)
            return KubeClient(httpx2.AsyncClient(transport=transport, base_url="https://api.test"))

        monkeypatch.setattr(KubeClient, "from_environment", connect)
        return asked

    return start


Serve: TypeAlias = Callable[[Answers], list[httpx2.URL]]


def ask(*words: str) -> Result:
    return CliRunner().invoke(why, list(words))


def test_the_leader_is_found_by_its_lease_and_asked_through_the_api_server(serve: Serve) -> None:
    asked = serve({LEASE: (200, HELD), PROXY: (200, BLOCKED)})

    result = ask("pod", "shop/web")

    assert result.stdout.splitlines() == [
        "pod/shop/web blocked: its volume is elsewhere  [P203]",
        "blocked for 6m12s · checked 2030-01-02T10:00:00Z (in 214 rounds)  [P203]",
        "needs   2 cpu · 1 pod",
        "again   by 2030-01-02T10:00:20Z at the latest, sooner when pods or claims change",
    ]
    assert result.stderr == ""
    assert asked[-1].params["pod"] == "shop/web"


@pytest.mark.parametrize(
    ("output", "first"), [("line", "pod/shop/web"), ("tree", "blocked for 6m12s")]
)
def test_line_and_tree_can_be_had_alone(serve: Serve, output: str, first: str) -> None:
    serve({LEASE: (200, HELD), PROXY: (200, BLOCKED)})

    lines = ask("pod", "shop/web", "-o", output).stdout.splitlines()

    assert lines[0].startswith(first)
    assert (len(lines) == 1) == (output == "line")


def test_json_is_what_the_controller_sent(serve: Serve) -> None:
    serve({LEASE: (200, HELD), PROXY: (200, BLOCKED)})

    found = json.loads(ask("pod", "shop/web", "-o", "json").stdout)

    assert {key: found[key] for key in BLOCKED} == BLOCKED


def test_the_controller_may_be_in_kube_system_or_where_it_is_said_to_be(serve: Serve) -> None:
    elsewhere = PROXY.replace("namespaces/karpenter", "namespaces/kube-system")
    own = PROXY.replace("namespaces/karpenter", "namespaces/autoscaling").replace(":8080", ":9090")
    lease = LEASES.format("autoscaling").replace("karpenter-leader", "my-leader")
    serve({LEASES.format("kube-system"): (200, HELD), elsewhere: (200, BLOCKED)})
    assert ask("pod", "shop/web").stderr == ""

    serve({lease: (200, HELD), own: (200, BLOCKED)})
    where = ("--controller-namespace", "autoscaling", "--lease", "my-leader-election")
    assert ask("pod", "shop/web", *where, "--port", "9090").stderr == ""


def waiting(**status: Any) -> tuple[int, Json]:
    return 200, {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {"containers": []},
        "status": {"phase": "Pending", **status},
    }


def said(message: str, last: str, component: str = "karpenter") -> Json:
    return {
        "metadata": {"name": f"web.{last}", "namespace": "shop"},
        "reason": "FailedScheduling",
        "message": message,
        "count": 3,
        "firstTimestamp": "2030-01-02T09:00:00Z",
        "lastTimestamp": last,
        "reportingComponent": component,
    }


def events(*found: Json) -> tuple[int, Json]:
    return 200, {"items": list(found)}


LAST = said("Failed to schedule pod, pod/shop/web starved: new", "2030-01-02T09:40:00Z")


@pytest.mark.parametrize(
    ("answers", "why_not"),
    [
        ({}, "there is no lease karpenter-leader-election in namespace karpenter or kube-system"),
        ({LEASE: failure(403, "leases is forbidden")}, "leases is forbidden"),
        ({LEASE: (200, {"spec": {}})}, "nobody holds the lease"),
        (
            {LEASE: (200, HELD), PROXY: failure(403, "pods/proxy is forbidden")},
            "you may not reach it through the API server: pods/proxy is forbidden",
        ),
        ({LEASE: (200, HELD), PROXY: (404, "404 page not found")}, "answers no such questions"),
        (
            {LEASE: (200, HELD), PROXY: failure(503, "this replica does not lead", "nodewright")},
            "this replica does not lead",
        ),
        ({LEASE: (200, HELD), PROXY: (200, "# HELP up")}, "cannot be read"),
    ],
)
def test_its_last_event_is_shown_when_the_controller_cannot_be_asked(
    serve: Serve, answers: Answers, why_not: str
) -> None:
    serve({**answers, POD: waiting(), EVENTS: events(LAST)})

    result = ask("pod", "shop/web")

    assert result.stdout.splitlines() == [
        "pod/shop/web starved: new",
        "said 3 times since 2030-01-02T09:00:00Z, last 2030-01-02T09:40:00Z",
    ]
    (note,) = result.stderr.splitlines()
    assert note.startswith("the controller cannot be asked, these are its events: ")
    assert why_not in note


def test_a_pod_that_the_controller_does_not_know_is_an_error(serve: Serve) -> None:
    unknown = failure(404, "there is no pod shop/wep; there is shop/web", "nodewright")
    serve({LEASE: (200, HELD), PROXY: unknown})

    result = ask("pod", "shop/wep")

    assert result.exit_code == 1
    assert "Error: there is no pod shop/wep; there is shop/web" in result.stderr


def test_a_controller_with_a_loopback_address_is_asked_directly(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def directly(url: str, question: dict[str, str]) -> tuple[int, bytes]:
        asked.append((url, question))
        return 200, json.dumps(BLOCKED).encode()

    monkeypatch.setattr(asking, "_on_this_machine", directly)
    pod = "/api/v1/namespaces/karpenter/pods/karpenter-abc"
    serve(
        {
            LEASE: (200, HELD),
            PROXY: failure(400, "address not allowed"),
            pod: (200, {"status": {"podIP": "127.20.0.1"}}),
        }
    )

    assert ask("pod", "shop/web").stderr == ""
    assert asked == [("http://127.20.0.1:8080", {"pod": "shop/web"})]


def test_an_address_elsewhere_is_never_asked_directly(serve: Serve) -> None:
    pod = "/api/v1/namespaces/karpenter/pods/karpenter-abc"
    serve(
        {
            LEASE: (200, HELD),
            PROXY: failure(400, "address not allowed"),
            pod: (200, {"status": {"podIP": "10.0.3.4"}}),
            POD: waiting(),
            EVENTS: events(LAST),
        }
    )

    assert "address not allowed" in ask("pod", "shop/web").stderr


# Types.


def test_a_type_is_asked_by_the_name_of_its_claim(serve: Serve) -> None:
    chosen = {
        "nodeClaim": "general-1",
        "verdict": "chosen",
        "code": "T101",
        "line": "claim/general-1 chosen: m7g.large  [T101]",
        "asOf": "2030-01-02T10:00:00Z",
        "nodePool": "general",
        "instanceType": "m7g.large",
    }
    asked = serve({LEASE: (200, HELD), PROXY: (200, chosen)})

    lines = ask("type", "claim/general-1").stdout.splitlines()

    assert lines[0] == "claim/general-1 chosen: m7g.large  [T101]"
    assert lines[2] == "pool    general"
    assert asked[-1].params["nodeclaim"] == "general-1"


def test_a_type_has_no_events_to_fall_back_to(serve: Serve) -> None:
    serve({})

    result = ask("type", "general-1")

    assert result.exit_code == 1
    assert "the controller cannot be asked: there is no lease" in result.stderr


# Events.


def test_the_newest_word_of_the_controller_is_shown(serve: Serve) -> None:
    old = said("Failed to schedule pod, pod/shop/web blocked: old", "2030-01-02T09:30:00Z")
    other = said("0/3 nodes are available", "2030-01-02T09:50:00Z", component="default-scheduler")
    asked = serve({POD: waiting(), EVENTS: events(old, LAST, other)})

    assert ask("pod", "shop/web", "-o", "line").stdout == "pod/shop/web starved: new\n"
    assert "involvedObject.name=web" in asked[-1].params["fieldSelector"]


def test_a_pod_that_runs_needs_no_event(serve: Serve) -> None:
    code, body = waiting()
    serve({POD: (code, {**body, "spec": {"containers": [], "nodeName": "n1"}})})

    assert ask("pod", "shop/web").stdout == "pod/shop/web placed: it is on node/n1\n"


def test_silence_is_an_answer_too(serve: Serve) -> None:
    serve({POD: waiting(), EVENTS: events()})

    assert ask("pod", "shop/web", "-o", "line").stdout == (
        "pod/shop/web held: kube-scheduler has not looked at it yet\n"
    )


def test_an_unknown_pod_is_an_error(serve: Serve) -> None:
    serve({})

    result = ask("pod", "shop/nobody")

    assert result.exit_code == 1
    assert "not found" in result.output


def test_a_missing_kubeconfig_is_an_error_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))

    result = ask("pod", "shop/web")

    assert result.exit_code == 1
    assert "name a kubeconfig in KUBECONFIG, or use --world" in result.output
