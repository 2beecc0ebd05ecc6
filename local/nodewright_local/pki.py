"""Keys and certificates of the laptop cluster.

Decides who is named in which certificate: the cluster CA signs the servers' certificates and the
clients' ones, as kubeadm would; a separate key pair signs service-account tokens. Also writes the
kubeconfigs that carry a client certificate. Who may do what with such a name is RBAC's matter.
"""

import base64
import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from nodewright_local.state import SERVICE_CIDR, ClusterState, write_whole

KUBERNETES_SERVICE_IP: Final = str(ipaddress.ip_network(SERVICE_CIDR)[1])
VALID_FOR: Final = timedelta(days=365)

API_SERVER_NAMES: Final = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRequest:
    """One certificate: its subject and what it may be used for."""

    file_name: str
    """Base name; `<file_name>.crt` and `<file_name>.key` are written."""
    common_name: str
    organizations: tuple[str, ...] = ()
    """Groups, for a client certificate."""
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    server: bool = False
    client: bool = False


REQUESTS: Final = (
    CertificateRequest(
        file_name="apiserver",
        common_name="kube-apiserver",
        dns_names=API_SERVER_NAMES,
        addresses=("127.0.0.1", KUBERNETES_SERVICE_IP),
        server=True,
    ),
    CertificateRequest(
        file_name="apiserver-etcd-client", common_name="kube-apiserver-etcd-client", client=True
    ),
    CertificateRequest(
        file_name="apiserver-kubelet-client",
        common_name="kube-apiserver-kubelet-client",
        organizations=("system:masters",),
        client=True,
    ),
    CertificateRequest(
        file_name="etcd",  # a member presents the same certificate to its peers, as a client too
        common_name="etcd",
        dns_names=("localhost",),
        addresses=("127.0.0.1",),
        server=True,
        client=True,
    ),
    CertificateRequest(
        file_name="component",  # health endpoints of controller manager and scheduler
        common_name="nodewright-local-component",
        dns_names=("localhost",),
        addresses=("127.0.0.1",),
        server=True,
    ),
    CertificateRequest(
        file_name="kubelet",
        common_name="system:node:laptop",
        organizations=("system:nodes",),
        dns_names=("localhost",),
        addresses=("127.0.0.1",),  # every node reports this address as its kubelet's
        server=True,
    ),
    CertificateRequest(
        file_name="admin",
        common_name="nodewright-local-admin",
        organizations=("system:masters",),
        client=True,
    ),
    CertificateRequest(
        file_name="controller-manager",
        common_name="system:kube-controller-manager",
        client=True,
    ),
    CertificateRequest(file_name="scheduler", common_name="system:kube-scheduler", client=True),
    CertificateRequest(
        file_name="kwok",
        common_name="nodewright-local-kwok",
        organizations=("system:masters",),
        client=True,
    ),
)

KUBECONFIG_CLIENTS: Final = ("admin", "controller-manager", "scheduler", "kwok")


class Authority:
    """A certificate authority whose key is on disk; made when the files are missing."""

    def __init__(self, certificate_file: Path, key_file: Path, *, now: datetime) -> None:
        self._now = now
        if not certificate_file.exists() or not key_file.exists():
            self._create(certificate_file, key_file)
        self.certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{key_file} does not hold an elliptic-curve key")
        self._key = key

    def _create(self, certificate_file: Path, key_file: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nodewright-local-ca")])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_encipherment=False,
            content_commitment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(name, name, key.public_key(), self._now)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .sign(key, hashes.SHA256())
        )
        write_key(key_file, key)
        write_whole(certificate_file, _pem(certificate), mode=0o644)

    def issue(self, request: CertificateRequest) -> tuple[x509.Certificate, str]:
        """Return a certificate for the request and its private key in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, o) for o in request.organizations]
        names.append(x509.NameAttribute(NameOID.COMMON_NAME, request.common_name))
        builder = (
            _builder(x509.Name(names), self.certificate.subject, key.public_key(), self._now)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(_usages(request)), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False
            )
        )
        if alternatives := _alternatives(request):
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), False)
        return builder.sign(self._key, hashes.SHA256()), key_pem(key)


def ensure_pki(state: ClusterState, *, now: datetime | None = None) -> None:
    """Write every key, certificate and kubeconfig the cluster needs into `state.pki_dir`.

    The CA and the service-account key are kept when they exist (tokens and clients of a kept
    cluster stay valid); the certificates below the CA are issued anew each time.
    """
    state.pki_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = Authority(state.ca_file, state.ca_key_file, now=now or datetime.now(UTC))
    for request in REQUESTS:
        certificate, key = authority.issue(request)
        write_whole(certificate_file(state, request.file_name), _pem(certificate), mode=0o644)
        write_whole(key_file(state, request.file_name), key)
    _ensure_service_account_key(state)
    for client in KUBECONFIG_CLIENTS:
        write_whole(kubeconfig_file(state, client), render_kubeconfig(state, client))


def certificate_file(state: ClusterState, name: str) -> Path:
    """Return the path of a certificate by its file name in `REQUESTS`."""
    return state.pki_dir / f"{name}.crt"


def key_file(state: ClusterState, name: str) -> Path:
    """Return the path of a private key by its file name in `REQUESTS`."""
    return state.pki_dir / f"{name}.key"


def kubeconfig_file(state: ClusterState, client: str) -> Path:
    """Return the kubeconfig of a client; the admin's stands in the state directory itself."""
    if client == "admin":
        return state.admin_kubeconfig
    return state.pki_dir / f"{client}.kubeconfig"


def render_kubeconfig(state: ClusterState, client: str) -> str:
    """Return a self-contained kubeconfig (JSON is YAML) for one of `KUBECONFIG_CLIENTS`."""

    def inline(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode("ascii")

    name = "nodewright-local"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": state.api_server_url,
                    "certificate-authority-data": inline(state.ca_file),
                },
            }
        ],
        "users": [
            {
                "name": client,
                "user": {
                    "client-certificate-data": inline(certificate_file(state, client)),
                    "client-key-data": inline(key_file(state, client)),
                },
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": client}}],
        "current-context": name,
    }
    return json.dumps(document, indent=2)


def _ensure_service_account_key(state: ClusterState) -> None:
    private = key_file(state, "service-account")
    if private.exists():
        return
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    write_whole(state.pki_dir / "service-account.pub", public.decode("ascii"), mode=0o644)
    write_key(private, key)


def write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    """Write a private key that only its owner can read."""
    write_whole(path, key_pem(key))


def key_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    """Return a private key as unencrypted PKCS #8 PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode("ascii")


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # a clock set back a little does not hurt
        .not_valid_after(now + VALID_FOR)
    )


def _usages(request: CertificateRequest) -> list[x509.ObjectIdentifier]:
    usages: list[x509.ObjectIdentifier] = []
    if request.server:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    if request.client:
        usages.append(ExtendedKeyUsageOID.CLIENT_AUTH)
    return usages


def _alternatives(request: CertificateRequest) -> Sequence[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in request.dns_names]
    names.extend(x509.IPAddress(ipaddress.ip_address(a)) for a in request.addresses)
    return names
