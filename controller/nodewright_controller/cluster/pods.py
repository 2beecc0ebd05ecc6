"""What a pod is to us: waiting, movable, evictable; and what it takes from a node.

Upstream: pkg/utils/pod/scheduling.go and Kubernetes' PodRequests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from nodewright_controller.api.labels import DISRUPTED_TAINT, DO_NOT_DISRUPT
from nodewright_controller.api.meta import condition
from nodewright_controller.api.node import Taint
from nodewright_controller.api.pod import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Quantities,
    ResourceRequirements,
)
from nodewright_controller.constraints.taints import NO_SCHEDULE, tolerates_taint
from nodewright_controller.kernel.resources import (
    CPU,
    EMPTY,
    MEMORY,
    PODS,
    Resources,
    amount,
    total,
    unreadable,
)
from nodewright_controller.kernel.timing import parse_duration

DISRUPTED: Final = Taint(key=DISRUPTED_TAINT, effect=NO_SCHEDULE)

_STUCK_AFTER: Final = timedelta(minutes=1)
_ONE_POD: Final = Resources({PODS: 1})


def is_terminal(pod: Pod) -> bool:
    """Whether the pod has run to its end."""
    return pod.status.phase in ("Failed", "Succeeded")


def is_active(pod: Pod) -> bool:
    """Whether the pod is neither finished nor being deleted."""
    return not is_terminal(pod) and not pod.deleting


def _is_owned_by(pod: Pod, kind: str, group: str) -> bool:
    return any(o.kind == kind and o.api_version.startswith(group) for o in pod.owners)


def is_owned_by_daemon_set(pod: Pod) -> bool:
    """Whether a DaemonSet made the pod."""
    return _is_owned_by(pod, "DaemonSet", "apps/")


def is_mirror(pod: Pod) -> bool:
    """Whether the pod is the image of a static pod: its node owns it."""
    return _is_owned_by(pod, "Node", "v1")


def is_bound(pod: Pod) -> bool:
    """Whether the pod has a node."""
    return bool(pod.spec.node_name)


def is_provisionable(pod: Pod) -> bool:
    """Whether a new node may help: kube-scheduler found no place, and nobody promised one."""
    if is_bound(pod) or pod.status.nominated_node_name or not is_active(pod):
        return False
    if is_owned_by_daemon_set(pod) or is_mirror(pod):
        return False
    scheduled = condition(pod.status.conditions, "PodScheduled")
    return scheduled is not None and scheduled.reason == "Unschedulable"


def is_reschedulable(pod: Pod) -> bool:
    """Whether the pod needs a place elsewhere when its node goes.

    A StatefulSet's pod that is being deleted counts: its successor has the same name and volumes.
    """
    if is_owned_by_daemon_set(pod) or is_mirror(pod) or is_terminal(pod):
        return False
    return not pod.deleting or _is_owned_by(pod, "StatefulSet", "apps/")


def tolerates_disruption(pod: Pod) -> bool:
    """Whether the pod tolerates the taint of a node that is going, so it need not leave."""
    return any(tolerates_taint(toleration, DISRUPTED) for toleration in pod.spec.tolerations or ())


def is_stuck_terminating(pod: Pod, now: datetime) -> bool:
    """Whether the pod should have been gone for more than a minute."""
    asked = pod.metadata.deletion_timestamp
    return asked is not None and now > asked + _STUCK_AFTER


def is_drainable(pod: Pod, now: datetime) -> bool:
    """Whether a drain waits for the pod."""
    if is_terminal(pod) or is_mirror(pod) or tolerates_disruption(pod):
        return False
    return not is_stuck_terminating(pod, now)


def is_evictable(pod: Pod, now: datetime) -> bool:
    """Whether a drain may ask for the pod's eviction."""
    if not is_active(pod) or is_mirror(pod) or tolerates_disruption(pod):
        return False
    return not has_do_not_disrupt(pod, now)


def has_do_not_disrupt(pod: Pod, now: datetime) -> bool:
    """Whether the pod's annotation protects it now: `true`, or a duration since its start.

    A value that is neither protects nothing; a pod with an unknown start is protected.
    """
    value = pod.annotations.get(DO_NOT_DISRUPT)
    if value is None:
        return False
    if value == "true":
        return True
    try:
        span = parse_duration(value)
    except ValueError:
        return False
    if span <= timedelta():
        return False
    return pod.status.start_time is None or now < pod.status.start_time + span


def pod_requests(pod: Pod) -> Resources:
    """Return what kube-scheduler reserves for the pod, and one of `pods`.

    Raises:
        ValueError: a quantity is malformed; the message names the pod and the resource.

    """
    try:
        return _requests(pod)
    except ValueError as error:
        raise ValueError(f"pod {pod.key}: {error}") from error


def held_by(pod: Pod) -> Resources:
    """Return what a pod on a node takes, as far as it can be read: `pod_requests` that never fails.

    The pod runs whatever we think of its quantities, so what can be read of them counts.
    """
    try:
        return _requests(pod)
    except ValueError:
        return _requests(without_unreadable(pod))


def without_unreadable(pod: Pod) -> Pod:
    """Return the pod without the quantities that cannot be read; itself if all can."""
    try:
        _requests(pod)
    except ValueError:
        return replace(pod, spec=_readable_spec(pod.spec), status=_readable_status(pod.status))
    return pod


def _readable_spec(spec: PodSpec) -> PodSpec:
    resources = spec.resources
    return replace(
        spec,
        containers=_readable_containers(spec.containers),
        init_containers=_readable_containers(spec.init_containers),
        overhead=_readable(spec.overhead),
        resources=_readable_requirements(resources) if resources is not None else None,
    )


def _readable_status(status: PodStatus) -> PodStatus:
    def read(listed: list[ContainerStatus] | None) -> list[ContainerStatus]:
        return [
            replace(
                one,
                allocated_resources=_readable(one.allocated_resources),
                resources=_readable_requirements(one.resources) if one.resources else None,
            )
            for one in listed or ()
        ]

    return replace(
        status,
        container_statuses=read(status.container_statuses),
        init_container_statuses=read(status.init_container_statuses),
    )


def _readable_containers(containers: list[Container] | None) -> list[Container]:
    return [
        replace(one, resources=_readable_requirements(one.resources)) for one in containers or ()
    ]


def _readable_requirements(resources: ResourceRequirements) -> ResourceRequirements:
    requests, limits = _readable(resources.requests), _readable(resources.limits)
    return ResourceRequirements(requests=requests, limits=limits)


def _readable(quantities: Quantities | None) -> Quantities:
    unread = {name for name, _ in unreadable(quantities)}
    return {name: text for name, text in (quantities or {}).items() if name not in unread}


def _requests(pod: Pod) -> Resources:
    spec = pod.spec
    containers = spec.containers or []
    if len(containers) == 1 and _is_plain(pod, containers[0]):
        needed = containers[0].resources.requests
        return Resources([(PODS, 1), *((n, amount(n, q)) for n, q in (needed or {}).items())])
    allocated = _statuses(pod)
    infeasible = _resize_is_infeasible(pod)
    running = total(
        _container(container, allocated.get(container.name), infeasible) for container in containers
    )
    sidecars, start_up = EMPTY, EMPTY
    for container in spec.init_containers or ():
        asked = _container(container, allocated.get(container.name), infeasible)
        if container.restart_policy == "Always":
            sidecars = sidecars + asked
            start_up = start_up.maximum(sidecars)
        else:
            start_up = start_up.maximum(sidecars + asked)
    summed = (running + sidecars).maximum(start_up)
    if spec.resources is not None:
        summed = _with_pod_level(summed, spec.resources)
    return summed + Resources.parse(spec.overhead) + _ONE_POD


def _is_plain(pod: Pod, container: Container) -> bool:
    """Whether one container's requests are all there is; true of almost every pending pod."""
    spec, status = pod.spec, pod.status
    if spec.init_containers or spec.overhead or spec.resources or status.container_statuses:
        return False
    return not container.resources.limits and PODS not in (container.resources.requests or ())


def _container(container: Container, status: ContainerStatus | None, infeasible: bool) -> Resources:
    asked = requests_of(container.resources)
    if status is None:
        return asked
    granted = Resources.parse(status.allocated_resources)
    if status.resources is not None:
        granted = granted.maximum(Resources.parse(status.resources.requests))
    if infeasible and granted:
        return granted
    return asked.maximum(granted)


def requests_of(resources: ResourceRequirements) -> Resources:
    """Return the requests of one container; a limit stands in where a request is missing."""
    merged: Quantities = {**(resources.limits or {}), **(resources.requests or {})}
    return Resources.parse(merged)


def _statuses(pod: Pod) -> Mapping[str, ContainerStatus]:
    listed: list[ContainerStatus] = [
        *(pod.status.container_statuses or ()),
        *(pod.status.init_container_statuses or ()),
    ]
    return {status.name: status for status in listed}


def _resize_is_infeasible(pod: Pod) -> bool:
    pending = condition(pod.status.conditions, "PodResizePending")
    return pending is not None and pending.reason == "Infeasible"


def _with_pod_level(summed: Resources, resources: ResourceRequirements) -> Resources:
    """Replace what the containers add up to by what the pod asks for as a whole."""
    asked = Resources.parse(resources.requests)
    limits = Resources.parse(resources.limits)
    levels = dict(summed)
    for name in {*asked, *limits}:
        if name in (CPU, MEMORY) or name.startswith("hugepages-"):
            levels[name] = asked.get(name, summed.get(name, limits.get(name, 0)))
    return Resources(levels)


def with_defaulted_requests(
    containers: Sequence[Container] | None, defaults: Iterable[tuple[str, str | int | float]] = ()
) -> list[Container]:
    """Return containers whose missing requests are filled from their limits, then `defaults`."""
    filled = []
    for container in containers or ():
        requests: Quantities = {
            **dict(defaults),
            **(container.resources.limits or {}),
            **(container.resources.requests or {}),
        }
        limits = container.resources.limits
        resources = ResourceRequirements(requests=requests or None, limits=limits)
        filled.append(
            Container(
                name=container.name,
                resources=resources,
                ports=container.ports,
                restart_policy=container.restart_policy,
            )
        )
    return filled
