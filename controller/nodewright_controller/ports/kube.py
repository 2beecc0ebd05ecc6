"""The API server: typed objects in, typed objects out.

Everything is written by patch, so a field that our types do not know is never lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from nodewright_controller.api.meta import KubeObject

K = TypeVar("K", bound=KubeObject)


class Kube(Protocol):
    """The calls we make; each raises the errors of `ports.errors`."""

    async def get(self, kind: type[K], name: str, namespace: str = "") -> K:
        """Read one object from the server. Raises NotFound."""

    async def list(self, kind: type[K], namespace: str = "", labels: str = "") -> list[K]:
        """Read all objects of a kind; `labels` is a selector such as `a=b`."""

    async def create(self, body: K) -> K:
        """Create and return the stored object. Raises Conflict if the name is taken, Invalid."""

    async def patch(
        self,
        kind: type[K],
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        status: bool = False,
    ) -> K:
        """Merge-patch the object or its status; put metadata.resourceVersion in for a locked write.

        Raises NotFound, Conflict, Invalid.
        """

    async def delete(
        self,
        kind: type[K],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> None:
        """Delete, only if the UID still fits when one is given. Raises NotFound, Conflict."""

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        """Evict a pod. Raises TooManyRequests if a PDB forbids it, NotFound, Conflict."""
