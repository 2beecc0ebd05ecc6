"""What a machine must know to join: the one input of every user data format. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nodewright_controller.api.labels import (
    CAPACITY_TYPE,
    DO_NOT_SYNC_TAINTS,
    UNREGISTERED_TAINT,
)
from nodewright_controller.api.node import Taint
from nodewright_controller.aws.kubelet import Kubelet

_KUBELET_MAY_NOT_SET = ("kubernetes.io", "k8s.io")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """Everything a node is told at boot."""

    cluster_name: str
    endpoint: str
    ca_bundle: str
    """Base64 of the PEM bundle."""
    service_cidr: str
    dns_ip: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels the kubelet registers with."""
    taints: tuple[Taint, ...] = ()
    kubelet: Kubelet = field(default_factory=Kubelet)
    max_pods: int | None = None
    custom: str = ""
    """The user's own user data."""
    raid0: bool = False
    binds_instance_storage: bool = True
    """Whether a Bottlerocket image finds the directories to bind by itself (1.46 and newer)."""

    @property
    def cluster_dns(self) -> tuple[str, ...]:
        """DNS servers of pods: the user's, else the cluster's."""
        return self.kubelet.cluster_dns or ((self.dns_ip,) if self.dns_ip else ())


def node_labels(claim_labels: Mapping[str, str], capacity_type: str) -> dict[str, str]:
    """Return the labels a kubelet may register itself with, sorted by key.

    Those of Kubernetes' own domains are left to registration: the API server refuses them from a
    kubelet.
    """
    labels = {**claim_labels, CAPACITY_TYPE: capacity_type, DO_NOT_SYNC_TAINTS: "true"}
    return {key: labels[key] for key in sorted(labels) if not _is_kubernetes_domain(key)}


def _is_kubernetes_domain(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    return any(domain == name or domain.endswith("." + name) for name in _KUBELET_MAY_NOT_SET)


def registration_taints(
    taints: Iterable[Taint] | None, startup: Iterable[Taint] | None
) -> tuple[Taint, ...]:
    """Return the taints a node registers with: the claim's, and the one that marks it as new."""
    wanted = [*(taints or ()), *(startup or ())]
    marker = Taint(key=UNREGISTERED_TAINT, effect="NoExecute")
    if not any(taint.key == marker.key and taint.effect == marker.effect for taint in wanted):
        wanted.append(marker)
    return tuple(wanted)


def format_taint(taint: Taint) -> str:
    """Return a taint as the kubelet's flag has it."""
    return f"{taint.key}={taint.value}:{taint.effect}"


def kubelet_flags(bootstrap: Bootstrap) -> str:
    """Return the kubelet's command line, for families that start it with one."""
    return " ".join(f"--{name}={value}" for name, value in _flags(bootstrap))


def _flags(bootstrap: Bootstrap) -> Iterator[tuple[str, str]]:
    kubelet = bootstrap.kubelet
    if bootstrap.labels:
        yield "node-labels", f'"{_pairs(bootstrap.labels, "=")}"'
    if bootstrap.taints:
        yield "register-with-taints", f'"{",".join(map(format_taint, bootstrap.taints))}"'
    counts = (
        ("max-pods", bootstrap.max_pods),
        ("pods-per-core", kubelet.pods_per_core),
    )
    yield from ((name, str(value)) for name, value in counts if value is not None)
    maps = (
        ("system-reserved", kubelet.system_reserved, "="),
        ("kube-reserved", kubelet.kube_reserved, "="),
        ("eviction-hard", kubelet.eviction_hard, "<"),
        ("eviction-soft", kubelet.eviction_soft, "<"),
        ("eviction-soft-grace-period", kubelet.eviction_soft_grace_period, "="),
    )
    yield from ((name, f'"{_pairs(values, sign)}"') for name, values, sign in maps if values)
    rest = (
        ("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period),
        ("image-gc-high-threshold", kubelet.image_gc_high_threshold_percent),
        ("image-gc-low-threshold", kubelet.image_gc_low_threshold_percent),
    )
    yield from ((name, str(value)) for name, value in rest if value is not None)
    if kubelet.cpu_cfs_quota is not None:
        yield "cpu-cfs-quota", str(kubelet.cpu_cfs_quota).lower()


def _pairs(values: Mapping[str, str], sign: str) -> str:
    return ",".join(f"{key}{sign}{values[key]}" for key in sorted(values))


def joined_labels(bootstrap: Bootstrap) -> str:
    """Return the labels as one `k=v,k=v` string."""
    return _pairs(bootstrap.labels, "=")
