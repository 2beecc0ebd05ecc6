import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from nodewright_local import supervisor as supervisor_module
from nodewright_local.control_plane import ProcessSpec, ReadyWhen
from nodewright_local.runtime import Phase, ProcessStatus, load_runtime
from nodewright_local.state import ClusterState, plan_state, port_of
from nodewright_local.supervisor import Supervisor, select

LISTEN = """
import socket, sys, time
with socket.socket() as listener:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[1])))
    listener.listen()
    print("listening", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def state(tmp_path: Path) -> ClusterState:
    return plan_state(tmp_path, versions={}, binaries={})


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "FIRST_PAUSE_S", 0.05)


def server(name: str, port: int, after: tuple[str, ...] = ()) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        command=(sys.executable, "-c", LISTEN, str(port)),
        ready=ReadyWhen(port=port),
        version="1",
        after=after,
        grace_s=5,
    )


class Story:
    """Everything that happened, in order."""

    def __init__(self) -> None:
        self.rows: list[ProcessStatus] = []

    def __call__(self, row: ProcessStatus) -> None:
        self.rows.append(row)

    def order(self, phase: Phase) -> list[str]:
        return [row.name for row in self.rows if row.phase is phase]

    async def until(self, name: str, phase: Phase, *, restarts: int = 0) -> ProcessStatus:
        while True:
            for row in self.rows:
                if (row.name, row.phase) == (name, phase) and row.restarts >= restarts:
                    return row
            await asyncio.sleep(0.02)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def test_processes_start_after_what_they_need_and_stop_before_it(
    state: ClusterState,
) -> None:
    story = Story()
    specs = (
        server("third", state.kubelet_port, after=("second",)),
        server("second", state.webhook_port, after=("first",)),
        server("first", state.kwok_port),
    )
    running = asyncio.create_task(Supervisor(state, specs, story).run())
    await story.until("third", Phase.READY)
    stop()
    assert await running
    assert story.order(Phase.READY) == ["first", "second", "third"]
    assert story.order(Phase.STOPPED) == ["third", "second", "first"]
    assert "listening" in state.log_file("first").read_text()


async def test_a_process_that_dies_is_started_again_and_counted(state: ClusterState) -> None:
    story = Story()
    spec = server("first", state.kwok_port)
    running = asyncio.create_task(Supervisor(state, (spec,), story).run())
    first = await story.until("first", Phase.READY)
    assert first.identity
    os.kill(first.identity.pid, signal.SIGKILL)
    lost = await story.until("first", Phase.RESTARTING)
    again = await story.until("first", Phase.READY, restarts=1)
    saved = load_runtime(state.state_dir)
    pids = ClusterState.load(state.state_dir).pids
    stop()
    assert await running
    assert lost.detail == "killed by signal 9"
    assert again.identity
    assert again.identity.pid != first.identity.pid
    assert saved
    assert saved.processes[0].restarts == 1
    assert pids == {"first": again.identity.pid}


async def test_a_process_that_never_gets_ready_ends_the_whole_start(state: ClusterState) -> None:
    story = Story()
    broken = ProcessSpec(
        name="broken",
        command=(sys.executable, "-c", "raise SystemExit(3)"),
        ready=ReadyWhen(port=state.kubelet_port),
        version="1",
        after=("first",),
    )
    specs = (server("first", state.kwok_port), broken)
    assert not await Supervisor(state, specs, story).run()
    saved = load_runtime(state.state_dir)
    assert saved
    rows = {row.name: row for row in saved.processes}
    assert rows["broken"].phase is Phase.FAILED
    assert rows["broken"].detail == "exited with code 3"
    assert rows["first"].phase is Phase.STOPPED


async def test_a_command_that_cannot_be_started_is_named(state: ClusterState) -> None:
    missing = ProcessSpec(
        name="missing", command=("/nonexistent/x",), ready=ReadyWhen(port=1), version="1"
    )
    assert not await Supervisor(state, (missing,)).run()
    saved = load_runtime(state.state_dir)
    assert saved
    assert saved.processes[0].detail.startswith("cannot be started: ")


async def test_a_child_does_not_see_the_users_own_accounts(
    state: ClusterState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/config")
    code = f"import os\nprint(sorted(os.environ))\n{LISTEN}"
    port = port_of(state.aws_url)
    spec = ProcessSpec(
        name="first",
        command=(sys.executable, "-c", code, str(port)),
        ready=ReadyWhen(port=port),
        version="1",
        environment={"OURS": "1"},
    )
    story = Story()
    running = asyncio.create_task(Supervisor(state, (spec,), story).run())
    await story.until("first", Phase.READY)
    stop()
    await running
    said = state.log_file("first").read_text()
    assert "'OURS'" in said
    assert "AWS_PROFILE" not in said
    assert "KUBECONFIG" not in said


def test_only_the_named_processes_are_selected(state: ClusterState) -> None:
    specs = (server("a", 1), server("b", 2))
    assert [spec.name for spec in select(specs, ["b"])] == ["b"]
    assert select(specs, []) == specs
