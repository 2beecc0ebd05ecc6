"""Containers as real processes: output, restarts, probes, stop orders, orphans."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from nodewright_local.kubelets.pods.addresses import claim_address
from nodewright_local.kubelets.pods.container import Container, StopOrder
from nodewright_local.kubelets.pods.environment import ConfigurationError
from nodewright_local.kubelets.pods.process import Command, LogFile, end_orphans, process_start
from nodewright_local.kubelets.pods.status import ContainerReport, Ended, Running, Waiting


def container(folder: Path, *words: str, policy: str = "Never", **spec: Any) -> Container:
    async def prepare(_spec: Mapping[str, Any]) -> Command:
        return Command(
            words=words,
            environment={"PATH": os.environ["PATH"], "GREETING": "hello"},
            folder=folder,
            pid_file=folder / "c.pid",
        )

    return Container(
        spec={"name": "c", **spec},
        pod_name="karpenter/p",
        restart_policy=policy,
        grace_seconds=1.0,
        pod_ip="127.0.0.1",
        stop=StopOrder(),
        output=LogFile(folder / "c.log"),
        prepare=prepare,
        changed=lambda: None,
        report=ContainerReport(
            name="c", image="", container_id="", state=Waiting(reason="ContainerCreating")
        ),
        id_prefix="process://u/c",
    )


def shell(folder: Path, script: str, **changes: Any) -> Container:
    return container(folder, "/bin/sh", "-c", script, **changes)


def output(folder: Path, name: str = "c.log") -> list[str]:
    return [line.partition(" ")[2] for line in (folder / name).read_text().splitlines()]


def ended(item: Container) -> Ended:
    assert isinstance(item.report.state, Ended)
    return item.report.state


async def until(condition: Callable[[], bool]) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(0.01)


async def until_running(item: Container) -> None:
    await until(lambda: isinstance(item.report.state, Running))


async def test_a_container_runs_with_its_environment_and_its_output_is_kept(tmp_path: Path) -> None:
    item = shell(tmp_path, 'echo "$GREETING $HOME"; echo oops >&2; exit 3')

    await item.run()

    assert output(tmp_path) == ["hello ", "oops"]
    assert (ended(item).exit_code, ended(item).reason) == (3, "Error")
    assert not (tmp_path / "c.pid").exists()


async def test_a_container_that_crashes_starts_again_and_keeps_the_log_before(
    tmp_path: Path,
) -> None:
    script = "if [ -e once ]; then echo second; sleep 60; else touch once; echo first; exit 1; fi"
    item = shell(tmp_path, script, policy="Always")

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(item.run())
        await until(lambda: item.report.restart_count == 1)
        await until_running(item)
        item.stop.give(1.0)

    assert item.report.restart_count == 1
    assert item.report.last_state is not None
    assert item.report.last_state.exit_code == 1
    assert item.report.container_id == "process://u/c/1"
    assert output(tmp_path, "c.previous.log") == ["first"]


async def test_a_stop_order_lets_the_process_finish_in_its_grace(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    item = shell(
        tmp_path, f'trap "echo bye; exit 0" TERM; touch {ready}; while :; do sleep 0.05; done'
    )

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(item.run())
        await until(ready.exists)
        item.stop.give(5.0)

    assert output(tmp_path) == ["bye"]
    assert ended(item).exit_code == 0


@pytest.mark.parametrize("grace", [0.0, 0.2])
async def test_a_process_that_ignores_the_order_is_killed(tmp_path: Path, grace: float) -> None:
    ready = tmp_path / "ready"
    item = shell(tmp_path, f'trap "" TERM; touch {ready}; while :; do sleep 0.05; done')

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(item.run())
        await until(ready.exists)
        item.stop.give(grace)

    assert ended(item).exit_code == 128 + 9


async def test_a_liveness_probe_that_fails_ends_the_container(tmp_path: Path) -> None:
    claim = claim_address()  # a port on which nobody listens
    probe = {
        "tcpSocket": {"host": claim.address, "port": 1},
        "periodSeconds": 0.05,
        "failureThreshold": 2,
    }
    item = shell(tmp_path, "exec sleep 60", livenessProbe=probe)

    async with asyncio.timeout(10):
        await item.run()
    claim.release()

    assert ended(item).exit_code == 128 + 15
    assert ended(item).message.startswith("liveness probe failed: ")


async def test_a_container_is_ready_when_its_probe_says_so(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    probe = {"tcpSocket": {"port": "http"}, "periodSeconds": 0.05}
    item = shell(
        tmp_path,
        "exec sleep 60",
        ports=[{"name": "http", "containerPort": port}],
        readinessProbe=probe,
    )

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(item.run())
        await until_running(item)
        await until(lambda: item.report.ready)
        server.close()
        await server.wait_closed()
        await until(lambda: not item.report.ready)
        item.stop.give(1.0)


async def test_a_command_that_does_not_exist_is_a_start_error(tmp_path: Path) -> None:
    item = container(tmp_path, "/no/such/program")

    await item.run()

    assert (ended(item).exit_code, ended(item).reason) == (128, "StartError")
    assert ended(item).message == "/no/such/program: No such file or directory"


async def test_a_container_that_cannot_be_configured_waits_and_says_why(tmp_path: Path) -> None:
    async def refuse(_spec: Mapping[str, Any]) -> Command:
        raise ConfigurationError("secret 'x' not found")

    item = shell(tmp_path, "true")
    item.prepare = refuse

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(item.run())
        await until(lambda: item.report.state != Waiting(reason="ContainerCreating"))
        item.stop.give(1.0)

    assert item.report.state == Waiting(
        reason="CreateContainerConfigError", message="secret 'x' not found"
    )


async def test_cancelling_ends_the_process(tmp_path: Path) -> None:
    item = shell(tmp_path, "exec sleep 60")
    task = asyncio.create_task(item.run())
    await until_running(item)
    pid = json.loads((tmp_path / "c.pid").read_text())["pid"]

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert process_start(pid) == ""


def test_orphans_of_an_earlier_run_are_ended_and_nobody_else(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    orphan = subprocess.Popen(command, start_new_session=True)
    stranger = subprocess.Popen(command, start_new_session=True)
    (tmp_path / "u-1").mkdir()
    noted = {"pid": orphan.pid, "started": process_start(orphan.pid)}
    (tmp_path / "u-1" / "a.pid").write_text(json.dumps(noted))
    # The same pid as a living process, but it began at another time: a reused number.
    reused = {"pid": stranger.pid, "started": "1"}
    (tmp_path / "u-1" / "b.pid").write_text(json.dumps(reused))

    try:
        asyncio.run(end_orphans(tmp_path))

        assert orphan.wait(timeout=5) == -15
        assert stranger.poll() is None
        assert not (tmp_path / "u-1").exists()
    finally:
        for process in (orphan, stranger):
            process.kill()
            process.wait()


def test_addresses_are_distinct_until_they_are_released() -> None:
    first, second = claim_address(), claim_address()

    assert first.address != second.address
    assert first.address.startswith("127.20.")
    second.release()
    again = claim_address(second.address)
    assert again.address == second.address
    for claim in (first, again):
        claim.release()


def test_an_address_outside_our_range_is_not_preferred() -> None:
    claim = claim_address("10.0.0.1")

    assert claim.address.startswith("127.20.")
    claim.release()
