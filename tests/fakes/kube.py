"""An API server in memory: merge patches, locks, finalizers, evictions, and stores that watch it."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.pod import Pod
from nodewright_controller.kernel.timing import format_instant
from nodewright_controller.ports.errors import Conflict, NotFound, TooManyRequests

K = TypeVar("K", bound=KubeObject)
Objects: TypeAlias = list[K]
Document = dict[str, Any]


class FakeStore(Generic[K]):
    """What an informer would hold, without any lag."""

    def __init__(self, kind: type[K]) -> None:
        self.kind = kind
        self.ready = True
        self._objects: dict[str, K] = {}
        self._handlers: list[Callable[[K | None, K | None], None]] = []

    def get(self, key: str) -> K | None:
        return self._objects.get(key)

    def all(self) -> Objects[K]:
        return list(self._objects.values())

    def keys(self) -> set[str]:
        return set(self._objects)

    def on_change(self, handler: Callable[[K | None, K | None], None]) -> None:
        self._handlers.append(handler)
        for known in self._objects.values():
            handler(None, known)

    def observe(self, written: K) -> None:
        """The watch has told us already."""

    def put(self, obj: K) -> None:
        old = self._objects.get(obj.key)
        self._objects[obj.key] = obj
        for handler in self._handlers:
            handler(old, obj)

    def drop(self, key: str) -> None:
        old = self._objects.pop(key, None)
        for handler in self._handlers:
            handler(old, None)


class FakeKube:
    """Implements `ports.kube.Kube`; `store(kind)` gives the local copy that follows it."""

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        self._now = now or (lambda: datetime.now(UTC))
        self._documents: dict[tuple[str, str], Document] = {}
        self._stores: dict[str, FakeStore[Any]] = {}
        self._versions = itertools.count(1)
        self.evictions: list[str] = []
        self.blocked_by_pdb: set[str] = set()
        self.fail_next: list[Exception] = []
        """Errors that the next writes raise, one each."""

    def store(self, kind: type[K]) -> FakeStore[K]:
        return self._stores.setdefault(kind.KIND.kind, FakeStore(kind))

    def add(self, obj: K) -> K:
        """Put an object in as if somebody had created it."""
        return self._create(obj)

    async def get(self, kind: type[K], name: str, namespace: str = "") -> K:
        return self._decode(kind, self._document(kind, name, namespace))

    async def list(self, kind: type[K], namespace: str = "", labels: str = "") -> Objects[K]:
        return [
            self._decode(kind, document)
            for (found, _), document in sorted(self._documents.items())
            if found == kind.KIND.kind
        ]

    async def create(self, body: K) -> K:
        self._maybe_fail()
        return self._create(body)

    def _create(self, body: K) -> K:
        document: Document = msgspec.json.decode(msgspec.json.encode(body))
        meta = document.setdefault("metadata", {})
        if not meta.get("name"):
            meta["name"] = f"{meta.get('generateName', 'x-')}{uuid.uuid4().hex[:5]}"
        key = self._key(type(body), meta["name"], meta.get("namespace", ""))
        if key in self._documents:
            raise Conflict(f"{key} exists")
        meta.setdefault("uid", str(uuid.uuid4()))
        meta.setdefault("creationTimestamp", format_instant(self._now()))
        meta["generation"] = 1
        return self._save(type(body), key, document)

    async def patch(
        self,
        kind: type[K],
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        status: bool = False,
    ) -> K:
        self._maybe_fail()
        document = self._document(kind, name, namespace)
        version = body.get("metadata", {}).get("resourceVersion")
        if version is not None and version != document["metadata"]["resourceVersion"]:
            raise Conflict(f"{name} is at another version")
        wanted: Any = msgspec.json.decode(msgspec.json.encode(body))
        if status:
            wanted = {"status": wanted.get("status", {})}
        merged = merge(document, wanted)
        key = self._key(kind, name, namespace)
        meta = merged["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            return self._remove(kind, key)
        return self._save(kind, key, merged)

    async def delete(
        self,
        kind: type[K],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        self._maybe_fail()
        document = self._document(kind, name, namespace)
        if uid and document["metadata"]["uid"] != uid:
            raise Conflict(f"{name} has another uid")
        key = self._key(kind, name, namespace)
        if document["metadata"].get("finalizers"):
            stamp = format_instant(self._now())
            self._save(kind, key, merge(document, {"metadata": {"deletionTimestamp": stamp}}))
        else:
            self._remove(kind, key)

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        key = f"{namespace}/{name}"
        if key in self.blocked_by_pdb:
            raise TooManyRequests(
                "Cannot evict pod as it would violate the pod's disruption budget."
            )
        self._document(Pod, name, namespace)
        self.evictions.append(key)
        self._remove(Pod, self._key(Pod, name, namespace))

    def _maybe_fail(self) -> None:
        if self.fail_next:
            raise self.fail_next.pop(0)

    def _key(self, kind: type[KubeObject], name: str, namespace: str) -> tuple[str, str]:
        return (kind.KIND.kind, f"{namespace}/{name}" if namespace else name)

    def _document(self, kind: type[KubeObject], name: str, namespace: str) -> Document:
        key = self._key(kind, name, namespace)
        if key not in self._documents:
            raise NotFound(f"{key} is not there")
        return self._documents[key]

    def _decode(self, kind: type[K], document: Document) -> K:
        return msgspec.json.decode(msgspec.json.encode(document), type=kind)

    def _save(self, kind: type[K], key: tuple[str, str], document: Document) -> K:
        document["metadata"]["resourceVersion"] = str(next(self._versions))
        self._documents[key] = document
        obj = self._decode(kind, document)
        self.store(kind).put(obj)
        return obj

    def _remove(self, kind: type[K], key: tuple[str, str]) -> K:
        obj = self._decode(kind, self._documents.pop(key))
        self.store(kind).drop(key[1])
        return obj


def merge(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged
