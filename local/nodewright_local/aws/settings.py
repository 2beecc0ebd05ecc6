"""What the stand-in must know about the laptop cluster it belongs to.

Values come from the cluster's state (`nodewright_local.state`) and may be overridden one by one on
the command line. Nothing here is read again after start.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nodewright_local.state import (
    ACCOUNT_ID,
    DEFAULT_REGION,
    SERVICE_CIDR,
    ClusterState,
    StateError,
)

DEFAULT_KUBERNETES_VERSION = "1.36"


class SettingsError(Exception):
    """The stand-in can not start; the message names the value and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How long AWS takes to do what it does, in seconds. Tests shorten them."""

    pending: float = 2.0
    """From launch until an instance is `running`."""
    shutting_down: float = 2.0
    """From TerminateInstances until an instance is `terminated`."""
    terminated_visible: float = 60.0
    """How long DescribeInstances still shows a terminated instance."""
    cluster: float = 1.5
    """CREATING, UPDATING and DELETING of EKS clusters, add-ons and profiles."""
    nodegroup: float = 1.0
    """Time between two looks at a node group that is on its way to its desired state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSettings:
    """The stand-in's place in the laptop cluster."""

    port: int = 0
    """TCP port on 127.0.0.1; 0 lets the system choose."""
    account_id: str = ACCOUNT_ID
    region: str = DEFAULT_REGION
    """Region of the laptop cluster; calls may be signed for any other region as well."""
    api_server_url: str = "https://127.0.0.1:6443"
    ca_pem: str = ""
    """PEM of the cluster CA; EKS hands it out base64-encoded."""
    admin_kubeconfig: Path | None = None
    """Used to verify service account tokens (TokenReview); pod identity needs it."""
    service_cidr: str = SERVICE_CIDR
    kubernetes_version: str = DEFAULT_KUBERNETES_VERSION
    """Minor version EKS gives a cluster that names none."""
    delays: Delays = field(default_factory=Delays)

    @property
    def ca_base64(self) -> str:
        """The CA as `cluster.certificateAuthority.data` carries it."""
        return base64.b64encode(self.ca_pem.encode()).decode()


def load_settings(state_dir: Path | None, overrides: Mapping[str, Any]) -> AwsSettings:
    """Read the cluster's state under `state_dir`, then apply the overrides that are not None.

    Raises SettingsError when the state or the CA can not be read.
    """
    values: dict[str, Any] = {}
    if state_dir is not None:
        values = _from_cluster(state_dir)
    values |= {key: value for key, value in overrides.items() if value is not None}
    ca_file = values.pop("ca_file", None)
    if ca_file:
        values["ca_pem"] = _read(Path(ca_file))
    return AwsSettings(**values)


def _from_cluster(directory: Path) -> dict[str, Any]:
    try:
        state = ClusterState.load(directory)
    except StateError as error:
        raise SettingsError(str(error)) from error
    major, minor = state.versions.get("kubernetes", DEFAULT_KUBERNETES_VERSION).split(".")[:2]
    return {
        "port": urlsplit(state.aws_url).port or 0,
        "account_id": state.account_id,
        "region": state.region,
        "api_server_url": state.api_server_url,
        "ca_file": state.ca_file,
        "admin_kubeconfig": state.admin_kubeconfig,
        "service_cidr": state.service_cidr,
        "kubernetes_version": f"{major.lstrip('v')}.{minor}",
    }


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise SettingsError(
            f"the cluster CA can not be read from {path}: {error.strerror}; "
            "run `nodewright local up`, or name another file with --ca-file"
        ) from error
