"""Pods become classes: each is read, its volumes are resolved, and equal ones are found.

A pod that cannot be read, or that nothing here can place, is set aside with its reason and never
stops the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.volumes import (
    NO_VOLUMES,
    PodVolumes,
    VolumeProblem,
    VolumeProblemKind,
)
from nodewright_controller.constraints.host_ports import HostPort
from nodewright_controller.scheduling.classes import PodClass, QueuedPod, Size
from nodewright_controller.scheduling.decision import Refusal
from nodewright_controller.scheduling.guard import Bar
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.rules import RuleBook
from nodewright_controller.scheduling.shapes import Shape, ShapeCompiler

_UNUSABLE: Final[Mapping[VolumeProblemKind, str]] = {
    VolumeProblemKind.CLAIM_DELETING: "is being deleted",
    VolumeProblemKind.CLAIM_LOST: "has lost its volume",
    VolumeProblemKind.VOLUME_NOT_FOUND: "names volume {detail}, which does not exist",
    VolumeProblemKind.NOT_BOUND_YET: "is not bound to volume {detail} yet",
    VolumeProblemKind.NO_STORAGE_CLASS: "is unbound and has no storage class",
    VolumeProblemKind.STORAGE_CLASS_NOT_FOUND: "names storage class {detail}, which does not exist",
}


class PodReader:
    """Reads the pods of one round."""

    def __init__(self, problem: Problem, book: RuleBook, compiler: ShapeCompiler) -> None:
        self._problem = problem
        self._book = book
        self._compiler = compiler
        self.rejected: dict[str, Refusal] = {}
        """Pod key to why it is not planned for."""
        self.sizes: dict[bytes, Size] = {}
        self.shapes: dict[bytes, Shape] = {}
        self.classes: dict[tuple[int, int, tuple[Bar, ...]], PodClass] = {}

    def read(self, pods: Iterable[Pod]) -> list[QueuedPod]:
        """Return those of the pods that can be planned for; the others are `rejected`."""
        queue = []
        for pod in pods:
            try:
                pod_class = self._class_of(pod)
            except ValueError as error:
                self.rejected[pod.key] = Refusal(
                    reason=Reason.INVALID, parameters={"detail": str(error)}
                )
                continue
            if isinstance(pod_class, Refusal):
                self.rejected[pod.key] = pod_class
            else:
                queue.append(QueuedPod(pod, pod_class))
        return queue

    def _class_of(self, pod: Pod) -> PodClass | Refusal:
        size_key, requests, ports = self._book.needs(pod)
        size = self.sizes.get(size_key)
        if size is None:
            size = self.sizes[size_key] = Size(requests)
        held = _not_planned(pod)
        if held is not None:
            return held
        volumes = self._problem.volumes.resolve(pod) if pod.spec.volumes else NO_VOLUMES
        if isinstance(volumes, VolumeProblem):
            return _volume_refusal(volumes)
        shape = self._shape(pod, ports, volumes)
        if shape.refuses_pools:
            return Refusal(reason=Reason.NO_POOL_WANTED)
        bars = self._problem.barred.get(pod.key, ()) if self._problem.barred else ()
        identity = (shape.number, id(size), bars)
        found = self.classes.get(identity)
        if found is None:
            found = self.classes[identity] = PodClass(shape, size, bars)
        return found

    def _shape(self, pod: Pod, ports: tuple[HostPort, ...], volumes: PodVolumes) -> Shape:
        key, rules = self._book.rules(pod)
        if ports or volumes is not NO_VOLUMES:
            key += repr((ports, volumes.alternatives, sorted(volumes.attached.items()))).encode()
        shape = self.shapes.get(key)
        if shape is None:
            shape = self._compiler.compile(
                pod.metadata.namespace, pod.labels, rules, ports, volumes
            )
            self.shapes[key] = shape
        return shape

    def number_resources(self) -> tuple[str, ...]:
        """Return the names of all resources that are asked for; sizes refer to them by position."""
        names = sorted({n for size in self.sizes.values() for n, v in size.requests.items() if v})
        number = {name: position for position, name in enumerate(names)}
        for size in self.sizes.values():
            size.vector = tuple(
                sorted((number[name], amount) for name, amount in size.requests.items() if amount)
            )
        return tuple(names)


def _not_planned(pod: Pod) -> Refusal | None:
    """Return the refusal of a pod that nothing here can place, whatever nodes there are."""
    spec = pod.spec
    if spec.scheduling_gates:
        gates = ", ".join(sorted(gate.name for gate in spec.scheduling_gates))
        return Refusal(reason=Reason.GATED, parameters={"gate": gates})
    if spec.resource_claims:
        claims = ", ".join(sorted(claim.name for claim in spec.resource_claims))
        return Refusal(reason=Reason.RESOURCE_CLAIMS, parameters={"claims": claims})
    affinity = spec.affinity.node_affinity if spec.affinity else None
    terms = (
        affinity.required.node_selector_terms if affinity and affinity.required else None
    ) or ()
    fields = sorted({entry.key for term in terms for entry in term.match_fields or ()})
    if terms and all(term.match_fields for term in terms):
        return Refusal(reason=Reason.BY_FIELD, parameters={"field": fields[0]})
    return None


def _volume_refusal(problem: VolumeProblem) -> Refusal:
    parameters: Mapping[str, str] = {"claim": problem.claim, "detail": problem.detail}
    if problem.kind is VolumeProblemKind.CLAIM_NOT_FOUND:
        return Refusal(reason=Reason.CLAIM_NOT_FOUND, parameters=parameters)
    if problem.kind is VolumeProblemKind.UNBOUND_IMMEDIATE:
        return Refusal(reason=Reason.CLAIM_IMMEDIATE, parameters=parameters)
    detail = _UNUSABLE[problem.kind].format(detail=problem.detail)
    return Refusal(
        reason=Reason.CLAIM_UNUSABLE, parameters={"claim": problem.claim, "detail": detail}
    )
