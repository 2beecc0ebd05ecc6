"""NodeRole: what nodes launched by the autoscaler may do, and their way into the cluster."""

from collections.abc import Mapping
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from nodewright.iam_documents import render, service_trust
from nodewright.ordering import after
from nodewright.validation import Check, check_cluster_name

NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)
"""AWS managed policies a node needs: join, give pods addresses, pull images, be reached by SSM."""


def node_role_name(cluster_name: str) -> str:
    """Return the name that NodeClasses of this cluster use by contract."""
    return f"KarpenterNodeRole-{cluster_name}"


class NodeRoleArgs(TypedDict):
    """Arguments of NodeRole."""

    cluster_name: pulumi.Input[str]
    """Name of the EKS cluster, at most 46 characters."""
    permissions_boundary: NotRequired[pulumi.Input[str]]
    """ARN of a permissions boundary for the role."""
    extra_policy_arns: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Further policies to attach, by a short name of your choice."""
    create_access_entry: NotRequired[bool]
    """Whether to let nodes with this role join the cluster. Default true; false when the cluster
    knows the role by other means."""


class NodeRole(pulumi.ComponentResource):
    """The role `KarpenterNodeRole-<cluster>` and its EC2_LINUX access entry."""

    role_name: pulumi.Output[str]
    """Name for `spec.role` of an EC2NodeClass; whoever uses it waits for policies and entry."""
    role_arn: pulumi.Output[str]
    """ARN of the role."""
    access_entry_arn: pulumi.Output[str] | None
    """ARN of the access entry, if one was made."""

    def __init__(
        self, name: str, args: NodeRoleArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check_args(name, args)
        super().__init__("nodewright:index:NodeRole", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        cluster_name = pulumi.Output.from_input(args["cluster_name"])
        partition = aws.get_partition_output(opts=pulumi.InvokeOutputOptions(parent=self)).partition
        role = aws.iam.Role(
            f"{name}-role",
            name=cluster_name.apply(node_role_name),
            description="Nodes launched by the autoscaler",
            assume_role_policy=render(service_trust("ec2.amazonaws.com")),
            permissions_boundary=args.get("permissions_boundary"),
            opts=child,
        )
        waits: list[pulumi.Resource] = []
        policies: dict[str, pulumi.Input[str]] = {
            policy: pulumi.Output.concat("arn:", partition, ":iam::aws:policy/", policy)
            for policy in NODE_POLICIES
        }
        for policy, arn in {**policies, **args.get("extra_policy_arns", {})}.items():
            waits.append(
                aws.iam.RolePolicyAttachment(
                    f"{name}-{policy}", role=role.name, policy_arn=arn, opts=child
                )
            )
        self.access_entry_arn = None
        if args.get("create_access_entry", True):
            entry = aws.eks.AccessEntry(
                f"{name}-access",
                cluster_name=cluster_name,
                principal_arn=role.arn,
                type="EC2_LINUX",
                opts=child,
            )
            waits.append(entry)
            self.access_entry_arn = entry.access_entry_arn
        self.role_name = after(role.name, waits)
        self.role_arn = after(role.arn, waits)
        self.register_outputs(
            {
                "roleName": self.role_name,
                "roleArn": self.role_arn,
                "accessEntryArn": self.access_entry_arn,
            }
        )


def check_args(name: str, args: NodeRoleArgs) -> None:
    """Raise `InvalidArgumentError` for arguments that can't work; makes nothing."""
    check = Check("NodeRole", name)
    check.known_fields(args, NodeRoleArgs)
    check.required(args, ["cluster_name"])
    check_cluster_name(check, args["cluster_name"])
    for policy in args.get("extra_policy_arns", {}):
        if policy in NODE_POLICIES:
            raise check.refuse(
                "extra_policy_arns", f"uses the name {policy!r}", "that one is attached already"
            )
