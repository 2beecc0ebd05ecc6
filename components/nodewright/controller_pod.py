"""The controller's pod: environment, container, placement. Pure.

Names of ports, environment variables and labels are the contract with the image and, through the
label `app.kubernetes.io/name=karpenter`, with everybody's log commands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from nodewright.controller_rbac import WEBHOOK_SECRET
from nodewright.quantities import millicores, whole_bytes

NAME = "karpenter"
METRICS_PORT = 8080
HEALTH_PORT = 8081
WEBHOOK_PORT = 8443
LABELS: Mapping[str, str] = {
    "app.kubernetes.io/name": NAME,
    "app.kubernetes.io/instance": NAME,
}
USER_ID = 65532


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """All that varies between one controller's pod and another's."""

    namespace: str
    image: pulumi.Input[str]
    cluster_name: pulumi.Input[str]
    cluster_endpoint: pulumi.Input[str] | None = None
    interruption_queue: pulumi.Input[str] | None = None
    settings: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Environment from `controller_settings.environment`."""
    webhook_hosts: Sequence[str] = ()
    """Names beyond the Service's that the webhook's certificate must carry."""
    cpu_request: str = "500m"
    memory_request: str = "1Gi"
    memory_limit: str = "1Gi"
    cpu_limit: str | None = None
    image_pull_policy: str = "IfNotPresent"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    extra_tolerations: Sequence[Mapping[str, Any]] = ()
    dns_policy: str = "ClusterFirst"
    priority_class_name: str = "system-cluster-critical"
    pod_annotations: Mapping[str, str] = field(default_factory=dict)


def webhook_hosts(namespace: str, extra: Sequence[str]) -> str:
    """Return the names for the webhook's certificate, comma separated, the Service's first."""
    service = f"{NAME}.{namespace}"
    own = (f"{service}.svc", f"{service}.svc.cluster.local", service)
    return ",".join(dict.fromkeys([*own, *extra]))


def environment(plan: PodPlan) -> list[dict[str, Any]]:
    """Return the container's environment; settings win over nothing and repeat nothing."""
    fixed: dict[str, pulumi.Input[str] | None] = {
        "KARPENTER_SERVICE": NAME,
        "SYSTEM_NAMESPACE": plan.namespace,
        "CLUSTER_NAME": plan.cluster_name,
        "CLUSTER_ENDPOINT": plan.cluster_endpoint,
        "INTERRUPTION_QUEUE": plan.interruption_queue,
        "METRICS_PORT": str(METRICS_PORT),
        "HEALTH_PROBE_PORT": str(HEALTH_PORT),
        "WEBHOOK_PORT": str(WEBHOOK_PORT),
        "WEBHOOK_SECRET": WEBHOOK_SECRET,
        "WEBHOOK_HOSTS": webhook_hosts(plan.namespace, plan.webhook_hosts),
        "MEMORY_LIMIT": str(whole_bytes(plan.memory_limit)),
        "CPU_REQUESTS": str(millicores(plan.cpu_request)),
    }
    values = {**fixed, **plan.settings}
    return [
        *(_from_field(name, path) for name, path in _FIELDS.items()),
        *({"name": name, "value": value} for name, value in values.items() if value is not None),
    ]


_FIELDS = {"POD_NAME": "metadata.name", "POD_IP": "status.podIP"}


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _probe(path: str, **timing: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "http"}, "timeoutSeconds": 5, **timing}


def container(plan: PodPlan) -> dict[str, Any]:
    """Return the one container."""
    limits = {"memory": plan.memory_limit}
    if plan.cpu_limit is not None:
        limits["cpu"] = plan.cpu_limit
    return {
        "name": "controller",
        "image": plan.image,
        "imagePullPolicy": plan.image_pull_policy,
        "env": environment(plan),
        "ports": [
            {"name": "http-metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
            {"name": "http", "containerPort": HEALTH_PORT, "protocol": "TCP"},
            {"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
        ],
        "livenessProbe": _probe("/healthz", initialDelaySeconds=30, periodSeconds=10),
        "readinessProbe": _probe("/readyz", initialDelaySeconds=2, periodSeconds=5),
        "resources": {
            "requests": {"cpu": plan.cpu_request, "memory": plan.memory_request},
            "limits": limits,
        },
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        # Certificates pass through files on their way into the TLS library.
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def affinity() -> dict[str, Any]:
    """Keep the controller off nodes it could remove, and its replicas off each other's node."""
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}
                        ]
                    }
                ]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": dict(LABELS)},
                }
            ]
        },
    }


def pod_spec(plan: PodPlan) -> dict[str, Any]:
    """Return the pod's spec."""
    return {
        "serviceAccountName": NAME,
        "priorityClassName": plan.priority_class_name,
        "dnsPolicy": plan.dns_policy,
        "securityContext": {"fsGroup": USER_ID},
        "nodeSelector": {"kubernetes.io/os": "linux", **plan.node_selector},
        "affinity": affinity(),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": dict(LABELS)},
            }
        ],
        "tolerations": [
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
            *(dict(toleration) for toleration in plan.extra_tolerations),
        ],
        "containers": [container(plan)],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
    }
