"""KubeletConfiguration v1beta1: which fields exist, and with which values a kubelet starts.

The field list states name and JSON type as documented in
https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/ (Kubernetes 1.36). A kubelet
decodes its configuration strictly, so a misspelt field keeps a node away; so it does here.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from nodewright_local.kubelets.quantity import parse_units
from nodewright_local.kubelets.userdata.bootstrap import Taint, bad_kubelet

_STRINGS = """
staticPodPath podLogsDir staticPodURL address tlsCertFile tlsPrivateKeyFile tlsMinVersion
imagePullCredentialsVerificationPolicy healthzBindAddress clusterDomain kubeletCgroups systemCgroups
cgroupRoot cgroupDriver cpuManagerPolicy memoryManagerPolicy topologyManagerPolicy
topologyManagerScope hairpinMode podCIDR resolvConf contentType containerLogMaxSize
configMapAndSecretChangeDetectionStrategy reservedSystemCPUs showHiddenMetricsForVersion
systemReservedCgroup kubeReservedCgroup volumePluginDir providerID memoryReservationPolicy
containerRuntimeEndpoint imageServiceEndpoint
"""
_DURATIONS = """
syncFrequency fileCheckFrequency httpCheckFrequency streamingConnectionIdleTimeout
nodeStatusUpdateFrequency nodeStatusReportFrequency imageMinimumGCAge imageMaximumGCAge
volumeStatsAggPeriod cpuManagerReconcilePeriod runtimeRequestTimeout cpuCFSQuotaPeriod
evictionPressureTransitionPeriod containerLogMonitorInterval shutdownGracePeriod
shutdownGracePeriodCriticalPods
"""
_INTEGERS = """
port readOnlyPort registryPullQPS registryBurst eventRecordQPS eventBurst healthzPort oomScoreAdj
nodeLeaseDurationSeconds imageGCHighThresholdPercent imageGCLowThresholdPercent maxPods podPidsLimit
nodeStatusMaxImages maxOpenFiles kubeAPIQPS kubeAPIBurst maxParallelImagePulls
evictionMaxPodGracePeriod podsPerCore iptablesMasqueradeBit iptablesDropBit containerLogMaxFiles
containerLogMaxWorkers
"""
_BOOLEANS = """
enableServer rotateCertificates serverTLSBootstrap enableDebuggingHandlers enableContentionProfiling
cgroupsPerQOS singleProcessOOMKill runOnce cpuCFSQuota serializeImagePulls
mergeDefaultEvictionSettings enableControllerAttachDetach protectKernelDefaults
makeIPTablesUtilChains failSwapOn kernelMemcgNotification enableSystemLogHandler
enableSystemLogQuery enableProfilingHandler enableDebugFlagsHandler seccompDefault registerNode
localStorageCapacityIsolation
"""
_LISTS = """
tlsCipherSuites tlsCurvePreferences preloadedImagesVerificationAllowlist clusterDNS
enforceNodeAllocatable allowedUnsafeSysctls shutdownGracePeriodByPodPriority reservedMemory
registerWithTaints
"""
_STRING_MAPS = """
cpuManagerPolicyOptions topologyManagerPolicyOptions qosReserved evictionHard evictionSoft
evictionSoftGracePeriod evictionMinimumReclaim systemReserved kubeReserved
"""
_OBJECTS = """
staticPodURLHeader authentication authorization featureGates memorySwap logging crashLoopBackOff
tracing userNamespaces
"""

_EVICTION_SIGNALS = frozenset(
    {
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "imagefs.available",
        "imagefs.inodesFree",
        "containerfs.available",
        "containerfs.inodesFree",
        "allocatableMemory.available",
        "pid.available",
    }
)
_RESERVABLE = frozenset({"cpu", "memory", "ephemeral-storage", "pid"})
_DURATION = re.compile(
    r"0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?)(ns|us|µs|ms|s|m|h))*"
)


def is_duration(text: str) -> bool:
    """Tell whether ``text`` is a non-negative Go duration such as ``1m30s``."""
    return _DURATION.fullmatch(text) is not None


def _is_string_map(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(item, str) for key, item in value.items()
    )


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_KINDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "a string": (_STRINGS, lambda value: isinstance(value, str)),
    "a duration": (_DURATIONS, lambda value: isinstance(value, str) and is_duration(value)),
    "an integer": (_INTEGERS, _is_integer),
    "true or false": (_BOOLEANS, lambda value: isinstance(value, bool)),
    "a list": (_LISTS, lambda value: isinstance(value, list)),
    "a map of strings": (_STRING_MAPS, _is_string_map),
    "a map": (_OBJECTS, lambda value: isinstance(value, dict)),
    "a number": ("memoryThrottlingFactor", lambda value: isinstance(value, int | float)),
}
_KIND_OF_FIELD: dict[str, tuple[str, Callable[[object], bool]]] = {
    name: (kind, accepts) for kind, (names, accepts) in _KINDS.items() for name in names.split()
}
KNOWN_FIELDS = frozenset(_KIND_OF_FIELD)


def check_configuration(configuration: Mapping[str, Any]) -> None:
    """Raise the error with which a kubelet refuses to start; return nothing if it would start."""
    for name, value in configuration.items():
        if name in ("apiVersion", "kind"):
            continue
        if name not in _KIND_OF_FIELD:
            raise bad_kubelet(f"kubelet configuration has no field {name!r}")
        kind, accepts = _KIND_OF_FIELD[name]
        if value is not None and not accepts(value):
            raise bad_kubelet(f"kubelet configuration field {name} must be {kind}, not {value!r}")
    _check_counts(configuration)
    for name in ("kubeReserved", "systemReserved"):
        check_reservation(name, configuration.get(name) or {})
    for name in ("evictionHard", "evictionSoft"):
        check_eviction(name, configuration.get(name) or {})
    _check_soft_eviction(configuration)


def _check_counts(configuration: Mapping[str, Any]) -> None:
    for name in ("maxPods", "podsPerCore", "evictionMaxPodGracePeriod"):
        if (configuration.get(name) or 0) < 0:
            raise bad_kubelet(f"kubelet configuration field {name} must not be negative")
    high = configuration.get("imageGCHighThresholdPercent")
    low = configuration.get("imageGCLowThresholdPercent")
    for name, percent in (("High", high), ("Low", low)):
        if percent is not None and not 0 <= percent <= 100:
            raise bad_kubelet(f"imageGC{name}ThresholdPercent must be between 0 and 100")
    # Defaults of the kubelet: 85 and 80.
    if (85 if high is None else high) <= (80 if low is None else low):
        raise bad_kubelet(
            "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent"
        )


def check_reservation(where: str, reserved: Mapping[str, str]) -> None:
    """Raise unless every key is reservable and every value a non-negative quantity."""
    for resource, text in reserved.items():
        if resource not in _RESERVABLE:
            raise bad_kubelet(
                f"{where}: {resource!r} cannot be reserved, only {_list(_RESERVABLE)}"
            )
        try:
            negative = parse_units(text) < 0 or text.startswith("-")
        except ValueError as error:
            raise bad_kubelet(f"{where}.{resource}: {error}") from error
        if negative:
            raise bad_kubelet(f"{where}.{resource} must not be negative, but is {text}")


def check_eviction(where: str, thresholds: Mapping[str, str]) -> None:
    """Raise unless every key is an eviction signal and every value a percentage or quantity."""
    for signal, text in thresholds.items():
        if signal not in _EVICTION_SIGNALS:
            raise bad_kubelet(f"{where}: unknown eviction signal {signal!r}")
        threshold_of(text, 0, f"{where}.{signal}")


def threshold_of(text: str, capacity: int, where: str) -> int:
    """Return an eviction threshold in units; a percentage is of ``capacity``, rounded down."""
    try:
        if text.endswith("%"):
            percent = float(text[:-1])
            if not 0 <= percent <= 100:
                raise bad_kubelet(f"{where} must be between 0% and 100%, but is {text}")
            return int(capacity * percent / 100)
        units = parse_units(text)
    except ValueError as error:
        raise bad_kubelet(f"{where}: {error}") from error
    if units < 0:
        raise bad_kubelet(f"{where} must not be negative, but is {text}")
    return units


def _check_soft_eviction(configuration: Mapping[str, Any]) -> None:
    soft = configuration.get("evictionSoft") or {}
    grace = configuration.get("evictionSoftGracePeriod") or {}
    for signal, text in grace.items():
        if not is_duration(text):
            raise bad_kubelet(f"evictionSoftGracePeriod.{signal} is not a duration: {text!r}")
    without = sorted(set(soft) - set(grace))
    if without:
        raise bad_kubelet(f"evictionSoft without evictionSoftGracePeriod for {', '.join(without)}")


def taints_of(configuration: Mapping[str, Any]) -> tuple[Taint, ...]:
    """Return ``registerWithTaints``; entries that are no taint objects are refused."""
    taints = []
    for item in configuration.get("registerWithTaints") or []:
        if not isinstance(item, dict) or set(item) - {"key", "value", "effect", "timeAdded"}:
            raise bad_kubelet(f"registerWithTaints holds {item!r}, which is not a taint")
        taints.append(
            Taint(
                key=str(item.get("key", "")),
                value=str(item.get("value") or ""),
                effect=str(item.get("effect", "")),
            )
        )
    return tuple(taints)


def count_cpus(cpu_set: str) -> int:
    """Count the CPUs of a list such as ``0-1,4``; raise if it is not such a list."""
    cpus: set[int] = set()
    for part in filter(None, cpu_set.split(",")):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise bad_kubelet(f"reservedSystemCPUs is not a list of CPUs: {cpu_set!r}")
        cpus.update(range(int(first), int(last or first) + 1))
    return len(cpus)


def _list(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
