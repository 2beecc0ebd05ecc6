"""Settings of Karpenter's that ask for something that is not there yet: said at start, not kept quiet.

Each is named with its value, what it asks for in vain, and the way out. One that is left at its
default, or asks for what happens anyway, is not mentioned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import structlog

from nodewright_controller.settings import Settings

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmet:
    """A setting without the effect that it asks for."""

    setting: str
    value: str
    missing: str
    """What does not happen."""
    way_out: str


_LEAVE_OUT: Final = "leave the setting out"
_GATES: Final = {
    "NodeRepair": ("unhealthy nodes are not replaced", "delete such nodes; their pods move"),
    "SpotToSpotConsolidation": (
        "nodes are not replaced by cheaper ones, Spot or not; only empty ones go",
        "leave the gate off",
    ),
    "StaticCapacity": (
        "a NodePool with `replicas` makes no nodes",
        "leave `replicas` out, and let pods ask for the nodes",
    ),
    "CapacityBuffer": (
        "no room is kept ready for CapacityBuffers",
        "run placeholder pods of low priority",
    ),
    "TerminateFirstDrift": ("drifted nodes are not replaced", "leave the gate off"),
    "TerminateFirstRepair": ("unhealthy nodes are not replaced", "leave the gate off"),
    "PodDeletionCostManagement": (
        "pods get no deletion costs",
        "annotate them with controller.kubernetes.io/pod-deletion-cost",
    ),
}
_NO_DEVICES: Final = "pods with resource claims get no nodes (P110), so their devices are not told"
_AWS_GATES: Final = {
    "NodeClassCEL": (
        "expressions in an EC2NodeClass's kubelet settings are not worked out",
        "write plain values",
    ),
    "DRANVIDIAGPU": (_NO_DEVICES, "ask for nvidia.com/gpu as a resource"),
    "DRAEFA": (_NO_DEVICES, "ask for vpc.amazonaws.com/efa as a resource"),
    "RebootForRepair": ("unhealthy nodes are not rebooted", "reboot or delete such nodes"),
}


def unmet(settings: Settings) -> tuple[Unmet, ...]:
    """Return what of the settings asks for an effect in vain."""
    return (*_gates(settings), *_switches(settings), *_values(settings))


def tell_unmet(settings: Settings) -> None:
    """Write a warning for each of them."""
    for found in unmet(settings):
        log.warning(
            "setting has no effect yet",
            setting=found.setting,
            value=found.value,
            missing=found.missing,
            help=found.way_out,
        )


def _gates(settings: Settings) -> Iterator[Unmet]:
    asked = (
        ("FEATURE_GATES", settings.feature_gates, _GATES),
        ("AWS_FEATURE_GATES", settings.aws_feature_gates, _AWS_GATES),
    )
    for setting, gates, without_effect in asked:
        for gate, (missing, way_out) in without_effect.items():
            if gates[gate]:
                value = f"{gate}=true"
                yield Unmet(setting=setting, value=value, missing=missing, way_out=way_out)


def _switches(settings: Settings) -> Iterator[Unmet]:
    rows = (
        (
            not settings.ignore_dra_requests,
            "IGNORE_DRA_REQUESTS",
            "pods with resource claims still get no nodes; each is told so, with code P110",
            "ask for devices as resources, such as nvidia.com/gpu",
        ),
        (
            settings.enable_zonal_shift,
            "ENABLE_ZONAL_SHIFT",
            "zones that ARC has shifted away from still get nodes",
            "take the zone out of the NodePools' requirements while it is away",
        ),
        (
            settings.legacy_node_repair,
            "LEGACY_NODE_REPAIR",
            "unhealthy nodes are not replaced",
            "delete such nodes; their pods move",
        ),
        (
            settings.enable_profiling,
            "ENABLE_PROFILING",
            "no profiles are served",
            "attach a sampling profiler to the process",
        ),
        (
            settings.disable_cluster_state_observability,
            "DISABLE_CLUSTER_STATE_OBSERVABILITY",
            "metrics and events about the cluster's state go on",
            "drop those metrics where they are scraped",
        ),
    )
    for asked, setting, missing, way_out in rows:
        if asked:
            value = "false" if setting == "IGNORE_DRA_REQUESTS" else "true"
            yield Unmet(setting=setting, value=value, missing=missing, way_out=way_out)


def _values(settings: Settings) -> Iterator[Unmet]:
    pace = "the API server is asked without a limit of our own; its own priority and fairness holds"
    place = "logs go to standard output"
    rows = (
        ("KUBE_CLIENT_QPS", settings.kube_client_qps, ("", "200"), pace),
        ("KUBE_CLIENT_BURST", settings.kube_client_burst, ("", "300"), pace),
        ("LOG_OUTPUT_PATHS", settings.log_output_paths, ("", "stdout"), place),
        ("LOG_ERROR_OUTPUT_PATHS", settings.log_error_output_paths, ("", "stderr"), place),
    )
    for setting, value, usual, missing in rows:
        if value not in usual:
            yield Unmet(setting=setting, value=value, missing=missing, way_out=_LEAVE_OUT)
