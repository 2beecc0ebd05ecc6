"""Every metric, by Karpenter's name. Per-object series are bounded by the objects that exist.

Upstream: pkg/metrics and the `metrics.go` beside each controller.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY: Final = CollectorRegistry(auto_describe=True)
_NS: Final = "karpenter"

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_POWERS: Final = tuple(float(2**k) for k in range(12))


def _counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
    return Counter(name, text, labels, namespace=_NS, registry=REGISTRY)


def _gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
    return Gauge(name, text, labels, namespace=_NS, registry=REGISTRY)


def _histogram(
    name: str, text: str, labels: tuple[str, ...] = (), buckets: tuple[float, ...] = _SECONDS
) -> Histogram:
    return Histogram(name, text, labels, namespace=_NS, registry=REGISTRY, buckets=buckets)


BUILD_INFO = _gauge(
    "build_info",
    "Always 1; its labels say what runs.",
    ("version", "goversion", "goarch", "commit"),
)

NODECLAIMS_CREATED = _counter(
    "nodeclaims_created_total",
    "NodeClaims created, by the reason for which they were.",
    ("reason", "nodepool", "min_values_relaxed"),
)
NODECLAIMS_TERMINATED = _counter(
    "nodeclaims_terminated_total",
    "NodeClaims whose instance is gone.",
    ("nodepool", "capacity_type", "zone"),
)
NODECLAIMS_DISRUPTED = _counter(
    "nodeclaims_disrupted_total",
    "NodeClaims that were asked to go, by reason.",
    ("reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"),
)
NODECLAIMS_TERMINATION_SECONDS = _histogram(
    "nodeclaims_termination_duration_seconds",
    "From the deletion of a NodeClaim to its end.",
    ("nodepool",),
    _POWERS,
)
NODECLAIMS_INSTANCE_TERMINATION_SECONDS = _histogram(
    "nodeclaims_instance_termination_duration_seconds",
    "From the request to terminate an instance to its end.",
    ("nodepool",),
    _POWERS[:11],
)
NODES_CREATED = _counter("nodes_created_total", "Nodes that registered.", ("nodepool", "zone"))
NODES_TERMINATED = _counter("nodes_terminated_total", "Nodes that ended.", ("nodepool", "zone"))
NODES_DRAINED = _counter("nodes_drained_total", "Nodes that were drained.", ("nodepool",))
PODS_DRAINED = _counter("pods_drained_total", "Pods that a drain moved.", ("reason",))
EVICTION_REQUESTS = _counter(
    "pods_eviction_requests_total", "Eviction requests by the server's answer.", ("code",)
)

SCHEDULING_SECONDS = _histogram(
    "scheduler_scheduling_duration_seconds", "One scheduling round.", ("controller",)
)
QUEUE_DEPTH = _gauge(
    "scheduler_queue_depth", "Pods in the round that runs now.", ("controller", "scheduling_id")
)
UNFINISHED_WORK = _gauge(
    "scheduler_unfinished_work_seconds",
    "How long the round that runs now has been running.",
    ("controller", "scheduling_id"),
)
UNSCHEDULABLE_PODS = _gauge(
    "scheduler_unschedulable_pods_count", "Pods that no node may be built for.", ("controller",)
)
UNSCHEDULABLE_REASONS = Counter(
    "nodewright_unschedulable_pods_total",
    "Pods found unschedulable, by the code of the reason.",
    ("code",),
    registry=REGISTRY,
)
LAUNCH_REASONS = Counter(
    "nodewright_nodeclaims_launched_total",
    "NodeClaims launched, by the code that says why they are of their instance type.",
    ("code",),
    registry=REGISTRY,
)
IGNORED_PODS = _gauge(
    "scheduler_ignored_pods_count",
    "Pods that are left alone because what they ask for, or a volume claim of theirs, is not usable.",
)
POD_DECISION_SECONDS = _histogram(
    "pods_scheduling_decision_duration_seconds", "From first sight of a pod to a decision."
)

DISRUPTION_DECISIONS = _counter(
    "voluntary_disruption_decisions_total",
    "Disruption decisions carried out.",
    ("decision", "reason", "consolidation_type"),
)
DISRUPTION_ELIGIBLE = _gauge(
    "voluntary_disruption_eligible_nodes", "Nodes that may be disrupted for a reason.", ("reason",)
)
DISRUPTION_SECONDS = _histogram(
    "voluntary_disruption_decision_evaluation_duration_seconds",
    "One evaluation of a disruption method, until its command is under way.",
    ("reason", "consolidation_type"),
)
ALLOWED_DISRUPTIONS = _gauge(
    "nodepools_allowed_disruptions", "Nodes that may go now.", ("nodepool", "reason")
)
NODEPOOL_LIMIT = _gauge("nodepools_limit", "Limits of a NodePool.", ("resource_type", "nodepool"))
NODEPOOL_USAGE = _gauge("nodepools_usage", "Usage of a NodePool.", ("resource_type", "nodepool"))

STATE_NODES = _gauge("cluster_state_node_count", "Nodes and in-flight NodeClaims in memory.")
STATE_SYNCED = _gauge("cluster_state_synced", "1 when memory agrees with the API server.")
STATE_UNSYNCED_SECONDS = _gauge(
    "cluster_state_unsynced_time_seconds", "How long memory has disagreed with the API server."
)
UNREADABLE_OBJECTS = Gauge(
    "nodewright_unreadable_objects",
    "Objects with a field that decisions have to do without; the log names it.",
    ("kind",),
    registry=REGISTRY,
)
LEADER = Gauge("nodewright_leader", "1 on the replica that leads.", registry=REGISTRY)

CLOUD_SECONDS = _histogram(
    "cloudprovider_duration_seconds", "Calls of the cloud.", ("controller", "method", "provider")
)
CLOUD_ERRORS = _counter(
    "cloudprovider_errors_total",
    "Calls of the cloud that failed.",
    ("controller", "method", "provider", "error", "nodepool"),
)

RECONCILE_SECONDS = Histogram(
    "controller_runtime_reconcile_time_seconds",
    "One reconciliation.",
    ("controller",),
    registry=REGISTRY,
    buckets=_SECONDS,
)
RECONCILE_ERRORS = Counter(
    "controller_runtime_reconcile_errors_total",
    "Reconciliations that failed.",
    ("controller",),
    registry=REGISTRY,
)
