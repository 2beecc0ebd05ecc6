"""What the controller may do in Kubernetes: Karpenter's rules, no more. Pure.

Rules name verbs per resource; nothing grants a wildcard. Beside Karpenter's own rules stand those
of the conversion webhook: one secret, and the three CRDs whose CA bundle it keeps.
"""

from collections.abc import Sequence
from typing import Any

Rule = dict[str, Any]

WEBHOOK_SECRET = "karpenter-cert"
CONVERTED_CRDS = (
    "nodepools.karpenter.sh",
    "nodeclaims.karpenter.sh",
    "ec2nodeclasses.karpenter.k8s.aws",
)
_READ = ("get", "list", "watch")


def rule(
    group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()
) -> Rule:
    """Return one RBAC rule."""
    made: Rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    if names:
        made["resourceNames"] = list(names)
    return made


def cluster_rules(*, default_spreads: bool = False) -> list[Rule]:
    """Return what the controller may do everywhere in the cluster.

    With default spread constraints it also reads Services, whose selectors tell which pods a
    constraint counts.
    """
    reads = [
        rule(
            "",
            [
                "pods",
                "nodes",
                "persistentvolumes",
                "persistentvolumeclaims",
                "replicationcontrollers",
                "namespaces",
                "podtemplates",
                # Not in Karpenter's role: their defaults are what daemons will really ask for.
                "limitranges",
            ],
            _READ,
        ),
        rule("storage.k8s.io", ["storageclasses", "csinodes", "volumeattachments"], _READ),
        rule("apps", ["daemonsets", "deployments", "replicasets", "statefulsets"], _READ),
        rule("policy", ["poddisruptionbudgets"], _READ),
        rule(
            "karpenter.sh",
            ["nodepools", "nodepools/status", "nodeclaims", "nodeclaims/status"],
            _READ,
        ),
        rule("karpenter.sh", ["nodeoverlays", "nodeoverlays/status"], _READ),
        rule("karpenter.k8s.aws", ["ec2nodeclasses", "ec2nodeclasses/status"], _READ),
        rule("autoscaling.x-k8s.io", ["capacitybuffers", "capacitybuffers/status"], _READ),
    ]
    writes = [
        rule(
            "karpenter.sh",
            ["nodeclaims", "nodeclaims/status"],
            ["create", "delete", "update", "patch"],
        ),
        rule(
            "karpenter.sh",
            ["nodepools", "nodepools/status", "nodeoverlays/status"],
            ["update", "patch"],
        ),
        rule("karpenter.k8s.aws", ["ec2nodeclasses", "ec2nodeclasses/status"], ["update", "patch"]),
        rule("autoscaling.x-k8s.io", ["capacitybuffers/status"], ["update", "patch"]),
        rule("", ["events"], ["get", "list", "watch", "create", "patch"]),
        rule("", ["nodes"], ["patch", "delete", "update"]),
        rule("", ["pods/eviction"], ["create"]),
        rule("", ["pods"], ["delete"]),
        rule(
            "apiextensions.k8s.io",
            ["customresourcedefinitions"],
            ["get", "patch"],
            CONVERTED_CRDS,
        ),
    ]
    selecting = [rule("", ["services"], _READ)] if default_spreads else []
    return [*reads, *selecting, *writes]


def namespace_rules(lease: str) -> list[Rule]:
    """Return what the controller may do in its own namespace."""
    return [
        rule("coordination.k8s.io", ["leases"], ["get", "watch", "create"]),
        rule("coordination.k8s.io", ["leases"], ["patch", "update"], [lease]),
        # A create request names no object, so it can't be bound to the one name.
        rule("", ["secrets"], ["create"]),
        rule("", ["secrets"], ["get", "update", "patch"], [WEBHOOK_SECRET]),
    ]


def dns_rules() -> list[Rule]:
    """Return what the controller may do in kube-system: find the cluster's DNS address."""
    return [rule("", ["services"], ["get"], ["kube-dns"])]


def admin_rules() -> list[Rule]:
    """Return what is added to the cluster's `admin` role: care of Karpenter's kinds."""
    verbs = [*_READ, "create", "delete", "patch", "update"]
    return [
        rule(
            "karpenter.sh",
            [
                "nodepools",
                "nodepools/status",
                "nodeclaims",
                "nodeclaims/status",
                "nodeoverlays",
                "nodeoverlays/status",
            ],
            verbs,
        ),
        rule("karpenter.k8s.aws", ["ec2nodeclasses"], verbs),
    ]
