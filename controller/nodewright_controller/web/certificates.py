"""The certificate of the conversion webhook: who signs it, when it is renewed, who must trust it.

The upper half decides, purely: `renewed` takes what a Secret holds and returns what it should hold.
The lower half, `CertificateManager`, keeps the Secret, the caBundle of the definitions and the files
that the server reads in step with it. All replicas do this alike; the Secret's version decides who
of them was first, the others take over what he wrote.

Rotation never breaks trust: a new authority is put before the old one in `ca.crt`, the API server is
told to trust both, and only then does a certificate of the new one come into use.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from nodewright_controller.api.core import CustomResourceDefinition, Secret
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.errors import Conflict, NotFound
from nodewright_controller.ports.kube import Kube

log = structlog.get_logger()

SECRET: Final = "karpenter-cert"
CONVERTED: Final = (
    "nodepools.karpenter.sh",
    "nodeclaims.karpenter.sh",
    "ec2nodeclasses.karpenter.k8s.aws",
)
"""The definitions whose objects we convert."""

AUTHORITY_VALID_FOR: Final = timedelta(days=3650)
SERVING_VALID_FOR: Final = timedelta(days=90)
_CLOCK_SKEW: Final = timedelta(minutes=5)
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """What the Secret holds, all PEM."""

    authorities: bytes
    """Everybody whom the API server must trust, newest first (`ca.crt`)."""
    authority_key: bytes
    """The key of the newest authority (`ca.key`)."""
    serving: KeyPair
    """What the webhook presents (`tls.crt`, `tls.key`)."""


# --- Decisions ---


def make_authority(now: datetime, valid_for: timedelta = AUTHORITY_VALID_FOR) -> KeyPair:
    """Make an authority that signs nothing but the webhook's certificates."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "karpenter-webhook-ca")])
    certificate = (
        _builder(name, name, key, now, valid_for)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(certificate=_pem(certificate), key=_key_pem(key))


def make_serving(
    authority: KeyPair,
    hosts: Sequence[str],
    now: datetime,
    valid_for: timedelta = SERVING_VALID_FOR,
) -> KeyPair:
    """Make a serving certificate that names `hosts`: DNS names and IP addresses.

    Raises:
        ValueError: no host is given, or the authority cannot be read.

    """
    if not hosts:
        raise ValueError("the webhook's certificate must name at least one host (WEBHOOK_HOSTS)")
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = _load_key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "karpenter-webhook")])
    certificate = (
        _builder(name, issuer.subject, key, now, valid_for)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return KeyPair(certificate=_pem(certificate), key=_key_pem(key))


def needs_rotation(certificate: bytes, hosts: Sequence[str], now: datetime) -> bool:
    """Whether a PEM certificate is in its last third, misses a host, or cannot be read.

    More names than asked for are fine: while a Deployment rolls, old and new replicas may want
    different ones.
    """
    try:
        loaded = x509.load_pem_x509_certificate(certificate)
    except ValueError:
        return True
    return _aged(loaded, now) or not set(map(_canonical, hosts)) <= names_of(loaded)


def names_of(certificate: x509.Certificate) -> frozenset[str]:
    """Return the DNS names and addresses that a certificate is for."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(str(name.value) for name in extension.value)


def renewed(stored: Certificates | None, hosts: Sequence[str], now: datetime) -> Certificates:
    """Return what should be stored; equal to what is stored when nothing has to change.

    A new authority comes before the old ones, which stay in `authorities` until they expire. A
    serving certificate is made anew when it is in its last third, misses a host, does not fit its
    key, or is signed by none of the authorities.
    """
    if stored is None:
        return _from_scratch(hosts, now)
    try:
        authorities = x509.load_pem_x509_certificates(stored.authorities)
    except ValueError:
        return _from_scratch(hosts, now)
    valid = [one for one in authorities if one.not_valid_after_utc > now]
    current = stored
    if not valid or (stored.authority_key and _aged(valid[0], now)):
        fresh = make_authority(now)
        current = replace(
            stored,
            authorities=fresh.certificate + b"".join(map(_pem, valid)),
            authority_key=fresh.key,
        )
    elif len(valid) < len(authorities):
        current = replace(stored, authorities=b"".join(map(_pem, valid)))
    if _is_sound(current, hosts, now):
        return current
    return _serve_anew(current, hosts, now)


def _from_scratch(hosts: Sequence[str], now: datetime) -> Certificates:
    authority = make_authority(now)
    return Certificates(
        authorities=authority.certificate,
        authority_key=authority.key,
        serving=make_serving(authority, hosts, now),
    )


def _serve_anew(current: Certificates, hosts: Sequence[str], now: datetime) -> Certificates:
    """Sign a new serving certificate with the newest authority, or with a new one."""
    authority = KeyPair(
        certificate=_pem(x509.load_pem_x509_certificates(current.authorities)[0]),
        key=current.authority_key,
    )
    if not _fit(authority):
        authority = make_authority(now)
        current = replace(
            current,
            authorities=authority.certificate + current.authorities,
            authority_key=authority.key,
        )
    # Names that a replica of another revision asked for stay, or the two would take turns.
    try:
        loaded = x509.load_pem_x509_certificate(current.serving.certificate)
        others = names_of(loaded) if not _aged(loaded, now) else frozenset()
    except ValueError:
        others = frozenset()
    wanted = {_canonical(host): None for host in (*hosts, *sorted(others))}
    return replace(current, serving=make_serving(authority, tuple(wanted), now))


def _is_sound(stored: Certificates, hosts: Sequence[str], now: datetime) -> bool:
    if needs_rotation(stored.serving.certificate, hosts, now) or not _fit(stored.serving):
        return False
    serving = x509.load_pem_x509_certificate(stored.serving.certificate)
    return any(
        _signed_by(serving, authority)
        for authority in x509.load_pem_x509_certificates(stored.authorities)
    )


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):  # another name, key type, or key
        return False
    return True


def _fit(pair: KeyPair) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        return certificate.public_key() == _load_key(pair.key).public_key()
    except ValueError:
        return False


def _aged(certificate: x509.Certificate, now: datetime) -> bool:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now > end - (end - begin) / 3


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    valid_for: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + valid_for)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _canonical(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is no elliptic-curve key")
    return key


# --- The Secret, the definitions and the files ---

_KEYS: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")


def to_data(certificates: Certificates) -> dict[str, str]:
    """Return the `data` of the Secret."""
    values = (
        certificates.authorities,
        certificates.authority_key,
        certificates.serving.certificate,
        certificates.serving.key,
    )
    return {key: base64.b64encode(value).decode() for key, value in zip(_KEYS, values, strict=True)}


def from_data(data: Mapping[str, str] | None) -> Certificates | None:
    """Read the `data` of the Secret; None if it has no authority or no serving certificate."""
    try:
        values = {key: base64.b64decode((data or {}).get(key, ""), validate=True) for key in _KEYS}
    except binascii.Error:
        return None
    if not (values["ca.crt"] and values["tls.crt"] and values["tls.key"]):
        return None
    return Certificates(
        authorities=values["ca.crt"],
        authority_key=values["ca.key"],
        serving=KeyPair(certificate=values["tls.crt"], key=values["tls.key"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookIdentity:
    """Where the webhook's certificate is kept, and whom it is for."""

    namespace: str
    hosts: tuple[str, ...]
    """DNS names and IP addresses that the API server may call."""
    directory: Path
    """Where the server's files are written; must belong to this process alone."""
    secret: str = SECRET
    definitions: tuple[str, ...] = CONVERTED
    settle: timedelta = timedelta(seconds=2)
    """How long the API server gets to learn of a new authority before its certificate is used."""


class CertificateManager:
    """Keeps Secret, caBundles and files in step; every replica has one."""

    def __init__(self, kube: Kube, clock: Clock, identity: WebhookIdentity) -> None:
        self._kube = kube
        self._clock = clock
        self._identity = identity
        self._in_use: KeyPair | None = None

    @property
    def files(self) -> tuple[str, str]:
        """Paths of the certificate and its key, for the server; there after the first `ensure`."""
        directory = self._identity.directory
        return str(directory / "tls.crt"), str(directory / "tls.key")

    @property
    def ready(self) -> bool:
        """Whether there is a certificate to serve with."""
        return self._in_use is not None

    async def ensure(self) -> bool:
        """Bring everything up to date; return whether the files changed.

        Raises the errors of `ports.errors` when the API server does not do its part; call it again.
        """
        stored = await self._agree()
        told = await self._tell(stored.authorities)
        if stored.serving == self._in_use:
            return False
        if told and self._in_use is not None:
            await asyncio.sleep(self._identity.settle.total_seconds())
        await asyncio.to_thread(self._write, stored.serving)
        self._in_use = stored.serving
        log.info("serving certificate in use", hosts=list(self._identity.hosts))
        return True

    async def run(self, every_seconds: float = 60.0) -> None:
        """Call `ensure` for ever; an error goes to whoever supervises this loop."""
        while True:
            await self.ensure()
            await asyncio.sleep(every_seconds)

    async def _agree(self) -> Certificates:
        """Read the Secret, write what it should hold, and return what all replicas agree on."""
        who = self._identity
        for _ in range(_ATTEMPTS):
            secret = await self._read()
            stored = from_data(secret.data) if secret else None
            wanted = await asyncio.to_thread(renewed, stored, who.hosts, self._clock.now())
            if wanted == stored:
                return wanted
            try:
                await self._save(secret, wanted)
            except (Conflict, NotFound):
                continue  # another replica was faster: what it wrote counts
            log.info("webhook certificate stored", secret=f"{who.namespace}/{who.secret}")
            return wanted
        raise Conflict(f"Secret {who.namespace}/{who.secret} keeps changing while it is renewed")

    async def _read(self) -> Secret | None:
        try:
            return await self._kube.get(Secret, self._identity.secret, self._identity.namespace)
        except NotFound:
            return None

    async def _save(self, secret: Secret | None, wanted: Certificates) -> None:
        who = self._identity
        if secret is None:
            metadata = ObjectMeta(name=who.secret, namespace=who.namespace)
            await self._kube.create(Secret(metadata=metadata, type="Opaque", data=to_data(wanted)))
            return
        await self._kube.patch(
            Secret,
            who.secret,
            {
                "metadata": {"resourceVersion": secret.metadata.resource_version},
                "data": to_data(wanted),
            },
            namespace=who.namespace,
        )

    async def _tell(self, authorities: bytes) -> bool:
        """Have the API server trust the authorities; return whether a definition changed."""
        bundle = base64.b64encode(authorities).decode()
        changed = False
        for name in self._identity.definitions:
            try:
                definition = await self._kube.get(CustomResourceDefinition, name)
            except NotFound:
                log.warning("definition is missing", definition=name)
                continue
            conversion = definition.spec.conversion
            if conversion is None or conversion.strategy != "Webhook" or not conversion.webhook:
                continue  # nobody is asked to convert: there is no one to trust
            if conversion.webhook.client_config.ca_bundle == bundle:
                continue
            patch = {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}
            await self._kube.patch(CustomResourceDefinition, name, {"spec": patch})
            log.info("definition trusts the webhook", definition=name)
            changed = True
        return changed

    def _write(self, serving: KeyPair) -> None:
        self._identity.directory.mkdir(parents=True, exist_ok=True)
        certificate, key = self.files
        _write_whole(Path(key), serving.key, 0o600)
        _write_whole(Path(certificate), serving.certificate, 0o644)


def _write_whole(path: Path, content: bytes, mode: int) -> None:
    """Write a file so that a reader sees the old or the new text, never half of it."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    draft.replace(path)
