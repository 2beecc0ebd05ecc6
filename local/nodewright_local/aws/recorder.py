"""The last few thousand API calls, so that tests and people can see what a client really asked."""

import base64
import threading
from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import Any

KEPT_CALLS = 4000
_SUMMARY_ITEMS = 20


class Recorder:
    """A bounded list of calls, newest last."""

    def __init__(self) -> None:
        self._calls: deque[dict[str, Any]] = deque(maxlen=KEPT_CALLS)
        self._lock = threading.Lock()

    def add(self, call: dict[str, Any]) -> None:
        """Remember one call; keys as the control API shows them."""
        with self._lock:
            self._calls.append(call)

    def calls(self, *, action: str | None = None, service: str | None = None) -> list[Any]:
        """Return matching calls, oldest first, in JSON-ready form."""
        with self._lock:
            kept = list(self._calls)
        return [
            to_json(call)
            for call in kept
            if action in (None, call["action"]) and service in (None, call["service"])
        ]

    def clear(self) -> None:
        """Forget all calls."""
        with self._lock:
            self._calls.clear()


def to_json(value: Any) -> Any:
    """Turn a parsed request into what `json.dumps` accepts; bytes become base64."""
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Iterable):
        return [to_json(item) for item in value]
    return str(value)


def summarise(result: Any) -> Any:
    """Shorten long lists in a result, so that the record stays small."""
    if isinstance(result, dict):
        return {key: summarise(value) for key, value in result.items()}
    if isinstance(result, list):
        short = [summarise(item) for item in result[:_SUMMARY_ITEMS]]
        left = len(result) - len(short)
        return [*short, f"... {left} more"] if left else short
    return result
