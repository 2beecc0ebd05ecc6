"""User data of Amazon Linux 2: a MIME message that ends with a call of bootstrap.sh.

Upstream: pkg/providers/amifamily/bootstrap/eksbootstrap.go.
"""

from __future__ import annotations

from nodewright_templates import render

from nodewright_controller.aws.bootstrap import Bootstrap, kubelet_flags
from nodewright_controller.aws.mime import SHELL, Part, assemble, is_mime, parse_parts


def render_user_data(bootstrap: Bootstrap) -> str:
    """Return the message. Raises ValueError if the user's MIME message is broken."""
    dns = bootstrap.cluster_dns[0] if bootstrap.cluster_dns else ""
    script = render(
        "userdata/al2.sh.j2",
        cluster_name=bootstrap.cluster_name,
        endpoint=bootstrap.endpoint,
        ca_bundle=bootstrap.ca_bundle,
        ipv6=":" in bootstrap.dns_ip,
        dns_ip=dns,
        max_pods_known=bootstrap.max_pods is not None,
        raid0=bootstrap.raid0,
        kubelet_args=kubelet_flags(bootstrap),
    )
    return assemble((*_user_parts(bootstrap.custom), Part(SHELL, script)))


def _user_parts(custom: str) -> tuple[Part, ...]:
    if not custom.strip():
        return ()
    return parse_parts(custom) if is_mime(custom) else (Part(SHELL, custom.strip("\n")),)
