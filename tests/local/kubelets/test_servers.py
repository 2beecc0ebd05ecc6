"""The kubelet's HTTP routes and the webhook forwarder, over real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from nodewright_local.kubelets.forwarder import WebhookForwarder, rotate
from nodewright_local.kubelets.logs import container_log
from nodewright_local.kubelets.pods.runner import PodRunner
from nodewright_local.kubelets.pods.status import ContainerReport, Ended, Running
from nodewright_local.kubelets.server import KubeletApi

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING = Running(started_at=NOW)
ENDED = Ended(exit_code=0, reason="Completed", started_at=NOW, finished_at=NOW)


class OneContainer:
    """A container whose state the test sets."""

    def __init__(self) -> None:
        self.spec = {"name": "controller"}
        self.report = ContainerReport(name="controller", image="", container_id="", state=RUNNING)

    def end(self) -> None:
        self.report = ContainerReport(name="controller", image="", container_id="", state=ENDED)


class OneRun:
    def __init__(self, container: OneContainer) -> None:
        self.containers = [container]


class OnePod:
    """The part of the pod runner that the server asks."""

    def __init__(self) -> None:
        self.container = OneContainer()

    def find(self, namespace: str, pod: str) -> OneRun | None:
        return OneRun(self.container) if (namespace, pod) == ("karpenter", "k-1") else None

    def pods(self) -> list[dict[str, Any]]:
        return [{"metadata": {"name": "k-1"}}]


@contextlib.asynccontextmanager
async def client(pods: OnePod, logs: Path) -> AsyncIterator[httpx2.AsyncClient]:
    api = KubeletApi(runner=cast(PodRunner, pods), logs_dir=logs)
    transport = httpx2.ASGITransport(app=api.application())
    async with httpx2.AsyncClient(transport=transport, base_url="https://kubelet") as http:
        yield http


def log_of_k1(logs: Path, *lines: str) -> Path:
    path = container_log(logs, "karpenter", "k-1", "controller")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"2026-01-01T00:00:00.000000000Z {line}\n" for line in lines))
    return path


async def test_the_log_of_a_process_is_served(tmp_path: Path) -> None:
    log_of_k1(tmp_path, "one", "two")

    async with client(OnePod(), tmp_path) as http:
        answer = await http.get("/containerLogs/karpenter/k-1/controller?tailLines=1")

    assert (answer.status_code, answer.text) == (200, "two\n")


async def test_a_simulated_container_says_that_it_is_one(tmp_path: Path) -> None:
    async with client(OnePod(), tmp_path) as http:
        answer = await http.get("/containerLogs/default/nginx/nginx")

    assert answer.status_code == 200
    assert "simulated" in answer.text
    assert answer.text.count("\n") == 1


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", 'container "controller" in pod "k-1" has no log yet'),
        ("?previous=true", 'previous terminated container "controller"'),
        ("?tailLines=x", "tailLines must be"),
    ],
)
async def test_what_cannot_be_served_is_a_bad_request(
    tmp_path: Path, query: str, message: str
) -> None:
    async with client(OnePod(), tmp_path) as http:
        answer = await http.get(f"/containerLogs/karpenter/k-1/controller{query}")

    assert answer.status_code == 400
    assert message in answer.text


async def test_following_ends_with_the_container(tmp_path: Path) -> None:
    path, pods = log_of_k1(tmp_path, "one"), OnePod()

    async def write_more() -> None:
        await asyncio.sleep(0.1)
        with path.open("a") as stream:
            stream.write("2026-01-01T00:00:01.000000000Z two\n")
        pods.container.end()

    async with client(pods, tmp_path) as http, asyncio.TaskGroup() as group:
        group.create_task(write_more())
        answer = await http.get("/containerLogs/karpenter/k-1/controller?follow=true")

    assert answer.text == "one\ntwo\n"


async def test_health_pods_and_what_is_not_there(tmp_path: Path) -> None:
    async with client(OnePod(), tmp_path) as http:
        health = await http.get("/healthz")
        pods = await http.get("/pods")
        execute = await http.post("/exec/karpenter/k-1/controller")

    assert health.text == "ok"
    assert pods.json()["items"] == [{"metadata": {"name": "k-1"}}]
    assert execute.status_code == 501
    assert "/exec/karpenter/k-1/controller" in execute.text


@pytest.mark.parametrize(
    ("turn", "expected"), [(0, ["a", "b", "c"]), (1, ["b", "c", "a"]), (5, ["c", "a", "b"])]
)
def test_pods_take_turns(turn: int, expected: list[str]) -> None:
    assert rotate(["a", "b", "c"], turn) == expected
    assert rotate([], turn) == []


@contextlib.asynccontextmanager
async def forwarding(*addresses: str) -> AsyncIterator[int]:
    """Run a pod on 127.0.0.1 that answers with what it got, and a forwarder; yield its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"pod got " + await reader.read())
        await writer.drain()
        writer.close()

    pod = await asyncio.start_server(answer, "127.0.0.1", 0)
    free = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port: int = free.sockets[0].getsockname()[1]
    free.close()
    await free.wait_closed()
    forwarder = WebhookForwarder(
        port=port,
        ready_addresses=lambda: addresses,
        target_port=pod.sockets[0].getsockname()[1],
    )
    task = asyncio.create_task(forwarder.run())
    await asyncio.sleep(0.05)
    try:
        yield port
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        pod.close()


async def ask(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionError):
        writer.write(b"hello")
        writer.write_eof()
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_connection_is_led_to_a_ready_pod() -> None:
    async with forwarding("127.0.0.1") as port:
        assert await ask(port) == b"pod got hello"


async def test_a_pod_that_does_not_answer_is_skipped() -> None:
    async with forwarding("127.20.255.1", "127.0.0.1") as port:
        assert await ask(port) == b"pod got hello"
        assert await ask(port) == b"pod got hello"


async def test_without_a_ready_pod_the_connection_is_closed() -> None:
    async with forwarding() as port:
        assert await ask(port) == b""
