"""What the API server answers, as errors of our ports. One pure function."""

from __future__ import annotations

import msgspec

from nodewright_controller.ports.errors import (
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    TooManyRequests,
)


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    details: _Details | None = None


def classify(code: int, body: bytes, what: str) -> KubeError:
    """Return the error for an HTTP status and its body; `what` names the request."""
    try:
        status = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        status = _Status(message=body[:300].decode("utf-8", "replace"))
    text = f"{what}: {status.message or code}"
    if code == 404:
        return NotFound(text)
    if code == 403:
        return Forbidden(text)
    if code == 409:
        return Conflict(text)
    if code == 410:
        return Gone(text)
    if code == 429:
        return TooManyRequests(text, status.details.retry_after_seconds if status.details else None)
    if code in (400, 422):
        return Invalid(text)
    if code == 500 and "does not support multiple PodDisruptionBudgets" in status.message:
        # A pod under two budgets can never be evicted: to its owner this is the same as being asked to wait.
        return TooManyRequests(text)
    return KubeError(f"{text} (HTTP {code})")
