"""The controller's settings as arguments, and as the environment that carries them.

Names and meanings are Karpenter's. A setting left out isn't passed, so the controller's own
default holds; zero and false are passed as such.
"""

from collections.abc import Mapping
from typing import NotRequired, TypedDict

import pulumi
import yaml

from nodewright.validation import Check, is_known

DURATION = r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+"


class FeatureGatesArgs(TypedDict):
    """Features that are off or on by default; one that is not there yet is warned of when on."""

    node_repair: NotRequired[bool]
    """Replace nodes that stay unhealthy. Default false. Not there yet."""
    reserved_capacity: NotRequired[bool]
    """Use on-demand capacity reservations. Default true."""
    spot_to_spot_consolidation: NotRequired[bool]
    """Replace Spot nodes by cheaper Spot nodes. Default false. Not there yet."""
    node_overlay: NotRequired[bool]
    """Let NodeOverlays change prices and capacity. Default false."""
    static_capacity: NotRequired[bool]
    """Let NodePools with `replicas` keep a fixed number of nodes. Default false. Not there yet."""
    capacity_buffer: NotRequired[bool]
    """Keep room ready for CapacityBuffers. Default false. Not there yet."""


class AwsFeatureGatesArgs(TypedDict):
    """Features of the AWS side."""

    node_class_cel: NotRequired[bool]
    """Allow expressions in an EC2NodeClass's kubelet settings. Default false. Not there yet."""


class ControllerSettingsArgs(TypedDict):
    """Settings of the controller, under Karpenter's names.

    For one whose effect is not there yet, the controller writes a warning when it starts.
    """

    cluster_ca_bundle: NotRequired[pulumi.Input[str]]
    """Certificate authority that nodes trust, base64. Default: the controller's own."""
    isolated_vpc: NotRequired[bool]
    """Whether the VPC reaches no public AWS endpoint, so that prices stay as shipped."""
    eks_control_plane: NotRequired[bool]
    """Whether to ask EKS about the cluster. It is asked in any case; accepted for Karpenter's sake."""
    vm_memory_overhead_percent: NotRequired[float]
    """Share of memory the hypervisor takes, from 0 to 1. Default 0.075."""
    reserved_enis: NotRequired[int]
    """Network interfaces that pods can't use. Default 0."""
    disable_dry_run: NotRequired[bool]
    """Whether to skip trying launches when a NodeClass is validated. Default false."""
    enable_zonal_shift: NotRequired[bool]
    """Whether to avoid zones that ARC zonal shift has moved away from. Default false. Not there
    yet."""
    ami_refresh_interval: NotRequired[str]
    """How often images are looked up, at least `1m`."""
    subnet_refresh_interval: NotRequired[str]
    """How often subnets are looked up, at least `1m`."""
    batch_max_duration: NotRequired[str]
    """Longest wait for more pods before nodes are planned. Default `10s`."""
    batch_idle_duration: NotRequired[str]
    """Wait without a new pod after which nodes are planned. Default `1s`."""
    preference_policy: NotRequired[str]
    """`Respect` (default) or `Ignore` preferred affinities."""
    min_values_policy: NotRequired[str]
    """`Strict` (default) or `BestEffort` handling of `minValues`."""
    ignore_dra_requests: NotRequired[bool]
    """Whether pods with resource claims are left alone. Default true; they are with false, too:
    planning for them is not there yet."""
    scheduler_config: NotRequired[str]
    """Default spread constraints of kube-scheduler, as YAML or JSON: `podTopologySpread` with
    `defaultConstraints`, or the scheduler's whole configuration."""
    kube_client_qps: NotRequired[int]
    """Requests a second to the API server. Not there yet: there is no limit."""
    kube_client_burst: NotRequired[int]
    """Requests to the API server at once. Not there yet: there is no limit."""
    enable_profiling: NotRequired[bool]
    """Whether to serve profiles beside the metrics. Default false. Not there yet."""
    disable_controller_warmup: NotRequired[bool]
    """Whether a waiting replica starts its caches only when it leads. Accepted for Karpenter's
    sake: every replica keeps its caches filled."""
    disable_leader_election: NotRequired[bool]
    """Whether to run without a lease; only with one replica. Default false."""
    disable_cluster_state_observability: NotRequired[bool]
    """Whether to leave out metrics and events about the cluster's state. Default false. Not there
    yet."""
    leader_election_name: NotRequired[str]
    """Name of the lease. Default `karpenter-leader-election`."""
    log_level: NotRequired[str]
    """`debug`, `info` (default) or `error`."""
    log_output_paths: NotRequired[str]
    """Where logs go, comma separated. Default `stdout`. Not there yet: they go to `stdout`."""
    log_error_output_paths: NotRequired[str]
    """Where the logger's own errors go, comma separated. Default `stderr`. Not there yet: they go
    to `stdout`."""
    feature_gates: NotRequired[FeatureGatesArgs]
    """Features to switch on or off."""
    aws_feature_gates: NotRequired[AwsFeatureGatesArgs]
    """AWS features to switch on or off."""


DEFAULT_LEASE = "karpenter-leader-election"
_GATE_NAMES = {"node_class_cel": "NodeClassCEL"}
_REFRESH_FIELDS = ("ami_refresh_interval", "subnet_refresh_interval")
_DURATION_FIELDS = (*_REFRESH_FIELDS, "batch_max_duration", "batch_idle_duration")


def environment(settings: ControllerSettingsArgs) -> dict[str, pulumi.Input[str]]:
    """Return the environment variables of these settings, sorted by name."""
    variables: dict[str, pulumi.Input[str]] = {}
    for field, value in settings.items():
        if value is None:
            continue
        if isinstance(value, Mapping):
            variables[field.upper()] = gates(value)
        elif isinstance(value, pulumi.Output):
            variables[field.upper()] = value
        else:
            variables[field.upper()] = _text(value)
    return dict(sorted(variables.items()))


def gates(values: Mapping[str, object]) -> str:
    """Return feature gates as the controller reads them, such as `NodeRepair=true`."""
    return ",".join(
        f"{_GATE_NAMES.get(gate, _pascal(gate))}={_text(value)}"
        for gate, value in sorted(values.items())
        if value is not None
    )


def check_settings(check: Check, settings: ControllerSettingsArgs) -> None:
    """Refuse settings with which the controller would not start."""
    check.known_fields(settings, ControllerSettingsArgs)
    check.known_fields(settings.get("feature_gates", {}), FeatureGatesArgs)
    check.known_fields(settings.get("aws_feature_gates", {}), AwsFeatureGatesArgs)
    check.one_of("settings.log_level", settings.get("log_level"), ("debug", "info", "error"))
    check.one_of(
        "settings.preference_policy", settings.get("preference_policy"), ("Respect", "Ignore")
    )
    check.one_of(
        "settings.min_values_policy", settings.get("min_values_policy"), ("Strict", "BestEffort")
    )
    overhead = settings.get("vm_memory_overhead_percent")
    check.between("settings.vm_memory_overhead_percent", overhead, 0, 1)
    check.between("settings.reserved_enis", settings.get("reserved_enis"), 0, 100)
    _check_scheduler_config(check, settings.get("scheduler_config"))
    for field in _DURATION_FIELDS:
        check.matches(f"settings.{field}", settings.get(field), DURATION, "90s or 1m30s")
    for field in _REFRESH_FIELDS:
        value = settings.get(field)
        if is_known(value) and seconds(str(value)) < 60:
            raise check.refuse(f"settings.{field}", f"is {value}", "use 1m or more")


def _check_scheduler_config(check: Check, text: object) -> None:
    """Refuse what is no such document; its constraints are judged by the controller, at start."""
    if not is_known(text):
        return
    try:
        document = yaml.safe_load(text) if isinstance(text, str) else text
    except yaml.YAMLError as error:
        where = " ".join(str(error).split())
        raise check.refuse(
            "settings.scheduler_config", f"can't be read: {where}", "write YAML or JSON"
        ) from error
    whole = isinstance(document, dict) and document.get("kind") == "KubeSchedulerConfiguration"
    ours = isinstance(document, dict) and set(document) == {"podTopologySpread"}
    if not isinstance(text, str) or not (whole or ours):
        raise check.refuse(
            "settings.scheduler_config",
            f"is {text!r}",
            "write a text with podTopologySpread, or with a whole KubeSchedulerConfiguration",
        )


def seconds(duration: str) -> float:
    """Return a Go duration such as `1m30s` in seconds."""
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    total, number = 0.0, ""
    rest = duration
    while rest:
        if rest[0].isdigit() or rest[0] == ".":
            number, rest = number + rest[0], rest[1:]
            continue
        unit = "ms" if rest.startswith("ms") else rest[0]
        total += float(number) * units[unit]
        number, rest = "", rest[len(unit) :]
    return total


def _pascal(field: str) -> str:
    return "".join(part.capitalize() for part in field.split("_"))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        # Whole numbers reach a component as floats when it's used from another language.
        return str(int(value))
    return str(value)
