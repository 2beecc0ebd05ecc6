"""The fields of a Pod that scheduling, disruption and draining read."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import msgspec

from nodewright_controller.api.meta import Condition, Kind, KubeObject, Struct

Quantities = dict[str, str | int | float]


class LabelSelectorRequirement(Struct):
    """One expression of a label or node selector."""

    key: str = ""
    operator: str = "In"
    values: list[str] | None = None


class LabelSelector(Struct):
    """A label selector; an empty one selects everything, an absent one nothing."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorTerm(Struct):
    """Expressions that must all hold."""

    match_expressions: list[LabelSelectorRequirement] | None = None
    match_fields: list[LabelSelectorRequirement] | None = None


class NodeSelector(Struct):
    """Terms of which one must hold."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Struct):
    """A node preference and its weight 1-100."""

    weight: int = 1
    preference: NodeSelectorTerm = msgspec.field(default_factory=NodeSelectorTerm)


class NodeAffinity(Struct):
    """Required and preferred node terms."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredSchedulingTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct):
    """Pods to be near to, or away from, within a topology domain."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Struct):
    """A pod affinity preference and its weight 1-100."""

    weight: int = 1
    pod_affinity_term: PodAffinityTerm = msgspec.field(default_factory=PodAffinityTerm)


class PodAffinity(Struct):
    """Required and preferred pod terms; also the shape of anti-affinity."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodAffinityTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct):
    """A taint that the pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Struct):
    """How evenly pods spread over the domains of a topology key."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class ResourceRequirements(Struct):
    """Requests and limits."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(Struct):
    """A port; `host_port` 0 means none."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Struct):
    """A container as far as its needs go."""

    name: str = ""
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class PersistentVolumeClaimSource(Struct):
    """A volume that is a claim."""

    claim_name: str = ""


class PersistentVolumeClaimSpec(Struct):
    """What a claim asks for."""

    storage_class_name: str | None = None
    volume_name: str = ""


class ClaimTemplate(Struct):
    """The claim of a generic ephemeral volume."""

    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)


class EphemeralVolumeSource(Struct):
    """A generic ephemeral volume; its claim is named `<pod>-<volume>`."""

    volume_claim_template: ClaimTemplate | None = None


class Volume(Struct):
    """A volume of a pod; only claims matter here."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class PodResourceClaim(Struct):
    """A request for a dynamically allocated device."""

    name: str = ""


class SchedulingGate(Struct):
    """Something that still holds the pod back."""

    name: str = ""


class PodSpec(Struct):
    """A pod's needs."""

    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: ResourceRequirements | None = None
    volumes: list[Volume] | None = None
    priority: int | None = None
    priority_class_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: list[SchedulingGate] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    termination_grace_period_seconds: int | None = None
    host_network: bool = False


class ContainerStatus(Struct):
    """What a container was given, which may differ from its spec while it is resized."""

    name: str = ""
    allocated_resources: Quantities | None = None
    resources: ResourceRequirements | None = None


class PodStatus(Struct):
    """Where a pod stands."""

    phase: str = ""
    conditions: list[Condition] | None = None
    nominated_node_name: str = ""
    start_time: datetime | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(KubeObject):
    """A Pod."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Pod", "pods", True)

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)
