"""What a stack may set: the keys of `Pulumi.<stack>.yaml`, read once into a typed value.

Every error names the key and the way out. What the values mean is said where they are used, in the
components; here stand their names, types and defaults.
"""

import difflib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

PROJECT = "nodewright"


class ConfigError(ValueError):
    """The stack's configuration can't be used."""

    def __init__(self, key: str, problem: str, remedy: str) -> None:
        super().__init__(f"{PROJECT}:{key} {problem}; {remedy}")
        self.key = key


@dataclass(frozen=True, slots=True, kw_only=True)
class StackConfig:
    """Settings of one environment."""

    cluster_name: str
    """`clusterName`: name of the cluster, at most 46 characters."""
    controller_image: str
    """`controllerImage`: image of the controller, best by digest."""
    kubernetes_version: str = "1.36"
    """`kubernetesVersion`: version of Kubernetes."""
    vpc_cidr: str = "10.0.0.0/16"
    """`vpcCidr`: IPv4 range of the VPC."""
    zones: tuple[str, ...] = ()
    """`zones`: zones by name; empty takes the first `zoneCount` of the region."""
    zone_count: int = 3
    """`zoneCount`: number of zones when `zones` is empty."""
    nat: str = "single"
    """`nat`: gateways to the internet, `single` (one), `per-zone` (one each) or `none`."""
    vpc_endpoints: tuple[str, ...] = ()
    """`vpcEndpoints`: AWS services to reach without the internet."""
    public_access: bool = False
    """`publicAccess`: whether the Kubernetes API is reached from the internet."""
    public_access_cidrs: tuple[str, ...] = ()
    """`publicAccessCidrs`: networks that may do so."""
    admins: Mapping[str, str]
    """`admins`: further administrators, short name to principal ARN."""
    log_types: tuple[str, ...] = ("audit", "authenticator")
    """`logTypes`: control plane logs to keep."""
    log_retention_days: int = 30
    """`logRetentionDays`: days to keep those logs."""
    encrypt_secrets: bool = False
    """`encryptSecrets`: whether to make a KMS key for Kubernetes secrets."""
    compute: str = "managed-node-group"
    """`compute`: where the controller runs, `managed-node-group` or `fargate`."""
    core_instance_type: str = "t3.medium"
    """`coreInstanceType`: instance type of the controller's nodes."""
    core_node_count: int = 2
    """`coreNodeCount`: number of the controller's nodes."""
    replicas: int = 2
    """`replicas`: replicas of the controller."""
    log_level: str = "info"
    """`logLevel`: how much the controller tells, `debug`, `info` or `error`."""
    scheduler_config: str | None = None
    """`schedulerConfig`: default spread constraints of kube-scheduler, its own file or the part."""
    webhook_url: str | None = None
    """`webhookUrl`: address of the conversion webhook where the API server can't reach Services."""
    webhook_hosts: tuple[str, ...] = ()
    """`webhookHosts`: further names for the webhook's certificate."""
    retain_crds: bool = True
    """`retainCrds`: whether `destroy` leaves the CRDs, for a cluster that outlives the stack."""
    default_node_pool: bool = False
    """`defaultNodePool`: whether to make an EC2NodeClass and a NodePool called `default`."""
    node_pool_cpu_limit: str = "100"
    """`nodePoolCpuLimit`: most cores the default NodePool may have in all."""
    protect: bool = False
    """`protect`: whether VPC, cluster and keys are kept from deletion."""
    tags: Mapping[str, str]
    """`tags`: put on every AWS resource."""


def load(read: Callable[[str], str | None], given: Collection[str] = ()) -> StackConfig:
    """Return the stack's settings.

    `read` gives the text of a key, as `pulumi.Config().get` does; `given` are the full keys that
    the stack sets, so that a misspelt one is refused. Raises `ConfigError` for that, for a key that
    is missing, and for a value of the wrong kind.
    """
    _refuse_unknown(given)
    values: dict[str, Any] = {"admins": {}, "tags": {}}
    for field in fields(StackConfig):
        key = key_of(field.name)
        text = read(key)
        if text is not None:
            parse = _PARSERS.get(field.type, _text)
            values[field.name] = parse(key, text)
    for required in ("cluster_name", "controller_image"):
        if not values.get(required):
            raise _missing(key_of(required))
    config = StackConfig(**values)
    _check(config)
    return config


def key_of(field: str) -> str:
    """Return the configuration key of a field."""
    first, *rest = field.split("_")
    return first + "".join(part.capitalize() for part in rest)


KEYS = tuple(key_of(field.name) for field in fields(StackConfig))
"""All keys, in the order of the fields."""


def _refuse_unknown(given: Collection[str]) -> None:
    for full_key in sorted(given):
        project, _, key = full_key.partition(":")
        if project == PROJECT and key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1)
            meant = f"did you mean {near[0]}?" if near else f"use one of: {', '.join(KEYS)}"
            raise ConfigError(key, "is not a setting", meant)


def _missing(key: str) -> ConfigError:
    return ConfigError(
        key, "is missing", f"set it with `pulumi config set {PROJECT}:{key} <value>`"
    )


def _check(config: StackConfig) -> None:
    if config.public_access and not config.public_access_cidrs:
        raise ConfigError(
            "publicAccessCidrs",
            "is empty while publicAccess is on",
            "name the networks that may reach the Kubernetes API, for instance "
            f"`pulumi config set --path '{PROJECT}:publicAccessCidrs[0]' <your address>/32`",
        )


def _text(_key: str, text: str) -> str:
    return text


def _boolean(key: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise ConfigError(key, f"is {text!r}", "write true or false")
    return text == "true"


def _whole_number(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ConfigError(key, f"is {text!r}", "write a whole number") from error


def _texts(key: str, text: str) -> tuple[str, ...]:
    values = _json(key, text, "a list, such as [a, b]")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ConfigError(key, f"is {text!r}", "write a list of texts, such as [a, b]")
    return tuple(values)


def _map(key: str, text: str) -> dict[str, str]:
    values = _json(key, text, "a map of texts")
    if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
        raise ConfigError(key, f"is {text!r}", "write a map of texts, numbers in quotes")
    return values


def _json(key: str, text: str, shape: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(key, f"is {text!r}", f"write {shape}") from error


_PARSERS: Mapping[object, Callable[[str, str], Any]] = {
    bool: _boolean,
    int: _whole_number,
    tuple[str, ...]: _texts,
    Mapping[str, str]: _map,
}
"""How the text of a key becomes a value, by the field's type."""
