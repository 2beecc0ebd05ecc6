"""The workload kinds that decisions read: DaemonSet, Namespace, LimitRange, and what owns pods.

Of ReplicaSets, StatefulSets and ReplicationControllers only the selector is kept; they are never
written.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from nodewright_controller.api.meta import Kind, KubeObject, ObjectMeta, Struct, slim
from nodewright_controller.api.pod import LabelSelector, PodSpec, Quantities


class PodTemplate(Struct):
    """What the pods of a workload look like."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class DaemonSetSpec(Struct):
    """What runs on every node."""

    selector: LabelSelector | None = None
    template: PodTemplate = msgspec.field(default_factory=PodTemplate)


class DaemonSet(KubeObject):
    """A DaemonSet."""

    KIND: ClassVar[Kind] = Kind("apps", "v1", "DaemonSet", "daemonsets", True)

    spec: DaemonSetSpec = msgspec.field(default_factory=DaemonSetSpec)


class Namespace(KubeObject):
    """A Namespace; its labels answer namespace selectors."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Namespace", "namespaces")


class LimitRangeItem(Struct):
    """Defaults for one type of object; only `Container` matters here."""

    type: str = ""
    default: Quantities | None = None
    default_request: Quantities | None = None


class LimitRangeSpec(Struct):
    """The items."""

    limits: list[LimitRangeItem] | None = None


class LimitRange(KubeObject):
    """A LimitRange: what the API server fills in when a container says nothing."""

    KIND: ClassVar[Kind] = Kind("", "v1", "LimitRange", "limitranges", True)

    spec: LimitRangeSpec = msgspec.field(default_factory=LimitRangeSpec)


class SelectingSpec(Struct):
    """The pods of a workload."""

    selector: LabelSelector | None = None


class ReplicaSet(KubeObject):
    """A ReplicaSet as far as its selector goes."""

    KIND: ClassVar[Kind] = Kind("apps", "v1", "ReplicaSet", "replicasets", True)

    spec: SelectingSpec = msgspec.field(default_factory=SelectingSpec)

    def __post_init__(self) -> None:
        """Keep name and selector only."""
        slim(self.metadata)


class StatefulSet(KubeObject):
    """A StatefulSet as far as its selector goes."""

    KIND: ClassVar[Kind] = Kind("apps", "v1", "StatefulSet", "statefulsets", True)

    spec: SelectingSpec = msgspec.field(default_factory=SelectingSpec)

    def __post_init__(self) -> None:
        """Keep name and selector only."""
        slim(self.metadata)


class ReplicationControllerSpec(Struct):
    """The pods of a ReplicationController, by exact labels."""

    selector: dict[str, str] | None = None


class ReplicationController(KubeObject):
    """A ReplicationController as far as its selector goes."""

    KIND: ClassVar[Kind] = Kind("", "v1", "ReplicationController", "replicationcontrollers", True)

    spec: ReplicationControllerSpec = msgspec.field(default_factory=ReplicationControllerSpec)

    def __post_init__(self) -> None:
        """Keep name and selector only."""
        slim(self.metadata)
