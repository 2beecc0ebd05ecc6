"""Who may talk to whom between nodes, control plane and the controller's own nodes. Pure.

Two security groups take part. EKS makes the *cluster* group and puts it on the control plane's
interfaces, on managed node groups and on Fargate pods. The *node* group, ours, is on the nodes that
the autoscaler launches; it alone carries the discovery tag.
"""

from dataclasses import dataclass

ALL = "-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressRule:
    """One kind of traffic let into a group."""

    name: str
    """Kebab-case, part of the resource's name."""
    into: str
    """`node` or `cluster`: the group that is opened."""
    source: str
    """`node` or `cluster`: the group that the traffic comes from."""
    protocol: str
    """`tcp`, `udp`, or `-1` for everything."""
    port: int | None
    """None with protocol `-1`."""
    description: str


_CONTROL_PLANE_RULES = (
    IngressRule(
        name="nodes-from-nodes",
        into="node",
        source="node",
        protocol=ALL,
        port=None,
        description="Pods and nodes among themselves",
    ),
    IngressRule(
        name="kubelet-from-control-plane",
        into="node",
        source="cluster",
        protocol="tcp",
        port=10250,
        description="Logs, exec and metrics from the control plane",
    ),
    IngressRule(
        name="https-from-control-plane",
        into="node",
        source="cluster",
        protocol="tcp",
        port=443,
        description="Extension API servers and webhooks from the control plane",
    ),
    IngressRule(
        name="webhook-from-control-plane",
        into="node",
        source="cluster",
        protocol="tcp",
        port=8443,
        description="Webhooks on 8443, the port of Nodewright's conversion webhook",
    ),
    IngressRule(
        name="api-from-nodes",
        into="cluster",
        source="node",
        protocol="tcp",
        port=443,
        description="Kubelets and pods to the Kubernetes API",
    ),
)
_DNS_RULES = tuple(
    IngressRule(
        name=f"dns-{protocol}-from-nodes",
        into="cluster",
        source="node",
        protocol=protocol,
        port=53,
        description="Pods to CoreDNS on the controller's nodes",
    )
    for protocol in ("tcp", "udp")
)
_OPEN_RULES = (
    IngressRule(
        name="all-from-core-nodes",
        into="node",
        source="cluster",
        protocol=ALL,
        port=None,
        description="Pods on the controller's nodes to pods on other nodes",
    ),
    IngressRule(
        name="all-from-nodes",
        into="cluster",
        source="node",
        protocol=ALL,
        port=None,
        description="Pods on nodes to pods on the controller's nodes",
    ),
)


def ingress_rules(*, open_core_nodes: bool) -> tuple[IngressRule, ...]:
    """Return the rules of both groups.

    With `open_core_nodes` pods reach each other wherever they run, as Kubernetes expects. Without
    it, only what the platform itself needs passes between the controller's nodes and the others:
    right when those run nothing but the controller and CoreDNS.
    """
    return _CONTROL_PLANE_RULES + (_OPEN_RULES if open_core_nodes else _DNS_RULES)
