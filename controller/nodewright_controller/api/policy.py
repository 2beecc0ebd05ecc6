"""PodDisruptionBudget and VolumeAttachment: what may hold a drain back."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from nodewright_controller.api.meta import Kind, KubeObject, Struct
from nodewright_controller.api.pod import LabelSelector


class PodDisruptionBudgetSpec(Struct):
    """The budget."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Struct):
    """What it allows now."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class PodDisruptionBudget(KubeObject):
    """A PodDisruptionBudget."""

    KIND: ClassVar[Kind] = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True)

    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


class AttachmentSource(Struct):
    """The volume."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct):
    """Which volume is attached to which node."""

    node_name: str = ""
    attacher: str = ""
    source: AttachmentSource = msgspec.field(default_factory=AttachmentSource)


class VolumeAttachment(KubeObject):
    """A VolumeAttachment."""

    KIND: ClassVar[Kind] = Kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments")

    spec: VolumeAttachmentSpec = msgspec.field(default_factory=VolumeAttachmentSpec)
