"""Probe verdicts, restart back-off, and the status made of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from nodewright_local.kubelets.pods.environment import ConfigurationError
from nodewright_local.kubelets.pods.probes import (
    ProbeTracker,
    container_ports,
    parse_probe,
)
from nodewright_local.kubelets.pods.restarts import Backoff, restarts
from nodewright_local.kubelets.pods.status import (
    ContainerReport,
    ContainerState,
    Ended,
    Running,
    Waiting,
    conditions,
    phase,
    pod_status,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING = Running(started_at=NOW)


def ended(exit_code: int = 0) -> Ended:
    return Ended(
        exit_code=exit_code,
        reason="Completed" if exit_code == 0 else "Error",
        started_at=NOW,
        finished_at=NOW + timedelta(seconds=5),
    )


def report(state: ContainerState, **changes: Any) -> ContainerReport:
    fields: dict[str, Any] = {"name": "controller", "image": "x", "container_id": "process://u/0"}
    return ContainerReport(state=state, **(fields | changes))


def verdicts(results: str, *, passing: bool | None, success: int, failure: int) -> str:
    """Feed results (+ or -) and return the verdict after each (+, -, ? for none)."""
    spec = {
        "tcpSocket": {"port": 1},
        "successThreshold": success,
        "failureThreshold": failure,
    }
    tracker = ProbeTracker.start(parse_probe(spec, {}), passing=passing)
    shown = ""
    for result in results:
        tracker = tracker.observe(result == "+")
        shown += {True: "+", False: "-", None: "?"}[tracker.passing]
    return shown


@pytest.mark.parametrize(
    ("results", "passing", "success", "failure", "expected"),
    [
        ("+", False, 1, 3, "+"),
        ("++", False, 2, 3, "-+"),
        ("+-++", False, 2, 3, "---+"),
        ("---", True, 1, 3, "++-"),
        ("--+--", True, 1, 3, "+++++"),
        ("--+---", True, 1, 3, "+++++-"),
        ("---+", True, 1, 3, "++-+"),
        ("--+", None, 1, 5, "??+"),
        ("--", None, 1, 2, "?-"),
    ],
)
def test_a_verdict_flips_only_at_its_threshold(
    results: str, passing: bool | None, success: int, failure: int, expected: str
) -> None:
    assert verdicts(results, passing=passing, success=success, failure=failure) == expected


def test_a_probe_names_its_port_and_has_the_kubelets_defaults() -> None:
    container = {"ports": [{"name": "http", "containerPort": 8081}, {"containerPort": 1}]}

    probe = parse_probe(
        {"httpGet": {"path": "/healthz", "port": "http"}}, container_ports(container)
    )

    assert (probe.scheme, probe.port, probe.path) == ("http", 8081, "/healthz")
    assert (probe.initial_delay, probe.period, probe.timeout) == (0, 10, 1)
    assert (probe.success_threshold, probe.failure_threshold) == (1, 3)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"httpGet": {"port": "web"}}, "'web' is not a port name"),
        ({"exec": {"command": ["true"]}}, "httpGet and tcpSocket probes only"),
    ],
)
def test_a_probe_that_cannot_be_made_is_a_configuration_error(
    spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_probe(spec, {})


def test_the_first_restart_is_at_once_and_the_next_ones_wait_ever_longer() -> None:
    backoff, delays = Backoff(), []
    for _ in range(9):
        backoff = backoff.after_end(ran_for_seconds=1)
        delays.append(backoff.delay_seconds)

    assert delays == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_good_run_clears_the_record() -> None:
    backoff = Backoff(ends=6).after_end(ran_for_seconds=600)

    assert backoff.delay_seconds == 0


@pytest.mark.parametrize(
    ("policy", "exit_code", "again"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("Never", 1, False),
    ],
)
def test_the_restart_policy_decides(policy: str, exit_code: int, again: bool) -> None:
    assert restarts(policy, exit_code) is again


@pytest.mark.parametrize(
    ("states", "will_restart", "expected"),
    [
        ([Waiting(reason="ContainerCreating")], True, "Pending"),
        ([RUNNING], True, "Running"),
        ([RUNNING, Waiting(reason="ContainerCreating")], True, "Running"),
        ([ended(1)], True, "Running"),
        ([ended(0)], False, "Succeeded"),
        ([ended(0), ended(1)], False, "Failed"),
    ],
)
def test_the_phase_follows_from_the_containers(
    states: list[ContainerState], will_restart: bool, expected: str
) -> None:
    assert phase([report(state) for state in states], will_restart=will_restart) == expected


def test_a_container_that_backs_off_after_a_crash_leaves_the_pod_running() -> None:
    waiting = report(Waiting(reason="CrashLoopBackOff"), last_state=ended(1))

    assert phase([waiting], will_restart=True) == "Running"


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    later = NOW + timedelta(seconds=10)
    first = conditions([report(RUNNING)], {}, NOW)
    still = conditions([report(RUNNING)], first, later)
    ready = conditions([report(RUNNING, ready=True)], still, later)

    assert (first["Ready"].status, first["Ready"].since) == (False, NOW)
    assert first["Ready"].message == "containers with unready status: [controller]"
    assert still["Ready"].since == NOW
    assert (ready["Ready"].status, ready["Ready"].since) == (True, later)
    assert (ready["Initialized"].status, ready["Initialized"].since) == (True, NOW)


def test_the_status_tells_of_a_crash_and_the_run_after_it() -> None:
    container = report(RUNNING, last_state=ended(139), restart_count=2, started=True, ready=True)

    status = pod_status(
        [container],
        conditions([container], {}, NOW),
        pod_ip="127.20.0.1",
        start_time=NOW,
        will_restart=True,
    )

    assert (status["phase"], status["podIP"], status["hostIP"]) == (
        "Running",
        "127.20.0.1",
        "127.0.0.1",
    )
    assert status["containerStatuses"] == [
        {
            "name": "controller",
            "image": "x",
            "imageID": "local://x",
            "containerID": "process://u/0",
            "ready": True,
            "started": True,
            "restartCount": 2,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "lastState": {
                "terminated": {
                    "exitCode": 139,
                    "signal": 11,
                    "reason": "Error",
                    "startedAt": "2026-01-01T00:00:00Z",
                    "finishedAt": "2026-01-01T00:00:05Z",
                    "containerID": "process://u/0",
                }
            },
        }
    ]
    assert {item["type"]: item["status"] for item in status["conditions"]} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "ContainersReady": "True",
        "Ready": "True",
    }
