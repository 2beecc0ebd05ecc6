"""What is done for an instance, by its record and EC2's state; and the record file."""

from pathlib import Path

import pytest
from nodewright_local.kubelets.joiner import Step, next_step, retry_delay
from nodewright_local.kubelets.records import JoinState, Record, Records


def record(state: JoinState, *, joined: bool = False) -> Record:
    return Record(
        instance_id="i-1",
        state=state,
        node_name="node-1",
        provider_id="aws:///a/i-1",
        joined_at="2026-01-01T00:00:00+00:00" if joined else "",
    )


JOINED = record(JoinState.JOINED, joined=True)
STOPPED = record(JoinState.STOPPED, joined=True)
RETRYING = record(JoinState.RETRYING)
REFUSED = record(JoinState.REFUSED)


@pytest.mark.parametrize(
    ("known", "state", "step"),
    [
        (None, "pending", Step.NOTHING),
        (None, "running", Step.JOIN),
        (None, "terminated", Step.NOTHING),
        (RETRYING, "running", Step.JOIN),
        (RETRYING, "shutting-down", Step.NOTHING),
        (RETRYING, "terminated", Step.NOTHING),
        (RETRYING, None, Step.FORGET),
        (REFUSED, "running", Step.NOTHING),
        (REFUSED, "terminated", Step.NOTHING),
        (REFUSED, None, Step.FORGET),
        (JOINED, "running", Step.NOTHING),
        (JOINED, "stopping", Step.STOP),
        (JOINED, "shutting-down", Step.STOP),
        (JOINED, "terminated", Step.WAIT_FOR_REMOVAL),
        (JOINED, None, Step.WAIT_FOR_REMOVAL),
        (STOPPED, "stopped", Step.NOTHING),
        (STOPPED, "running", Step.REVIVE),
        (STOPPED, "terminated", Step.WAIT_FOR_REMOVAL),
        (STOPPED, None, Step.WAIT_FOR_REMOVAL),
    ],
)
def test_each_state_of_an_instance_has_its_step(
    known: Record | None, state: str | None, step: Step
) -> None:
    assert next_step(known, state, registered=True) is step


def test_a_kubelet_registers_again_when_this_process_starts_again() -> None:
    assert next_step(JOINED, "running", registered=False) is Step.JOIN


def test_attempts_come_ever_later_up_to_a_quarter_minute() -> None:
    assert [retry_delay(attempt) for attempt in (1, 2, 3, 4, 5, 500)] == [1, 2, 4, 8, 15, 15]


def test_only_a_living_node_runs_pods(tmp_path: Path) -> None:
    records = Records(tmp_path / "kubelets.json")

    for state, joined, alive in (
        (JoinState.JOINED, True, True),
        (JoinState.STARTING, True, True),
        (JoinState.RETRYING, False, False),
        (JoinState.STOPPED, True, False),
    ):
        records.put(record(state, joined=joined))
        assert (records.node("node-1") is not None) is alive


def test_records_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "kubelets.json"
    records = Records(path)
    records.put(JOINED)
    records.put(Record(instance_id="i-2", state=JoinState.REFUSED, reason="BadTaint", detail="x"))

    again = Records(path)

    assert again.get("i-1") == JOINED
    assert [item.instance_id for item in again] == ["i-1", "i-2"]
    again.forget("i-1")
    assert Records(path).get("i-1") is None


def test_an_unreadable_file_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "kubelets.json"
    path.write_text('{"i-1": {"state": "dancing"}}')

    assert list(Records(path)) == []


def test_a_reason_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    records = Records(tmp_path / "kubelets.json")
    for attempts in (1, 2, 3):
        records.put(
            Record(
                instance_id="i-1",
                state=JoinState.RETRYING,
                reason="NotAuthenticated",
                detail="no access entry",
                attempts=attempts,
            )
        )

    assert [message for message in caplog.messages if "no access entry" in message] == [
        "instance i-1 is no node (retrying): NotAuthenticated: no access entry"
    ]
