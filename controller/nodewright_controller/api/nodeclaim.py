"""NodeClaim (`karpenter.sh/v1`): one node that was asked for, from launch to termination.

Upstream: pkg/apis/v1/nodeclaim.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

import msgspec

from nodewright_controller.api.labels import GROUP
from nodewright_controller.api.meta import Condition, Kind, KubeObject, Struct
from nodewright_controller.api.node import Taint
from nodewright_controller.api.nodepool import (
    NodeClassReference,
    NodeSelectorRequirementWithMinValues,
)
from nodewright_controller.api.pod import Quantities
from nodewright_controller.api.rules import DURATION, DURATION_OR_NEVER
from nodewright_controller.api.schema import Rule, doc


class ResourceRequests(Struct):
    """The least that the node must offer."""

    requests: Annotated[
        Quantities | None, doc("The sum of what the pods planned for this node ask for.")
    ] = None


class NodeClaimSpec(Struct):
    """What was asked for; immutable."""

    taints: Annotated[
        list[Taint] | None,
        doc("Taints of the node.", **{"x-kubernetes-list-type": "atomic"}),
    ] = None
    startup_taints: Annotated[
        list[Taint] | None,
        doc(
            "Taints that the node starts with and that something else takes off.",
            **{"x-kubernetes-list-type": "atomic"},
        ),
    ] = None
    requirements: Annotated[
        list[NodeSelectorRequirementWithMinValues],
        doc(
            "What the node must be like; the launch takes the cheapest offer that fits them all.",
            required=True,
            maxItems=100,
            **{"x-kubernetes-list-type": "atomic"},
        ),
    ] = msgspec.field(default_factory=list)
    resources: Annotated[ResourceRequests, doc("The least that the node must offer.")] = (
        msgspec.field(default_factory=ResourceRequests)
    )
    node_class_ref: Annotated[
        NodeClassReference,
        doc("The node class that says how the node is launched.", required=True),
    ] = msgspec.field(default_factory=NodeClassReference)
    termination_grace_period: Annotated[
        str | None,
        doc(
            """How long the node may drain before its pods are removed in spite of disruption
            budgets and do-not-disrupt. Left out: as long as it takes.""",
            pattern=DURATION,
        ),
    ] = None
    expire_after: Annotated[
        str | None,
        doc(
            "How old the node may get before it is replaced, such as 720h, or Never.",
            default="720h",
            pattern=DURATION_OR_NEVER,
        ),
    ] = "720h"


class NodeClaimStatus(Struct):
    """What came of it."""

    node_name: Annotated[str, doc("The Node that joined for this claim.")] = ""
    provider_id: Annotated[
        str, doc("The cloud's identity of the instance: aws:///us-west-2a/i-0123456789abcdef0.")
    ] = msgspec.field(default="", name="providerID")
    image_id: Annotated[str, doc("The image that the instance was launched from.")] = msgspec.field(
        default="", name="imageID"
    )
    capacity: Annotated[Quantities | None, doc("What the node is expected to have.")] = None
    allocatable: Annotated[
        Quantities | None, doc("What of it pods can use, after the system's own share.")
    ] = None
    conditions: Annotated[
        list[Condition] | None,
        doc(
            """Ready, and what it depends on: Launched, Registered and Initialized; beside them what
            disruption and termination find: Consolidatable, Drifted, Drained and others.""",
        ),
    ] = None
    last_pod_event_time: Annotated[
        datetime | None,
        doc("When a pod last came to or went from the node; consolidateAfter counts from it."),
    ] = None


class NodeClaim(KubeObject):
    """A NodeClaim is one node that was asked for: launched, joined, and in time removed."""

    KIND: ClassVar[Kind] = Kind(GROUP, "v1", "NodeClaim", "nodeclaims")

    spec: Annotated[
        NodeClaimSpec,
        doc(
            "What was asked for. It cannot be changed: replace the NodeClaim instead.",
            required=True,
            rules=(Rule(rule="self == oldSelf", message="spec is immutable"),),
        ),
    ] = msgspec.field(default_factory=NodeClaimSpec)
    status: Annotated[NodeClaimStatus, doc("What came of it.")] = msgspec.field(
        default_factory=NodeClaimStatus
    )
