"""A thin client of the Kubernetes API: the few calls of a kubelet, over one connection pool.

Errors are two: the API server answered with a refusal (:class:`ApiError`), or it did not answer
(:class:`ApiUnreachable`). Retrying is the caller's decision.
"""

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import yaml

REQUEST_TIMEOUT_SECONDS = 10.0
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


class ApiError(Exception):
    """The API server refused; ``status`` is the HTTP status, the text its own message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ApiUnreachable(Exception):
    """The API server did not answer; the text says how it failed."""

    def __init__(self, message: str, *, untrusted: bool = False) -> None:
        super().__init__(message)
        self.untrusted = untrusted
        """Whether it answered, but with a certificate that the given CA did not sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAccess:
    """How to reach an API server: its URL, how to trust it, who to be."""

    server: str
    ssl_context: ssl.SSLContext
    token: str | None = None


class ApiClient:
    """Calls to one API server; an async context manager that owns its connections."""

    def __init__(self, access: ApiAccess) -> None:
        headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
        self._http = httpx2.AsyncClient(
            base_url=access.server,
            verify=access.ssl_context,
            headers={"User-Agent": "nodewright-local-kubelet", **headers},
            timeout=REQUEST_TIMEOUT_SECONDS,
            trust_env=False,  # a proxy of the user's environment must not see loopback traffic
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def get(self, path: str, **params: str) -> dict[str, Any]:
        """Read an object or a list."""
        return await self._call("GET", path, params=params)

    async def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object, or ask a subresource such as ``serviceaccounts/…/token``."""
        return await self._call("POST", path, body=body)

    async def patch(
        self, path: str, body: Mapping[str, Any], content_type: str = STRATEGIC_MERGE_PATCH
    ) -> dict[str, Any]:
        """Patch an object or its status."""
        return await self._call("PATCH", path, body=body, content_type=content_type)

    async def delete(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Delete an object with DeleteOptions."""
        return await self._call("DELETE", path, body=body)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
    ) -> dict[str, Any]:
        content = None if body is None else json.dumps(body).encode()
        headers = {} if content is None else {"Content-Type": content_type}
        try:
            async with asyncio.timeout(2 * REQUEST_TIMEOUT_SECONDS):
                response = await self._http.request(
                    method, path, params=params or None, content=content, headers=headers
                )
        except (httpx2.TransportError, TimeoutError) as error:
            text = str(error) or type(error).__name__
            raise ApiUnreachable(text, untrusted="CERTIFICATE_VERIFY_FAILED" in text) from error
        if response.is_success:
            return _document(response)
        raise ApiError(response.status_code, _message(response))


def _document(response: httpx2.Response) -> dict[str, Any]:
    try:
        document = response.json()
    except ValueError as error:
        raise ApiUnreachable(f"{response.url} answered with something else than JSON") from error
    return document if isinstance(document, dict) else {}


def _message(response: httpx2.Response) -> str:
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {response.status_code}: {response.text[:200]}"


def trust(certificate_authority_pem: str) -> ssl.SSLContext:
    """Return a TLS context that trusts that CA alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificate_authority_pem)
    return context


def access_of_kubeconfig(path: Path) -> ApiAccess:
    """Read server, CA and client certificate of a kubeconfig's current context.

    Raises ValueError if the file has no such context or lacks the data inline or as files.
    """
    config = yaml.safe_load(path.read_text())
    try:
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        ca = _data(cluster, "certificate-authority", path.parent)
        certificate = _data(user, "client-certificate", path.parent)
        key = _data(user, "client-key", path.parent)
        server = cluster["server"]
    except (KeyError, TypeError, StopIteration) as error:
        raise ValueError(
            f"{path} is not a kubeconfig with a client certificate: {error}"
        ) from error
    ssl_context = trust(ca.decode())
    with tempfile.NamedTemporaryFile() as pair:  # ssl reads a key pair from files only
        pair.write(certificate + b"\n" + key)
        pair.flush()
        ssl_context.load_cert_chain(pair.name)
    return ApiAccess(server=server, ssl_context=ssl_context)


def _named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if item["name"] == name)


def _data(holder: Mapping[str, str], name: str, folder: Path) -> bytes:
    inline = holder.get(f"{name}-data")
    if inline is not None:
        return base64.b64decode(inline)
    return (folder / holder[name]).read_bytes()
