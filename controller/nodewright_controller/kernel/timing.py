"""Durations as Kubernetes and Karpenter write them (`1h30m`, `Never`), and RFC 3339 instants."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

NEVER: Final = "Never"

_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> timedelta:
    """Read a Go duration such as `1h30m`.

    Raises:
        ValueError: the text is no duration; the message names it.

    """
    body = text.strip()
    sign = -1 if body.startswith("-") else 1
    body = body.lstrip("+-")
    if body == "0":
        return timedelta()
    parts = list(_PART.finditer(body))
    if not parts or "".join(part.group(0) for part in parts) != body:
        raise ValueError(f"{text!r} is not a duration (such as 30s, 5m, 1h30m)")
    return sign * timedelta(seconds=sum(float(p.group(1)) * _SECONDS[p.group(2)] for p in parts))


def parse_nillable_duration(text: str | None) -> timedelta | None:
    """Read a duration where `Never` (and absence) mean that it does not end."""
    return None if text is None or text == NEVER else parse_duration(text)


def format_duration(span: timedelta) -> str:
    """Write a span of whole seconds as Go does: `1h0m0s`, `1m30s`, `15s`."""
    seconds = int(span.total_seconds())
    if seconds < 0:
        return "-" + format_duration(-span)
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def format_instant(instant: datetime) -> str:
    """Write an instant as the API does: whole seconds, UTC, `Z`."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_instant(text: str) -> datetime:
    """Read an RFC 3339 instant as an aware UTC datetime."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)
