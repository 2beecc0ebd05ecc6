"""The controller's settings: flags and environment names are Karpenter's, read once at start.

Flags beat the environment; numbers and durations that cannot be read fall back to their default as
upstream does for the environment, and are an error on the command line. All bad values are reported
together. Upstream: pkg/operator/options in core and in the AWS provider.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeVar
from urllib.parse import urlsplit

import yaml

from nodewright_controller.kernel.timing import parse_duration
from nodewright_controller.scheduling.default_spreads import NO_DEFAULT_SPREADS, DefaultSpreads
from nodewright_controller.scheduling.scheduler_config import read_scheduler_config

T = TypeVar("T")

FEATURE_GATES: Final[Mapping[str, bool]] = {
    "NodeRepair": False,
    "ReservedCapacity": True,
    "SpotToSpotConsolidation": False,
    "NodeOverlay": False,
    "StaticCapacity": False,
    "CapacityBuffer": False,
    "TerminateFirstDrift": False,
    "TerminateFirstRepair": False,
    "PodDeletionCostManagement": False,
}
AWS_FEATURE_GATES: Final[Mapping[str, bool]] = {
    "NodeClassCEL": False,
    "DRANVIDIAGPU": False,
    "DRAEFA": False,
    "RebootForRepair": False,
}


class SettingsError(ValueError):
    """Some settings cannot be used; the message names each of them and what it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, checked."""

    cluster_name: str
    """EKS cluster (CLUSTER_NAME, required)."""
    cluster_endpoint: str = ""
    """URL of the API server for nodes; empty: ask EKS."""
    cluster_ca_bundle: str = ""
    """Base64 PEM for nodes; empty: ask EKS."""
    isolated_vpc: bool = False
    eks_control_plane: bool = False
    vm_memory_overhead_percent: float = 0.075
    """Share of memory that the hypervisor keeps, 0.075 = 7.5 %."""
    interruption_queue: str = ""
    """SQS queue name; empty: no interruption handling."""
    reserved_enis: int = 0
    disable_dry_run: bool = False
    ami_refresh_interval: timedelta = timedelta(minutes=1)
    subnet_refresh_interval: timedelta = timedelta(minutes=1)
    security_group_refresh_interval: timedelta = timedelta(minutes=1)

    karpenter_service: str = ""
    metrics_port: int = 8080
    health_probe_port: int = 8081
    webhook_port: int = 8443
    webhook_secret: str = "karpenter-cert"
    webhook_hosts: tuple[str, ...] = ()
    """Names and addresses that the webhook's certificate must cover."""
    bind_address: str = "0.0.0.0"
    """Where servers listen: the pod's own address (POD_IP) when it is known."""
    disable_leader_election: bool = False
    leader_election_name: str = "karpenter-leader-election"
    leader_election_namespace: str = ""
    system_namespace: str = "kube-system"
    identity: str = ""
    """Lease holder: `<pod>_<uuid>`."""
    cpu_requests_millicores: int = 1000
    """Cores that the process may count on: the more, the more objects are handled at once."""
    memory_limit_bytes: int = -1
    """From nine tenths of it on, garbage is collected at once; 0 or less: no limit."""
    log_level: str = "info"
    batch_max_duration: timedelta = timedelta(seconds=10)
    batch_idle_duration: timedelta = timedelta(seconds=1)
    preference_policy: str = "Respect"
    min_values_policy: str = "Strict"
    ignore_dra_requests: bool = True
    # The next eight, like some gates, only lead to a warning (`main.unmet`) when they are set.
    enable_zonal_shift: bool = False
    legacy_node_repair: bool = False
    enable_profiling: bool = False
    disable_cluster_state_observability: bool = False
    kube_client_qps: str = ""
    kube_client_burst: str = ""
    log_output_paths: str = ""
    log_error_output_paths: str = ""
    default_spreads: DefaultSpreads = NO_DEFAULT_SPREADS
    """Default spread constraints of kube-scheduler (SCHEDULER_CONFIG, YAML or JSON)."""
    feature_gates: Mapping[str, bool] = field(default_factory=lambda: dict(FEATURE_GATES))
    aws_feature_gates: Mapping[str, bool] = field(default_factory=lambda: dict(AWS_FEATURE_GATES))

    @classmethod
    def load(cls, argv: Sequence[str], environ: Mapping[str, str]) -> Settings:
        """Read flags (`--name=value` or `--name value`) and environment.

        Raises:
            SettingsError: some values cannot be used; the message lists every one.
        """
        source = _Source(_flags(argv), environ)
        port = source.read
        settings = cls(
            cluster_name=source.text("CLUSTER_NAME"),
            cluster_endpoint=source.text("CLUSTER_ENDPOINT"),
            cluster_ca_bundle=source.text("CLUSTER_CA_BUNDLE"),
            isolated_vpc=source.read("ISOLATED_VPC", _boolean, False),
            eks_control_plane=source.read("EKS_CONTROL_PLANE", _boolean, False),
            vm_memory_overhead_percent=source.read("VM_MEMORY_OVERHEAD_PERCENT", float, 0.075),
            interruption_queue=source.text("INTERRUPTION_QUEUE"),
            reserved_enis=source.read("RESERVED_ENIS", int, 0),
            disable_dry_run=source.read("DISABLE_DRY_RUN", _boolean, False),
            ami_refresh_interval=source.duration("AMI_REFRESH_INTERVAL", "1m"),
            subnet_refresh_interval=source.duration("SUBNET_REFRESH_INTERVAL", "1m"),
            security_group_refresh_interval=source.duration(
                "SECURITY_GROUP_REFRESH_INTERVAL", "1m"
            ),
            karpenter_service=source.text("KARPENTER_SERVICE"),
            metrics_port=port("METRICS_PORT", int, 8080),
            health_probe_port=port("HEALTH_PROBE_PORT", int, 8081),
            webhook_port=port("WEBHOOK_PORT", int, 8443),
            webhook_secret=source.text("WEBHOOK_SECRET", "karpenter-cert"),
            webhook_hosts=_listed(source.text("WEBHOOK_HOSTS")),
            bind_address=source.text("POD_IP", "0.0.0.0"),
            disable_leader_election=source.read("DISABLE_LEADER_ELECTION", _boolean, False),
            leader_election_name=source.text("LEADER_ELECTION_NAME", "karpenter-leader-election"),
            leader_election_namespace=source.text("LEADER_ELECTION_NAMESPACE"),
            system_namespace=source.text("SYSTEM_NAMESPACE", "kube-system"),
            identity=f"{source.text('POD_NAME', 'nodewright')}_{uuid.uuid4()}",
            cpu_requests_millicores=source.read("CPU_REQUESTS", int, 1000),
            memory_limit_bytes=source.read("MEMORY_LIMIT", int, -1),
            log_level=source.text("LOG_LEVEL", "info"),
            batch_max_duration=source.duration("BATCH_MAX_DURATION", "10s"),
            batch_idle_duration=source.duration("BATCH_IDLE_DURATION", "1s"),
            preference_policy=source.text("PREFERENCE_POLICY", "Respect"),
            min_values_policy=source.text("MIN_VALUES_POLICY", "Strict"),
            ignore_dra_requests=source.read("IGNORE_DRA_REQUESTS", _boolean, True),
            enable_zonal_shift=source.read("ENABLE_ZONAL_SHIFT", _boolean, False),
            legacy_node_repair=source.read("LEGACY_NODE_REPAIR", _boolean, False),
            enable_profiling=source.read("ENABLE_PROFILING", _boolean, False),
            disable_cluster_state_observability=source.read(
                "DISABLE_CLUSTER_STATE_OBSERVABILITY", _boolean, False
            ),
            kube_client_qps=source.text("KUBE_CLIENT_QPS"),
            kube_client_burst=source.text("KUBE_CLIENT_BURST"),
            log_output_paths=source.text("LOG_OUTPUT_PATHS"),
            log_error_output_paths=source.text("LOG_ERROR_OUTPUT_PATHS"),
            default_spreads=source.scheduler_config("SCHEDULER_CONFIG"),
            feature_gates=source.gates("FEATURE_GATES", FEATURE_GATES),
            aws_feature_gates=source.gates("AWS_FEATURE_GATES", AWS_FEATURE_GATES),
        )
        problems = [*source.problems, *_problems(settings)]
        if problems:
            raise SettingsError("settings cannot be used:\n  " + "\n  ".join(problems))
        return settings

    @property
    def lease_namespace(self) -> str:
        """Where the leader's lease lives."""
        return self.leader_election_namespace or self.system_namespace


class _Source:
    """Looks a setting up by its environment name, among the flags first."""

    def __init__(self, flags: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._flags = flags
        self._environ = environ
        self.problems: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        flag = name.lower().replace("_", "-")
        return self._flags.get(flag) or self._environ.get(name) or default

    def read(self, name: str, parse: Callable[[str], T], default: T) -> T:
        text = self.text(name)
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            flag = name.lower().replace("_", "-")
            if flag in self._flags or parse is _boolean:
                self.problems.append(f"{name}={text!r}: {error}")
            return default

    def duration(self, name: str, default: str) -> timedelta:
        return self.read(name, parse_duration, parse_duration(default))

    def scheduler_config(self, name: str) -> DefaultSpreads:
        try:
            return read_scheduler_config(yaml.safe_load(self.text(name)))
        except yaml.YAMLError as error:
            where = " ".join(str(error).split())
            self.problems.append(f"{name}: is neither YAML nor JSON: {where}")
        except ValueError as error:
            self.problems.append(f"{name}: {error}")
        return NO_DEFAULT_SPREADS

    def gates(self, name: str, defaults: Mapping[str, bool]) -> Mapping[str, bool]:
        gates = dict(defaults)
        for entry in _listed(self.text(name)):
            gate, _, value = entry.partition("=")
            if value not in ("true", "false"):
                self.problems.append(f"{name}: {entry!r} must be NAME=true or NAME=false")
            elif gate in gates:
                gates[gate] = value == "true"
        return gates


def _flags(argv: Sequence[str]) -> dict[str, str]:
    flags: dict[str, str] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            raise SettingsError(f"unexpected argument {word!r}: settings are --name=value")
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("-") else "true"
        flags[name] = value
    return flags


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _problems(settings: Settings) -> list[str]:
    """Return what is wrong with values that could be read."""
    minute = timedelta(minutes=1)
    endpoint = urlsplit(settings.cluster_endpoint)
    checks = (
        (bool(settings.cluster_name), "CLUSTER_NAME is required: the name of the EKS cluster"),
        (
            not settings.cluster_endpoint or bool(endpoint.scheme and endpoint.netloc),
            f"CLUSTER_ENDPOINT={settings.cluster_endpoint!r} must be an absolute URL",
        ),
        (settings.vm_memory_overhead_percent >= 0, "VM_MEMORY_OVERHEAD_PERCENT must be 0 or more"),
        (settings.reserved_enis >= 0, "RESERVED_ENIS must be 0 or more"),
        (
            settings.log_level in ("", "debug", "info", "error"),
            f"LOG_LEVEL={settings.log_level!r} must be debug, info or error",
        ),
        (
            settings.preference_policy in ("Respect", "Ignore"),
            f"PREFERENCE_POLICY={settings.preference_policy!r} must be Respect or Ignore",
        ),
        (
            settings.min_values_policy in ("Strict", "BestEffort"),
            f"MIN_VALUES_POLICY={settings.min_values_policy!r} must be Strict or BestEffort",
        ),
        (settings.ami_refresh_interval >= minute, "AMI_REFRESH_INTERVAL must be 1m or more"),
        (settings.subnet_refresh_interval >= minute, "SUBNET_REFRESH_INTERVAL must be 1m or more"),
        (
            settings.security_group_refresh_interval >= minute,
            "SECURITY_GROUP_REFRESH_INTERVAL must be 1m or more",
        ),
    )
    return [text for good, text in checks if not good]
