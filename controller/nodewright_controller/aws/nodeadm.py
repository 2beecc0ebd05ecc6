"""User data of AL2023: NodeConfig documents for nodeadm in a MIME message.

nodeadm merges in order and later documents win, so what Karpenter decides stands last.
Upstream: pkg/providers/amifamily/bootstrap/nodeadm.go.
"""

from __future__ import annotations

from typing import Any

import yaml
from nodewright_templates import render

from nodewright_controller.aws.bootstrap import Bootstrap, joined_labels
from nodewright_controller.aws.mime import NODE_CONFIG, SHELL, Part, assemble, is_mime, parse_parts


def render_user_data(bootstrap: Bootstrap) -> str:
    """Return the message.

    Raises:
        ValueError: the cluster's service CIDR is unknown, or the user's MIME message is broken.

    """
    if not bootstrap.service_cidr:
        raise ValueError("the cluster's service CIDR is not known; AL2023 nodes need it to join")
    config = render(
        "userdata/nodeadm.yaml.j2",
        cluster_name=bootstrap.cluster_name,
        endpoint=bootstrap.endpoint,
        ca_bundle=bootstrap.ca_bundle,
        service_cidr=bootstrap.service_cidr,
        raid0=bootstrap.raid0,
        kubelet_config=kubelet_config(bootstrap),
        node_labels=joined_labels(bootstrap),
    )
    return assemble((*user_parts(bootstrap.custom), Part(NODE_CONFIG, config)))


def kubelet_config(bootstrap: Bootstrap) -> dict[str, Any]:
    """Return the KubeletConfiguration: the user's map, with what is decided here on top."""
    config: dict[str, Any] = dict(bootstrap.kubelet.raw)
    if bootstrap.max_pods is not None:
        config["maxPods"] = bootstrap.max_pods
    if bootstrap.cluster_dns:
        config["clusterDNS"] = list(bootstrap.cluster_dns)
    if bootstrap.taints:
        config["registerWithTaints"] = [
            {"key": taint.key, "effect": taint.effect}
            | ({"value": taint.value} if taint.value else {})
            for taint in bootstrap.taints
        ]
    return config


def user_parts(custom: str) -> tuple[Part, ...]:
    """Return the user's own parts: a MIME message's, or the bare text as what it looks like."""
    if not custom.strip():
        return ()
    if is_mime(custom):
        return parse_parts(custom)
    return (Part(NODE_CONFIG if _is_config(custom) else SHELL, custom.strip("\n")),)


def _is_config(text: str) -> bool:
    if text.lstrip().startswith("#!"):
        return False  # a script, even if YAML takes its first line for a comment
    try:
        return isinstance(yaml.safe_load(text), dict)
    except yaml.YAMLError:
        return False
