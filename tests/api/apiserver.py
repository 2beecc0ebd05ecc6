"""A real etcd and kube-apiserver on loopback, for tests of what the API server thinks of our CRDs."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

TOKEN = "test-admin-token"


def find_binary(name: str, tool: str) -> str | None:
    """Return the path of a binary in the tools cache, on PATH or in KUBEBUILDER_ASSETS."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "nodewright"
    cache = Path(os.environ.get("NODEWRIGHT_CACHE", default))
    found = sorted((cache / "tools").glob(f"{tool}-*/{name}"))
    if found:
        return str(found[-1])
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    return shutil.which(name, path=assets) or shutil.which(name)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """A running API server and its administrator."""

    url: str
    kubeconfig: Path
    kubectl_path: str

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """Run kubectl; return what it printed, with the errors when `check` is off."""
        done = subprocess.run(
            [self.kubectl_path, "--kubeconfig", str(self.kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}")
        return done.stdout if check else done.stdout + done.stderr

    def apply(self, *objects: dict[str, Any]) -> str:
        """Apply objects by server-side apply."""
        return self.kubectl(
            "apply",
            "--server-side",
            "--force-conflicts",
            "-f",
            "-",
            stdin=yaml.safe_dump_all(objects),
        )

    def refusal(self, body: dict[str, Any]) -> str:
        """Create an object that must be refused; return what the server says."""
        text = self.kubectl(
            "create", "--validate=false", "-f", "-", stdin=yaml.safe_dump(body), check=False
        )
        assert "created" not in text, f"was accepted: {text}"
        return text

    def get(self, resource: str, name: str) -> dict[str, Any]:
        """Read one object."""
        body: dict[str, Any] = yaml.safe_load(self.kubectl("get", resource, name, "-o", "yaml"))
        return body


@contextmanager
def running(directory: Path) -> Iterator[ApiServer | None]:
    """Run etcd and kube-apiserver until the block ends; None where the binaries are missing."""
    etcd = find_binary("etcd", "etcd")
    apiserver = find_binary("kube-apiserver", "kubernetes")
    kubectl = find_binary("kubectl", "kubernetes")
    if not (etcd and apiserver and kubectl):
        yield None
        return
    processes: list[subprocess.Popen[bytes]] = []
    try:
        etcd_url = _start_etcd(etcd, directory, processes)
        yield _start_apiserver(apiserver, kubectl, directory, etcd_url, processes)
    finally:
        for process in reversed(processes):  # the API server cannot finish without its etcd
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=5)


def _spawn(command: list[str], log: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    with log.open("wb") as output:
        processes.append(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT))


def _start_etcd(binary: str, directory: Path, processes: list[subprocess.Popen[bytes]]) -> str:
    client = f"http://127.0.0.1:{free_port()}"
    peer = f"http://127.0.0.1:{free_port()}"
    _spawn(
        [
            binary,
            f"--data-dir={directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ],
        directory / "etcd.log",
        processes,
    )
    return client


def _start_apiserver(
    binary: str,
    kubectl: str,
    directory: Path,
    etcd_url: str,
    processes: list[subprocess.Popen[bytes]],
) -> ApiServer:
    port = free_port()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    key_file = directory / "service-account.key"
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    tokens = directory / "tokens.csv"
    tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
    _spawn(
        [
            binary,
            f"--etcd-servers={etcd_url}",
            f"--service-account-key-file={key_file}",
            f"--service-account-signing-key-file={key_file}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--cert-dir={directory / 'certs'}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--authorization-mode=RBAC",
            f"--token-auth-file={tokens}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
        ],
        directory / "kube-apiserver.log",
        processes,
    )
    url = f"https://127.0.0.1:{port}"
    _wait_ready(url, processes[-1], directory / "kube-apiserver.log")
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(_kubeconfig(url)))
    return ApiServer(url=url, kubeconfig=kubeconfig, kubectl_path=kubectl)


def _wait_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(f"{url}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"kube-apiserver ended: {log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(request, context=context, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    raise RuntimeError(f"kube-apiserver is not ready: {log.read_text()[-2000:]}")


def _kubeconfig(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [
            {"name": "test", "cluster": {"server": url, "insecure-skip-tls-verify": True}}
        ],
        "users": [{"name": "test", "user": {"token": TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
