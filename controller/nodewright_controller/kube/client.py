"""The API server over lightkube's transport and authentication, with verbs of our own.

lightkube reads the kubeconfig or the pod's service account and keeps the token fresh; the verbs here
are few because our objects are slim Structs that must only ever be written by patch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import httpx2
import msgspec
import structlog
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import KubeConfig

from nodewright_controller.api import codec
from nodewright_controller.api.codec import Broken, to_wire
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.pod import Pod
from nodewright_controller.kube import requests
from nodewright_controller.kube.errors import classify
from nodewright_controller.kube.requests import Request
from nodewright_controller.ports.errors import Invalid, KubeError

log = structlog.get_logger()
K = TypeVar("K", bound=KubeObject)
Objects: TypeAlias = list[K]

_CALL_SECONDS = 15.0
_USER_AGENT = "nodewright-controller"


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class KubeClient:
    """Implements `ports.kube.Kube`; an async context manager that owns its connections."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    @classmethod
    def from_environment(cls) -> KubeClient:
        """Connect as the kubeconfig (`KUBECONFIG`) or the pod's service account says."""
        config = KubeConfig.from_env().get()
        if config is None:
            raise KubeError("no kubeconfig and no service account: set KUBECONFIG")
        timeout = httpx2.Timeout(_CALL_SECONDS, connect=5.0)
        http = client_adapter.AsyncClient(
            config, client_adapter.ConnectionParams(timeout=timeout, trust_env=False)
        )
        http.headers["User-Agent"] = _USER_AGENT
        return cls(http)

    async def __aenter__(self) -> KubeClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def send(self, request: Request) -> bytes:
        """Send a request and return the body of a good answer. Raises the errors of `ports.errors`."""
        code, body = await self.exchange(request)
        if code >= 300:
            raise classify(code, body, f"{request.method} {request.path}")
        return body

    async def exchange(self, request: Request) -> tuple[int, bytes]:
        """Send a request and return HTTP code and body, whatever they are.

        Raises:
            KubeError: there was no answer.
        """
        what = f"{request.method} {request.path}"
        content = None if request.body is None else msgspec.json.encode(request.body)
        try:
            response = await self._http.request(
                request.method,
                request.path,
                params=dict(request.params),
                content=content,
                headers={"Content-Type": request.content_type, "Accept": "application/json"},
            )
        except httpx2.HTTPError as error:
            raise KubeError(f"{what}: {str(error) or type(error).__name__}") from error
        return response.status_code, response.content

    async def get(self, kind: type[K], name: str, namespace: str = "") -> K:
        """Read one object."""
        path = requests.item(kind.KIND, name, namespace)
        return _read(kind, await self.send(Request(method="GET", path=path)))

    async def list(self, kind: type[K], namespace: str = "", labels: str = "") -> Objects[K]:
        """Read all objects of a kind; broken ones are logged and left out."""
        found, _ = await self.list_with_version(kind, namespace, labels=labels)
        return found

    async def list_with_version(
        self, kind: type[K], namespace: str = "", *, labels: str = ""
    ) -> tuple[Objects[K], str]:
        """Read all objects of a kind in pages, and the version from which to watch."""
        found: Objects[K] = []
        token = ""
        while True:
            request = requests.list_page(kind.KIND, namespace, labels=labels, token=token)
            page = msgspec.json.decode(await self.send(request), type=_Page)
            found.extend(obj for raw in page.items or () if (obj := decode(kind, raw)) is not None)
            token = page.metadata.continue_
            if not token:
                return found, page.metadata.resource_version

    async def create(self, body: K) -> K:
        """Create an object."""
        kind = type(body).KIND
        path = requests.collection(kind, body.metadata.namespace)
        answer = await self.send(Request(method="POST", path=path, body=to_wire(body)))
        return _read(type(body), answer)

    async def patch(
        self,
        kind: type[K],
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        status: bool = False,
    ) -> K:
        """Merge-patch an object or its status."""
        path = requests.item(kind.KIND, name, namespace, "status" if status else "")
        request = Request(method="PATCH", path=path, body=body, content_type=requests.MERGE_PATCH)
        return _read(kind, await self.send(request))

    async def delete(
        self,
        kind: type[K],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object."""
        await self.send(requests.delete(kind.KIND, name, namespace, uid, grace_seconds))

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        """Evict a pod."""
        await self.send(requests.eviction(Pod.KIND, namespace, name, uid))

    @asynccontextmanager
    async def stream(self, request: Request, seconds: float) -> AsyncIterator[AsyncIterator[str]]:
        """Open a stream of lines that fails when it is silent for `seconds`."""
        what = f"{request.method} {request.path}"
        timeout = httpx2.Timeout(_CALL_SECONDS, read=seconds)
        try:
            async with self._http.stream(
                request.method, request.path, params=dict(request.params), timeout=timeout
            ) as response:
                if response.status_code >= 300:
                    raise classify(response.status_code, await response.aread(), what)
                yield response.aiter_lines()
        except httpx2.HTTPError as error:
            raise KubeError(f"{what}: {str(error) or type(error).__name__}") from error


def decode(kind: type[K], raw: bytes | msgspec.Raw) -> K | None:
    """Decode one object; a broken one is logged and gives None, so it never stops the others."""
    found = codec.decode(kind, raw)
    if isinstance(found, Broken):
        log.error(
            "object cannot be read",
            kind=found.kind,
            object=found.key,
            field=found.field,
            error=found.problem,
        )
        return None
    return found


def _read(kind: type[K], raw: bytes) -> K:
    """Decode the answer to a call about one object.

    Raises:
        Invalid: it cannot be read; the message names object and field.
    """
    found = codec.decode(kind, raw)
    if isinstance(found, Broken):
        raise Invalid(str(found))
    return found
