"""A pod's status as its kubelet reports it, from what its containers do. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nodewright_local.kubelets.node_object import KUBELET_ADDRESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Not running: about to start, backing off, or not startable."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A live process."""

    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process that ended."""

    exit_code: int
    """128 + signal number if a signal ended it."""
    reason: str
    started_at: datetime
    finished_at: datetime
    message: str = ""


ContainerState = Waiting | Running | Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerReport:
    """One container's part of the status."""

    name: str
    image: str
    container_id: str
    state: ContainerState
    last_state: Ended | None = None
    ready: bool = False
    started: bool = False
    restart_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One pod condition with the time of its last change."""

    type: str
    status: bool
    since: datetime
    reason: str = ""
    message: str = ""


def timestamp(moment: datetime) -> str:
    """Print a time as the API does, in whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def phase(reports: Sequence[ContainerReport], *, will_restart: bool) -> str:
    """Return the pod's phase; ``will_restart`` is false once no container starts again."""
    if any(isinstance(report.state, Running) for report in reports):
        return "Running"
    if all(isinstance(report.state, Ended) for report in reports) and not will_restart:
        codes = [report.state.exit_code for report in reports if isinstance(report.state, Ended)]
        return "Succeeded" if not any(codes) else "Failed"
    started = any(report.last_state or isinstance(report.state, Ended) for report in reports)
    return "Running" if started else "Pending"


def conditions(
    reports: Iterable[ContainerReport], before: Mapping[str, Condition], now: datetime
) -> dict[str, Condition]:
    """Return the kubelet's conditions; one whose status did not change keeps its time."""
    waiting = sorted(report.name for report in reports if not report.ready)
    unready = f"containers with unready status: [{' '.join(waiting)}]" if waiting else ""
    verdicts = {
        "PodReadyToStartContainers": (True, "", ""),
        "Initialized": (True, "", ""),
        "ContainersReady": (not waiting, "ContainersNotReady" if waiting else "", unready),
        "Ready": (not waiting, "ContainersNotReady" if waiting else "", unready),
    }
    result = {}
    for name, (status, reason, message) in verdicts.items():
        known = before.get(name)
        since = known.since if known and known.status == status else now
        result[name] = Condition(
            type=name, status=status, since=since, reason=reason, message=message
        )
    return result


def pod_status(
    reports: Sequence[ContainerReport],
    held: Mapping[str, Condition],
    *,
    pod_ip: str,
    start_time: datetime,
    will_restart: bool,
) -> dict[str, Any]:
    """Return the status to patch (strategic merge: conditions of others are kept)."""
    return {
        "phase": phase(reports, will_restart=will_restart),
        "hostIP": KUBELET_ADDRESS,
        "hostIPs": [{"ip": KUBELET_ADDRESS}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "startTime": timestamp(start_time),
        "conditions": [_condition(item) for item in held.values()],
        "containerStatuses": [_container(report) for report in reports],
    }


def _condition(condition: Condition) -> dict[str, Any]:
    return {
        "type": condition.type,
        "status": "True" if condition.status else "False",
        "lastTransitionTime": timestamp(condition.since),
        # null removes a reason that no longer holds
        "reason": condition.reason or None,
        "message": condition.message or None,
    }


def _container(report: ContainerReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "image": report.image,
        "imageID": f"local://{report.image}",
        "containerID": report.container_id,
        "ready": report.ready,
        "started": report.started,
        "restartCount": report.restart_count,
        "state": _state(report.state, report.container_id),
        "lastState": _state(report.last_state, report.container_id) if report.last_state else {},
    }


def _state(state: ContainerState, container_id: str) -> dict[str, Any]:
    match state:
        case Waiting():
            message = {"message": state.message} if state.message else {}
            return {"waiting": {"reason": state.reason, **message}}
        case Running():
            return {"running": {"startedAt": timestamp(state.started_at)}}
        case Ended():
            ended: dict[str, Any] = {
                "exitCode": state.exit_code,
                "reason": state.reason,
                "startedAt": timestamp(state.started_at),
                "finishedAt": timestamp(state.finished_at),
                "containerID": container_id,
            }
            if state.exit_code > 128:
                ended["signal"] = state.exit_code - 128
            if state.message:
                ended["message"] = state.message
            return {"terminated": ended}
