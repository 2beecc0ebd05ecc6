"""NodePool: which nodes the autoscaler may add, how many, and when it takes them away."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_kubernetes as k8s

from nodewright.manifests import merge, to_manifest
from nodewright.node_pool_rules import OBJECT_NAME, check_node_pool
from nodewright.ordering import after
from nodewright.validation import Check

API_VERSION = "karpenter.sh/v1"
NODE_CLASS_GROUP = "karpenter.k8s.aws"
NODE_CLASS_KIND = "EC2NodeClass"


class RequirementArgs(TypedDict):
    """One condition on the nodes' labels."""

    key: pulumi.Input[str]
    """Label, such as `karpenter.sh/capacity-type` or `kubernetes.io/arch`."""
    operator: pulumi.Input[str]
    """`In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, `Gte` or `Lte`."""
    values: NotRequired[Sequence[pulumi.Input[str]]]
    """Values, as text; exactly one number for the comparing operators."""
    min_values: NotRequired[int]
    """How many different values must stay possible, from 1 to 50."""


class TaintArgs(TypedDict):
    """A taint of the nodes."""

    key: pulumi.Input[str]
    """Key of the taint."""
    value: NotRequired[pulumi.Input[str]]
    """Value of the taint."""
    effect: pulumi.Input[str]
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""


class NodeClassRefArgs(TypedDict):
    """Which NodeClass the nodes are made from."""

    name: pulumi.Input[str]
    """Name of the class."""
    group: NotRequired[pulumi.Input[str]]
    """API group. Default `karpenter.k8s.aws`."""
    kind: NotRequired[pulumi.Input[str]]
    """Kind. Default `EC2NodeClass`."""


class NodeTemplateMetadataArgs(TypedDict):
    """Labels and annotations of the nodes."""

    labels: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Labels of the nodes."""
    annotations: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Annotations of the nodes."""


class NodeTemplateSpecArgs(TypedDict):
    """What the nodes are."""

    node_class_ref: NodeClassRefArgs
    """NodeClass of the nodes."""
    requirements: NotRequired[Sequence[RequirementArgs]]
    """Conditions on instance type, zone, architecture and the like. Default: none."""
    taints: NotRequired[Sequence[TaintArgs]]
    """Taints that stay."""
    startup_taints: NotRequired[Sequence[TaintArgs]]
    """Taints that something else removes once the node is set up."""
    expire_after: NotRequired[str]
    """Age at which a node is replaced, or `Never`. Default `720h`."""
    termination_grace_period: NotRequired[str]
    """Longest drain before a node is ended by force. Default: no limit."""


class NodeTemplateArgs(TypedDict):
    """The nodes of the pool."""

    metadata: NotRequired[NodeTemplateMetadataArgs]
    """Labels and annotations of the nodes."""
    spec: NodeTemplateSpecArgs
    """What the nodes are."""


class BudgetArgs(TypedDict):
    """How many nodes may be disrupted at once."""

    nodes: NotRequired[str]
    """Number or share of nodes, such as `5` or `10%`. Default `10%`."""
    schedule: NotRequired[str]
    """When the budget holds, as a cron expression in UTC; goes with `duration`."""
    duration: NotRequired[str]
    """How long it holds each time, such as `8h`; goes with `schedule`."""
    reasons: NotRequired[Sequence[str]]
    """`Underutilized`, `Empty`, `Drifted`. Default: all."""


class DisruptionArgs(TypedDict):
    """When nodes are taken away or replaced."""

    consolidation_policy: NotRequired[str]
    """`WhenEmptyOrUnderutilized` (default), `WhenEmpty` or `Balanced`."""
    consolidate_after: NotRequired[str]
    """Quiet time before a node is considered, or `Never`. Default `0s`."""
    budgets: NotRequired[Sequence[BudgetArgs]]
    """Limits on simultaneous disruption. Default: 10 % of the pool's nodes."""


class NodePoolArgs(TypedDict):
    """Arguments of NodePool."""

    name: NotRequired[str]
    """Name in Kubernetes. Default: the resource's name."""
    template: NodeTemplateArgs
    """The nodes of the pool."""
    disruption: NotRequired[DisruptionArgs]
    """When nodes are taken away or replaced."""
    limits: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Most resources the pool may have in all, such as `cpu: "100"`, `memory: 400Gi`, `nodes: "10"`."""
    weight: NotRequired[int]
    """Pools of higher weight are tried first, from 1 to 100."""
    replicas: NotRequired[int]
    """Fixed number of nodes, for a static pool."""
    spec_overrides: NotRequired[Mapping[str, Any]]
    """Laid over the spec last, under the API's own names."""


class NodePool(pulumi.ComponentResource):
    """A NodePool in the API `karpenter.sh/v1`."""

    pool_name: pulumi.Output[str]
    """Name in Kubernetes; whoever uses it waits for the pool."""

    def __init__(
        self, name: str, args: NodePoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check_args(name, args)
        super().__init__("nodewright:index:NodePool", name, None, opts)
        resource = k8s.apiextensions.CustomResource(
            f"{name}-pool",
            api_version=API_VERSION,
            kind="NodePool",
            metadata={"name": args.get("name", name)},
            spec=node_pool_spec(args),
            opts=pulumi.ResourceOptions(
                parent=self,
                # A pool goes when its last node is drained, which pods may delay.
                custom_timeouts=pulumi.CustomTimeouts(delete="30m"),
            ),
        )
        self.pool_name = after(pulumi.Output.from_input(args.get("name", name)), [resource])
        self.register_outputs({"poolName": self.pool_name})


def node_pool_spec(args: NodePoolArgs) -> dict[str, Any]:
    """Return the NodePool's spec under the API's names."""
    fields = {key: value for key, value in args.items() if key not in ("name", "spec_overrides")}
    spec: dict[str, Any] = to_manifest(fields)
    template = spec["template"]["spec"]
    template.setdefault("requirements", [])
    template["nodeClassRef"] = {
        "group": NODE_CLASS_GROUP,
        "kind": NODE_CLASS_KIND,
        **template["nodeClassRef"],
    }
    return merge(spec, args.get("spec_overrides", {}))


def check_args(name: str, args: NodePoolArgs) -> None:
    """Raise `InvalidArgumentError` for arguments that can't work; makes nothing."""
    check = Check("NodePool", name)
    check.known_fields(args, NodePoolArgs)
    check.required(args, ["template"])
    check.matches("name", args.get("name", name), OBJECT_NAME, "general-purpose")
    check_node_pool(check, args)
