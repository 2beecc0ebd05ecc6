"""ControllerRole: the controller's identity in AWS and what it may do there."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from nodewright.controller_policies import PolicyScope, controller_policies, policy_names
from nodewright.iam_documents import pod_identity_trust, render, service_account_trust
from nodewright.ordering import after
from nodewright.validation import Check, check_cluster_name

IDENTITIES = ("pod-identity", "irsa")


def controller_role_name(cluster_name: str) -> str:
    """Return the name of the controller's role, which fits wherever the node role's fits."""
    return f"{cluster_name}-karpenter"


class ControllerRoleArgs(TypedDict):
    """Arguments of ControllerRole."""

    cluster_name: pulumi.Input[str]
    """Name of the EKS cluster; its tags bound what the controller may change."""
    node_role_arn: pulumi.Input[str]
    """The one role that the controller may pass to instances."""
    queue_arn: pulumi.Input[str]
    """The queue that the controller reads."""
    namespace: NotRequired[str]
    """Namespace of the controller. Default `karpenter`."""
    service_account: NotRequired[str]
    """Service account of the controller. Default `karpenter`."""
    identity: NotRequired[str]
    """How a pod takes the role: `pod-identity` (default) or `irsa`, which works on Fargate too."""
    oidc_provider_arn: NotRequired[pulumi.Input[str]]
    """IAM OIDC provider of the cluster; needed with `irsa`."""
    oidc_issuer: NotRequired[pulumi.Input[str]]
    """Issuer URL of the cluster; needed with `irsa`."""
    ssm_parameter_arns: NotRequired[Sequence[pulumi.Input[str]]]
    """SSM parameters of your own that `amiSelectorTerms` name."""
    extra_statements: NotRequired[Sequence[Mapping[str, Any]]]
    """IAM statements to allow beside the controller's own, for instance the use of a KMS key."""
    permissions_boundary: NotRequired[pulumi.Input[str]]
    """ARN of a permissions boundary for the role."""


class ControllerRole(pulumi.ComponentResource):
    """The controller's role, its policies, and the binding to its service account."""

    role_name: pulumi.Output[str]
    """Name of the role."""
    role_arn: pulumi.Output[str]
    """ARN of the role; whoever uses it waits for the policies and the binding."""
    policy_arns: pulumi.Output[Sequence[str]]
    """ARNs of the attached policies."""

    def __init__(
        self, name: str, args: ControllerRoleArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check_args(name, args)
        super().__init__("nodewright:index:ControllerRole", name, None, opts)
        self._name = name
        self._child = pulumi.ResourceOptions(parent=self)
        namespace = args.get("namespace", "karpenter")
        service_account = args.get("service_account", "karpenter")
        cluster_name = pulumi.Output.from_input(args["cluster_name"])
        irsa = args.get("identity") == "irsa"
        role = aws.iam.Role(
            f"{name}-role",
            name=cluster_name.apply(controller_role_name),
            description="The autoscaler's controller",
            assume_role_policy=self._trust(args, namespace, service_account)
            if irsa
            else render(pod_identity_trust()),
            permissions_boundary=args.get("permissions_boundary"),
            opts=self._child,
        )
        policies, waits = self._policies(args, role)
        if not irsa:
            waits.append(
                aws.eks.PodIdentityAssociation(
                    f"{name}-association",
                    cluster_name=cluster_name,
                    namespace=namespace,
                    service_account=service_account,
                    role_arn=role.arn,
                    opts=self._child,
                )
            )
        self.role_name = role.name
        self.role_arn = after(role.arn, waits)
        self.policy_arns = pulumi.Output.all(*(policy.arn for policy in policies))
        self.register_outputs(
            {"roleName": self.role_name, "roleArn": self.role_arn, "policyArns": self.policy_arns}
        )

    def _policies(
        self, args: ControllerRoleArgs, role: aws.iam.Role
    ) -> tuple[list[aws.iam.Policy], list[pulumi.Resource]]:
        extra = args.get("extra_statements", [])
        documents = pulumi.Output.all(
            scope=self._scope(args), extra=pulumi.Output.from_input(list(extra))
        ).apply(lambda known: controller_policies(PolicyScope(**known["scope"]), known["extra"]))
        policies: list[aws.iam.Policy] = []
        attachments: list[pulumi.Resource] = []
        for key in policy_names(extra=bool(extra)):
            policy = aws.iam.Policy(
                f"{self._name}-{key}",
                description=f"The autoscaler's controller: {key.replace('-', ' ')}",
                policy=documents.apply(lambda known, key=key: render(known[key], key)),  # type: ignore[misc]
                opts=self._child,
            )
            policies.append(policy)
            attachments.append(
                aws.iam.RolePolicyAttachment(
                    f"{self._name}-{key}",
                    role=role.name,
                    policy_arn=policy.arn,
                    opts=self._child,
                )
            )
        return policies, attachments

    def _scope(self, args: ControllerRoleArgs) -> pulumi.Output[dict[str, Any]]:
        invoke = pulumi.InvokeOutputOptions(parent=self)
        return pulumi.Output.all(
            partition=aws.get_partition_output(opts=invoke).partition,
            region=aws.get_region_output(opts=invoke).region,
            account_id=aws.get_caller_identity_output(opts=invoke).account_id,
            cluster_name=args["cluster_name"],
            node_role_arn=args["node_role_arn"],
            queue_arn=args["queue_arn"],
            ssm_parameter_arns=pulumi.Output.all(*args.get("ssm_parameter_arns", [])).apply(tuple),
        )

    @staticmethod
    def _trust(
        args: ControllerRoleArgs, namespace: str, service_account: str
    ) -> pulumi.Output[str]:
        return pulumi.Output.all(args["oidc_provider_arn"], args["oidc_issuer"]).apply(
            lambda known: render(
                service_account_trust(known[0], known[1], namespace, service_account)
            )
        )


def check_args(name: str, args: ControllerRoleArgs) -> None:
    """Raise `InvalidArgumentError` for arguments that can't work; makes nothing."""
    check = Check("ControllerRole", name)
    check.known_fields(args, ControllerRoleArgs)
    check.required(args, ["cluster_name", "node_role_arn", "queue_arn"])
    check_cluster_name(check, args["cluster_name"])
    check.one_of("identity", args.get("identity"), IDENTITIES)
    if args.get("identity") == "irsa":
        for field in ("oidc_provider_arn", "oidc_issuer"):
            if args.get(field) is None:
                raise check.refuse(
                    field,
                    "is missing",
                    "identity `irsa` needs it; a Cluster with create_oidc_provider gives it",
                )
    for index, statement in enumerate(args.get("extra_statements", [])):
        if not {"Effect", "Action", "Resource"} <= set(statement):
            raise check.refuse(
                f"extra_statements[{index}]",
                "lacks Effect, Action or Resource",
                "write a whole IAM statement",
            )
