"""What each process of the laptop cluster is started with, and how one knows that it is ready.

Decides command lines, environments and readiness checks; a pure function of `ClusterState`.
Starting, watching and ending them is `supervisor.py`'s matter.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nodewright_local.kwok import kwok_arguments
from nodewright_local.pki import certificate_file, key_file, kubeconfig_file
from nodewright_local.state import ClusterState, write_whole

AUTHENTICATION_PATH: Final = "/_nodewright/authenticate"
SPREADING_PROFILE: Final = "topology-spread-defaults"
"""Scheduler name of pods that kube-scheduler spreads over zones and hosts by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyWhen:
    """A check that passes when a process can be used."""

    urls: tuple[str, ...] = ()
    """All answer 200; certificates are checked against the cluster CA."""
    port: int | None = None
    """Accepts TCP connections on 127.0.0.1."""
    client: str | None = None
    """Client certificate to present, by its file name in the PKI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """One process of the cluster."""

    name: str
    command: tuple[str, ...]
    ready: ReadyWhen
    version: str
    after: tuple[str, ...] = ()
    """Processes that must be ready before this one starts, and that stop after it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    grace_s: float = 10.0
    """Seconds between SIGTERM and SIGKILL."""


PROCESS_NAMES: Final = (
    "etcd",
    "aws",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "kubelets",
)


def process_specs(state: ClusterState) -> tuple[ProcessSpec, ...]:
    """Return every process in the order of starting."""
    return (
        _etcd(state),
        _python_part(state, "aws", ready=ReadyWhen(urls=(f"{state.aws_url}{_HEALTH}",))),
        _api_server(state),
        _controller_manager(state),
        _scheduler(state),
        _kwok(state),
        _python_part(
            state,
            "kubelets",
            after=("aws", "kube-apiserver"),
            ready=ReadyWhen(port=state.kubelet_port),
        ),
    )


_HEALTH: Final = "/_nodewright/health"


def write_configuration(state: ClusterState) -> None:
    """Write the files the command lines refer to, beside the PKI."""
    webhook = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "eks", "cluster": {"server": state.aws_url + AUTHENTICATION_PATH}}],
        "users": [{"name": "kube-apiserver", "user": {}}],
        "contexts": [{"name": "eks", "context": {"cluster": "eks", "user": "kube-apiserver"}}],
        "current-context": "eks",
    }
    write_whole(_webhook_file(state), json.dumps(webhook, indent=2))
    write_whole(_scheduler_file(state), json.dumps(_scheduler_configuration(state), indent=2))


def _webhook_file(state: ClusterState) -> Path:
    return state.pki_dir / "authentication-webhook.kubeconfig"


def _scheduler_file(state: ClusterState) -> Path:
    return state.pki_dir / "scheduler-configuration.json"


def _scheduler_configuration(state: ClusterState) -> Mapping[str, object]:
    """Return the default profile as it is released, and one whose pods spread by themselves."""
    spread = [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
        for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
    ]
    arguments = {"defaultingType": "List", "defaultConstraints": spread}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        # Beside a configuration file the flags of these are passed over.
        "clientConnection": {
            "kubeconfig": str(kubeconfig_file(state, "scheduler")),
            "qps": 200,
            "burst": 400,
        },
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {"schedulerName": "default-scheduler"},
            {
                "schedulerName": SPREADING_PROFILE,
                "pluginConfig": [{"name": "PodTopologySpread", "args": arguments}],
            },
        ],
    }


def _flags(values: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(f"--{name}={value}" for name, value in values.items())


def _etcd(state: ClusterState) -> ProcessSpec:
    peer = f"https://127.0.0.1:{state.etcd_peer_port}"
    certificate, key = certificate_file(state, "etcd"), key_file(state, "etcd")
    flags = {
        "name": "laptop",
        "data-dir": state.data_dir,
        "listen-client-urls": state.etcd_url,
        "advertise-client-urls": state.etcd_url,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"laptop={peer}",
        # The whole store can be read without these: other users of the machine reach the port too.
        "client-cert-auth": "true",
        "trusted-ca-file": state.ca_file,
        "cert-file": certificate,
        "key-file": key,
        "peer-client-cert-auth": "true",
        "peer-trusted-ca-file": state.ca_file,
        "peer-cert-file": certificate,
        "peer-key-file": key,
        "unsafe-no-fsync": "true",  # a laptop cluster may lose its last second, not the user's time
        "log-level": "warn",
    }
    return ProcessSpec(
        name="etcd",
        command=(state.binaries["etcd"], *_flags(flags)),
        ready=ReadyWhen(urls=(f"{state.etcd_url}/health",), client="apiserver-etcd-client"),
        version=state.versions["etcd"],
    )


def _api_server(state: ClusterState) -> ProcessSpec:
    flags = {
        "bind-address": "127.0.0.1",
        "secure-port": state.api_server_port,
        "advertise-address": "127.0.0.1",
        # Endpoints refuse loopback addresses, so the `kubernetes` service stays without any.
        "endpoint-reconciler-type": "none",
        "etcd-servers": state.etcd_url,
        "etcd-cafile": state.ca_file,
        "etcd-certfile": certificate_file(state, "apiserver-etcd-client"),
        "etcd-keyfile": key_file(state, "apiserver-etcd-client"),
        "tls-cert-file": certificate_file(state, "apiserver"),
        "tls-private-key-file": key_file(state, "apiserver"),
        "client-ca-file": state.ca_file,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "service-cluster-ip-range": state.service_cidr,
        "service-account-issuer": state.service_account_issuer,
        "service-account-key-file": state.pki_dir / "service-account.pub",
        "service-account-signing-key-file": key_file(state, "service-account"),
        "authentication-token-webhook-config-file": _webhook_file(state),
        "authentication-token-webhook-version": "v1",
        "authentication-token-webhook-cache-ttl": "2s",
        "kubelet-client-certificate": certificate_file(state, "apiserver-kubelet-client"),
        "kubelet-client-key": key_file(state, "apiserver-kubelet-client"),
        "kubelet-certificate-authority": state.ca_file,
        "kubelet-preferred-address-types": "InternalIP",
        "shutdown-delay-duration": "0s",
        "v": 1,
    }
    return ProcessSpec(
        name="kube-apiserver",
        command=(state.binaries["kube-apiserver"], *_flags(flags)),
        ready=ReadyWhen(urls=(f"{state.api_server_url}/readyz",), client="admin"),
        version=state.versions["kube-apiserver"],
        after=("etcd",),
    )


def _health_server(state: ClusterState, port: int) -> dict[str, object]:
    return {
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "tls-cert-file": certificate_file(state, "component"),
        "tls-private-key-file": key_file(state, "component"),
        "leader-elect": "false",
        # The defaults (20 requests a second) make the first minute of a new cluster slow.
        "kube-api-qps": 200,
        "kube-api-burst": 400,
        "v": 1,
    }


def _controller_manager(state: ClusterState) -> ProcessSpec:
    flags = {
        "kubeconfig": kubeconfig_file(state, "controller-manager"),
        "use-service-account-credentials": "true",
        "service-account-private-key-file": key_file(state, "service-account"),
        "root-ca-file": state.ca_file,
        "allocate-node-cidrs": "false",
        "cluster-name": "laptop",
        "node-monitor-period": "2s",
        "node-monitor-grace-period": "40s",  # the lease of a kwok node lasts as long
        **_health_server(state, state.controller_manager_port),
    }
    return ProcessSpec(
        name="kube-controller-manager",
        command=(state.binaries["kube-controller-manager"], *_flags(flags)),
        ready=ReadyWhen(
            urls=(
                f"https://127.0.0.1:{state.controller_manager_port}/healthz",
                # Without it no pod can be created, and it comes a moment after the first answer.
                f"{state.api_server_url}/api/v1/namespaces/default/serviceaccounts/default",
            ),
            client="admin",
        ),
        version=state.versions["kube-controller-manager"],
        after=("kube-apiserver",),
    )


def _scheduler(state: ClusterState) -> ProcessSpec:
    flags = {
        "config": _scheduler_file(state),
        "bind-address": "127.0.0.1",
        "secure-port": state.scheduler_port,
        "tls-cert-file": certificate_file(state, "component"),
        "tls-private-key-file": key_file(state, "component"),
        "v": 1,
    }
    return ProcessSpec(
        name="kube-scheduler",
        command=(state.binaries["kube-scheduler"], *_flags(flags)),
        ready=ReadyWhen(urls=(f"https://127.0.0.1:{state.scheduler_port}/healthz",)),
        version=state.versions["kube-scheduler"],
        after=("kube-apiserver",),
    )


def _kwok(state: ClusterState) -> ProcessSpec:
    return ProcessSpec(
        name="kwok",
        command=(state.binaries["kwok"], *kwok_arguments(state)),
        ready=ReadyWhen(urls=(f"http://127.0.0.1:{state.kwok_port}/healthz",)),
        version=state.versions["kwok"],
        after=("kube-apiserver",),
    )


def _python_part(
    state: ClusterState, name: str, *, ready: ReadyWhen, after: tuple[str, ...] = ()
) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        command=(sys.executable, "-m", f"nodewright_local.{name}"),
        ready=ready,
        version=state.versions.get("nodewright-local", ""),
        after=after,
        environment={
            "NODEWRIGHT_LOCAL_DIR": str(state.state_dir),
            "NODEWRIGHT_LOCAL_REGION": state.region,
            "PYTHONUNBUFFERED": "1",
        },
        grace_s=20.0,  # kubelets let the controller's pods finish first
    )


def base_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the machine's environment without what would lead a server astray.

    A user's own AWS profile, kubeconfig or proxy has no say inside the cluster.
    """
    misleading = ("AWS_", "KUBE", "PULUMI_")
    kept = {name: value for name, value in environ.items() if not name.startswith(misleading)}
    return {**kept, "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
