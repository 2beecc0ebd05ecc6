"""User data of Bottlerocket: TOML settings, the user's merged with what the cluster needs.

Everything the user set stays, save the keys named in `_settings`, which Karpenter decides; node
labels are merged, taints replaced. Upstream: pkg/providers/amifamily/bootstrap/bottlerocket.go.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

import tomli_w

from nodewright_controller.aws.bootstrap import Bootstrap

_MOUNT_COMMAND: Final = "000-mount-instance-storage"
_DIRECTORIES: Final = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
_FIRST_WITH_DEFAULT_DIRECTORIES: Final = (1, 46, 0)
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


def render_user_data(bootstrap: Bootstrap) -> str:
    """Return the TOML. Raises ValueError if the user's text is no TOML."""
    try:
        document: dict[str, Any] = tomllib.loads(bootstrap.custom)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"userData is not TOML, which Bottlerocket needs: {error}") from error
    settings = document.setdefault("settings", {})
    kubernetes = settings.setdefault("kubernetes", {})
    labels = {**kubernetes.get("node-labels", {}), **bootstrap.labels}
    kubernetes.update(_settings(bootstrap))
    if labels:
        kubernetes["node-labels"] = dict(sorted(labels.items()))
    if bootstrap.taints:
        kubernetes["node-taints"] = _taints(bootstrap)
    if bootstrap.raid0:
        commands = settings.setdefault("bootstrap-commands", {})
        commands[_MOUNT_COMMAND] = _mount_command(bootstrap)
    return tomli_w.dumps(document)


def _settings(bootstrap: Bootstrap) -> dict[str, Any]:
    kubelet = bootstrap.kubelet
    wanted: Mapping[str, Any] = {
        "cluster-name": bootstrap.cluster_name,
        "api-server": bootstrap.endpoint,
        "cluster-certificate": bootstrap.ca_bundle,
        "cluster-dns-ip": bootstrap.cluster_dns[0] if bootstrap.cluster_dns else None,
        "max-pods": bootstrap.max_pods,
        "system-reserved": dict(kubelet.system_reserved) or None,
        "kube-reserved": dict(kubelet.kube_reserved) or None,
        "eviction-hard": dict(kubelet.eviction_hard) or None,
        "eviction-soft": dict(kubelet.eviction_soft) or None,
        "eviction-soft-grace-period": dict(kubelet.eviction_soft_grace_period) or None,
        "eviction-max-pod-grace-period": kubelet.eviction_max_pod_grace_period,
        "image-gc-high-threshold-percent": _text(kubelet.image_gc_high_threshold_percent),
        "image-gc-low-threshold-percent": _text(kubelet.image_gc_low_threshold_percent),
        "cpu-cfs-quota-enforced": kubelet.cpu_cfs_quota,
    }
    return {key: value for key, value in wanted.items() if value is not None}


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _taints(bootstrap: Bootstrap) -> dict[str, list[str]]:
    taints: dict[str, list[str]] = {}
    for taint in bootstrap.taints:
        taints.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    return taints


def _mount_command(bootstrap: Bootstrap) -> dict[str, Any]:
    bind = ["apiclient", "ephemeral-storage", "bind"]
    if not bootstrap.binds_instance_storage:
        bind += ["--dirs", *_DIRECTORIES]
    return {
        "commands": [["apiclient", "ephemeral-storage", "init"], bind],
        "mode": "always",
        "essential": True,
    }


def knows_its_directories(version: str) -> bool:
    """Whether an image of this version binds the usual directories without being told.

    `latest` counts as new, a version that cannot be read as old.
    """
    if version == "latest":
        return True
    match = _VERSION.search(version)
    if match is None:
        return False
    return tuple(map(int, match.groups())) >= _FIRST_WITH_DEFAULT_DIRECTORIES
