"""Pods that are the same for the solver, and what a round finds out about them.

Pods of equal rules share a shape, pods of equal requests a size; both together are a class. What a
look finds out about classes and bins is kept here while it lasts, and forgotten by `rewind`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nodewright_controller.api.pod import Pod
from nodewright_controller.kernel.resources import CPU, MEMORY, Resources
from nodewright_controller.scheduling.guard import Bar
from nodewright_controller.scheduling.pools import CompiledPool
from nodewright_controller.scheduling.shapes import Level, Shape
from nodewright_controller.scheduling.topology import Tally


@dataclass(slots=True, eq=False)
class Size:
    """A vector of requests, and which bins have turned out to be too full for it."""

    requests: Resources
    vector: tuple[tuple[int, int], ...] = ()
    """(resource id, amount), zero amounts left out."""
    nodes: int = 0
    """Nodes that had room when the round began."""
    full: int = 0
    """Bins without room; bins only fill up, so this only grows."""


@dataclass(slots=True, eq=False)
class ShapeLevel:
    """What is known about a shape at one of its levels, for pods of every size."""

    level: Level
    nodes: int
    """Nodes whose labels, taints and static rules admit it."""
    pools: tuple[CompiledPool, ...]
    """Pools whose taints it tolerates, in order."""
    reachable: tuple[CompiledPool, ...] = ()
    """Pools it could be on at all; `PreferNoSchedule` does not keep a pod from a domain."""
    dead: int = 0
    """Bins that can never take it."""
    host_rules: bool = False
    """Whether any rule is about single hosts."""
    domain_rules: bool = False
    """Whether any rule is about other topology domains."""


@dataclass(slots=True, eq=False)
class ClassLevel:
    """What is known about a class at one level."""

    shape_level: ShapeLevel
    dead: int = 0
    """Bins that can never take it."""
    dead_in: dict[tuple[str, str], int] = field(default_factory=dict)
    """(topology key, value) to bins that can never take it there."""
    reach: dict[Tally, frozenset[str]] = field(default_factory=dict)
    """Domains in which it could ever be, per tally of a spread."""
    fresh: dict[CompiledPool, int] = field(default_factory=dict)
    """Types of a pool that hold it alone."""


@dataclass(slots=True, eq=False)
class PodClass:
    """Pods of one shape and one size: for the solver they are the same."""

    shape: Shape
    size: Size
    bars: tuple[Bar, ...] = ()
    """Shapes that missed these pods and are not bought for them now."""
    levels: list[ClassLevel] = field(default_factory=list)
    is_plain: bool = field(init=False)
    """Whether nothing but room and rules decides which types may hold it."""

    def __post_init__(self) -> None:
        """Look at what it brings once: it is asked for with every try."""
        self.is_plain = not (self.shape.ports or self.shape.volumes.attached or self.bars)


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod to place."""

    pod: Pod
    pod_class: PodClass


def barred_types(pod_class: PodClass, pool: CompiledPool) -> int:
    """Return the types of a pool that are not bought for these pods now."""
    mask = 0
    for bar in pod_class.bars:
        if bar.node_pool == pool.name:
            mask |= pool.named(bar.instance_type) if bar.instance_type else -1
    return mask & pool.index.everything


def solving_order(queued: QueuedPod) -> tuple[int, int, float, str, str]:
    """Return the key by which pods are ordered.

    Much cpu comes first, then much memory, then age; names settle the rest.
    """
    requests = queued.pod_class.size.requests
    created = queued.pod.metadata.creation_timestamp
    return (
        -requests.get(CPU, 0),
        -requests.get(MEMORY, 0),
        created.timestamp() if created is not None else 0.0,
        queued.pod.metadata.uid,
        queued.pod.key,
    )
