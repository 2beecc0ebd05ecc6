"""The user data that EKS gives the instances of a managed node group.

AL2023 nodes get a MIME document with a NodeConfig, Bottlerocket nodes get TOML settings. Text that
the group's launch template brings comes after EKS's own part, so that a later NodeConfig wins.
"""

import base64
import ipaddress
import json
from dataclasses import dataclass
from email import message_from_string
from typing import Any

import yaml

from nodewright_local.aws.ec2 import catalogue
from nodewright_local.aws.ec2.images import Image

_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}
_BOUNDARY = "//"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What a node must be told."""

    cluster: dict[str, Any]
    """The cluster as DescribeCluster shows it."""
    group: dict[str, Any]
    """The node group as DescribeNodegroup shows it."""
    image: Image
    instance_type: str


def node_user_data(settings: NodeSettings, *, own: str) -> str:
    """Return base64 user data; `own` is the launch template's, base64 too, possibly empty."""
    extra = base64.b64decode(own).decode() if own else ""
    if settings.image.family == "Bottlerocket":
        text = _bottlerocket(settings) + (f"\n{extra}" if extra else "")
    else:
        text = _mime(_node_config(settings), extra)
    return base64.b64encode(text.encode()).decode()


def max_pods(instance_type: str) -> int:
    """Pods that the VPC CNI's addresses allow, at most 110 below 30 vCPUs and 250 above."""
    described = catalogue.instance_type(instance_type) or {}
    network = described.get("NetworkInfo", {})
    interfaces = int(network.get("MaximumNetworkInterfaces", 0))
    addresses = int(network.get("Ipv4AddressesPerInterface", 0))
    limit = 250 if described.get("VCpuInfo", {}).get("DefaultVCpus", 0) > 30 else 110
    return min(interfaces * (addresses - 1) + 2, limit)


def cluster_dns(service_cidr: str) -> str:
    """The address of kube-dns: the tenth of the service range."""
    return str(ipaddress.ip_network(service_cidr).network_address + 10)


def _labels(settings: NodeSettings) -> dict[str, str]:
    group = settings.group
    labels = {
        "eks.amazonaws.com/nodegroup": group["nodegroupName"],
        "eks.amazonaws.com/nodegroup-image": settings.image.image_id,
        "eks.amazonaws.com/capacityType": group["capacityType"],
    }
    template = group.get("launchTemplate") or {}
    if template.get("id"):
        labels["eks.amazonaws.com/sourceLaunchTemplateId"] = template["id"]
        labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] = str(template.get("version") or 1)
    return {**group["labels"], **labels}


def _taints(settings: NodeSettings) -> list[tuple[str, str, str]]:
    return [
        (taint["key"], taint.get("value") or "", _EFFECTS[taint["effect"]])
        for taint in settings.group["taints"]
    ]


def _node_config(settings: NodeSettings) -> str:
    cluster = settings.cluster
    cidr = cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"]
    labels = ",".join(f"{key}={value}" for key, value in _labels(settings).items())
    flags = [f"--node-labels={labels}"]
    taints = _taints(settings)
    if taints:
        joined = ",".join(f"{key}={value}:{effect}" for key, value, effect in taints)
        flags.append(f"--register-with-taints={joined}")
    config = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": cluster["name"],
                "apiServerEndpoint": cluster["endpoint"],
                "certificateAuthority": cluster["certificateAuthority"]["data"],
                "cidr": cidr,
            },
            "kubelet": {
                "config": {
                    "maxPods": max_pods(settings.instance_type),
                    "clusterDNS": [cluster_dns(cidr)],
                },
                "flags": flags,
            },
        },
    }
    return yaml.safe_dump(config, sort_keys=False, width=10**6)


def _mime(node_config: str, extra: str) -> str:
    parts = [("application/node.eks.aws", f"---\n{node_config}"), *_parts(extra)]
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
    for content_type, text in parts:
        lines += [f"--{_BOUNDARY}", f"Content-Type: {content_type}", "", text.rstrip("\n"), ""]
    return "\n".join([*lines, f"--{_BOUNDARY}--", ""])


def _parts(text: str) -> list[tuple[str, str]]:
    """Take the parts out of a MIME document; other text is a shell script."""
    if not text.strip():
        return []
    if not text.lstrip().startswith(("MIME-Version:", "Content-Type:")):
        return [('text/x-shellscript; charset="us-ascii"', text)]
    return [
        (part.get_content_type(), str(part.get_payload()))
        for part in message_from_string(text.lstrip()).walk()
        if not part.is_multipart()
    ]


def _bottlerocket(settings: NodeSettings) -> str:
    cluster = settings.cluster
    cidr = cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"]
    lines = [
        "[settings.kubernetes]",
        f"cluster-name = {json.dumps(cluster['name'])}",
        f"api-server = {json.dumps(cluster['endpoint'])}",
        f"cluster-certificate = {json.dumps(cluster['certificateAuthority']['data'])}",
        f"cluster-dns-ip = {json.dumps(cluster_dns(cidr))}",
        f"max-pods = {max_pods(settings.instance_type)}",
        "",
        "[settings.kubernetes.node-labels]",
        *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in _labels(settings).items()),
    ]
    taints = _taints(settings)
    if taints:
        lines += ["", "[settings.kubernetes.node-taints]"]
        lines += [
            f"{json.dumps(key)} = {json.dumps([f'{value}:{effect}'])}"
            for key, value, effect in taints
        ]
    return "\n".join(lines) + "\n"
