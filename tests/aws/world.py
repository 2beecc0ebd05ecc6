"""A provider over fakes, with a ready node class and claims to launch."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from nodewright_controller.api.ec2nodeclass import (
    AMISelectorTerm,
    AMIStatus,
    EC2NodeClass,
    EC2NodeClassSpec,
    EC2NodeClassStatus,
    SecurityGroupSelectorTerm,
    SecurityGroupStatus,
    SubnetSelectorTerm,
    SubnetStatus,
)
from nodewright_controller.api.meta import Condition, ObjectMeta
from nodewright_controller.api.nodeclaim import NodeClaim, NodeClaimSpec, ResourceRequests
from nodewright_controller.api.nodepool import (
    NodeClassReference,
    NodePool,
    NodeSelectorRequirementWithMinValues,
)
from nodewright_controller.aws.ami import NEURON, NVIDIA, STANDARD, Image, Variant, status_of
from nodewright_controller.aws.families import Family, family_of
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.provider import EC2Provider

from tests.aws.fakes import REGION, ZONE_IDS, ZONES, FakeAws

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
ARM = {"kubernetes.io/arch": ["arm64"]}
X86 = {"kubernetes.io/arch": ["amd64"]}
ON_DEMAND = {"karpenter.sh/capacity-type": ["on-demand"]}
SPOT = {"karpenter.sh/capacity-type": ["spot"]}


@dataclass
class Clock:
    """Stands still until it is moved."""

    current: datetime = START

    def now(self) -> datetime:
        return self.current

    def move(self, **span: float) -> None:
        self.current += timedelta(**span)


def options(**more: Any) -> AwsOptions:
    """Return the options of a resolved cluster."""
    values: dict[str, Any] = {
        "cluster_name": "demo",
        "region": REGION,
        "cluster_endpoint": "https://demo.eks",
        "cluster_ca_bundle": "Q0E=",
        "service_cidr": "10.100.0.0/16",
        "dns_ip": "10.100.0.10",
        "kubernetes_version": "1.36",
    }
    return AwsOptions(**(values | more))


def ami(image_id: str, architecture: str, variant: Variant, family: Family) -> AMIStatus:
    """Return an image of a node class's status."""
    found = Image(image_id, image_id, START, architecture, deprecated=False)
    return status_of(found, variant, family)


def node_class(name: str = "default", alias: str = "al2023@latest", **spec: Any) -> EC2NodeClass:
    """Return a node class that is resolved and Ready."""
    made = EC2NodeClass(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", generation=1, creation_timestamp=START),
        spec=EC2NodeClassSpec(
            subnet_selector_terms=[SubnetSelectorTerm(tags={"karpenter.sh/discovery": "demo"})],
            security_group_selector_terms=[
                SecurityGroupSelectorTerm(tags={"karpenter.sh/discovery": "demo"})
            ],
            ami_selector_terms=[AMISelectorTerm(alias=alias)] if alias else [],
            role="KarpenterNodeRole-demo",
        ),
    )
    for key, value in spec.items():
        setattr(made.spec, key, value)
    family = family_of(made)
    made.status = EC2NodeClassStatus(
        subnets=[
            SubnetStatus(id=f"subnet-{zone[-1]}", zone=zone, zone_id=ZONE_IDS[zone])
            for zone in ZONES
        ],
        security_groups=[SecurityGroupStatus(id="sg-1", name="nodes")],
        amis=[
            ami("ami-x86", "amd64", STANDARD, family),
            ami("ami-arm", "arm64", STANDARD, family),
            ami("ami-gpu", "amd64", NVIDIA, family),
            ami("ami-neuron", "amd64", NEURON, family),
        ],
        instance_profile="demo_1",
        conditions=[Condition(type="Ready", status="True", observed_generation=1)],
    )
    return made


def node_claim(
    name: str = "claim-1",
    requires: dict[str, list[str]] | None = None,
    *,
    requests: dict[str, str | int | float] | None = None,
    of: str = "default",
    created: datetime = START,
) -> NodeClaim:
    """Return a claim that was just made."""
    wanted = {"karpenter.sh/nodepool": ["general"]} | (requires if requires is not None else X86)
    return NodeClaim(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            creation_timestamp=created,
            labels={
                "karpenter.sh/nodepool": "general",
                "karpenter.k8s.aws/ec2nodeclass": of,
                "app": "web",
            },
        ),
        spec=NodeClaimSpec(
            requirements=[
                NodeSelectorRequirementWithMinValues(key=key, operator="In", values=values)
                for key, values in wanted.items()
            ],
            resources=ResourceRequests(
                requests=requests or {"cpu": "500m", "memory": "1Gi", "pods": "3"}
            ),
            node_class_ref=NodeClassReference(
                group="karpenter.k8s.aws", kind="EC2NodeClass", name=of
            ),
        ),
    )


def node_pool(of: str = "default") -> NodePool:
    """Return a pool that uses a node class."""
    made = NodePool(metadata=ObjectMeta(name="general"))
    made.spec.template.spec.node_class_ref = NodeClassReference(
        group="karpenter.k8s.aws", kind="EC2NodeClass", name=of
    )
    return made


@dataclass
class World:
    """A provider, the AWS under it, and its node classes."""

    clock: Clock = field(default_factory=Clock)
    aws: FakeAws = field(init=False)
    node_classes: dict[str, EC2NodeClass] = field(default_factory=dict)
    more_options: dict[str, Any] = field(default_factory=dict)
    provider: EC2Provider = field(init=False)

    def __post_init__(self) -> None:
        self.aws = FakeAws(self.clock.now)
        self.node_classes.setdefault("default", node_class())
        self.provider = self.restart()

    def restart(self) -> EC2Provider:
        """Return a provider that remembers nothing, as after a restart or a change of leader."""
        self.provider = EC2Provider(
            self.aws.clients(), options(**self.more_options), self.node_classes.get, self.clock
        )
        return self.provider

    def instance_ids(self) -> list[str]:
        """Return the ids of instances that are not on their way out."""
        return [
            instance_id
            for instance_id, instance in self.aws.ec2.instances.items()
            if instance["State"]["Name"] in ("pending", "running")
        ]
