"""What EKS knows about the cluster, asked once at start and put into the options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.options import AwsOptions


def with_cluster_facts(
    options: AwsOptions, cluster: Mapping[str, Any], region: str, dns_ip: str = ""
) -> AwsOptions:
    """Fill the fields that are still empty from EKS's description of the cluster."""
    network = cluster.get("kubernetesNetworkConfig", {})
    return replace(
        options,
        region=options.region or region,
        cluster_endpoint=options.cluster_endpoint or cluster.get("endpoint", ""),
        cluster_ca_bundle=options.cluster_ca_bundle
        or cluster.get("certificateAuthority", {}).get("data", ""),
        service_cidr=options.service_cidr
        or network.get("serviceIpv4Cidr", "")
        or network.get("serviceIpv6Cidr", ""),
        dns_ip=options.dns_ip or dns_ip,
        kubernetes_version=options.kubernetes_version or cluster.get("version", ""),
    )


async def resolve_cluster(clients: AwsClients, options: AwsOptions, dns_ip: str = "") -> AwsOptions:
    """Return the options with what EKS says about the cluster filled in.

    `dns_ip` is the ClusterIP of `kube-system/kube-dns`, empty when there is none. What the options
    name already is kept.

    Raises:
        AwsError: EKS does not know the cluster, refuses, or does not answer.

    """
    answer = await clients.call(clients.eks.describe_cluster, name=options.cluster_name)
    return with_cluster_facts(options, answer["cluster"], clients.region, dns_ip)
