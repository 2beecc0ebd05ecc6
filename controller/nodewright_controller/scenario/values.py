"""The values that a world file becomes: typed objects, the catalogue, and the scenario itself.

`loading` makes them; everything else reads them. A value that the files leave out has the default
that the API server, or Karpenter, would give it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodeoverlay import NodeOverlay
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.api.policy import PodDisruptionBudget, VolumeAttachment
from nodewright_controller.api.volumes import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from nodewright_controller.api.workloads import DaemonSet, LimitRange, Namespace
from nodewright_controller.cluster.selectors import Selecting
from nodewright_controller.kernel.resources import EMPTY, Resources

_CREATE_BOUND: Final = "createBound"
Storage = PersistentVolumeClaim | PersistentVolume | StorageClass | CSINode


@dataclass(frozen=True, slots=True, kw_only=True)
class SoldAs:
    """One way to buy a type of the catalogue."""

    zone: str
    capacity_type: str
    usd_per_hour: float
    available: bool = True
    zone_id: str = ""
    reservation: str = ""
    """Id of the capacity reservation it comes from."""
    reservation_capacity: int = 0
    """Instances that the reservation has left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogType:
    """An instance type as the catalogue states it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Resources = EMPTY
    allocatable: Resources | None = None
    """None: it follows from the node class."""
    sold: tuple[SoldAs, ...] = ()
    volume_limits: Mapping[str, int] = field(default_factory=dict)
    interfaces: int | None = None
    ipv4_per_interface: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioSpec:
    """What is done to the world, and under which settings."""

    name: str
    steps: tuple[str, ...]
    now: datetime
    settings: Mapping[str, Any] = field(default_factory=dict)
    evaluate_at: tuple[datetime, ...] = ()
    """The instants at which budgets are asked; `now` when there is none."""
    timeline: tuple[Mapping[str, Any], ...] = ()
    queue: tuple[Mapping[str, Any], ...] = ()
    aws: Mapping[str, Any] = field(default_factory=dict)
    cluster_name: str = "scenario"
    controller: Mapping[str, Any] = field(default_factory=dict)

    def created_later(self) -> frozenset[str]:
        """Return the pods that a `createBound` step of the timeline creates, by name or key."""
        found: set[str] = set()
        for entry in self.timeline:
            step = entry.get(_CREATE_BOUND)
            if entry.get("do") == _CREATE_BOUND:
                step = entry
            if isinstance(step, str):
                found.add(step)
            elif isinstance(step, Mapping):
                pods = step.get("pods")
                found.update(str(pod) for pod in (pods if isinstance(pods, list) else ()))
                found.update(str(step[key]) for key in ("pod", "name") if key in step)
        return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that the files of one test say."""

    scenario: ScenarioSpec
    catalog: tuple[CatalogType, ...] = ()
    node_pools: tuple[NodePool, ...] = ()
    node_classes: tuple[EC2NodeClass, ...] = ()
    node_claims: tuple[NodeClaim, ...] = ()
    node_overlays: tuple[NodeOverlay, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    """Those of workloads too."""
    daemon_sets: tuple[DaemonSet, ...] = ()
    disruption_budgets: tuple[PodDisruptionBudget, ...] = ()
    limit_ranges: tuple[LimitRange, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    storage: tuple[Storage, ...] = ()
    volume_attachments: tuple[VolumeAttachment, ...] = ()
    selecting: tuple[Selecting, ...] = ()
    """Services, and the owners of pods by which default spread constraints know their fellows."""
    free_addresses: Mapping[str, int] = field(default_factory=dict)
    """Subnet id to free addresses, where a node class's status states them."""
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """`Kind/name` to what the API server would not have let in, one sentence each."""
    warnings: tuple[str, ...] = ()
    """What could not be read, one sentence each."""
