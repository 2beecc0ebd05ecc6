"""Cluster: an EKS control plane, its add-ons and the few nodes on which the controller runs."""

import json
from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from nodewright.iam_documents import render, service_trust
from nodewright.kubeconfig import kubeconfig
from nodewright.node_role import NODE_POLICIES
from nodewright.ordering import after
from nodewright.security_rules import IngressRule, ingress_rules
from nodewright.validation import Check, check_cluster_name

DISCOVERY_TAG = "karpenter.sh/discovery"
COMPUTE = ("managed-node-group", "fargate")
LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
DEFAULT_ADDONS = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent", "coredns")
# A node is not Ready without the first two, and the controller has no AWS identity without the
# third; every other add-on needs a node to run on.
_BEFORE_NODES = frozenset({"vpc-cni", "kube-proxy", "eks-pod-identity-agent"})
_CLUSTER_POLICIES = ("AmazonEKSClusterPolicy", "AmazonEKSVPCResourceController")


class CoreNodesArgs(TypedDict):
    """The managed node group on which the controller and CoreDNS run."""

    instance_types: NotRequired[Sequence[str]]
    """Instance types, all of one architecture. Default `t3.medium`."""
    count: NotRequired[int]
    """Number of nodes. Default 2, so that the controller's two replicas run apart."""
    max_count: NotRequired[int]
    """Most nodes during an upgrade of the group. Default `count` + 1."""
    ami_type: NotRequired[str]
    """EKS AMI type. Default `AL2023_x86_64_STANDARD`."""
    tainted: NotRequired[bool]
    """Whether to keep other pods away by the taint `CriticalAddonsOnly`. Default true."""


class AddonArgs(TypedDict):
    """One EKS add-on."""

    version: NotRequired[pulumi.Input[str]]
    """Version of the add-on. Default: EKS's default for the cluster's version."""
    configuration: NotRequired[str]
    """Configuration values as JSON, in the add-on's own schema."""


class ClusterArgs(TypedDict):
    """Arguments of Cluster."""

    cluster_name: str
    """Name of the cluster, at most 46 characters."""
    vpc_id: pulumi.Input[str]
    """VPC of the cluster."""
    private_subnet_ids: pulumi.Input[Sequence[str]]
    """Subnets in at least two zones, for the control plane and the core nodes."""
    kubernetes_version: NotRequired[pulumi.Input[str]]
    """Kubernetes version such as `1.36`. Default: EKS's default."""
    endpoint_private_access: NotRequired[bool]
    """Whether the API is reached from inside the VPC. Default true."""
    endpoint_public_access: NotRequired[bool]
    """Whether the API is reached from the internet. Default false."""
    public_access_cidrs: NotRequired[Sequence[str]]
    """Networks that may reach the public endpoint; needed with `endpoint_public_access`."""
    log_types: NotRequired[Sequence[str]]
    """Control plane logs to keep. Default `audit` and `authenticator`."""
    log_retention_days: NotRequired[int]
    """Days to keep those logs. Default 30."""
    encrypt_secrets: NotRequired[bool]
    """Whether to encrypt Kubernetes secrets with a KMS key made here. Default false: EKS encrypts
    them with a key of AWS."""
    secrets_key_arn: NotRequired[pulumi.Input[str]]
    """Existing KMS key to encrypt Kubernetes secrets with."""
    admins: NotRequired[Mapping[str, pulumi.Input[str]]]
    """IAM principals that administer the cluster besides its creator, by a short name."""
    addons: NotRequired[Mapping[str, AddonArgs]]
    """EKS add-ons by name. Default `vpc-cni`, `kube-proxy`, `eks-pod-identity-agent`, `coredns`."""
    compute: NotRequired[str]
    """Where the controller runs: `managed-node-group` (default) or `fargate`."""
    core_nodes: NotRequired[CoreNodesArgs]
    """The managed node group, with `compute` `managed-node-group`."""
    controller_namespace: NotRequired[str]
    """Namespace whose pods run on Fargate, with `compute` `fargate`. Default `karpenter`."""
    open_core_nodes: NotRequired[bool]
    """Whether pods on the controller's nodes and on all others reach each other freely, as
    Kubernetes expects. Default true."""
    create_oidc_provider: NotRequired[bool]
    """Whether to make an IAM OIDC provider for service accounts. Default: with `fargate` only."""


class Cluster(pulumi.ComponentResource):
    """An EKS cluster with access entries, add-ons, and one security group for the autoscaler's nodes."""

    cluster_name: pulumi.Output[str]
    """Name of the cluster."""
    cluster_arn: pulumi.Output[str]
    """ARN of the cluster."""
    endpoint: pulumi.Output[str]
    """URL of the Kubernetes API."""
    certificate_authority: pulumi.Output[str]
    """Certificate authority of the API, base64."""
    kubernetes_version: pulumi.Output[str]
    """Version that the control plane runs."""
    kubeconfig: pulumi.Output[str]
    """Kubeconfig without secrets; whoever uses it waits until pods can run, and is destroyed first."""
    oidc_issuer: pulumi.Output[str]
    """Issuer URL of service account tokens."""
    oidc_provider_arn: pulumi.Output[str] | None
    """IAM OIDC provider, if one was made."""
    cluster_security_group_id: pulumi.Output[str]
    """Group that EKS made for the control plane and the core nodes."""
    node_security_group_id: pulumi.Output[str]
    """Group for the autoscaler's nodes, the only one with the discovery tag."""
    core_node_role_arn: pulumi.Output[str]
    """Role of the core nodes, or the pod execution role on Fargate."""
    service_cidr: pulumi.Output[str]
    """Range of service addresses."""
    log_group_name: pulumi.Output[str] | None
    """CloudWatch log group of the control plane, if logs are kept."""
    secrets_key_arn: pulumi.Output[str] | None
    """KMS key that encrypts Kubernetes secrets, if one is used."""
    discovery_tag: pulumi.Output[Mapping[str, str]]
    """The tag by which NodeClasses find subnets and the security group."""

    def __init__(
        self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        _check(name, args)
        super().__init__("nodewright:index:Cluster", name, None, opts)
        self._name = name
        self._cluster_name = args["cluster_name"]
        self._child = pulumi.ResourceOptions(parent=self)
        invoke = pulumi.InvokeOutputOptions(parent=self)
        self._partition = aws.get_partition_output(opts=invoke).partition
        self._eks = self._control_plane(args)
        rules = self._security(args)
        access = self._admins(args)
        self._provider_for_service_accounts(args)
        early, late = _addons(args)
        before = [self._addon(addon, values, []) for addon, values in early.items()]
        compute = self._compute(args, [*before, *rules])
        added = [self._addon(addon, values, [compute]) for addon, values in late.items()]

        self.cluster_name = self._eks.name
        self.cluster_arn = self._eks.arn
        self.endpoint = self._eks.endpoint
        self.certificate_authority = self._eks.certificate_authority.apply(_authority)
        self.kubernetes_version = self._eks.version
        self.kubeconfig = after(
            pulumi.Output.all(
                name=self._eks.name,
                endpoint=self.endpoint,
                certificate_authority=self.certificate_authority,
                region=aws.get_region_output(opts=invoke).region,
            ).apply(lambda known: kubeconfig(**known)),
            [compute, *before, *added, *rules, *access],
        )
        self.oidc_issuer = self._eks.identities.apply(_issuer)
        self.service_cidr = self._eks.kubernetes_network_config.service_ipv4_cidr
        self.discovery_tag = pulumi.Output.from_input({DISCOVERY_TAG: self._cluster_name})
        self.register_outputs(
            {
                "clusterName": self.cluster_name,
                "clusterArn": self.cluster_arn,
                "endpoint": self.endpoint,
                "certificateAuthority": self.certificate_authority,
                "kubernetesVersion": self.kubernetes_version,
                "kubeconfig": self.kubeconfig,
                "oidcIssuer": self.oidc_issuer,
                "oidcProviderArn": self.oidc_provider_arn,
                "clusterSecurityGroupId": self.cluster_security_group_id,
                "nodeSecurityGroupId": self.node_security_group_id,
                "coreNodeRoleArn": self.core_node_role_arn,
                "serviceCidr": self.service_cidr,
                "logGroupName": self.log_group_name,
                "secretsKeyArn": self.secrets_key_arn,
                "discoveryTag": self.discovery_tag,
            }
        )

    def _role(
        self, key: str, service: str, policies: Sequence[str]
    ) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
        role = aws.iam.Role(
            f"{self._name}-{key}",
            assume_role_policy=render(service_trust(service)),
            opts=self._child,
        )
        attachments: list[pulumi.Resource] = [
            aws.iam.RolePolicyAttachment(
                f"{self._name}-{key}-{policy}",
                role=role.name,
                policy_arn=pulumi.Output.concat(
                    "arn:", self._partition, ":iam::aws:policy/", policy
                ),
                opts=self._child,
            )
            for policy in policies
        ]
        return role, attachments

    def _control_plane(self, args: ClusterArgs) -> aws.eks.Cluster:
        role, waits = self._role("control-plane", "eks.amazonaws.com", _CLUSTER_POLICIES)
        log_types = list(args.get("log_types", ("audit", "authenticator")))
        self.log_group_name = None
        if log_types:
            # Made here, under the name EKS uses, so that retention is set and destroy removes it.
            logs = aws.cloudwatch.LogGroup(
                f"{self._name}-logs",
                name=f"/aws/eks/{self._cluster_name}/cluster",
                retention_in_days=args.get("log_retention_days", 30),
                opts=self._child,
            )
            waits.append(logs)
            self.log_group_name = logs.name
        self.secrets_key_arn = self._secrets_key(args)
        public = args.get("endpoint_public_access", False)
        return aws.eks.Cluster(
            f"{self._name}-cluster",
            name=self._cluster_name,
            role_arn=role.arn,
            version=args.get("kubernetes_version"),
            access_config=aws.eks.ClusterAccessConfigArgs(
                authentication_mode="API", bootstrap_cluster_creator_admin_permissions=True
            ),
            # The add-ons below take the place of those EKS would put in unmanaged.
            bootstrap_self_managed_addons=False,
            vpc_config=aws.eks.ClusterVpcConfigArgs(
                subnet_ids=args["private_subnet_ids"],
                endpoint_private_access=args.get("endpoint_private_access", True),
                endpoint_public_access=public,
                public_access_cidrs=list(args.get("public_access_cidrs", [])) if public else None,
            ),
            enabled_cluster_log_types=log_types or None,
            encryption_config=None
            if self.secrets_key_arn is None
            else aws.eks.ClusterEncryptionConfigArgs(
                resources=["secrets"],
                provider=aws.eks.ClusterEncryptionConfigProviderArgs(key_arn=self.secrets_key_arn),
            ),
            # EKS needs the role until its last network interface is gone.
            opts=pulumi.ResourceOptions(parent=self, depends_on=waits),
        )

    def _secrets_key(self, args: ClusterArgs) -> pulumi.Output[str] | None:
        given = args.get("secrets_key_arn")
        if given is not None:
            return pulumi.Output.from_input(given)
        if not args.get("encrypt_secrets", False):
            return None
        key = aws.kms.Key(
            f"{self._name}-secrets",
            description=f"Kubernetes secrets of {self._cluster_name}",
            enable_key_rotation=True,
            opts=self._child,
        )
        aws.kms.Alias(
            f"{self._name}-secrets",
            name=f"alias/eks/{self._cluster_name}",
            target_key_id=key.key_id,
            opts=self._child,
        )
        return key.arn

    def _security(self, args: ClusterArgs) -> list[pulumi.Resource]:
        node_group = aws.ec2.SecurityGroup(
            f"{self._name}-nodes",
            description=f"Nodes of {self._cluster_name} launched by the autoscaler",
            vpc_id=args["vpc_id"],
            tags={
                "Name": f"{self._cluster_name}-nodes",
                DISCOVERY_TAG: self._cluster_name,
                # By this tag the load balancer controllers find the group to open.
                f"kubernetes.io/cluster/{self._cluster_name}": "owned",
            },
            opts=self._child,
        )
        groups = {
            "node": node_group.id,
            "cluster": self._eks.vpc_config.cluster_security_group_id.apply(str),
        }
        self.node_security_group_id = node_group.id
        self.cluster_security_group_id = groups["cluster"]
        egress = aws.vpc.SecurityGroupEgressRule(
            f"{self._name}-nodes-to-anywhere",
            security_group_id=node_group.id,
            description="Nodes to anywhere",
            ip_protocol="-1",
            cidr_ipv4="0.0.0.0/0",
            opts=self._child,
        )
        rules = ingress_rules(open_core_nodes=args.get("open_core_nodes", True))
        return [egress, *(self._ingress(rule, groups) for rule in rules)]

    def _ingress(
        self, rule: IngressRule, groups: Mapping[str, pulumi.Output[str]]
    ) -> aws.vpc.SecurityGroupIngressRule:
        return aws.vpc.SecurityGroupIngressRule(
            f"{self._name}-{rule.name}",
            security_group_id=groups[rule.into],
            referenced_security_group_id=groups[rule.source],
            description=rule.description,
            ip_protocol=rule.protocol,
            from_port=rule.port,
            to_port=rule.port,
            opts=self._child,
        )

    def _admins(self, args: ClusterArgs) -> list[pulumi.Resource]:
        made: list[pulumi.Resource] = []
        for key, principal in args.get("admins", {}).items():
            entry = aws.eks.AccessEntry(
                f"{self._name}-admin-{key}",
                cluster_name=self._eks.name,
                principal_arn=principal,
                type="STANDARD",
                opts=self._child,
            )
            policy = aws.eks.AccessPolicyAssociation(
                f"{self._name}-admin-{key}",
                cluster_name=self._eks.name,
                principal_arn=entry.principal_arn,
                policy_arn=pulumi.Output.concat(
                    "arn:",
                    self._partition,
                    ":eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                ),
                access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
                opts=self._child,
            )
            made += [entry, policy]
        return made

    def _provider_for_service_accounts(self, args: ClusterArgs) -> None:
        self.oidc_provider_arn = None
        if args.get("create_oidc_provider", args.get("compute") == "fargate"):
            provider = aws.iam.OpenIdConnectProvider(
                f"{self._name}-oidc",
                url=self._eks.identities.apply(_issuer),
                client_id_lists=["sts.amazonaws.com"],
                opts=self._child,
            )
            self.oidc_provider_arn = provider.arn

    def _addon(
        self, addon: str, values: AddonArgs, waits: Sequence[pulumi.Resource]
    ) -> aws.eks.Addon:
        return aws.eks.Addon(
            f"{self._name}-{addon}",
            cluster_name=self._eks.name,
            addon_name=addon,
            addon_version=values.get("version"),
            configuration_values=values.get("configuration"),
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            opts=pulumi.ResourceOptions(parent=self, depends_on=waits),
        )

    def _compute(self, args: ClusterArgs, waits: Sequence[pulumi.Resource]) -> pulumi.Resource:
        if args.get("compute") == "fargate":
            return self._fargate(args, waits)
        return self._node_group(args, waits)

    def _node_group(self, args: ClusterArgs, waits: Sequence[pulumi.Resource]) -> pulumi.Resource:
        nodes = args.get("core_nodes", {})
        role, attachments = self._role("core-nodes", "ec2.amazonaws.com", NODE_POLICIES)
        self.core_node_role_arn = role.arn
        count = int(nodes.get("count", 2))
        taint = aws.eks.NodeGroupTaintArgs(
            key="CriticalAddonsOnly", value="true", effect="NO_SCHEDULE"
        )
        return aws.eks.NodeGroup(
            f"{self._name}-core",
            cluster_name=self._eks.name,
            node_role_arn=role.arn,
            subnet_ids=args["private_subnet_ids"],
            instance_types=list(nodes.get("instance_types", ["t3.medium"])),
            ami_type=nodes.get("ami_type", "AL2023_x86_64_STANDARD"),
            capacity_type="ON_DEMAND",
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                desired_size=count,
                min_size=count,
                max_size=int(nodes.get("max_count", count + 1)),
            ),
            labels={"karpenter.sh/controller": "true"},
            taints=[taint] if nodes.get("tainted", True) else None,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*attachments, *waits]),
        )

    def _fargate(self, args: ClusterArgs, waits: Sequence[pulumi.Resource]) -> pulumi.Resource:
        role, attachments = self._role(
            "fargate",
            "eks-fargate-pods.amazonaws.com",
            ["AmazonEKSFargatePodExecutionRolePolicy"],
        )
        self.core_node_role_arn = role.arn
        return aws.eks.FargateProfile(
            f"{self._name}-core",
            cluster_name=self._eks.name,
            pod_execution_role_arn=role.arn,
            subnet_ids=args["private_subnet_ids"],
            selectors=[
                aws.eks.FargateProfileSelectorArgs(
                    namespace=args.get("controller_namespace", "karpenter"),
                    labels={"app.kubernetes.io/name": "karpenter"},
                ),
                aws.eks.FargateProfileSelectorArgs(
                    namespace="kube-system", labels={"k8s-app": "kube-dns"}
                ),
            ],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*attachments, *waits]),
        )


def _authority(authority: "aws.eks.outputs.ClusterCertificateAuthority") -> str:
    return str(authority.data)


def _issuer(identities: "Sequence[aws.eks.outputs.ClusterIdentity]") -> str:
    oidcs = identities[0].oidcs or []
    return str(oidcs[0].issuer)


def _addons(args: ClusterArgs) -> tuple[dict[str, AddonArgs], dict[str, AddonArgs]]:
    """Return the add-ons to make before the first node, and those after it."""
    wanted: dict[str, AddonArgs] = dict(args.get("addons") or {key: {} for key in DEFAULT_ADDONS})
    if args.get("compute") == "fargate" and "configuration" not in wanted.get("coredns", {}):
        wanted["coredns"] = {
            **wanted.get("coredns", {}),
            "configuration": json.dumps({"computeType": "Fargate"}),
        }
    early = {key: value for key, value in wanted.items() if key in _BEFORE_NODES}
    late = {key: value for key, value in wanted.items() if key not in _BEFORE_NODES}
    return early, late


def _check(name: str, args: ClusterArgs) -> None:
    check = Check("Cluster", name)
    check.known_fields(args, ClusterArgs)
    check.required(args, ["cluster_name", "vpc_id", "private_subnet_ids"])
    check_cluster_name(check, args["cluster_name"])
    check.matches(
        "kubernetes_version", args.get("kubernetes_version"), r"1\.[0-9]{2}", "1.36, in quotes"
    )
    _check_endpoints(check, args)
    for log_type in args.get("log_types", []):
        check.one_of("log_types", log_type, LOG_TYPES)
    check.unique("log_types", args.get("log_types", []))
    if args.get("encrypt_secrets") and args.get("secrets_key_arn") is not None:
        raise check.refuse("secrets_key_arn", "is given beside encrypt_secrets", "keep one of them")
    _check_compute(check, args)
    for addon, values in args.get("addons", {}).items():
        _check_addon(check, addon, values)


def _check_endpoints(check: Check, args: ClusterArgs) -> None:
    cidrs = args.get("public_access_cidrs", [])
    check.cidrs("public_access_cidrs", cidrs)
    if args.get("endpoint_public_access", False):
        if not cidrs:
            raise check.refuse(
                "public_access_cidrs",
                "is empty while endpoint_public_access is on",
                "name the networks that may reach the API, such as your office's",
            )
    elif not args.get("endpoint_private_access", True):
        raise check.refuse(
            "endpoint_private_access",
            "is off and so is endpoint_public_access",
            "turn one of them on: nobody could reach the API",
        )
    elif cidrs:
        raise check.refuse(
            "public_access_cidrs",
            "is given while endpoint_public_access is off",
            "turn that on or leave this out",
        )


def _check_compute(check: Check, args: ClusterArgs) -> None:
    check.one_of("compute", args.get("compute"), COMPUTE)
    nodes = args.get("core_nodes")
    if nodes is None:
        return
    if args.get("compute") == "fargate":
        raise check.refuse("core_nodes", "is given with compute `fargate`", "leave one of them out")
    check.known_fields(nodes, CoreNodesArgs)
    check.between("core_nodes.count", nodes.get("count"), 1, 100)
    check.between("core_nodes.max_count", nodes.get("max_count"), int(nodes.get("count", 2)), 100)
    if "instance_types" in nodes and not nodes["instance_types"]:
        raise check.refuse("core_nodes.instance_types", "is empty", "name one or leave it out")


def _check_addon(check: Check, addon: str, values: AddonArgs) -> None:
    check.known_fields(values, AddonArgs)
    configuration = values.get("configuration")
    if configuration is None:
        return
    try:
        json.loads(configuration)
    except ValueError as error:
        raise check.refuse(
            f"addons[{addon}].configuration", f"is not JSON ({error})", "write a JSON object"
        ) from error
