"""The informer follows the server: pages, changes, deletions it missed, and positions too old."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from nodewright_controller.api.node import Node
from nodewright_controller.kube.client import KubeClient
from nodewright_controller.kube.informer import Informer
from typing_extensions import override


def node(name: str, version: int, **meta: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), **meta}
    }


class Server:
    """Answers lists and watches from a script: each list and each watch takes the next entry."""

    def __init__(self) -> None:
        self.lists: list[dict[str, Any]] = []
        self.watches: list[list[dict[str, Any]]] = []
        self.asked: list[httpx2.QueryParams] = []

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request.url.params)
        if request.url.params.get("watch") != "true":
            return httpx2.Response(200, json=self.lists.pop(0))
        return httpx2.Response(200, stream=_Lines(self.watches.pop(0) if self.watches else None))

    def client(self) -> KubeClient:
        transport = httpx2.MockTransport(self.handle)
        return KubeClient(httpx2.AsyncClient(transport=transport, base_url="https://api"))


class _Lines(httpx2.AsyncByteStream):
    """Lines of a watch; None is a watch that stays open without a word."""

    def __init__(self, events: list[dict[str, Any]] | None) -> None:
        self._events = events

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._events is None:
            await asyncio.Event().wait()
        for event in self._events or ():
            yield json.dumps(event).encode() + b"\n"


def page(version: int, *items: dict[str, Any], token: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version), "continue": token}, "items": list(items)}


async def follow(server: Server) -> tuple[Informer[Node], list[tuple[str, str]]]:
    """Run an informer until the script is over; returns it and the changes that it told."""
    told: list[tuple[str, str]] = []
    async with server.client() as client:
        informer = Informer(client, Node)

        def changed(old: Node | None, new: Node | None) -> None:
            kind = "added" if old is None else "deleted" if new is None else "changed"
            told.append((kind, (new or old).name if (new or old) else ""))  # type: ignore[union-attr]

        informer.on_change(changed)
        task = asyncio.create_task(informer.run())
        for _ in range(200):
            await asyncio.sleep(0.005)
            if not server.lists and not server.watches and informer.ready:
                break
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return informer, told


async def test_a_list_is_read_in_pages() -> None:
    server = Server()
    server.lists = [page(1, node("a", 1), token="next"), page(5, node("b", 2))]

    informer, _ = await follow(server)

    assert informer.keys() == {"a", "b"}
    assert server.asked[1]["continue"] == "next"
    assert server.asked[2]["resourceVersion"] == "5"


async def test_changes_are_told_in_order() -> None:
    server = Server()
    server.lists = [page(1, node("a", 1))]
    server.watches = [
        [
            {"type": "MODIFIED", "object": node("a", 2)},
            {"type": "ADDED", "object": node("b", 3)},
            {"type": "DELETED", "object": node("a", 4)},
        ]
    ]

    informer, told = await follow(server)

    assert told == [("added", "a"), ("changed", "a"), ("added", "b"), ("deleted", "a")]
    assert informer.keys() == {"b"}


async def test_a_watch_resumes_at_the_last_bookmark() -> None:
    server = Server()
    server.lists = [page(1)]
    server.watches = [[{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "77"}}}]]

    await follow(server)

    assert server.asked[-1]["resourceVersion"] == "77"


async def test_a_position_that_is_too_old_lists_again_and_tells_of_deletions_it_missed() -> None:
    server = Server()
    server.lists = [page(1, node("a", 1), node("b", 1)), page(9, node("b", 1), node("c", 8))]
    server.watches = [[{"type": "ERROR", "object": {"kind": "Status", "code": 410}}]]

    informer, told = await follow(server)

    assert told == [("added", "a"), ("added", "b"), ("deleted", "a"), ("added", "c")]
    assert informer.keys() == {"b", "c"}


async def test_one_object_that_cannot_be_read_does_not_stop_the_others() -> None:
    server = Server()
    broken = node("broken", 1)
    broken["spec"] = {"taints": "none"}
    server.lists = [page(1, broken, node("a", 1))]

    informer, _ = await follow(server)

    assert informer.keys() == {"a"}


async def test_the_answer_to_a_write_never_brings_a_deleted_object_back() -> None:
    server = Server()
    server.lists = [page(1, node("a", 1))]
    server.watches = [[{"type": "DELETED", "object": node("a", 3)}]]
    informer, _ = await follow(server)

    late = node("a", 2)
    informer.observe(Node(metadata=_meta(late)))

    assert informer.get("a") is None


def _meta(document: dict[str, Any]) -> Any:
    import msgspec
    from nodewright_controller.api.meta import ObjectMeta

    return msgspec.convert(document["metadata"], ObjectMeta)


@pytest.mark.parametrize("broken", [500, 503])
async def test_a_server_that_fails_is_asked_again(broken: int) -> None:
    answers = [httpx2.Response(broken, text="no"), httpx2.Response(200, json=page(1, node("a", 1)))]

    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.url.params.get("watch") == "true":
            return httpx2.Response(200, stream=_Lines(None))
        return answers.pop(0)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(handle), base_url="https://api")
    async with KubeClient(http) as client:
        informer = Informer(client, Node)
        task = asyncio.create_task(informer.run())
        async with asyncio.timeout(5):
            await informer.synced.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert informer.keys() == {"a"}
