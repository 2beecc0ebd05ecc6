"""In which order a fleet tries its capacity pools.

Pure. Which pools are valid and how much they hold is decided elsewhere; here each allocation
strategy is an order over candidates. AWS keeps the depth of its spot pools to itself, so the
capacity-aware strategies work on the invented depth of `prices.spot_pool_depth`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

SHALLOW_POOL_DEPTH = 1
"""Pools this shallow are tried last by the price-capacity-optimized strategy."""
_UNKNOWN_PRICE = float("inf")
_NO_PRIORITY = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One launch template override: a pool the fleet may draw from."""

    index: int
    """Position in the request; settles ties."""
    instance_type: str
    zone: str
    capacity_type: str
    price: float | None
    """USD per hour; None sorts last."""
    depth: int
    priority: float | None
    weight: float
    """Units of target capacity that one instance fulfils."""
    config_index: int
    override: dict[str, Any]
    """The override as sent; EC2 echoes it in instances and errors."""


Key = Callable[[Candidate], tuple[float, ...]]


def _price(candidate: Candidate) -> float:
    return _UNKNOWN_PRICE if candidate.price is None else candidate.price / candidate.weight


def _priority(candidate: Candidate) -> float:
    return _NO_PRIORITY if candidate.priority is None else candidate.priority


def _price_capacity(candidate: Candidate) -> tuple[float, ...]:
    return (float(candidate.depth <= SHALLOW_POOL_DEPTH), _price(candidate), -candidate.depth)


def _capacity_then_priority(candidate: Candidate) -> tuple[float, ...]:
    shallow = float(candidate.depth <= SHALLOW_POOL_DEPTH)
    return (shallow, _priority(candidate), -candidate.depth, _price(candidate))


ON_DEMAND_STRATEGIES: dict[str, Key] = {
    "lowest-price": lambda candidate: (_price(candidate),),
    "prioritized": lambda candidate: (_priority(candidate), _price(candidate)),
}

SPOT_STRATEGIES: dict[str, Key] = {
    "lowest-price": lambda candidate: (_price(candidate),),
    "diversified": lambda candidate: (float(candidate.index),),
    "capacity-optimized": lambda candidate: (-candidate.depth, _price(candidate)),
    "capacity-optimized-prioritized": _capacity_then_priority,
    "price-capacity-optimized": _price_capacity,
}


def order(candidates: Sequence[Candidate], strategy: str, *, spot: bool) -> list[Candidate]:
    """Sort candidates, best first; ties keep the order of the request.

    Raises KeyError for a strategy that this kind of capacity does not know.
    """
    key = (SPOT_STRATEGIES if spot else ON_DEMAND_STRATEGIES)[strategy]
    return sorted(candidates, key=lambda candidate: (*key(candidate), candidate.index))
