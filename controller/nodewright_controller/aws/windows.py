"""User data of Windows: PowerShell that calls the EKS bootstrap script, after the user's own text.

Upstream: pkg/providers/amifamily/bootstrap/windows.go.
"""

from __future__ import annotations

from nodewright_templates import render

from nodewright_controller.aws.bootstrap import Bootstrap, kubelet_flags


def render_user_data(bootstrap: Bootstrap) -> str:
    """Return the script."""
    return render(
        "userdata/windows.ps1.j2",
        custom=bootstrap.custom.strip("\n"),
        cluster_name=bootstrap.cluster_name,
        endpoint=bootstrap.endpoint,
        ca_bundle=bootstrap.ca_bundle,
        dns_ip=bootstrap.cluster_dns[0] if bootstrap.cluster_dns else "",
        kubelet_args=kubelet_flags(bootstrap),
    )
