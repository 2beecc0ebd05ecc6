"""Controller: the autoscaler's Deployment and everything it needs in Kubernetes.

Its identity in AWS is `ControllerRole`, its kinds are `KarpenterCRDs`. Kubernetes resources use
the provider given in `opts`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_kubernetes as k8s

from nodewright import controller_rbac as rbac
from nodewright.controller_pod import (
    LABELS,
    METRICS_PORT,
    NAME,
    WEBHOOK_PORT,
    PodPlan,
    pod_spec,
)
from nodewright.controller_settings import (
    DEFAULT_LEASE,
    ControllerSettingsArgs,
    check_settings,
    environment,
)
from nodewright.ordering import after
from nodewright.quantities import QUANTITY, parse_quantity
from nodewright.validation import Check

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
DNS_POLICIES = ("ClusterFirst", "Default", "ClusterFirstWithHostNet", "None")
ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"


class ControllerResourcesArgs(TypedDict):
    """What one replica asks for and may use."""

    cpu_request: NotRequired[str]
    """Default `500m`. The more cores, the more objects are handled at once."""
    cpu_limit: NotRequired[str]
    """Default: none."""
    memory_request: NotRequired[str]
    """Default `1Gi`."""
    memory_limit: NotRequired[str]
    """Default `1Gi`. From nine tenths of it on, garbage is collected at once."""


class ControllerArgs(TypedDict):
    """Arguments of Controller."""

    cluster_name: pulumi.Input[str]
    """Name of the EKS cluster."""
    image: pulumi.Input[str]
    """Image of the controller; name it by digest where it must not change unseen."""
    cluster_endpoint: NotRequired[pulumi.Input[str]]
    """URL of the Kubernetes API for nodes. Default: what EKS says."""
    interruption_queue: NotRequired[pulumi.Input[str]]
    """Name of the interruption queue. Default: no interruption is handled."""
    settings: NotRequired[ControllerSettingsArgs]
    """The controller's settings."""
    namespace: NotRequired[str]
    """Namespace of the controller. Default `karpenter`."""
    create_namespace: NotRequired[bool]
    """Whether to make the namespace. Default true; false for an existing one."""
    replicas: NotRequired[int]
    """Replicas, of which one leads. Default 2."""
    resources: NotRequired[ControllerResourcesArgs]
    """Requests and limits of a replica."""
    image_pull_policy: NotRequired[str]
    """Default `IfNotPresent`."""
    webhook_hosts: NotRequired[Sequence[str]]
    """Host names or addresses beside the Service's by which the API server calls the webhook."""
    role_arn: NotRequired[pulumi.Input[str]]
    """Role for the service account, with IRSA. Leave out with Pod Identity."""
    node_selector: NotRequired[Mapping[str, str]]
    """Labels of the nodes on which it runs, such as `karpenter.sh/controller: "true"`."""
    tolerations: NotRequired[Sequence[Mapping[str, Any]]]
    """Tolerations beside `CriticalAddonsOnly`."""
    dns_policy: NotRequired[str]
    """Default `ClusterFirst`; `Default` lets it start before CoreDNS runs."""
    priority_class_name: NotRequired[str]
    """Default `system-cluster-critical`."""
    pod_annotations: NotRequired[Mapping[str, str]]
    """Annotations of the pods."""
    extra_cluster_rules: NotRequired[Sequence[Mapping[str, Any]]]
    """Kubernetes RBAC rules beside the controller's own."""


class Controller(pulumi.ComponentResource):
    """The controller with its namespace, service account, RBAC, Deployment, Service and PDB."""

    namespace: pulumi.Output[str]
    """Namespace of the controller."""
    service_account: pulumi.Output[str]
    """Service account of the controller."""
    deployment_name: pulumi.Output[str]
    """Deployment; whoever uses the name waits until all replicas are ready."""
    service_name: pulumi.Output[str]
    """Service with the ports `http-metrics` (8080) and `webhook` (8443)."""

    def __init__(
        self, name: str, args: ControllerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check_args(name, args)
        super().__init__("nodewright:index:Controller", name, None, opts)
        self._name = name
        self._namespace = args.get("namespace", "karpenter")
        self._child = pulumi.ResourceOptions(parent=self)
        if args.get("create_namespace", True):
            namespace = k8s.core.v1.Namespace(
                f"{name}-namespace", metadata={"name": self._namespace}, opts=self._child
            )
            self._child = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        account = self._service_account(args)
        grants = self._rbac(args)
        service = self._service()
        deployment = self._deployment(args, [account, *grants, service])
        self._disruption_budget()
        self._flow_schemas()

        self.namespace = pulumi.Output.from_input(self._namespace)
        self.service_account = pulumi.Output.from_input(NAME)
        self.deployment_name = after(pulumi.Output.from_input(NAME), [deployment])
        self.service_name = pulumi.Output.from_input(NAME)
        self.register_outputs(
            {
                "namespace": self.namespace,
                "serviceAccount": self.service_account,
                "deploymentName": self.deployment_name,
                "serviceName": self.service_name,
            }
        )

    def _metadata(self, name: str = NAME, namespace: str | None = None) -> dict[str, Any]:
        return {
            "name": name,
            "namespace": namespace or self._namespace,
            "labels": dict(LABELS),
        }

    def _cluster_metadata(self, name: str, **labels: str) -> dict[str, Any]:
        return {"name": name, "labels": {**LABELS, **labels}}

    def _service_account(self, args: ControllerArgs) -> pulumi.Resource:
        role_arn = args.get("role_arn")
        metadata = self._metadata()
        if role_arn is not None:
            metadata["annotations"] = {ROLE_ANNOTATION: role_arn}
        account: pulumi.Resource = k8s.core.v1.ServiceAccount(
            f"{self._name}-account", metadata=metadata, opts=self._child
        )
        return account

    def _rbac(self, args: ControllerArgs) -> list[pulumi.Resource]:
        rules = [
            *rbac.cluster_rules(
                default_spreads=bool(args.get("settings", {}).get("scheduler_config"))
            ),
            *(dict(more) for more in args.get("extra_cluster_rules", [])),
        ]
        lease = args.get("settings", {}).get("leader_election_name", DEFAULT_LEASE)
        k8s.rbac.v1.ClusterRole(
            f"{self._name}-admin",
            metadata=self._cluster_metadata(
                f"{NAME}-admin", **{"rbac.authorization.k8s.io/aggregate-to-admin": "true"}
            ),
            rules=rbac.admin_rules(),
            opts=self._child,
        )
        role = k8s.rbac.v1.ClusterRole(
            f"{self._name}-cluster",
            metadata=self._cluster_metadata(NAME),
            rules=rules,
            opts=self._child,
        )
        binding = k8s.rbac.v1.ClusterRoleBinding(
            f"{self._name}-cluster",
            metadata=self._cluster_metadata(NAME),
            role_ref=_role_ref("ClusterRole", NAME),
            subjects=[self._subject()],
            opts=self._child,
        )
        return [
            role,
            binding,
            *self._grant("own", NAME, self._namespace, rbac.namespace_rules(lease)),
            *self._grant("dns", f"{NAME}-dns", "kube-system", rbac.dns_rules()),
        ]

    def _grant(
        self, key: str, name: str, namespace: str, rules: list[rbac.Rule]
    ) -> list[pulumi.Resource]:
        metadata = self._metadata(name, namespace)
        role = k8s.rbac.v1.Role(
            f"{self._name}-{key}", metadata=metadata, rules=rules, opts=self._child
        )
        binding = k8s.rbac.v1.RoleBinding(
            f"{self._name}-{key}",
            metadata=metadata,
            role_ref=_role_ref("Role", name),
            subjects=[self._subject()],
            opts=self._child,
        )
        return [role, binding]

    def _subject(self) -> dict[str, str]:
        return {"kind": "ServiceAccount", "name": NAME, "namespace": self._namespace}

    def _service(self) -> pulumi.Resource:
        service: pulumi.Resource = k8s.core.v1.Service(
            f"{self._name}-service",
            # The Deployment, made after this, waits for ready replicas; waiting for them here too
            # would never end.
            metadata={**self._metadata(), "annotations": {"pulumi.com/skipAwait": "true"}},
            spec={
                "type": "ClusterIP",
                "selector": dict(LABELS),
                "ports": [
                    {
                        "name": "http-metrics",
                        "port": METRICS_PORT,
                        "targetPort": "http-metrics",
                        "protocol": "TCP",
                    },
                    {
                        "name": "webhook",
                        "port": WEBHOOK_PORT,
                        "targetPort": "webhook",
                        "protocol": "TCP",
                    },
                ],
            },
            opts=self._child,
        )
        return service

    def _deployment(
        self, args: ControllerArgs, waits: Sequence[pulumi.Resource]
    ) -> pulumi.Resource:
        plan = _plan(args, self._namespace)
        deployment: pulumi.Resource = k8s.apps.v1.Deployment(
            f"{self._name}-deployment",
            metadata=self._metadata(),
            spec={
                "replicas": int(args.get("replicas", 2)),
                "revisionHistoryLimit": 10,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
                "selector": {"matchLabels": dict(LABELS)},
                "template": {
                    "metadata": _pod_metadata(plan),
                    "spec": pod_spec(plan),
                },
            },
            opts=pulumi.ResourceOptions.merge(
                self._child, pulumi.ResourceOptions(depends_on=list(waits))
            ),
        )
        return deployment

    def _disruption_budget(self) -> None:
        k8s.policy.v1.PodDisruptionBudget(
            f"{self._name}-budget",
            metadata=self._metadata(),
            spec={"maxUnavailable": 1, "selector": {"matchLabels": dict(LABELS)}},
            opts=self._child,
        )

    def _flow_schemas(self) -> None:
        # Outside kube-system the controller's requests would share the queue of all workloads,
        # which is full when the cluster most needs nodes.
        lease = {
            **rbac.rule("coordination.k8s.io", ["leases"], ["get", "create", "update", "patch"]),
            "namespaces": [self._namespace],
        }
        everything = {
            **rbac.rule("*", ["*"], ["*"]),
            "namespaces": ["*"],
            "clusterScope": True,
        }
        for key, level, precedence, request in (
            ("leader-election", "leader-election", 200, lease),
            ("workload", "workload-high", 1000, everything),
        ):
            k8s.flowcontrol.v1.FlowSchema(
                f"{self._name}-{key}",
                metadata=self._cluster_metadata(f"{NAME}-{key}"),
                spec={
                    "distinguisherMethod": {"type": "ByUser"},
                    "matchingPrecedence": precedence,
                    "priorityLevelConfiguration": {"name": level},
                    "rules": [
                        {
                            "resourceRules": [request],
                            "subjects": [
                                {
                                    "kind": "ServiceAccount",
                                    "serviceAccount": {
                                        "name": NAME,
                                        "namespace": self._namespace,
                                    },
                                }
                            ],
                        }
                    ],
                },
                opts=self._child,
            )


def _role_ref(kind: str, name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}


def _pod_metadata(plan: PodPlan) -> dict[str, Any]:
    metadata: dict[str, Any] = {"labels": dict(LABELS)}
    if plan.pod_annotations:
        metadata["annotations"] = dict(plan.pod_annotations)
    return metadata


def _plan(args: ControllerArgs, namespace: str) -> PodPlan:
    optional: dict[str, Any] = {
        **args.get("resources", {}),
        **{
            field: args[field]
            for field in (
                "image_pull_policy",
                "webhook_hosts",
                "node_selector",
                "dns_policy",
                "priority_class_name",
                "pod_annotations",
            )
            if field in args
        },
    }
    return PodPlan(
        namespace=namespace,
        image=args["image"],
        cluster_name=args["cluster_name"],
        cluster_endpoint=args.get("cluster_endpoint"),
        interruption_queue=args.get("interruption_queue"),
        settings=environment(args.get("settings", {})),
        extra_tolerations=args.get("tolerations", []),
        **optional,
    )


def check_args(name: str, args: ControllerArgs) -> None:
    """Raise `InvalidArgumentError` for arguments that can't work; makes nothing."""
    check = Check("Controller", name)
    check.known_fields(args, ControllerArgs)
    check.required(args, ["cluster_name", "image"])
    image = args["image"]
    if isinstance(image, str) and (not image.strip() or any(c.isspace() for c in image)):
        raise check.refuse("image", f"is {image!r}", "name an image, best by digest")
    check.one_of("image_pull_policy", args.get("image_pull_policy"), PULL_POLICIES)
    check.one_of("dns_policy", args.get("dns_policy"), DNS_POLICIES)
    check.matches(
        "namespace", args.get("namespace"), r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "karpenter"
    )
    replicas = args.get("replicas", 2)
    check.between("replicas", replicas, 1, 10)
    settings = args.get("settings", {})
    check_settings(check, settings)
    if settings.get("disable_leader_election") and replicas > 1:
        raise check.refuse(
            "settings.disable_leader_election",
            f"is on with {replicas} replicas",
            "set replicas to 1: two controllers that both act launch every node twice",
        )
    _check_resources(check, args.get("resources", {}))


def _check_resources(check: Check, resources: ControllerResourcesArgs) -> None:
    check.known_fields(resources, ControllerResourcesArgs)
    for field, value in resources.items():
        check.matches(f"resources.{field}", value, QUANTITY, "500m or 1Gi")
    request = resources.get("memory_request", "1Gi")
    limit = resources.get("memory_limit", "1Gi")
    if parse_quantity(request) > parse_quantity(limit):
        raise check.refuse(
            "resources.memory_request",
            f"{request} is more than the limit {limit}",
            "raise the limit",
        )
