"""`spec.kubelet` of a node class: the fields Karpenter manages, and whether the whole is valid.

The field has no schema in the CRD, so what is wrong with it shows up here, as a condition reason
and a sentence. Upstream: pkg/apis/v1 (kubelet), pkg/controllers/nodeclass/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nodewright_controller.aws.families import TRAITS, Family
from nodewright_controller.aws.kubelet_fields import KUBELET_FIELDS
from nodewright_controller.kernel.resources import parse_quantity
from nodewright_controller.kernel.timing import parse_duration

INVALID: Final = "InvalidKubeletConfiguration"
UNSUPPORTED: Final = "UnsupportedKubeletConfiguration"
EXPRESSIONS_DISABLED: Final = "KubeletExpressionsDisabled"

EVICTION_SIGNALS: Final = frozenset(
    {
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
        "pid.available",
    }
)
RESERVABLE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """The managed fields, typed; `raw` is the whole map as the user wrote it."""

    cluster_dns: tuple[str, ...] = ()
    max_pods: int | None = None
    pods_per_core: int | None = None
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=dict)
    eviction_soft: Mapping[str, str] = field(default_factory=dict)
    eviction_soft_grace_period: Mapping[str, str] = field(default_factory=dict)
    eviction_max_pod_grace_period: int | None = None
    image_gc_high_threshold_percent: int | None = None
    image_gc_low_threshold_percent: int | None = None
    cpu_cfs_quota: bool | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)


_WORDS: Final = {
    "clusterDNS": "cluster_dns",
    "maxPods": "max_pods",
    "podsPerCore": "pods_per_core",
    "systemReserved": "system_reserved",
    "kubeReserved": "kube_reserved",
    "evictionHard": "eviction_hard",
    "evictionSoft": "eviction_soft",
    "evictionSoftGracePeriod": "eviction_soft_grace_period",
    "evictionMaxPodGracePeriod": "eviction_max_pod_grace_period",
    "imageGCHighThresholdPercent": "image_gc_high_threshold_percent",
    "imageGCLowThresholdPercent": "image_gc_low_threshold_percent",
    "cpuCFSQuota": "cpu_cfs_quota",
}
MANAGED: Final = frozenset(_WORDS)
_MAPS: Final = ("systemReserved", "kubeReserved", "evictionHard", "evictionSoft")
_GRACES: Final = ("evictionSoftGracePeriod",)
_PERCENTS: Final = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent")
_COUNTS: Final = ("maxPods", "podsPerCore", "evictionMaxPodGracePeriod")


def parse_kubelet(raw: Mapping[str, Any] | None) -> Kubelet:
    """Return the managed fields of a kubelet map that `problem_with` found nothing wrong with."""
    known = {_WORDS[key]: value for key, value in (raw or {}).items() if key in _WORDS}
    known["cluster_dns"] = tuple(known.get("cluster_dns") or ())
    for key in (*_MAPS, *_GRACES):
        known[_WORDS[key]] = {k: str(v) for k, v in (known.get(_WORDS[key]) or {}).items()}
    return Kubelet(**known, raw=dict(raw or {}))


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a node class: a condition reason and a sentence."""

    reason: str
    message: str


def problem_with(raw: Mapping[str, Any] | None, family: Family) -> Problem | None:
    """Return the first thing wrong with a kubelet map for nodes of `family`, or None."""
    for check in _CHECKS:
        found = check(raw or {}, family)
        if found is not None:
            return found
    return None


def _invalid(message: str) -> Problem:
    return Problem(INVALID, f"spec.kubelet: {message}")


def _owned(raw: Mapping[str, Any], family: Family) -> Problem | None:
    if "registerWithTaints" in raw:
        return _invalid("registerWithTaints is set by the NodePool's taints; remove it")
    return None


def _known(raw: Mapping[str, Any], family: Family) -> Problem | None:
    unknown = sorted(set(raw) - KUBELET_FIELDS)
    if unknown:
        return _invalid(f"{', '.join(unknown)} is no field of KubeletConfiguration (v1beta1)")
    return None


def _types(raw: Mapping[str, Any], family: Family) -> Problem | None:
    for key in _COUNTS + _PERCENTS:
        value = raw.get(key)
        if value is None:
            continue
        if isinstance(value, str) and key == "maxPods":
            message = f"maxPods is the expression {value!r}; the gate NodeClassCEL is off"
            return Problem(EXPRESSIONS_DISABLED, f"spec.kubelet: {message}")
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            return _invalid(f"{key} must be a non-negative integer, got {value!r}")
    for key in (*_MAPS, *_GRACES, "evictionMinimumReclaim"):
        value = raw.get(key)
        if value is not None and not isinstance(value, Mapping):
            return _invalid(f"{key} must be a map, got {value!r}")
    if not isinstance(raw.get("clusterDNS") or [], list):
        return _invalid(f"clusterDNS must be a list, got {raw['clusterDNS']!r}")
    if not isinstance(raw.get("cpuCFSQuota", True), bool):
        return _invalid(f"cpuCFSQuota must be true or false, got {raw['cpuCFSQuota']!r}")
    return None


def _percentages(raw: Mapping[str, Any], family: Family) -> Problem | None:
    for key in _PERCENTS:
        if raw.get(key, 0) > 100:
            return _invalid(f"{key} must be 0 to 100, got {raw[key]}")
    high, low = (raw.get(key) for key in _PERCENTS)
    if high is not None and low is not None and high <= low:
        return _invalid(f"imageGCHighThresholdPercent {high} must exceed the low threshold {low}")
    return None


def _reserved(raw: Mapping[str, Any], family: Family) -> Problem | None:
    for key in ("systemReserved", "kubeReserved"):
        for resource, text in (raw.get(key) or {}).items():
            if resource not in RESERVABLE:
                known = ", ".join(sorted(RESERVABLE))
                return _invalid(f"{key} has {resource!r}; it may have {known}")
            if str(text).startswith("-"):
                return _invalid(f"{key}.{resource} must not be negative, got {text!r}")
            if _fails(parse_quantity, str(text)):
                message = f"{key}.{resource} {text!r} is no quantity; expressions are off"
                return Problem(EXPRESSIONS_DISABLED, f"spec.kubelet: {message} (NodeClassCEL)")
    return None


def _evictions(raw: Mapping[str, Any], family: Family) -> Problem | None:
    for key in ("evictionHard", "evictionSoft", "evictionMinimumReclaim"):
        for signal, text in (raw.get(key) or {}).items():
            if signal not in EVICTION_SIGNALS:
                known = ", ".join(sorted(EVICTION_SIGNALS))
                return _invalid(f"{key} has {signal!r}; it may have {known}")
            if not _is_threshold(str(text)):
                return _invalid(f"{key}.{signal} must be a quantity or 0% to 100%, got {text!r}")
    soft, graces = raw.get("evictionSoft") or {}, raw.get("evictionSoftGracePeriod") or {}
    if set(soft) != set(graces):
        missing = ", ".join(sorted(set(soft) ^ set(graces)))
        return _invalid(
            f"evictionSoft and evictionSoftGracePeriod must have the same keys: {missing}"
        )
    for signal, text in graces.items():
        if str(text).startswith("-") or _fails(parse_duration, str(text)):
            return _invalid(f"evictionSoftGracePeriod.{signal} must be a duration, got {text!r}")
    return None


def _by_family(raw: Mapping[str, Any], family: Family) -> Problem | None:
    if TRAITS[family].any_kubelet_field:
        return None
    unmanaged = sorted(set(raw) - MANAGED)
    if unmanaged:
        message = f"{', '.join(unmanaged)} can be set on AL2023 only, not on {family}"
        return Problem(UNSUPPORTED, f"spec.kubelet: {message}")
    if family is Family.BOTTLEROCKET and raw.get("podsPerCore") is not None:
        return Problem(UNSUPPORTED, "spec.kubelet: Bottlerocket has no podsPerCore")
    if len(raw.get("clusterDNS") or ()) > 1:
        return Problem(UNSUPPORTED, f"spec.kubelet: {family} takes one clusterDNS address only")
    return None


_CHECKS: Final = (_owned, _known, _types, _percentages, _reserved, _evictions, _by_family)


def _fails(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return True
    return False


def _is_threshold(text: str) -> bool:
    if text.endswith("%"):
        number = text.removesuffix("%")
        return not _fails(float, number) and 0 <= float(number) <= 100
    return not text.startswith("-") and not _fails(parse_quantity, text)
