"""NodePool (`karpenter.sh/v1`): what nodes may be bought, how many, and how they may be disrupted.

Upstream: pkg/apis/v1/nodepool.go.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from nodewright_controller.api.labels import GROUP
from nodewright_controller.api.meta import Condition, Kind, KubeObject, Struct
from nodewright_controller.api.node import Taint
from nodewright_controller.api.pod import Quantities


class NodeClassReference(Struct):
    """The node class that says how to launch."""

    group: str = ""
    kind: str = ""
    name: str = ""


class NodeSelectorRequirementWithMinValues(Struct):
    """One requirement on the labels of a node, with an optional breadth."""

    key: str = ""
    operator: str = "In"
    values: list[str] | None = None
    min_values: int | None = None


class TemplateMeta(Struct):
    """Labels and annotations that every node of the pool gets."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class NodeClaimTemplateSpec(Struct):
    """What every NodeClaim of the pool has."""

    taints: list[Taint] | None = None
    startup_taints: list[Taint] | None = None
    requirements: list[NodeSelectorRequirementWithMinValues] = msgspec.field(default_factory=list)
    node_class_ref: NodeClassReference = msgspec.field(default_factory=NodeClassReference)
    termination_grace_period: str | None = None
    expire_after: str | None = "720h"


class NodeClaimTemplate(Struct):
    """The template of the pool's NodeClaims."""

    metadata: TemplateMeta = msgspec.field(default_factory=TemplateMeta)
    spec: NodeClaimTemplateSpec = msgspec.field(default_factory=NodeClaimTemplateSpec)


class Budget(Struct):
    """How many nodes may be disrupted at once, when, and for which reasons."""

    nodes: str = "10%"
    reasons: list[str] | None = None
    schedule: str | None = None
    duration: str | None = None


class Disruption(Struct):
    """When nodes of the pool may be disrupted."""

    consolidate_after: str = "0s"
    consolidation_policy: str = "WhenEmptyOrUnderutilized"
    budgets: list[Budget] | None = msgspec.field(default_factory=lambda: [Budget()])


class NodePoolSpec(Struct):
    """The policy."""

    template: NodeClaimTemplate = msgspec.field(default_factory=NodeClaimTemplate)
    disruption: Disruption = msgspec.field(default_factory=Disruption)
    limits: Quantities | None = None
    weight: int | None = None
    replicas: int | None = None


class NodePoolStatus(Struct):
    """What the pool has now."""

    resources: Quantities | None = None
    nodes: int = 0
    node_class_observed_generation: int = 0
    conditions: list[Condition] | None = None


class NodePool(KubeObject):
    """A NodePool."""

    KIND: ClassVar[Kind] = Kind(GROUP, "v1", "NodePool", "nodepools")

    spec: NodePoolSpec = msgspec.field(default_factory=NodePoolSpec)
    status: NodePoolStatus = msgspec.field(default_factory=NodePoolStatus)
