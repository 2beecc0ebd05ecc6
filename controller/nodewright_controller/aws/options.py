"""What the AWS side must know about its cluster: one frozen value, filled once at start.

`resolve_cluster` in `eks.py` fills what the user left out. Upstream: pkg/operator/options.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsOptions:
    """Settings of the AWS provider."""

    cluster_name: str
    region: str = ""
    cluster_endpoint: str = ""
    """URL of the API server as nodes reach it; EKS is asked when empty."""
    cluster_ca_bundle: str = ""
    """Base64 of the PEM bundle that nodes trust; EKS is asked when empty."""
    service_cidr: str = ""
    """Service CIDR (IPv4, else IPv6), from EKS; AL2023 nodes cannot join without it."""
    dns_ip: str = ""
    """ClusterIP of kube-dns; an IPv6 address makes this an IPv6 cluster."""
    kubernetes_version: str = ""
    """Minor version such as `1.36`; it chooses the images."""
    isolated_vpc: bool = False
    """No route to IAM and Pricing: prices stay static, instance profiles are not managed."""
    eks_control_plane: bool = False
    vm_memory_overhead_percent: float = 0.075
    """Share of a type's memory that the hypervisor takes, 0.075 = 7.5 %."""
    reserved_enis: int = 0
    """Network interfaces that carry no pod addresses (custom networking)."""
    interruption_queue: str = ""
    """Name of the SQS queue; empty switches interruption handling off."""
    reserved_capacity: bool = True
    """Whether capacity reservations are used (feature gate ReservedCapacity)."""
    disable_dry_run: bool = False
    """Skip the dry-run calls that validate a node class."""
    ami_refresh: timedelta = _MINUTE
    subnet_refresh: timedelta = _MINUTE
    security_group_refresh: timedelta = _MINUTE

    @property
    def ipv6(self) -> bool:
        """Whether pods have IPv6 addresses."""
        return ":" in self.dns_ip

    @property
    def partition(self) -> str:
        """AWS partition of the region."""
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"
