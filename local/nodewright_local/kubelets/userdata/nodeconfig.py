"""Amazon Linux 2023: NodeConfig documents in the user data, merged and checked as nodeadm does.

A later document wins, maps are merged key by key, kubelet flags are appended; the four cluster
fields are mandatory. Source: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/ and
https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/examples/ .
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from nodewright_local.kubelets.userdata.bootstrap import (
    Bootstrap,
    Taint,
    bad,
    check_address,
    check_endpoint,
    decode_certificate_authority,
    required_text,
)
from nodewright_local.kubelets.userdata.kubelet_configuration import (
    check_configuration,
    count_cpus,
    taints_of,
)
from nodewright_local.kubelets.userdata.kubelet_flags import KubeletFlags, parse_flags
from nodewright_local.kubelets.userdata.mime import NODE_CONFIG, is_mime, split_parts, to_text
from nodewright_local.kubelets.userdata.node_metadata import check_labels, check_taints

API_VERSION = "node.eks.aws/v1alpha1"

# Field -> the fields below it; None: not looked into.
_SPEC_FIELDS: Mapping[str, frozenset[str] | None] = {
    "cluster": frozenset(
        {"name", "apiServerEndpoint", "certificateAuthority", "cidr", "enableOutpost", "id"}
    ),
    "containerd": frozenset({"config", "baseRuntimeSpec"}),
    "instance": frozenset({"localStorage", "environment", "network"}),
    "kubelet": frozenset({"config", "flags", "maxPodsExpression"}),
    "featureGates": None,
}
_STORAGE_STRATEGIES = ("RAID0", "RAID10", "Mount")


def decode(user_data: bytes) -> Bootstrap:
    """Return what AL2023 user data says; raise UserDataError if nodeadm or kubelet would fail."""
    text = to_text(user_data)
    documents, notes = _documents(text)
    merged: dict[str, Any] = {}
    for number, document in enumerate(documents, start=1):
        merged = merge_specs(merged, _parse_document(document, f"NodeConfig {number}"))
    return _bootstrap(merged, notes)


def _documents(text: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the NodeConfig texts in order, and notes on the parts left alone."""
    if not is_mime(text):
        return [text], ()
    parts = split_parts(text)
    documents = [part.text for part in parts if part.content_type == NODE_CONFIG]
    others = [part.content_type for part in parts if part.content_type != NODE_CONFIG]
    if not documents:
        raise bad(f"user data has no part of type {NODE_CONFIG}, only {', '.join(others)}")
    return documents, tuple(f"a part of type {kind} was not executed" for kind in others)


def _parse_document(text: str, where: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise bad(f"{where} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise bad(f"{where} is not a NodeConfig but {type(document).__name__}")
    if document.get("apiVersion") != API_VERSION or document.get("kind") != "NodeConfig":
        raise bad(
            f"{where} must have apiVersion {API_VERSION} and kind NodeConfig, not "
            f"{document.get('apiVersion')!r} and {document.get('kind')!r}"
        )
    unknown = set(document) - {"apiVersion", "kind", "metadata", "spec"}
    if unknown:
        raise bad(f"{where} has no field {sorted(unknown)[0]!r}")
    spec = _map(document.get("spec"), f"{where}: spec")
    for name, value in spec.items():
        _check_spec_field(name, value, where)
    return spec


def _check_spec_field(name: str, value: object, where: str) -> None:
    if name not in _SPEC_FIELDS:
        raise bad(f"{where}: spec has no field {name!r}")
    allowed = _SPEC_FIELDS[name]
    fields = _map(value, f"{where}: spec.{name}")
    if allowed is not None and set(fields) - allowed:
        raise bad(f"{where}: spec.{name} has no field {sorted(set(fields) - allowed)[0]!r}")


def _map(value: object, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad(f"{where} must be a map, not {type(value).__name__}")
    return value


def merge_specs(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two NodeConfig specs: the later one wins, its flags follow the earlier one's."""
    merged = merge_maps(earlier, later)
    flags = [
        flag
        for spec in (earlier, later)
        for flag in _flags(_map(spec.get("kubelet"), "spec.kubelet"))
    ]
    if flags:
        merged["kubelet"] = {**merged["kubelet"], "flags": flags}
    return merged


def merge_maps(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Merge maps key by key, to any depth; anything else in ``later`` replaces the earlier."""
    merged = dict(earlier)
    for key, value in later.items():
        known = merged.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = merge_maps(known, value)
        elif value is not None:
            merged[key] = value
    return merged


def _flags(kubelet: Mapping[str, Any]) -> list[str]:
    flags = kubelet.get("flags") or []
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        raise bad("spec.kubelet.flags must be a list of strings")
    return flags


def _bootstrap(spec: Mapping[str, Any], notes: tuple[str, ...]) -> Bootstrap:
    cluster = spec.get("cluster") or {}
    service_cidr = _service_cidr(cluster.get("cidr"))
    kubelet = spec.get("kubelet") or {}
    configuration = _map(kubelet.get("config"), "spec.kubelet.config")
    check_configuration(configuration)
    flags = parse_flags(_flags(kubelet))
    dns = configuration.get("clusterDNS") or [str(service_cidr[10])]
    reserved_cpus = configuration.get("reservedSystemCPUs") or ""
    return Bootstrap(
        cluster_name=required_text(cluster.get("name"), "spec.cluster.name"),
        api_server_endpoint=check_endpoint(
            cluster.get("apiServerEndpoint"), "spec.cluster.apiServerEndpoint"
        ),
        certificate_authority_pem=decode_certificate_authority(
            cluster.get("certificateAuthority"), "spec.cluster.certificateAuthority"
        ),
        cluster_dns=tuple(check_address(item, "spec.kubelet.config.clusterDNS") for item in dns),
        labels=check_labels(flags.labels),
        taints=check_taints(_taints(configuration, flags)),
        max_pods=_first_set(flags.max_pods, configuration.get("maxPods")),
        pods_per_core=configuration.get("podsPerCore") or 0,
        kube_reserved={**(configuration.get("kubeReserved") or {}), **flags.kube_reserved},
        system_reserved={**(configuration.get("systemReserved") or {}), **flags.system_reserved},
        eviction_hard={**(configuration.get("evictionHard") or {}), **flags.eviction_hard},
        reserved_system_cpus=count_cpus(reserved_cpus),
        instance_store_raid0=_storage_strategy(spec) == "RAID0",
        notes=notes,
    )


def _taints(configuration: Mapping[str, Any], flags: KubeletFlags) -> tuple[Taint, ...]:
    """Return the kubelet's taints: a flag, when given, replaces the configuration's list."""
    return flags.taints or taints_of(configuration)


def _first_set(*values: int | None) -> int | None:
    # 0 counts as unset in a configuration file: the kubelet's default applies then.
    return next((value for value in values if value), None)


def _service_cidr(value: object) -> "ipaddress.IPv4Network | ipaddress.IPv6Network":
    text = required_text(value, "spec.cluster.cidr")
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise bad(f"spec.cluster.cidr is not an address range: {text!r}") from error
    if network.num_addresses <= 10:
        raise bad(f"spec.cluster.cidr {text} is too small to hold the DNS service")
    return network


def _storage_strategy(spec: Mapping[str, Any]) -> str | None:
    instance = spec.get("instance") or {}
    storage = _map(instance.get("localStorage"), "spec.instance.localStorage")
    strategy = storage.get("strategy")
    if strategy is not None and strategy not in _STORAGE_STRATEGIES:
        allowed: Sequence[str] = _STORAGE_STRATEGIES
        raise bad(f"spec.instance.localStorage.strategy must be one of {', '.join(allowed)}")
    return strategy
