"""`nodewright why pod`: from files, and from a running cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from nodewright_controller.cli.why import why
from nodewright_controller.kube.client import KubeClient

CASES = Path(__file__).parent / "cases"


def ask(pod: str, case: str, *options: str) -> str:
    folder = next(CASES.glob(f"{case}-*"))
    result = CliRunner().invoke(why, ["pod", pod, "--world", str(folder), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_line_comes_before_the_tree() -> None:
    lines = ask("shop/stubborn", "12").splitlines()

    assert lines[0].startswith("pod/shop/stubborn blocked: pool tight: no instance type fits")
    assert lines[1] == "blocked · checked 2030-01-02T10:00:00Z  [P104]"
    assert "needs   500m cpu · 6 GiB memory · 1 pod" in lines
    assert "pools   0 of 2 can build one" in lines


def test_the_tree_says_what_running_nodes_lack() -> None:
    tree = ask("ledger-4", "01", "-o", "tree")

    assert "nodes   0 of 3 fit   volume zone 2 · cpu 1 (nearest n-b lacks 1100m cpu)" in tree
    assert "because its volume claim shop/data-ledger-4 is there" in tree


def test_a_claim_in_flight_that_is_elsewhere_is_counted_apart() -> None:
    assert "coming  0 of 2 fit   zone 2" in ask("shop/late", "11")


def test_a_pod_that_waits_for_its_own_volume_asks_no_pool() -> None:
    tree = ask("shop/alpha", "17", "-o", "tree")

    assert "pools   not asked: the pod itself has to wait" in tree


@pytest.mark.parametrize(
    ("pod", "case", "line"),
    [
        ("shop/quote-old", "03", "pod/shop/quote-old placed: it is on node/a1"),
        ("shop/front-0", "103", "pod/shop/front-0 placed: it fits on n-a"),
        (
            "shop/hungry",
            "12",
            "pod/shop/hungry coming: pool roomy makes r9.large on-demand in eu-test-1a, $0.1300/h",
        ),
        ("shop/gated", "132", "pod/shop/gated held: scheduling gate example.test/hold is closed"),
        ("shop/done", "132", "pod/shop/done not ours: it has ended (Succeeded)"),
        ("shop/placed", "132", "pod/shop/placed coming: it preempts others on node/elsewhere"),
    ],
)
def test_a_pod_that_lacks_nothing_has_one_line(pod: str, case: str, line: str) -> None:
    assert ask(pod, case) == f"{line}\n"


def test_fixes_that_the_solver_has_proven_are_listed() -> None:
    tree = ask("shop/late", "11", "-o", "tree")

    assert "fixes   raise the limit of pool apps by 2 cpu (proven)" in tree


def test_json_has_every_pool_and_miss() -> None:
    found = json.loads(ask("shop/stranger", "112", "-o", "json"))

    assert found["verdict"] == "blocked"
    assert {pool["name"]: len(pool["misses"]) for pool in found["pools"]} == {
        "soft": 1,
        "closed": 1,
    }


def test_a_pod_that_is_not_there_is_answered_with_those_like_it() -> None:
    folder = next(CASES.glob("12-*"))

    result = CliRunner().invoke(why, ["pod", "shop/stubbern", "--world", str(folder)])

    assert result.exit_code == 1
    assert "there is no pod shop/stubbern; there is shop/stubborn" in result.output


# The running cluster.


def cluster(monkeypatch: pytest.MonkeyPatch, pod: dict[str, Any], *events: dict[str, Any]) -> None:
    """Stand in for the API server: one pod, and the events about it."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/api/v1/namespaces/shop/pods/web":
            return httpx2.Response(200, json=pod)
        if request.url.path == "/api/v1/namespaces/shop/events":
            assert "involvedObject.name=web" in request.url.params["fieldSelector"]
            return httpx2.Response(200, json={"items": list(events)})
        return httpx2.Response(404, json={"kind": "Status", "code": 404, "message": "not found"})

    def connect() -> KubeClient:
        transport = httpx2.MockTransport(answer)
        return KubeClient(httpx2.AsyncClient(transport=transport, base_url="https://api.test"))

    monkeypatch.setattr(KubeClient, "from_environment", connect)


def waiting(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {"containers": []},
        "status": {"phase": "Pending", **status},
    }


def said(message: str, last: str, component: str = "karpenter") -> dict[str, Any]:
    return {
        "metadata": {"name": f"web.{last}", "namespace": "shop"},
        "reason": "FailedScheduling",
        "message": message,
        "count": 3,
        "firstTimestamp": "2030-01-02T09:00:00Z",
        "lastTimestamp": last,
        "reportingComponent": component,
    }


def test_the_newest_word_of_the_controller_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(
        monkeypatch,
        waiting(),
        said("Failed to schedule pod, pod/shop/web blocked: old", "2030-01-02T09:30:00Z"),
        said("Failed to schedule pod, pod/shop/web starved: new", "2030-01-02T09:40:00Z"),
        said("0/3 nodes are available", "2030-01-02T09:50:00Z", component="default-scheduler"),
    )

    result = CliRunner().invoke(why, ["pod", "shop/web"])

    assert result.output.splitlines() == [
        "pod/shop/web starved: new",
        "said 3 times since 2030-01-02T09:00:00Z, last 2030-01-02T09:40:00Z",
    ]


def test_a_pod_that_runs_needs_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = waiting()
    pod["spec"]["nodeName"] = "n1"
    cluster(monkeypatch, pod)

    assert CliRunner().invoke(why, ["pod", "shop/web"]).output == (
        "pod/shop/web placed: it is on node/n1\n"
    )


def test_silence_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(monkeypatch, waiting())

    result = CliRunner().invoke(why, ["pod", "shop/web", "-o", "line"])

    assert result.output == "pod/shop/web held: kube-scheduler has not looked at it yet\n"


def test_an_unknown_pod_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(monkeypatch, waiting())

    result = CliRunner().invoke(why, ["pod", "shop/nobody"])

    assert result.exit_code == 1
    assert "not found" in result.output


def test_a_missing_kubeconfig_is_an_error_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))

    result = CliRunner().invoke(why, ["pod", "shop/web"])

    assert result.exit_code == 1
    assert "name a kubeconfig in KUBECONFIG, or use --world" in result.output
