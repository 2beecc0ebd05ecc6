"""Capacity pools that a test can drain.

A pool is (instance type, zone, capacity type), each possibly `*`, with what remains in it.
Everything a pool does not mention is unlimited. A launch needs room in *every* pool that matches
it and takes one from each; what is terminated does not come back, as on a busy day in EC2.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

ANY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One limited pool."""

    instance_type: str = ANY
    zone: str = ANY
    capacity_type: str = ANY
    """`spot`, `on-demand` or `*`."""
    remaining: int = 0
    """How many more instances it can give."""
    error: str = "InsufficientInstanceCapacity"
    """The code EC2 gives once nothing remains; a quota has a code of its own."""

    def covers(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        """Whether a launch would draw from this pool."""
        return (
            self.instance_type in (ANY, instance_type)
            and self.zone in (ANY, zone)
            and self.capacity_type in (ANY, capacity_type)
        )


class PoolError(ValueError):
    """A pool that can not be read; the message names it."""


def read_pool(document: Mapping[str, Any]) -> Pool:
    """Read one pool of the control API; raises PoolError for unknown keys or values."""
    unknown = set(document) - {"instance_type", "zone", "capacity_type", "remaining", "error"}
    if unknown:
        raise PoolError(f"pool {dict(document)} has unknown keys {sorted(unknown)}")
    remaining = document.get("remaining", 0)
    if not isinstance(remaining, int) or isinstance(remaining, bool) or remaining < 0:
        raise PoolError(f"pool {dict(document)}: remaining must be a number from 0 up")
    if document.get("capacity_type", ANY) not in (ANY, "spot", "on-demand"):
        raise PoolError(f"pool {dict(document)}: capacity_type is spot, on-demand or *")
    return Pool(**document)


class Capacity:
    """The table of limited pools."""

    def __init__(self) -> None:
        self._pools: list[Pool] = []

    def replace(self, pools: Iterable[Pool]) -> None:
        """Forget all limits and set these; none at all means that everything is available."""
        self._pools = list(pools)

    def pools(self) -> tuple[Pool, ...]:
        """The limits as they stand now."""
        return tuple(self._pools)

    def obstacle(self, instance_type: str, zone: str, capacity_type: str) -> str | None:
        """The error code of the first empty pool in the way of one more instance."""
        for pool in self._pools:
            if pool.remaining <= 0 and pool.covers(instance_type, zone, capacity_type):
                return pool.error
        return None

    def take(self, instance_type: str, zone: str, capacity_type: str) -> str | None:
        """Take one instance's worth; None on success, else the error code, and nothing is taken."""
        code = self.obstacle(instance_type, zone, capacity_type)
        if code is not None:
            return code
        self._pools = [
            replace(pool, remaining=pool.remaining - 1)
            if pool.covers(instance_type, zone, capacity_type)
            else pool
            for pool in self._pools
        ]
        return None
