"""Autoscaler: everything that makes an EKS cluster grow and shrink by its pods.

Ties NodeRole, ControllerRole, InterruptionQueue, KarpenterCRDs, Controller, EC2NodeClass and
NodePool together on a cluster that exists, made by `Cluster` or by anything else.

Order matters most when it's taken down: pools first, while the controller still drains their
nodes; then classes, the controller, and last the CRDs, roles and queue.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from nodewright import controller, controller_role, ec2_node_class, karpenter_crds, node_pool
from nodewright.controller import Controller, ControllerArgs, ControllerResourcesArgs
from nodewright.controller_role import ControllerRole, ControllerRoleArgs
from nodewright.controller_settings import ControllerSettingsArgs
from nodewright.ec2_node_class import EC2NodeClass, EC2NodeClassArgs
from nodewright.interruption_queue import InterruptionQueue
from nodewright.karpenter_crds import KarpenterCRDs, KarpenterCRDsArgs
from nodewright.kubeconfig import kubeconfig
from nodewright.network import DISCOVERY_TAG
from nodewright.node_pool import NodePool, NodePoolArgs
from nodewright.node_role import NodeRole
from nodewright.validation import Check, check_cluster_name


class AutoscalerArgs(TypedDict):
    """Arguments of Autoscaler."""

    cluster_name: pulumi.Input[str]
    """Name of the EKS cluster, at most 46 characters."""
    cluster_endpoint: pulumi.Input[str]
    """URL of the Kubernetes API."""
    image: pulumi.Input[str]
    """Image of the controller; name it by digest where it must not change unseen."""
    certificate_authority: NotRequired[pulumi.Input[str]]
    """Certificate authority of the API, base64; needed unless `kubeconfig` is given."""
    kubeconfig: NotRequired[pulumi.Input[str]]
    """Kubeconfig to reach the cluster. Default: one that asks AWS for a token."""
    namespace: NotRequired[str]
    """Namespace of the controller. Default `karpenter`."""
    identity: NotRequired[str]
    """How the controller takes its AWS role: `pod-identity` (default) or `irsa`."""
    oidc_provider_arn: NotRequired[pulumi.Input[str]]
    """IAM OIDC provider of the cluster; needed with `irsa`."""
    oidc_issuer: NotRequired[pulumi.Input[str]]
    """Issuer URL of the cluster; needed with `irsa`."""
    replicas: NotRequired[int]
    """Replicas of the controller, of which one leads. Default 2."""
    resources: NotRequired[ControllerResourcesArgs]
    """Requests and limits of a replica."""
    settings: NotRequired[ControllerSettingsArgs]
    """The controller's settings."""
    node_selector: NotRequired[Mapping[str, str]]
    """Labels of the nodes on which the controller runs."""
    install_crds: NotRequired[bool]
    """Whether to install the CRDs. Default true; false when something else owns them."""
    retain_crds: NotRequired[bool]
    """Whether the CRDs, and so all nodes, stay when this component goes. Default true."""
    webhook_url: NotRequired[pulumi.Input[str]]
    """Address at which the API server reaches the conversion webhook. Default: its Service."""
    webhook_hosts: NotRequired[Sequence[str]]
    """Host names or addresses beside the Service's by which the API server calls the webhook."""
    permissions_boundary: NotRequired[pulumi.Input[str]]
    """ARN of a permissions boundary for both roles."""
    extra_statements: NotRequired[Sequence[Mapping[str, Any]]]
    """IAM statements to allow the controller beside its own."""
    ssm_parameter_arns: NotRequired[Sequence[pulumi.Input[str]]]
    """SSM parameters of your own that `amiSelectorTerms` name."""
    node_classes: NotRequired[Sequence[EC2NodeClassArgs]]
    """NodeClasses to make; each needs a `name`. A class without `role` and `instance_profile` gets
    the node role."""
    node_pools: NotRequired[Sequence[NodePoolArgs]]
    """NodePools to make; each needs a `name`."""


class Autoscaler(pulumi.ComponentResource):
    """Node autoscaling for one EKS cluster."""

    node_role_name: pulumi.Output[str]
    """Role of the nodes, for `spec.role` of an EC2NodeClass."""
    node_role_arn: pulumi.Output[str]
    """ARN of the nodes' role."""
    controller_role_name: pulumi.Output[str]
    """Role of the controller."""
    controller_role_arn: pulumi.Output[str]
    """ARN of the controller's role."""
    queue_name: pulumi.Output[str]
    """Interruption queue."""
    queue_arn: pulumi.Output[str]
    """ARN of the interruption queue."""
    queue_url: pulumi.Output[str]
    """URL of the interruption queue."""
    namespace: pulumi.Output[str]
    """Namespace of the controller."""
    service_account: pulumi.Output[str]
    """Service account of the controller."""
    deployment_name: pulumi.Output[str]
    """The controller's Deployment; whoever uses the name waits until it is ready."""
    discovery_tag: pulumi.Output[Mapping[str, str]]
    """The tag by which NodeClasses find subnets and the security group."""
    node_class_names: pulumi.Output[Sequence[str]]
    """NodeClasses made here."""
    node_pool_names: pulumi.Output[Sequence[str]]
    """NodePools made here."""

    def __init__(
        self, name: str, args: AutoscalerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        _check(name, args)
        super().__init__("nodewright:index:Autoscaler", name, None, opts)
        self._name = name
        self._cluster_name = pulumi.Output.from_input(args["cluster_name"])
        provider = self._kubernetes(args)
        node_role, queue, role = parts = self._aws(args)
        crds = self._crds(args, provider)
        runs = self._controller(args, provider, parts, crds)
        below: list[pulumi.Resource] = [runs, node_role, *crds]
        classes = self._node_classes(args, provider, node_role, below)
        pools = self._node_pools(args, provider, [*below, *classes])

        self.node_role_name = node_role.role_name
        self.node_role_arn = node_role.role_arn
        self.controller_role_name = role.role_name
        self.controller_role_arn = role.role_arn
        self.queue_name = queue.queue_name
        self.queue_arn = queue.queue_arn
        self.queue_url = queue.queue_url
        self.namespace = runs.namespace
        self.service_account = runs.service_account
        self.deployment_name = runs.deployment_name
        self.discovery_tag = self._cluster_name.apply(lambda known: {DISCOVERY_TAG: known})
        self.node_class_names = pulumi.Output.all(*(made.class_name for made in classes))
        self.node_pool_names = pulumi.Output.all(*(made.pool_name for made in pools))
        self.register_outputs(
            {
                "nodeRoleName": self.node_role_name,
                "nodeRoleArn": self.node_role_arn,
                "controllerRoleName": self.controller_role_name,
                "controllerRoleArn": self.controller_role_arn,
                "queueName": self.queue_name,
                "queueArn": self.queue_arn,
                "queueUrl": self.queue_url,
                "namespace": self.namespace,
                "serviceAccount": self.service_account,
                "deploymentName": self.deployment_name,
                "discoveryTag": self.discovery_tag,
                "nodeClassNames": self.node_class_names,
                "nodePoolNames": self.node_pool_names,
            }
        )

    def _kubernetes(self, args: AutoscalerArgs) -> k8s.Provider:
        given = args.get("kubeconfig")
        if given is None:
            region = aws.get_region_output(opts=pulumi.InvokeOutputOptions(parent=self)).region
            given = pulumi.Output.all(
                name=self._cluster_name,
                endpoint=args["cluster_endpoint"],
                certificate_authority=args["certificate_authority"],
                region=region,
            ).apply(lambda known: kubeconfig(**known))
        return k8s.Provider(
            f"{self._name}-kubernetes",
            kubeconfig=given,
            enable_server_side_apply=True,
            # The name stays when the endpoint moves, so nothing is replaced then.
            cluster_identifier=self._cluster_name,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _aws(self, args: AutoscalerArgs) -> tuple[NodeRole, InterruptionQueue, ControllerRole]:
        child = pulumi.ResourceOptions(parent=self)
        boundary = args.get("permissions_boundary")
        node_role = NodeRole(
            f"{self._name}-nodes",
            {"cluster_name": self._cluster_name}
            if boundary is None
            else {"cluster_name": self._cluster_name, "permissions_boundary": boundary},
            child,
        )
        queue = InterruptionQueue(
            f"{self._name}-interruption", {"cluster_name": self._cluster_name}, child
        )
        role_args = _role_args(args, node_role.role_arn, queue.queue_arn)
        return node_role, queue, ControllerRole(f"{self._name}-controller", role_args, child)

    def _crds(self, args: AutoscalerArgs, provider: k8s.Provider) -> list[KarpenterCRDs]:
        if not args.get("install_crds", True):
            return []
        return [
            KarpenterCRDs(
                f"{self._name}-crds",
                _crd_args(args),
                pulumi.ResourceOptions(parent=self, providers=[provider]),
            )
        ]

    def _controller(
        self,
        args: AutoscalerArgs,
        provider: k8s.Provider,
        parts: "tuple[NodeRole, InterruptionQueue, ControllerRole]",
        crds: Sequence[KarpenterCRDs],
    ) -> Controller:
        _, queue, role = parts
        controller_args = _controller_args(args)
        controller_args["interruption_queue"] = queue.queue_name
        if _uses_irsa(args):
            controller_args["role_arn"] = role.role_arn
        return Controller(
            f"{self._name}-controller",
            controller_args,
            pulumi.ResourceOptions(parent=self, providers=[provider], depends_on=[*parts, *crds]),
        )

    def _node_classes(
        self,
        args: AutoscalerArgs,
        provider: k8s.Provider,
        node_role: NodeRole,
        waits: Sequence[pulumi.Resource],
    ) -> list[EC2NodeClass]:
        options = pulumi.ResourceOptions(parent=self, providers=[provider], depends_on=waits)
        made: list[EC2NodeClass] = []
        for given in args.get("node_classes", []):
            whole = _with_role(given, node_role.role_name)
            made.append(EC2NodeClass(f"{self._name}-{given['name']}", whole, options))
        return made

    def _node_pools(
        self, args: AutoscalerArgs, provider: k8s.Provider, waits: Sequence[pulumi.Resource]
    ) -> list[NodePool]:
        options = pulumi.ResourceOptions(parent=self, providers=[provider], depends_on=waits)
        return [
            NodePool(f"{self._name}-{given['name']}", given, options)
            for given in args.get("node_pools", [])
        ]


def _uses_irsa(args: AutoscalerArgs) -> bool:
    return args.get("identity") == "irsa"


def _role_args(
    args: AutoscalerArgs, node_role_arn: pulumi.Input[str], queue_arn: pulumi.Input[str]
) -> ControllerRoleArgs:
    made: ControllerRoleArgs = {
        "cluster_name": args["cluster_name"],
        "node_role_arn": node_role_arn,
        "queue_arn": queue_arn,
        "namespace": args.get("namespace", "karpenter"),
        "identity": args.get("identity", "pod-identity"),
        "ssm_parameter_arns": args.get("ssm_parameter_arns", []),
        "extra_statements": args.get("extra_statements", []),
    }
    if "permissions_boundary" in args:
        made["permissions_boundary"] = args["permissions_boundary"]
    if "oidc_provider_arn" in args:
        made["oidc_provider_arn"] = args["oidc_provider_arn"]
    if "oidc_issuer" in args:
        made["oidc_issuer"] = args["oidc_issuer"]
    return made


def _crd_args(args: AutoscalerArgs) -> KarpenterCRDsArgs:
    made: KarpenterCRDsArgs = {"retain_on_delete": args.get("retain_crds", True)}
    if "webhook_url" in args:
        made["webhook_url"] = args["webhook_url"]
    else:
        made["webhook_namespace"] = args.get("namespace", "karpenter")
    return made


def _controller_args(args: AutoscalerArgs) -> ControllerArgs:
    return {
        "cluster_name": args["cluster_name"],
        "cluster_endpoint": args["cluster_endpoint"],
        "image": args["image"],
        "namespace": args.get("namespace", "karpenter"),
        "replicas": args.get("replicas", 2),
        "resources": args.get("resources", {}),
        "settings": args.get("settings", {}),
        "node_selector": args.get("node_selector", {}),
        "webhook_hosts": args.get("webhook_hosts", []),
        # On Fargate CoreDNS may come up after the controller.
        "dns_policy": "Default" if _uses_irsa(args) else "ClusterFirst",
    }


def _with_role(args: EC2NodeClassArgs, role: pulumi.Input[str]) -> EC2NodeClassArgs:
    if "role" in args or "instance_profile" in args:
        return args
    return {**args, "role": role}


def _check(name: str, args: AutoscalerArgs) -> None:
    """Refuse here what a child would refuse after its elder siblings were created."""
    check = Check("Autoscaler", name)
    check.known_fields(args, AutoscalerArgs)
    check.required(args, ["cluster_name", "cluster_endpoint", "image"])
    check_cluster_name(check, args["cluster_name"])
    if args.get("kubeconfig") is None and args.get("certificate_authority") is None:
        raise check.refuse(
            "certificate_authority", "is missing", "give it, or a kubeconfig, to reach the cluster"
        )
    controller_role.check_args(name, _role_args(args, "later", "later"))
    karpenter_crds.check_args(name, _crd_args(args))
    controller.check_args(name, _controller_args(args))
    _check_names(check, "node_classes", [item.get("name") for item in args.get("node_classes", [])])
    _check_names(check, "node_pools", [item.get("name") for item in args.get("node_pools", [])])
    for node_class in args.get("node_classes", []):
        ec2_node_class.check_args(node_class["name"], _with_role(node_class, "later"))
    for pool in args.get("node_pools", []):
        node_pool.check_args(pool["name"], pool)


def _check_names(check: Check, field: str, names: Sequence[str | None]) -> None:
    if None in names:
        raise check.refuse(
            f"{field}[{names.index(None)}].name", "is missing", "give each of them a name"
        )
    check.unique(field, names)
