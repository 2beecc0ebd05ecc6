"""NodeClaim (`karpenter.sh/v1`): one node that was asked for, from launch to termination.

Upstream: pkg/apis/v1/nodeclaim.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import msgspec

from nodewright_controller.api.labels import GROUP
from nodewright_controller.api.meta import Condition, Kind, KubeObject, Struct
from nodewright_controller.api.node import Taint
from nodewright_controller.api.nodepool import (
    NodeClassReference,
    NodeSelectorRequirementWithMinValues,
)
from nodewright_controller.api.pod import Quantities


class ResourceRequests(Struct):
    """The least that the node must offer."""

    requests: Quantities | None = None


class NodeClaimSpec(Struct):
    """What was asked for; immutable."""

    taints: list[Taint] | None = None
    startup_taints: list[Taint] | None = None
    requirements: list[NodeSelectorRequirementWithMinValues] = msgspec.field(default_factory=list)
    resources: ResourceRequests = msgspec.field(default_factory=ResourceRequests)
    node_class_ref: NodeClassReference = msgspec.field(default_factory=NodeClassReference)
    termination_grace_period: str | None = None
    expire_after: str | None = "720h"


class NodeClaimStatus(Struct):
    """What came of it."""

    node_name: str = ""
    provider_id: str = msgspec.field(default="", name="providerID")
    image_id: str = msgspec.field(default="", name="imageID")
    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None
    last_pod_event_time: datetime | None = None


class NodeClaim(KubeObject):
    """A NodeClaim."""

    KIND: ClassVar[Kind] = Kind(GROUP, "v1", "NodeClaim", "nodeclaims")

    spec: NodeClaimSpec = msgspec.field(default_factory=NodeClaimSpec)
    status: NodeClaimStatus = msgspec.field(default_factory=NodeClaimStatus)
