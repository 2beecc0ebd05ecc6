"""Builders for instances, hardware and user data; defaults are valid, keywords vary them."""

import base64
from datetime import UTC, datetime, timedelta
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from functools import cache
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from nodewright_local.kubelets.instance import Hardware, Instance
from nodewright_local.kubelets.userdata.bootstrap import Bootstrap

ENDPOINT = "https://127.0.0.1:6443"


@cache
def ca_pem() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-ca")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def ca_base64() -> str:
    return base64.b64encode(ca_pem().encode()).decode()


def cluster(**changes: Any) -> dict[str, Any]:
    fields = {
        "name": "demo",
        "apiServerEndpoint": ENDPOINT,
        "certificateAuthority": ca_base64(),
        "cidr": "10.100.0.0/16",
    }
    return {key: value for key, value in (fields | changes).items() if value is not None}


def node_config(spec: dict[str, Any] | None = None, **changes: Any) -> str:
    document = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"cluster": cluster()} if spec is None else spec,
    }
    return yaml.safe_dump(document | changes)


def mime(*parts: tuple[str, str]) -> bytes:
    message = MIMEMultipart("mixed", boundary="//")
    for content_type, text in parts:
        part = MIMEText(text, "plain", "us-ascii")
        part.replace_header("Content-Type", content_type)
        message.attach(part)
    return message.as_bytes()


def bottlerocket(extra: str = "", **changes: str | None) -> bytes:
    settings = {
        "cluster-name": '"demo"',
        "api-server": f'"{ENDPOINT}"',
        "cluster-certificate": f'"{ca_base64()}"',
        "max-pods": "29",
    } | {key.replace("_", "-"): value for key, value in changes.items()}
    lines = [f"{key} = {value}" for key, value in settings.items() if value is not None]
    return "\n".join(["[settings.kubernetes]", *lines, extra]).encode()


def bootstrap(**changes: Any) -> Bootstrap:
    fields: dict[str, Any] = {
        "cluster_name": "demo",
        "api_server_endpoint": ENDPOINT,
        "certificate_authority_pem": ca_pem(),
    }
    return Bootstrap(**(fields | changes))


def instance(**changes: Any) -> Instance:
    fields: dict[str, Any] = {
        "instance_id": "i-0123456789abcdef0",
        "instance_type": "m5.large",
        "zone": "us-west-2a",
        "region": "us-west-2",
        "state": "running",
        "image_family": "AL2023",
        "image_variant": "standard",
        "architecture": "x86_64",
        "private_dns_name": "ip-10-0-1-2.us-west-2.compute.internal",
        "private_ip": "10.0.1.2",
        "role_arn": "arn:aws:iam::123456789012:role/KarpenterNodeRole-demo",
        "user_data_base64": None,
    }
    return Instance(**(fields | changes))


def hardware(**changes: Any) -> Hardware:
    """Return an m5.large: 2 vCPUs, 8 GiB, 3 interfaces with 10 addresses each."""
    fields: dict[str, Any] = {
        "vcpus": 2,
        "memory_mib": 8192,
        "network_interfaces": 3,
        "ipv4_addresses_per_interface": 10,
        "instance_store_gb": 0,
        "root_volume_gib": 20,
        "gpus": {},
    }
    return Hardware(**(fields | changes))
