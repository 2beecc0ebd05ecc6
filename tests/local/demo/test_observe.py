"""The lines the demo shows about objects."""

from typing import Any

from nodewright_local.demo.observe import (
    News,
    claim_line,
    condition,
    is_true,
    named,
    node_line,
    parse_time,
    pod_line,
    readiness_line,
    since,
)


def found(*conditions: tuple[str, str], **parts: Any) -> dict[str, Any]:
    """Return an object with conditions (type, status)."""
    return {
        "metadata": parts.pop("metadata", {"name": "it"}),
        "spec": parts.pop("spec", {}),
        "status": {
            "conditions": [
                {"type": kind, "status": status, "lastTransitionTime": "2026-11-30T20:00:05Z"}
                for kind, status in conditions
            ]
        },
    }


def test_news_tells_what_is_new_different_or_gone_and_nothing_else() -> None:
    news = News()
    assert news.of({"pod a": "waits", "pod b": "runs"}) == ["pod a waits", "pod b runs"]
    assert news.of({"pod a": "waits", "pod b": "runs"}) == []
    assert news.of({"pod a": "runs"}) == ["pod a runs", "pod b gone"]
    assert news.of({}) == ["pod a gone"]


def test_a_missing_condition_is_neither_true_nor_dated() -> None:
    assert condition(found(), "Ready") == {}
    assert not is_true({"status": {"conditions": None}}, "Ready")
    assert since(found(), "Ready") is None


def test_a_condition_tells_since_when() -> None:
    assert since(found(("Ready", "True")), "Ready") == parse_time("2026-11-30T20:00:05+00:00")


def test_a_pod_that_fits_nowhere_says_why_in_one_sentence() -> None:
    pod = found(("PodScheduled", "False"))
    pod["status"]["conditions"][0]["message"] = (
        "0/2 nodes are available: 2 node(s) had untolerated taint(s). no new claims to deallocate, "
        "preemption: 0/2 nodes are available."
    )
    assert pod_line(pod) == "waits: 0/2 nodes are available: 2 node(s) had untolerated taint(s)"


def test_a_pod_is_told_apart_by_where_it_stands() -> None:
    assert pod_line(found()) == "is created"
    assert pod_line(found(spec={"nodeName": "n1"})) == "is bound to n1"
    assert pod_line(found(("Ready", "True"), spec={"nodeName": "n1"})) == "runs on n1"
    going = found(metadata={"name": "it", "deletionTimestamp": "2026-11-30T20:00:00Z"})
    assert pod_line(going) == "is being deleted"


def test_a_claim_shows_the_conditions_it_has_reached_and_what_it_is() -> None:
    labels = {
        "node.kubernetes.io/instance-type": "t3a.nano",
        "topology.kubernetes.io/zone": "us-west-2a",
    }
    claim = found(
        ("Launched", "True"),
        ("Registered", "True"),
        ("Initialized", "Unknown"),
        metadata={"name": "it", "labels": labels},
    )
    assert claim_line(claim) == "Launched ✓ Registered ✓ (t3a.nano us-west-2a)"
    assert claim_line(found()) == "created"


def test_a_claim_that_goes_shows_whether_it_is_drained() -> None:
    going = {"name": "it", "deletionTimestamp": "2026-11-30T20:00:00Z"}
    assert claim_line(found(metadata=going)) == "is being deleted"
    assert claim_line(found(("Drained", "True"), metadata=going)) == "is being deleted, drained"


def test_a_node_shows_its_readiness_and_the_taint_of_a_disruption() -> None:
    assert node_line(found()) == "has joined, not Ready yet"
    tainted = found(("Ready", "True"), spec={"taints": [{"key": "karpenter.sh/disrupted"}]})
    assert node_line(tainted) == "Ready, tainted as disrupted"


def test_a_class_shows_what_it_waits_for() -> None:
    waiting = found(("SubnetsReady", "True"), ("AMIsReady", "False"), ("Ready", "False"))
    assert readiness_line(waiting) == "waits for AMIsReady, Ready"
    assert readiness_line(found(("Ready", "True"))) == "is ready"
    assert readiness_line({"status": {}}) == "is accepted"


def test_subjects_are_named_by_kind_and_name() -> None:
    assert named("pod", [("a", "runs")]) == {"pod a": "runs"}
