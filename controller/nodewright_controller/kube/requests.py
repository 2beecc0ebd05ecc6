"""A verb on a kind becomes a request: paths, parameters and bodies, without any I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nodewright_controller.api.meta import Kind

MERGE_PATCH = "application/merge-patch+json"
PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request to the API server."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = "application/json"


def collection(kind: Kind, namespace: str = "") -> str:
    """Return the path of all objects of a kind."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/{namespace}/{kind.plural}" if namespace else f"{root}/{kind.plural}"


def item(kind: Kind, name: str, namespace: str = "", subresource: str = "") -> str:
    """Return the path of one object, or of a subresource of it.

    Raises:
        ValueError: a namespaced kind comes without a namespace.
    """
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind.kind} {name!r} needs a namespace")
    path = f"{collection(kind, namespace)}/{name}"
    return f"{path}/{subresource}" if subresource else path


def list_page(kind: Kind, namespace: str = "", *, labels: str = "", token: str = "") -> Request:
    """Ask for one page of a list; `token` is the position that the last page gave."""
    params = {"limit": str(PAGE)}
    if labels:
        params["labelSelector"] = labels
    if token:
        params["continue"] = token
    return Request(method="GET", path=collection(kind, namespace), params=params)


def watch(kind: Kind, namespace: str, version: str, seconds: int) -> Request:
    """Ask for the changes after `version`; the server ends the stream after `seconds`."""
    params = {
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(seconds),
    }
    return Request(method="GET", path=collection(kind, namespace), params=params)


def delete(kind: Kind, name: str, namespace: str, uid: str, grace_seconds: int | None) -> Request:
    """Delete one object, only if its UID still fits when one is given."""
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if uid:
        body["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        body["gracePeriodSeconds"] = grace_seconds
    return Request(method="DELETE", path=item(kind, name, namespace), body=body)


def eviction(pod: Kind, namespace: str, name: str, uid: str) -> Request:
    """Evict a pod of that UID."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    return Request(method="POST", path=item(pod, name, namespace, "eviction"), body=body)
