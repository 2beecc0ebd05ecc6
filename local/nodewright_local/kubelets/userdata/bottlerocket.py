"""Bottlerocket: TOML settings, checked as the Bottlerocket API does before it commits them.

Source: https://bottlerocket.dev/en/os/1.50.x/api/settings/kubernetes/ . An unknown setting or a
value of the wrong type makes first boot fail, so such a machine never becomes a Node.
"""

import tomllib
from collections.abc import Callable, Mapping
from typing import Any

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
)
from nodewright_local.kubelets.userdata.mime import to_text
from nodewright_local.kubelets.userdata.node_metadata import check_labels, check_taints

_STRINGS = """
api-server authentication-mode bootstrap-token cloud-provider cluster-certificate cluster-domain
cluster-name container-log-max-size cpu-manager-policy cpu-manager-reconcile-period
hostname-override hostname-override-source log-level memory-manager-policy node-ip
pod-infra-container-image provider-id reserved-cpus server-certificate server-key
shutdown-grace-period shutdown-grace-period-for-critical-pods topology-manager-policy
topology-manager-scope container-log-monitor-interval
"""
_INTEGERS = """
container-log-max-files container-log-max-workers event-burst event-qps
eviction-max-pod-grace-period kube-api-burst kube-api-qps max-pods pod-pids-limit registry-burst
registry-qps
"""
_PERCENTAGES = "image-gc-high-threshold-percent image-gc-low-threshold-percent"
_BOOLEANS = """
cpu-cfs-quota-enforced device-ownership-from-security-context seccomp-default server-tls-bootstrap
single-process-oom-kill standalone-mode
"""
_STRING_MAPS = """
eviction-hard eviction-soft eviction-soft-grace-period kube-reserved node-labels system-reserved
"""
_LISTS = "allowed-unsafe-sysctls cpu-manager-policy-options"
_TABLES = "credential-providers memory-manager-reserved-memory nvidia static-pods"

# Kubelet configuration fields with the same meaning, so that one set of checks serves both.
_KUBELET_FIELDS = {
    "max-pods": "maxPods",
    "kube-reserved": "kubeReserved",
    "system-reserved": "systemReserved",
    "eviction-hard": "evictionHard",
    "eviction-soft": "evictionSoft",
    "eviction-soft-grace-period": "evictionSoftGracePeriod",
    "eviction-max-pod-grace-period": "evictionMaxPodGracePeriod",
}
_STORAGE_COMMAND = ["apiclient", "ephemeral-storage", "init"]


def _integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _percentage(value: object) -> bool:
    return _integer(value) or (isinstance(value, str) and value.isdigit())


def _string_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _string_map(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _taint_map(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(item, str) or _string_list(item) for item in value.values()
    )


_KINDS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "a string": (_STRINGS, lambda value: isinstance(value, str)),
    "an integer": (_INTEGERS, _integer),
    "a percentage": (_PERCENTAGES, _percentage),
    "true or false": (_BOOLEANS, lambda value: isinstance(value, bool)),
    "a table of strings": (_STRING_MAPS, _string_map),
    "a list of strings": (_LISTS, _string_list),
    "a table": (_TABLES, lambda value: isinstance(value, dict)),
    "a string or a list of strings": (
        "cluster-dns-ip",
        lambda value: isinstance(value, str) or _string_list(value),
    ),
    'a table from key to a list of "value:effect"': ("node-taints", _taint_map),
}
_KIND_OF_SETTING = {
    name: (kind, accepts) for kind, (names, accepts) in _KINDS.items() for name in names.split()
}


def decode(user_data: bytes) -> Bootstrap:
    """Return what Bottlerocket user data says; raise UserDataError if first boot would fail."""
    try:
        document = tomllib.loads(to_text(user_data))
    except tomllib.TOMLDecodeError as error:
        raise bad(f"user data is not TOML, as Bottlerocket wants it: {error}") from error
    settings = document.get("settings")
    if not isinstance(settings, dict):
        raise bad("user data has no table [settings]")
    kubernetes = settings.get("kubernetes")
    if not isinstance(kubernetes, dict):
        raise bad("user data has no table [settings.kubernetes]")
    _check_settings(kubernetes)
    return _bootstrap(kubernetes, settings)


def _check_settings(kubernetes: Mapping[str, Any]) -> None:
    for name, value in kubernetes.items():
        if name not in _KIND_OF_SETTING:
            raise bad(f"Bottlerocket has no setting settings.kubernetes.{name}")
        kind, accepts = _KIND_OF_SETTING[name]
        if not accepts(value):
            raise bad(f"settings.kubernetes.{name} must be {kind}, not {value!r}")
    configuration = {
        field: kubernetes[name] for name, field in _KUBELET_FIELDS.items() if name in kubernetes
    }
    for level in ("High", "Low"):
        name = f"image-gc-{level.lower()}-threshold-percent"
        if name in kubernetes:
            configuration[f"imageGC{level}ThresholdPercent"] = int(kubernetes[name])
    check_configuration(configuration)


def _bootstrap(kubernetes: Mapping[str, Any], settings: Mapping[str, Any]) -> Bootstrap:
    dns = kubernetes.get("cluster-dns-ip") or []
    addresses = [dns] if isinstance(dns, str) else dns
    where = "settings.kubernetes"
    return Bootstrap(
        cluster_name=required_text(kubernetes.get("cluster-name"), f"{where}.cluster-name"),
        api_server_endpoint=check_endpoint(kubernetes.get("api-server"), f"{where}.api-server"),
        certificate_authority_pem=decode_certificate_authority(
            kubernetes.get("cluster-certificate"), f"{where}.cluster-certificate"
        ),
        cluster_dns=tuple(check_address(item, f"{where}.cluster-dns-ip") for item in addresses),
        labels=check_labels(kubernetes.get("node-labels") or {}),
        taints=check_taints(_taints(kubernetes.get("node-taints") or {})),
        max_pods=kubernetes.get("max-pods") or None,
        kube_reserved=kubernetes.get("kube-reserved") or {},
        system_reserved=kubernetes.get("system-reserved") or {},
        eviction_hard=kubernetes.get("eviction-hard") or {},
        reserved_system_cpus=count_cpus(kubernetes.get("reserved-cpus") or ""),
        instance_store_raid0=_initialises_instance_store(settings),
        notes=tuple(
            f"settings.{name} was accepted but has no effect here"
            for name in settings
            if name not in ("kubernetes", "bootstrap-commands")
        ),
    )


def _taints(taints: Mapping[str, str | list[str]]) -> list[Taint]:
    result = []
    for key, entries in taints.items():
        for entry in [entries] if isinstance(entries, str) else entries:
            value, colon, effect = entry.rpartition(":")
            if not colon:
                raise bad(
                    f'settings.kubernetes.node-taints."{key}": {entry!r} is not "value:effect"'
                )
            result.append(Taint(key=key, value=value, effect=effect))
    return result


def _initialises_instance_store(settings: Mapping[str, Any]) -> bool:
    """Tell whether a bootstrap command makes one file system of the instance's own disks."""
    tables = settings.get("bootstrap-commands") or {}
    if not isinstance(tables, dict):
        raise bad("settings.bootstrap-commands must be a table")
    for name, table in tables.items():
        commands = table.get("commands") if isinstance(table, dict) else None
        if not isinstance(commands, list):
            raise bad(f"settings.bootstrap-commands.{name}.commands must be a list of commands")
        if any(command[:3] == _STORAGE_COMMAND for command in commands):
            return table.get("mode") not in (None, "off")
    return False
