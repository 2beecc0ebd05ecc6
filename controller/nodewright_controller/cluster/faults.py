"""What of an object cannot be read, and what follows from it.

The API server lets through what no decision can use: quantities in a status, selectors of volumes.
Decisions leave such a field out, or count it in the direction that harms nobody, and go on; here
stands what they left out, for a person to correct. Pods that wait are not judged: the solver says of
each what is wrong. Objects whose JSON has the wrong shape do not get this far (`api.codec`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.pod import Container, Pod, PodSpec, Quantities, ResourceRequirements
from nodewright_controller.api.volumes import CSINode, PersistentVolume
from nodewright_controller.api.workloads import DaemonSet, LimitRange
from nodewright_controller.cluster.pods import is_bound, is_terminal, pod_requests
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.kernel.resources import unreadable

_NO_QUANTITY: Final = "is no quantity such as 500m, 2 or 4Gi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A field that cannot be read."""

    kind: str
    key: str
    """`namespace/name`, or the name."""
    field: str
    """Path, such as `status.allocatable[cpu]`."""
    value: str
    problem: str
    """What is wrong with it, as the end of a sentence."""
    consequence: str
    """What is done instead, until it is corrected."""

    @property
    def text(self) -> str:
        """One sentence: object, field, value, what follows, and the way out."""
        return (
            f"{self.kind} {self.key}: {self.field}: {self.value} {self.problem}; "
            f"correct it, until then {self.consequence}"
        )


@dataclass(frozen=True, slots=True)
class _Found:
    field: str
    value: object
    problem: str
    consequence: str


def faults_of(found: KubeObject) -> tuple[Fault, ...]:
    """Return the fields of an object that decisions cannot read; almost always none."""
    return tuple(
        Fault(
            kind=found.KIND.kind,
            key=found.key,
            field=one.field,
            value=repr(one.value),
            problem=one.problem,
            consequence=one.consequence,
        )
        for one in _look(found)
    )


def _look(found: KubeObject) -> Iterable[_Found]:
    match found:
        case Node():
            return _node(found)
        case NodeClaim():
            return _claim(found)
        case Pod():
            return _pod(found)
        case DaemonSet():
            return _daemon_set(found)
        case LimitRange():
            return _limit_range(found)
        case PersistentVolume():
            return _volume(found)
        case CSINode():
            return _csi_node(found)
        case _:
            return ()


def _node(node: Node) -> Iterator[_Found]:
    closed, uncounted = "it takes no new pods", "that capacity counts as none"
    yield from _amounts(node.status.allocatable, "status.allocatable", closed)
    yield from _amounts(node.status.capacity, "status.capacity", uncounted)


def _claim(claim: NodeClaim) -> Iterator[_Found]:
    closed, uncounted = "it takes no new pods before it is initialized", "that counts as none"
    yield from _amounts(claim.status.allocatable, "status.allocatable", closed)
    yield from _amounts(claim.status.capacity, "status.capacity", uncounted)
    yield from _amounts(claim.spec.resources.requests, "spec.resources.requests", uncounted)


def _pod(pod: Pod) -> Iterator[_Found]:
    if not is_bound(pod) or is_terminal(pod) or _can_be_read(pod):
        return
    counted = "only what can be read counts on its node"
    yield from _pod_spec(pod.spec, "spec", counted)
    for name, listed in (
        ("containerStatuses", pod.status.container_statuses),
        ("initContainerStatuses", pod.status.init_container_statuses),
    ):
        for one in listed or ():
            path = f"status.{name}[{one.name}]"
            yield from _amounts(one.allocated_resources, f"{path}.allocatedResources", counted)
            if one.resources is not None:
                yield from _requirements(one.resources, f"{path}.resources", counted)


def _daemon_set(daemon_set: DaemonSet) -> Iterator[_Found]:
    spec = daemon_set.spec.template.spec
    if not _can_be_read(Pod(metadata=daemon_set.metadata, spec=spec)):
        yield from _pod_spec(
            spec, "spec.template.spec", "only what can be read counts on new nodes"
        )
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required if affinity else None
    for number, term in enumerate((required.node_selector_terms if required else None) or ()):
        for entry in term.match_expressions or ():
            problem = _rule_problem(entry.key, entry.operator, entry.values)
            if problem:
                path = f"spec.template.spec.affinity.nodeAffinity[{number}]"
                yield _Found(path, entry.operator, problem, "new nodes keep no room for its pods")


def _limit_range(limit_range: LimitRange) -> Iterator[_Found]:
    left_out = "the default is left out"
    for number, item in enumerate(limit_range.spec.limits or ()):
        path = f"spec.limits[{number}]"
        yield from _amounts(item.default, f"{path}.default", left_out)
        yield from _amounts(item.default_request, f"{path}.defaultRequest", left_out)


def _volume(volume: PersistentVolume) -> Iterator[_Found]:
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity else None
    for number, term in enumerate((required.node_selector_terms if required else None) or ()):
        for entry in term.match_expressions or ():
            problem = _rule_problem(entry.key, entry.operator, entry.values)
            if problem:
                path = f"spec.nodeAffinity.required.nodeSelectorTerms[{number}]"
                yield _Found(path, entry.operator, problem, "pods that use it get no node")


def _csi_node(csi_node: CSINode) -> Iterator[_Found]:
    for driver in csi_node.spec.drivers or ():
        count = driver.allocatable.count if driver.allocatable else None
        if count is not None and count < 0:
            path = f"spec.drivers[{driver.name}].allocatable.count"
            yield _Found(path, count, "is below 0", "the node takes no more of its volumes")


# Parts.


def _can_be_read(pod: Pod) -> bool:
    try:
        pod_requests(pod)
    except ValueError:
        return False
    return True


def _pod_spec(spec: PodSpec, path: str, consequence: str) -> Iterator[_Found]:
    listed: Mapping[str, list[Container] | None] = {
        "containers": spec.containers,
        "initContainers": spec.init_containers,
    }
    for name, containers in listed.items():
        for one in containers or ():
            where = f"{path}.{name}[{one.name}].resources"
            yield from _requirements(one.resources, where, consequence)
    yield from _amounts(spec.overhead, f"{path}.overhead", consequence)
    if spec.resources is not None:
        yield from _requirements(spec.resources, f"{path}.resources", consequence)


def _requirements(resources: ResourceRequirements, path: str, consequence: str) -> Iterator[_Found]:
    yield from _amounts(resources.requests, f"{path}.requests", consequence)
    yield from _amounts(resources.limits, f"{path}.limits", consequence)


def _amounts(quantities: Quantities | None, path: str, consequence: str) -> Iterator[_Found]:
    for name, text in unreadable(quantities):
        yield _Found(f"{path}[{name}]", text, _NO_QUANTITY, consequence)


def _rule_problem(key: str, operator: str, values: list[str] | None) -> str:
    try:
        Requirement.of(key, operator, values or ())
    except ValueError as error:
        return f"cannot be used: {error}"
    return ""
