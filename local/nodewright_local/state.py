"""Where the laptop cluster keeps its facts: one directory, one `cluster.json`.

Decides the layout of the state directory and the fields every part of the cluster reads. The
supervisor writes `cluster.json` before it starts anything; the AWS stand-in, the kubelets and the
tests read it through `ClusterState.load()`. What runs right now (process states, restarts) is
`runtime.py`'s matter.
"""

import json
import os
import random
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

ACCOUNT_ID: Final = "123456789012"
DEFAULT_REGION: Final = "us-west-2"
SERVICE_ACCOUNT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
SERVICE_CIDR: Final = "10.100.0.0/16"  # the range EKS uses by default
CLUSTER_FILE: Final = "cluster.json"
LOGS: Final = "logs"

# Below the ephemeral range (so that no outgoing connection takes a port between choice and use, or
# while a server restarts) and below the service node ports, which begin at 30000.
PORT_RANGE: Final = range(20000, 30000)


class StateError(Exception):
    """The state directory does not hold what was asked for; the message says how to get it."""


def state_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the state directory: NODEWRIGHT_LOCAL_DIR, or a folder under XDG_STATE_HOME."""
    if chosen := environ.get("NODEWRIGHT_LOCAL_DIR"):
        return Path(chosen).expanduser().absolute()
    base = environ.get("XDG_STATE_HOME")
    root = Path(base) if base else Path.home() / ".local" / "state"
    return root / "nodewright" / "local"


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the tools cache: NODEWRIGHT_CACHE, or a folder under XDG_CACHE_HOME."""
    if chosen := environ.get("NODEWRIGHT_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "nodewright"


def region(environ: Mapping[str, str] = os.environ) -> str:
    """Return the AWS region the cluster pretends to be in."""
    return environ.get("NODEWRIGHT_LOCAL_REGION") or DEFAULT_REGION


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The addresses, files and versions of one laptop cluster."""

    state_dir: Path
    """Directory that holds everything of this cluster."""
    api_server_url: str
    """https://127.0.0.1:PORT of kube-apiserver."""
    aws_url: str
    """http://127.0.0.1:PORT of the AWS stand-in."""
    etcd_url: str
    """https://127.0.0.1:PORT of etcd's client listener."""
    etcd_peer_port: int
    controller_manager_port: int
    scheduler_port: int
    kwok_port: int
    kubelet_port: int
    """Port on 127.0.0.1 that every node reports as its kubelet's."""
    webhook_port: int
    """Port on 127.0.0.1 that leads to a ready controller pod's webhook."""
    ca_file: Path
    """Cluster CA: signs the serving certificates and the client certificates of the cluster."""
    ca_key_file: Path
    admin_kubeconfig: Path
    pki_dir: Path
    logs_dir: Path
    pods_dir: Path
    account_id: str = ACCOUNT_ID
    region: str = DEFAULT_REGION
    service_account_issuer: str = SERVICE_ACCOUNT_ISSUER
    service_cidr: str = SERVICE_CIDR
    """Range of the Service addresses."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Binary name to version, for what the cluster runs."""
    binaries: Mapping[str, str] = field(default_factory=dict)
    """Binary name to absolute path."""
    pids: Mapping[str, int] = field(default_factory=dict)
    """Process name to pid, kept up to date by the supervisor."""

    @classmethod
    def load(cls, directory: Path | None = None) -> "ClusterState":
        """Read `cluster.json` of a directory (default: `state_directory()`).

        Raises StateError when the file is missing, is not JSON, or lacks a field.
        """
        path = (directory or state_directory()) / CLUSTER_FILE
        try:
            document = json.loads(path.read_text("utf-8"))
        except FileNotFoundError as error:
            raise StateError(
                f"no laptop cluster at {path.parent}: start one with `nodewright local up`, "
                "or point NODEWRIGHT_LOCAL_DIR at its directory"
            ) from error
        except ValueError as error:
            raise StateError(
                f"{path} is not valid JSON ({error}); run `nodewright local down` and `up` again"
            ) from error
        return cls._from_document(path, document)

    @classmethod
    def _from_document(cls, path: Path, document: Any) -> "ClusterState":
        if not isinstance(document, dict):
            raise StateError(f"{path} does not hold a JSON object")
        values: dict[str, Any] = {}
        for item in fields(cls):
            if item.name not in document:
                raise StateError(
                    f"{path} lacks the field {item.name!r}; it was written by another version: "
                    "run `nodewright local down` and `up` again"
                )
            value = document[item.name]
            values[item.name] = Path(value) if item.type is Path else value
        return cls(**values)

    def save(self) -> None:
        """Write `cluster.json` whole: readers see the old file or the new one, never a part."""
        document = {item.name: getattr(self, item.name) for item in fields(self)}
        write_whole(self.state_dir / CLUSTER_FILE, json.dumps(document, indent=2, default=_plain))

    def with_pids(self, pids: Mapping[str, int]) -> "ClusterState":
        """Return the same state with other pids."""
        return replace(self, pids=dict(pids))

    @property
    def api_server_port(self) -> int:
        """Port of kube-apiserver."""
        return port_of(self.api_server_url)

    @property
    def data_dir(self) -> Path:
        """Where etcd keeps its data."""
        return self.state_dir / "etcd"

    @property
    def pulumi_dir(self) -> Path:
        """Where Pulumi keeps the stacks' state."""
        return self.state_dir / "pulumi"

    @property
    def pulumi_home(self) -> Path:
        """PULUMI_HOME of everything that runs against this cluster."""
        return self.state_dir / "pulumi-home"

    def log_file(self, process: str) -> Path:
        """Return the log of one process."""
        return self.logs_dir / f"{process}.log"


def plan_state(
    directory: Path,
    *,
    versions: Mapping[str, str],
    binaries: Mapping[str, str],
    previous: ClusterState | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ClusterState:
    """Choose ports and paths of a cluster that is about to start.

    Ports of `previous` are taken again when they are still free, because objects in a kept store
    (nodes, webhooks) name them.
    """
    wanted = previous_ports(previous) if previous else {}
    ports = choose_ports(PORT_NAMES, wanted)
    pki = directory / "pki"
    return ClusterState(
        state_dir=directory,
        api_server_url=f"https://127.0.0.1:{ports['api_server']}",
        aws_url=f"http://127.0.0.1:{ports['aws']}",
        etcd_url=f"https://127.0.0.1:{ports['etcd']}",
        etcd_peer_port=ports["etcd_peer"],
        controller_manager_port=ports["controller_manager"],
        scheduler_port=ports["scheduler"],
        kwok_port=ports["kwok"],
        kubelet_port=ports["kubelet"],
        webhook_port=ports["webhook"],
        ca_file=pki / "ca.crt",
        ca_key_file=pki / "ca.key",
        admin_kubeconfig=directory / "admin.kubeconfig",
        pki_dir=pki,
        logs_dir=directory / LOGS,
        pods_dir=directory / "pods",
        region=region(environ),
        versions=dict(versions),
        binaries=dict(binaries),
    )


PORT_NAMES: Final = (
    "api_server",
    "aws",
    "etcd",
    "etcd_peer",
    "controller_manager",
    "scheduler",
    "kwok",
    "kubelet",
    "webhook",
)


def previous_ports(state: ClusterState) -> dict[str, int]:
    """Return the ports a cluster used, by the names of `PORT_NAMES`."""
    return {
        "api_server": state.api_server_port,
        "aws": port_of(state.aws_url),
        "etcd": port_of(state.etcd_url),
        "etcd_peer": state.etcd_peer_port,
        "controller_manager": state.controller_manager_port,
        "scheduler": state.scheduler_port,
        "kwok": state.kwok_port,
        "kubelet": state.kubelet_port,
        "webhook": state.webhook_port,
    }


def choose_ports(names: tuple[str, ...], wanted: Mapping[str, int]) -> dict[str, int]:
    """Return one free loopback port for each name, the wanted one where it is free."""
    chosen: dict[str, int] = {}
    with ExitStack() as held:  # all are held until the last is chosen, so no port is given twice
        for name in names:
            listener = _listen(wanted[name]) if name in wanted else None
            while listener is None:
                listener = _listen(random.choice(PORT_RANGE))
            held.enter_context(listener)
            chosen[name] = int(listener.getsockname()[1])
    return chosen


def _listen(port: int) -> socket.socket | None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()  # two sockets may bind with SO_REUSEADDR, but only one may listen
    except OSError:
        listener.close()
        return None
    return listener


def port_of(url: str) -> int:
    """Return the port of a URL that ends in one."""
    return int(url.rsplit(":", 1)[1])


def write_whole(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file so that a reader sees the old text or the new one, never a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text if text.endswith("\n") else text + "\n")
    scratch.replace(path)


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot write {type(value).__name__} into {CLUSTER_FILE}")
