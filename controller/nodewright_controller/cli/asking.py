"""Asks the controller of a running cluster for an explanation, with the user's own kubeconfig.

The leader is the holder of the Lease; its API is reached through the API server's proxy to pods, so
that a kubeconfig which may `get pods/proxy` in the controller's namespace is all it takes. An API
server never passes requests on to loopback addresses; a controller that has one runs on this very
machine, and is asked directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final, TypeVar

import httpx2
import msgspec

from nodewright_controller.api.coordination import Lease
from nodewright_controller.api.pod import Pod
from nodewright_controller.kube import requests
from nodewright_controller.kube.client import KubeClient
from nodewright_controller.kube.requests import Request
from nodewright_controller.ports.errors import KubeError, NotFound

API_PATH: Final = "/api/v1/why"
GROUP: Final = "nodewright"
"""In the `details` of an error, says that the controller wrote it."""
LEASE: Final = "karpenter-leader-election"
NAMESPACES: Final = ("karpenter", "kube-system")
_SECONDS: Final = 15.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where the controller is."""

    namespace: str = ""
    """Of the controller and its lease; empty: wherever a lease of that name is."""
    lease: str = LEASE
    port: int = 8080


class CannotAsk(Exception):
    """The controller gives no answer; the message says why."""


class NoSuchSubject(Exception):
    """The controller knows no such pod or NodeClaim; the message says so."""


class _Details(msgspec.Struct):
    group: str = ""


class _Status(msgspec.Struct):
    """An error as Kubernetes writes it; the controller does too."""

    message: str = ""
    details: _Details | None = None


class _PodStatus(msgspec.Struct, rename="camel"):
    pod_ip: str = msgspec.field(default="", name="podIP")


class _PodAddress(msgspec.Struct):
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


async def ask_controller(
    kube: KubeClient, where: Where, subject: str, name: str, answer: type[T]
) -> T:
    """Return the leader's answer about a `pod` or a `nodeclaim`, read as `answer`.

    Raises:
        CannotAsk: there is no leader, it may not be asked, or it is too old for such questions.
        NoSuchSubject: it answers that there is no such thing.

    """
    namespace, pod = await _leader(kube, where)
    path = f"{requests.item(Pod.KIND, f'{pod}:{where.port}', namespace, 'proxy')}{API_PATH}"
    question = {subject: name}
    try:
        code, body = await kube.exchange(Request(method="GET", path=path, params=question))
        if code == HTTPStatus.BAD_REQUEST and not _is_ours(_status(body)):
            address = await _loopback_address(kube, namespace, pod)
            if address:
                code, body = await _on_this_machine(f"http://{address}:{where.port}", question)
    except KubeError as error:
        raise CannotAsk(str(error)) from error
    if code != HTTPStatus.OK:
        raise _refusal(code, _status(body), pod)
    try:
        return msgspec.json.decode(body, type=answer)
    except msgspec.MsgspecError as error:
        raise CannotAsk(f"the answer of pod {pod} cannot be read: {error}") from error


def _status(body: bytes) -> _Status:
    try:
        return msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        return _Status(message=body[:200].decode("utf-8", "replace").strip())


def _is_ours(status: _Status) -> bool:
    """Whether the controller itself says so, rather than the API server or another program."""
    return status.details is not None and status.details.group == GROUP


def _refusal(code: int, status: _Status, pod: str) -> Exception:
    if _is_ours(status):
        known = code != HTTPStatus.NOT_FOUND
        return CannotAsk(status.message) if known else NoSuchSubject(status.message)
    if code == HTTPStatus.NOT_FOUND:
        return CannotAsk(f"pod {pod} answers no such questions: {status.message}")
    if code == HTTPStatus.FORBIDDEN:
        return CannotAsk(f"you may not reach it through the API server: {status.message}")
    return CannotAsk(f"pod {pod}: {status.message or 'no answer'} (HTTP {code})")


async def _leader(kube: KubeClient, where: Where) -> tuple[str, str]:
    """Return namespace and name of the leader's pod."""
    namespaces = (where.namespace,) if where.namespace else NAMESPACES
    refusals = []
    for namespace in namespaces:
        try:
            lease = await kube.get(Lease, where.lease, namespace)
        except KubeError as error:
            refusals.append(error)
            continue
        holder = lease.spec.holder_identity.rpartition("_")[0]
        if not holder:
            raise CannotAsk(f"nobody holds the lease {namespace}/{where.lease} now")
        return namespace, holder
    serious = next((one for one in refusals if not isinstance(one, NotFound)), None)
    if serious is not None:
        raise CannotAsk(str(serious))
    raise CannotAsk(
        f"there is no lease {where.lease} in namespace {' or '.join(namespaces)}"
        " (--controller-namespace and --lease name another)"
    )


async def _loopback_address(kube: KubeClient, namespace: str, pod: str) -> str:
    """Return the pod's address if it is a loopback one, else nothing."""
    body = await kube.send(Request(method="GET", path=requests.item(Pod.KIND, pod, namespace)))
    address = msgspec.json.decode(body, type=_PodAddress).status.pod_ip
    return address if address and ip_address(address).is_loopback else ""


async def _on_this_machine(url: str, question: Mapping[str, str]) -> tuple[int, bytes]:
    try:
        async with httpx2.AsyncClient(timeout=_SECONDS, trust_env=False) as http:
            response = await http.get(f"{url}{API_PATH}", params=dict(question))
    except httpx2.HTTPError as error:
        raise CannotAsk(f"{url}: {str(error) or type(error).__name__}") from error
    return response.status_code, response.content
