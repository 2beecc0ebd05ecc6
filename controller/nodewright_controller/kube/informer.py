"""A local copy of all objects of a kind, kept current by list and watch.

It lists in pages, watches with bookmarks, resumes where it stopped, and lists afresh when the server
says that the position is too old. Objects that vanished meanwhile are reported as deleted.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
import structlog

from nodewright_controller.api.meta import KubeObject
from nodewright_controller.kube import requests
from nodewright_controller.kube.client import KubeClient, decode
from nodewright_controller.kube.errors import classify
from nodewright_controller.ports.errors import Forbidden, Gone, KubeError

log = structlog.get_logger()
K = TypeVar("K", bound=KubeObject)

_FORBIDDEN_SECONDS = 10.0

Handler = Callable[[K | None, K | None], None]
"""Called with the object before and after: (None, new), (old, new) or (old, None)."""


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct):
    class Meta(msgspec.Struct, rename="camel"):
        """Only the version matters."""

        resource_version: str = ""

    metadata: Meta


class _WatchError(msgspec.Struct):
    code: int = 0


class Informer(Generic[K]):
    """The objects of one kind. Lives on one event loop; handlers must be quick and must not fail."""

    def __init__(
        self, client: KubeClient, kind: type[K], *, namespace: str = "", optional: bool = False
    ) -> None:
        """Remember what to follow; an `optional` kind counts as empty while our role forbids it."""
        self.kind = kind
        self.synced = asyncio.Event()
        self._client = client
        self._namespace = namespace
        self._optional = optional
        self._last_trouble = ""
        self._store: dict[str, K] = {}
        self._handlers: list[Handler[K]] = []
        self._gone: deque[str] = deque(maxlen=4096)
        self._version = ""

    @property
    def ready(self) -> bool:
        """Whether everything has been read once."""
        return self.synced.is_set()

    def get(self, key: str) -> K | None:
        """Return the object with that key (`namespace/name` or `name`), or None."""
        return self._store.get(key)

    def all(self) -> list[K]:
        """Return all objects, in no order."""
        return list(self._store.values())

    def keys(self) -> set[str]:
        """Return all keys."""
        return set(self._store)

    def on_change(self, handler: Handler[K]) -> None:
        """Call `handler` for every change; objects already known are reported at once as new."""
        self._handlers.append(handler)
        for known in self._store.values():
            handler(None, known)

    def observe(self, written: K) -> None:
        """Take in the answer to a write of ours, so that the next read sees it."""
        if written.uid in self._gone:
            return  # the answer to our last write came after the news of the deletion
        known = self._store.get(written.key)
        if known is None or _version(written) > _version(known):
            self._put(written)

    async def run(self) -> None:
        """List and watch until cancelled."""
        delay = 0.2
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                delay = 0.2
            except Gone:
                self._version = ""
            except Forbidden as error:
                self._tell_trouble(str(error))
                if self._optional:
                    self.synced.set()
                await asyncio.sleep(_FORBIDDEN_SECONDS)
            except (KubeError, msgspec.MsgspecError) as error:
                self._tell_trouble(str(error))
                await asyncio.sleep(delay * (0.5 + random.random()))
                delay = min(delay * 2, 10.0)

    def _tell_trouble(self, error: str) -> None:
        """Log a trouble when it is new; while it lasts, it is not repeated."""
        if error == self._last_trouble:
            return
        self._last_trouble = error
        log.error(
            "watch interrupted",
            kind=self.kind.KIND.kind,
            error=error,
            needed=not self._optional,
        )

    async def _list(self) -> None:
        found, version = await self._client.list_with_version(self.kind, self._namespace)
        present = {obj.key for obj in found}
        for key in [key for key in self._store if key not in present]:
            self._drop(key)
        for obj in found:
            known = self._store.get(obj.key)
            if known is None or known.metadata.resource_version != obj.metadata.resource_version:
                self._put(obj)
        self._version = version
        self._last_trouble = ""
        self.synced.set()

    async def _watch(self) -> None:
        seconds = random.randint(240, 420)
        request = requests.watch(self.kind.KIND, self._namespace, self._version, seconds)
        async with self._client.stream(request, seconds + 15.0) as lines:
            async for line in lines:
                if line:
                    self._take(msgspec.json.decode(line, type=_Event))

    def _take(self, event: _Event) -> None:
        if event.type == "BOOKMARK":
            self._version = msgspec.json.decode(
                event.object, type=_Bookmark
            ).metadata.resource_version
            return
        if event.type == "ERROR":
            code = msgspec.json.decode(event.object, type=_WatchError).code
            raise classify(code, bytes(event.object), f"watch {self.kind.KIND.plural}")
        obj = decode(self.kind, event.object)
        if obj is None:
            return
        self._version = obj.metadata.resource_version
        if event.type == "DELETED":
            self._drop(obj.key)
            return
        known = self._store.get(obj.key)
        if known is None or _version(obj) > _version(known):
            self._put(obj)

    def _put(self, obj: K) -> None:
        old = self._store.get(obj.key)
        self._store[obj.key] = obj
        self._tell(old, obj)

    def _drop(self, key: str) -> None:
        old = self._store.pop(key, None)
        if old is not None:
            self._gone.append(old.uid)
            self._tell(old, None)

    def _tell(self, old: K | None, new: K | None) -> None:
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception:
                log.exception("handler failed", kind=self.kind.KIND.kind)


def _version(obj: KubeObject) -> int:
    """Resource versions of one kind compare as numbers since Kubernetes 1.35 declares them so."""
    try:
        return int(obj.metadata.resource_version)
    except ValueError:
        return 0
