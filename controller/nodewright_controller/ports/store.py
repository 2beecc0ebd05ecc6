"""A local copy of the objects of one kind, as reconcilers see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from nodewright_controller.api.meta import KubeObject

K = TypeVar("K", bound=KubeObject)


class Store(Protocol[K]):
    """Reads are from memory and may lag behind the server by moments."""

    @property
    def ready(self) -> bool:
        """Whether everything has been read once."""

    def get(self, key: str) -> K | None:
        """Return the object with that key (`namespace/name` or `name`), or None."""

    def all(self) -> list[K]:
        """Return all objects, in no order."""

    def keys(self) -> set[str]:
        """Return all keys."""

    def on_change(self, handler: Callable[[K | None, K | None], None]) -> None:
        """Call `handler(old, new)` for every change, and at once for what is known."""

    def observe(self, written: K) -> None:
        """Take in the answer to a write of ours."""
