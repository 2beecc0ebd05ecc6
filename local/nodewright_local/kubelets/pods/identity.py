"""Who a pod is: its tokens and kubeconfig as files, and the variables that the platform adds.

Kubelet's part: a bound service-account token, the CA, the namespace. EKS's part: the Pod Identity
webhook's token and variables, only if EKS has an association for the service account. Laptop's
part: ``KUBECONFIG`` and ``AWS_ENDPOINT_URL``, since a local process has no mounts and no AWS DNS.
"""

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nodewright_local.kubelets.api import ApiClient, ApiError, ApiUnreachable
from nodewright_local.state import ClusterState, write_whole

log = logging.getLogger(__name__)

POD_IDENTITY_AUDIENCE = "pods.eks.amazonaws.com"
API_TOKEN_SECONDS = 3607
"""What a kubelet asks for; the odd seconds tell its tokens from others in the audit log."""
POD_IDENTITY_TOKEN_SECONDS = 86400
RENEW_AT = 0.8
"""Of a token's life, as the kubelet does."""
RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFiles:
    """Where one pod's files lie, all below ``<pods_dir>/<uid>``."""

    folder: Path

    @property
    def service_account(self) -> Path:
        """The folder that a container sees as /var/run/secrets/kubernetes.io/serviceaccount."""
        return self.folder / "serviceaccount"

    @property
    def api_token(self) -> Path:
        """Token for the API server."""
        return self.service_account / "token"

    @property
    def identity_token(self) -> Path:
        """Token for EKS Pod Identity."""
        return self.folder / "eks-pod-identity" / "token"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig that reads ``api_token``."""
        return self.folder / "kubeconfig"

    @property
    def home(self) -> Path:
        """Working and home directory of the processes."""
        return self.folder / "home"

    @property
    def scratch(self) -> Path:
        """TMPDIR of the processes."""
        return self.folder / "tmp"


@dataclass(slots=True, kw_only=True)
class PodIdentity:
    """Writes and renews the files of one pod."""

    pod: Mapping[str, Any]
    cluster: ClusterState
    api: ApiClient
    with_pod_identity: bool
    files: PodFiles
    _renew_at: dict[str, float] = field(default_factory=dict)

    async def prepare(self) -> None:
        """Write every file; raises ApiError or ApiUnreachable if a token cannot be had."""
        namespace = self.pod["metadata"]["namespace"]
        for folder in (self.files.home, self.files.scratch):
            folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.files.service_account / "ca.crt", self.cluster.ca_file.read_text())
        (self.files.service_account / "namespace").write_text(namespace)
        write_whole(self.files.kubeconfig, self._kubeconfig(namespace))
        await self._renew()

    async def keep_fresh(self) -> None:
        """Renew tokens before they expire, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(max(RETRY_SECONDS, min(self._renew_at.values()) - clock()))
            try:
                await self._renew()
            except (ApiError, ApiUnreachable) as error:
                log.warning("tokens of pod %s not renewed: %s", self._name, error)

    async def _renew(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._renew_at.get("api", 0) <= now:
            await self._write_token("api", self.files.api_token, None, API_TOKEN_SECONDS)
        if self.with_pod_identity and self._renew_at.get("identity", 0) <= now:
            await self._write_token(
                "identity",
                self.files.identity_token,
                POD_IDENTITY_AUDIENCE,
                POD_IDENTITY_TOKEN_SECONDS,
            )

    async def _write_token(self, kind: str, path: Path, audience: str | None, seconds: int) -> None:
        metadata = self.pod["metadata"]
        account = self.pod["spec"].get("serviceAccountName") or "default"
        answer = await self.api.create(
            f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "audiences": [audience] if audience else None,
                    "expirationSeconds": seconds,
                    "boundObjectRef": {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                    },
                },
            },
        )
        status = answer["status"]
        _write_token_file(path, status["token"])
        expires = datetime.fromisoformat(status["expirationTimestamp"])
        issued = datetime.now(expires.tzinfo)
        self._renew_at[kind] = (
            asyncio.get_running_loop().time() + RENEW_AT * (expires - issued).total_seconds()
        )

    @property
    def _name(self) -> str:
        return f"{self.pod['metadata']['namespace']}/{self.pod['metadata']['name']}"

    def _kubeconfig(self, namespace: str) -> str:
        name = "in-cluster"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": name,
                    "cluster": {
                        "server": self.cluster.api_server_url,
                        "certificate-authority": str(self.files.service_account / "ca.crt"),
                    },
                }
            ],
            "users": [{"name": name, "user": {"tokenFile": str(self.files.api_token)}}],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}
            ],
            "current-context": name,
        }
        return json.dumps(document, indent=2)


def _write_token_file(path: Path, token: str) -> None:
    """Replace a token file whole, without the line end that some readers would send along."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.new")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(token)
    scratch.replace(path)


def platform_environment(
    cluster: ClusterState, files: PodFiles, pod_name: str, *, with_pod_identity: bool, path: str
) -> dict[str, str]:
    """Return the variables that image, kubelet and EKS give a container before its own ``env``."""
    server = urlsplit(cluster.api_server_url)
    variables = {
        "PATH": path,
        "HOME": str(files.home),
        "TMPDIR": str(files.scratch),
        "LANG": "C.UTF-8",
        "HOSTNAME": pod_name,
        "PYTHONUNBUFFERED": "1",
        "KUBERNETES_SERVICE_HOST": server.hostname or "",
        "KUBERNETES_SERVICE_PORT": str(server.port),
        "KUBECONFIG": str(files.kubeconfig),
        "AWS_ENDPOINT_URL": cluster.aws_url,
    }
    if with_pod_identity:
        variables |= {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": (
                f"{cluster.aws_url}/_nodewright/pod-identity/credentials"
            ),
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(files.identity_token),
            "AWS_REGION": cluster.region,
            "AWS_DEFAULT_REGION": cluster.region,
            "AWS_STS_REGIONAL_ENDPOINTS": "regional",
        }
    return variables
