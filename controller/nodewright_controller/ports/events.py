"""Kubernetes events, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nodewright_controller.api.meta import KubeObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something a person should know about an object."""

    about: KubeObject
    reason: str
    """CamelCase, one of Karpenter's reason names."""
    message: str
    warning: bool = False
    dedupe_key: str = ""
    """Equal keys within `dedupe_seconds` are one event; empty means reason, object and message."""
    dedupe_seconds: float = 120.0


class Recorder(Protocol):
    """Takes events; never fails and never blocks."""

    def record(self, event: Event) -> None:
        """Queue the event for publication."""
