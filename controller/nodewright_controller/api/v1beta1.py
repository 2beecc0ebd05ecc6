"""The v1beta1 shapes of NodePool, NodeClaim and EC2NodeClass: models of the served schema only.

Nothing decodes into these classes: `conversion` turns v1beta1 objects into v1 as plain JSON, and all
other code knows v1 alone. They are as lenient as the old objects were: a nodeClassRef may be just a
name, amiSelectorTerms may be missing, and WhenUnderutilized may stand beside consolidateAfter
(which the old API refused).
Upstream: pkg/apis/v1beta1 of Karpenter 0.37.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

import msgspec

from nodewright_controller.api.ec2nodeclass import (
    BLOCK_DEVICES,
    INSTANCE_PROFILE,
    ONE_IDENTITY,
    ROLE,
    SECURITY_GROUPS,
    SUBNETS,
    USER_DATA,
    BlockDeviceMapping,
    EC2NodeClassStatus,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
    TagValue,
    resource_tags,
    tag_selector,
)
from nodewright_controller.api.labels import AWS_GROUP, GROUP
from nodewright_controller.api.meta import Kind, KubeObject, Struct
from nodewright_controller.api.node import Taint
from nodewright_controller.api.nodeclaim import NodeClaimStatus, ResourceRequests
from nodewright_controller.api.nodepool import (
    NO_NODEPOOL_KEY,
    NodePoolStatus,
    NodeSelectorRequirementWithMinValues,
    TemplateMeta,
)
from nodewright_controller.api.pod import Quantities
from nodewright_controller.api.rules import (
    BUDGET_DURATION,
    BUDGET_NODES,
    BUDGET_SCHEDULE,
    DURATION_OR_NEVER,
)
from nodewright_controller.api.schema import Rule, doc

AMI_FAMILIES: Final = [
    "AL2",
    "AL2023",
    "Bottlerocket",
    "Custom",
    "Ubuntu",
    "Windows2019",
    "Windows2022",
]

_KUBELET: Final = doc(
    "Settings of the kubelet; in v1 they are part of the EC2NodeClass.",
)


class NodeClassReferenceBeta(Struct):
    """The node class that says how to launch; its name is enough."""

    api_version: Annotated[
        str, doc("Group and version of the node class; left out: karpenter.k8s.aws.")
    ] = ""
    kind: Annotated[str, doc("Kind of the node class; left out: EC2NodeClass.")] = ""
    name: Annotated[str, doc("Name of the node class.", required=True, minLength=1)] = ""


class NodeClaimTemplateSpecBeta(Struct):
    """What every NodeClaim of the pool has."""

    taints: Annotated[
        list[Taint] | None,
        doc("Taints of the nodes: only pods that tolerate them are placed there."),
    ] = None
    startup_taints: Annotated[
        list[Taint] | None,
        doc("Taints that the nodes start with and that something else takes off."),
    ] = None
    requirements: Annotated[
        list[NodeSelectorRequirementWithMinValues],
        doc(
            """What the nodes must be like: zones, architectures, instance types, capacity types and
            your own labels. All of them hold, together with what the pods ask for.""",
            required=True,
            maxItems=100,
            rules=(NO_NODEPOOL_KEY,),
        ),
    ] = msgspec.field(default_factory=list)
    resources: Annotated[
        dict[str, Any] | None,
        doc("Not for use in a NodePool: pods decide.", maxProperties=0),
    ] = None
    kubelet: Annotated[dict[str, Any] | None, _KUBELET] = None
    node_class_ref: Annotated[
        NodeClassReferenceBeta,
        doc("The node class that says how nodes of this pool are launched.", required=True),
    ] = msgspec.field(default_factory=NodeClassReferenceBeta)


class NodeClaimTemplateBeta(Struct):
    """The template of the pool's NodeClaims."""

    metadata: Annotated[
        TemplateMeta, doc("Labels and annotations that every node of the pool gets.")
    ] = msgspec.field(default_factory=TemplateMeta)
    spec: Annotated[
        NodeClaimTemplateSpecBeta, doc("What every node of the pool is like.", required=True)
    ] = msgspec.field(default_factory=NodeClaimTemplateSpecBeta)


class BudgetBeta(Struct):
    """How many nodes may be disrupted at once, and when."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="has(self.schedule) == has(self.duration)",
            message="'schedule' must be set with 'duration'",
        ),
    )

    nodes: Annotated[
        str,
        doc(
            "How many nodes may be disrupted at the same time: a number or a share such as 20%.",
            required=True,
            default="10%",
            pattern=BUDGET_NODES,
        ),
    ] = "10%"
    schedule: Annotated[
        str | None,
        doc("When the budget begins to apply: five cron fields, UTC.", pattern=BUDGET_SCHEDULE),
    ] = None
    duration: Annotated[
        str | None,
        doc("How long it applies from each hit of the schedule: 10h5m.", pattern=BUDGET_DURATION),
    ] = None


class DisruptionBeta(Struct):
    """When nodes of the pool may be disrupted."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="self.consolidationPolicy != 'WhenEmpty' || has(self.consolidateAfter)",
            message="consolidateAfter must be specified with consolidationPolicy=WhenEmpty",
            field_path=".consolidateAfter",
        ),
    )

    consolidate_after: Annotated[
        str | None,
        doc(
            """How long a node must have been without pods coming or going before it is considered
            for consolidation, such as 30s, or Never. Together with WhenUnderutilized it holds for
            empty and for underutilised nodes.""",
            pattern=DURATION_OR_NEVER,
        ),
    ] = None
    consolidation_policy: Annotated[
        str,
        doc(
            """Which nodes are considered for consolidation: WhenEmpty, or WhenUnderutilized (empty
            ones too); v1 calls the latter WhenEmptyOrUnderutilized.""",
            required=True,
            default="WhenUnderutilized",
            enum=["WhenEmpty", "WhenUnderutilized"],
        ),
    ] = "WhenUnderutilized"
    expire_after: Annotated[
        str | None,
        doc(
            "How old a node may get before it is replaced, such as 720h, or Never.",
            default="720h",
            pattern=DURATION_OR_NEVER,
        ),
    ] = "720h"
    budgets: Annotated[
        list[BudgetBeta] | None,
        doc(
            "How many nodes may be disrupted at the same time; left out: 10% of the pool.",
            default=[{"nodes": "10%"}],
            maxItems=50,
        ),
    ] = None


class NodePoolSpecBeta(Struct):
    """The policy."""

    template: Annotated[
        NodeClaimTemplateBeta, doc("What the nodes of this pool are like.", required=True)
    ] = msgspec.field(default_factory=NodeClaimTemplateBeta)
    disruption: Annotated[
        DisruptionBeta,
        doc(
            "When, and how many at once, nodes of this pool may be disrupted.",
            default={"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"},
        ),
    ] = msgspec.field(default_factory=DisruptionBeta)
    limits: Annotated[
        Quantities | None,
        doc("The most that all nodes of this pool together may have, such as cpu: 100."),
    ] = None
    weight: Annotated[
        int | None,
        doc(
            "Pools with a higher weight are tried first; left out, it is 0.",
            format="int32",
            minimum=1,
            maximum=100,
        ),
    ] = None


class NodePoolBeta(KubeObject):
    """A NodePool says which nodes may be launched for pods that do not fit, and when they may go."""

    KIND: ClassVar[Kind] = Kind(GROUP, "v1beta1", "NodePool", "nodepools")

    spec: Annotated[
        NodePoolSpecBeta,
        doc("Which nodes this pool may launch, how many, and when they may go.", required=True),
    ] = msgspec.field(default_factory=NodePoolSpecBeta)
    status: Annotated[NodePoolStatus, doc("What the pool has now.")] = msgspec.field(
        default_factory=NodePoolStatus
    )


class NodeClaimSpecBeta(Struct):
    """What was asked for; immutable."""

    taints: Annotated[list[Taint] | None, doc("Taints of the node.")] = None
    startup_taints: Annotated[
        list[Taint] | None,
        doc("Taints that the node starts with and that something else takes off."),
    ] = None
    requirements: Annotated[
        list[NodeSelectorRequirementWithMinValues],
        doc("What the node must be like.", required=True, maxItems=100),
    ] = msgspec.field(default_factory=list)
    resources: Annotated[ResourceRequests, doc("The least that the node must offer.")] = (
        msgspec.field(default_factory=ResourceRequests)
    )
    kubelet: Annotated[dict[str, Any] | None, _KUBELET] = None
    node_class_ref: Annotated[
        NodeClassReferenceBeta,
        doc("The node class that says how the node is launched.", required=True),
    ] = msgspec.field(default_factory=NodeClassReferenceBeta)


class NodeClaimBeta(KubeObject):
    """A NodeClaim is one node that was asked for: launched, joined, and in time removed."""

    KIND: ClassVar[Kind] = Kind(GROUP, "v1beta1", "NodeClaim", "nodeclaims")

    spec: Annotated[
        NodeClaimSpecBeta,
        doc(
            "What was asked for. It cannot be changed: replace the NodeClaim instead.",
            required=True,
            rules=(Rule(rule="self == oldSelf", message="spec is immutable"),),
        ),
    ] = msgspec.field(default_factory=NodeClaimSpecBeta)
    status: Annotated[NodeClaimStatus, doc("What came of it.")] = msgspec.field(
        default_factory=NodeClaimStatus
    )


class AMISelectorTermBeta(Struct):
    """Selects images by id, name or tags."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="has(self.tags) || has(self.id) || has(self.name)",
            message="expected at least one, got none, ['tags', 'id', 'name']",
        ),
        Rule(
            rule="!has(self.id) || !(has(self.tags) || has(self.name) || has(self.owner))",
            message=(
                "'id' is mutually exclusive, cannot be set with a combination of "
                "['tags', 'name', 'owner']"
            ),
        ),
    )

    tags: Annotated[dict[str, TagValue] | None, tag_selector("Images")] = None
    id: Annotated[str, doc("The image with this id.", pattern="ami-[0-9a-z]+")] = ""
    name: Annotated[
        str, doc("Images of this name; without an owner those of this account and of Amazon.")
    ] = ""
    owner: Annotated[str, doc("Owner of the images: an account id, self or amazon.")] = ""


class MetadataOptionsBeta(Struct):
    """The instance metadata service; the old default let a token travel two hops."""

    http_endpoint: Annotated[
        str | None,
        doc("Whether instances can reach it.", default="enabled", enum=["disabled", "enabled"]),
    ] = "enabled"
    http_protocol_ipv6: Annotated[
        str | None,
        doc("Whether it answers on IPv6.", default="disabled", enum=["disabled", "enabled"]),
    ] = msgspec.field(default="disabled", name="httpProtocolIPv6")
    http_put_response_hop_limit: Annotated[
        int | None,
        doc("How many network hops a token may travel.", default=2, minimum=1, maximum=64),
    ] = 2
    http_tokens: Annotated[
        str | None,
        doc(
            "Whether requests must carry a session token (IMDSv2).",
            default="required",
            enum=["optional", "required"],
        ),
    ] = "required"


class EC2NodeClassSpecBeta(Struct):
    """How to launch."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        ONE_IDENTITY,
        Rule(
            rule=(
                "self.amiFamily != 'Custom' || "
                "(has(self.amiSelectorTerms) && self.amiSelectorTerms.size() > 0)"
            ),
            message="amiSelectorTerms is required when amiFamily == 'Custom'",
            field_path=".amiFamily",
        ),
    )

    subnet_selector_terms: Annotated[list[SubnetSelectorTerm], SUBNETS] = msgspec.field(
        default_factory=list
    )
    security_group_selector_terms: Annotated[list[SecurityGroupSelectorTerm], SECURITY_GROUPS] = (
        msgspec.field(default_factory=list)
    )
    associate_public_ip_address: Annotated[
        bool | None,
        doc("Whether instances get a public IPv4 address; left out, the subnet decides."),
    ] = msgspec.field(default=None, name="associatePublicIPAddress")
    ami_selector_terms: Annotated[
        list[AMISelectorTermBeta] | None,
        doc(
            "Which images nodes start from; left out: the family's newest published image.",
            maxItems=30,
        ),
    ] = None
    ami_family: Annotated[
        str,
        doc(
            "The image family: it decides user data, volumes and, without terms, the image.",
            required=True,
            enum=AMI_FAMILIES,
        ),
    ] = ""
    user_data: Annotated[str | None, USER_DATA] = None
    role: Annotated[str | None, ROLE] = None
    instance_profile: Annotated[str | None, INSTANCE_PROFILE] = None
    tags: Annotated[
        dict[str, str] | None,
        resource_tags(
            (
                "karpenter.sh/managed-by",
                "karpenter.sh/nodepool",
                "karpenter.sh/nodeclaim",
                "karpenter.k8s.aws/ec2nodeclass",
            )
        ),
    ] = None
    block_device_mappings: Annotated[list[BlockDeviceMapping] | None, BLOCK_DEVICES] = None
    instance_store_policy: Annotated[
        str | None,
        doc("RAID0: local disks become one volume for pods and container images.", enum=["RAID0"]),
    ] = None
    detailed_monitoring: Annotated[
        bool | None, doc("Whether EC2 reports metrics every minute instead of every five.")
    ] = None
    metadata_options: Annotated[
        MetadataOptionsBeta,
        doc(
            "How instances reach their metadata service.",
            default={
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 2,
                "httpTokens": "required",
            },
        ),
    ] = msgspec.field(default_factory=MetadataOptionsBeta)
    context: Annotated[str | None, doc("The Context of the EC2 CreateFleet call.")] = None


class EC2NodeClassBeta(KubeObject):
    """An EC2NodeClass says how nodes are launched on EC2: image, network, role, volumes."""

    KIND: ClassVar[Kind] = Kind(AWS_GROUP, "v1beta1", "EC2NodeClass", "ec2nodeclasses")

    spec: Annotated[
        EC2NodeClassSpecBeta,
        doc("How nodes are launched: image, network, role, volumes.", required=True),
    ] = msgspec.field(default_factory=EC2NodeClassSpecBeta)
    status: Annotated[EC2NodeClassStatus, doc("What the selectors found.")] = msgspec.field(
        default_factory=EC2NodeClassStatus
    )
