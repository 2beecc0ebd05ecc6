"""What a machine's user data says about the cluster it should join, whatever the image family.

The decoders beside this module produce :class:`Bootstrap`; they share the checks here.
"""

import base64
import binascii
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import urlsplit

from cryptography import x509


class JoinProblem(Enum):
    """Why an instance is not a Node. ``value`` is what ``kubelets.json`` shows."""

    NO_USER_DATA = "NoUserData"
    BAD_USER_DATA = "BadUserData"
    BAD_KUBELET_CONFIGURATION = "BadKubeletConfiguration"
    LABEL_NOT_ALLOWED = "LabelNotAllowed"
    BAD_TAINT = "BadTaint"
    UNSUPPORTED_FAMILY = "UnsupportedImageFamily"
    NO_INSTANCE_ROLE = "NoInstanceRole"
    NO_CREDENTIALS = "NoCredentials"
    ENDPOINT_UNREACHABLE = "EndpointUnreachable"
    ENDPOINT_NOT_TRUSTED = "EndpointNotTrusted"
    NOT_AUTHENTICATED = "NotAuthenticated"
    REFUSED_BY_API_SERVER = "RefusedByApiServer"
    TOO_LITTLE_CAPACITY = "TooLittleCapacity"


class UserDataError(Exception):
    """User data with which the machine can never join. Nothing to retry: it must be replaced."""

    def __init__(self, problem: JoinProblem, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint that the kubelet puts on its Node when it registers."""

    key: str
    value: str = ""
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """A machine's whole knowledge of its cluster, and how its kubelet shall behave."""

    cluster_name: str
    api_server_endpoint: str
    certificate_authority_pem: str
    cluster_dns: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    max_pods: int | None = None
    """None: as many as the network interfaces of the instance type have addresses for."""
    pods_per_core: int = 0
    """0: no such limit."""
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    """Quantities by resource, on top of what the image itself reserves."""
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=dict)
    """Thresholds by signal (``memory.available``), on top of the image's own."""
    reserved_system_cpus: int = 0
    instance_store_raid0: bool = False
    notes: tuple[str, ...] = ()
    """What was read and deliberately not carried out, for example shell scripts."""


def bad(detail: str) -> UserDataError:
    """Return the error for user data that the first-boot agent of the image refuses."""
    return UserDataError(JoinProblem.BAD_USER_DATA, detail)


def bad_kubelet(detail: str) -> UserDataError:
    """Return the error for a configuration with which the kubelet would not start."""
    return UserDataError(JoinProblem.BAD_KUBELET_CONFIGURATION, detail)


def required_text(value: object, where: str) -> str:
    """Return ``value`` if it is a non-empty string, else raise the error that names ``where``."""
    if value is None or value == "":
        raise bad(f"{where} is missing")
    if not isinstance(value, str):
        raise bad(f"{where} must be a string, not {type(value).__name__}")
    return value


def check_endpoint(value: object, where: str) -> str:
    """Return an ``https://host[:port]`` URL, else raise the error that names ``where``."""
    text = required_text(value, where)
    parts = urlsplit(text)
    if parts.scheme != "https" or not parts.hostname:
        raise bad(f"{where} must be an https:// URL, not {text!r}")
    return text.rstrip("/")


def decode_certificate_authority(value: object, where: str) -> str:
    """Decode base64 PEM and check that it holds a certificate; return the PEM text."""
    text = required_text(value, where)
    try:
        pem = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise bad(f"{where} is not base64") from error
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise bad(f"{where} holds no PEM certificate") from error
    return pem.decode("ascii")


def check_address(value: object, where: str) -> str:
    """Return an IP address as text, else raise the error that names ``where``."""
    text = required_text(value, where)
    try:
        ipaddress.ip_address(text)
    except ValueError as error:
        raise bad(f"{where} must be an IP address, not {text!r}") from error
    return text
