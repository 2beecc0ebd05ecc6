"""The fields of a Node that decisions read."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import msgspec

from nodewright_controller.api.meta import Condition, Kind, KubeObject, Struct
from nodewright_controller.api.pod import Quantities


class Taint(Struct):
    """A taint; order of fields is that of Karpenter's hash."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None


class NodeSpec(Struct):
    """What a node is."""

    provider_id: str = msgspec.field(default="", name="providerID")
    taints: list[Taint] | None = None
    unschedulable: bool = False


class NodeSystemInfo(Struct):
    """Identity of the machine."""

    boot_id: str = msgspec.field(default="", name="bootID")
    kubelet_version: str = ""


class NodeStatus(Struct):
    """What a node has."""

    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None
    node_info: NodeSystemInfo | None = None


class Node(KubeObject):
    """A Node."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Node", "nodes")

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)
