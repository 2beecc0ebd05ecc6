"""Changes to a pod: its rules about nodes, what it asks for, and what it wants of other pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace
from typing_extensions import override

from nodewright_controller.api.pod import (
    Affinity,
    Container,
    LabelSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    Toleration,
)
from nodewright_controller.cluster.pods import pod_requests
from nodewright_controller.constraints.host_ports import HostPort
from nodewright_controller.kernel.resources import amount, format_amount
from nodewright_controller.scheduling.edits import PodEdit, short, stable

# The pod's own rules about nodes.


@dataclass(frozen=True, slots=True)
class DropRule(PodEdit):
    """The pod no longer asks for a label."""

    key: str

    @property
    def text(self) -> str:
        """The change."""
        return f"drop the pod's rule on {short(self.key)}"

    def pod(self, pod: Pod) -> Pod:
        """Return the pod without its rules on the label."""
        return _with_rules(pod, lambda entry: None if stable(entry.key) == self.key else entry)


@dataclass(frozen=True, slots=True)
class RenameLabel(PodEdit):
    """The pod asks for another label instead: the one that was probably meant."""

    old: str
    new: str
    setter: str
    """Who sets the label: `pool batch`, `every node`."""

    @property
    def text(self) -> str:
        """The change."""
        return f"use label {self.new}, which {self.setter} sets"

    def pod(self, pod: Pod) -> Pod:
        """Return the pod with the label renamed wherever it asks for it."""

        def renamed(entry: LabelSelectorRequirement) -> LabelSelectorRequirement:
            return replace(entry, key=self.new) if stable(entry.key) == self.old else entry

        return _with_rules(pod, renamed)


@dataclass(frozen=True, slots=True)
class ReplaceValue(PodEdit):
    """The pod asks for another value of a label: the one that was probably meant."""

    key: str
    old: str
    new: str

    @property
    def text(self) -> str:
        """The change."""
        return f"write {short(self.key)} {self.new} instead of {self.old}"

    def pod(self, pod: Pod) -> Pod:
        """Return the pod with the value replaced wherever it asks for it."""

        def corrected(entry: LabelSelectorRequirement) -> LabelSelectorRequirement:
            if stable(entry.key) != self.key or self.old not in (entry.values or ()):
                return entry
            values = [self.new if value == self.old else value for value in entry.values or ()]
            return replace(entry, values=values)

        return _with_rules(pod, corrected)


class _RuleChange(Protocol):
    def __call__(self, entry: LabelSelectorRequirement, /) -> LabelSelectorRequirement | None: ...


def _with_rules(pod: Pod, change: _RuleChange) -> Pod:
    """Return the pod with every required rule about nodes passed through `change`."""
    selector: dict[str, str] = {}
    for key, value in (pod.spec.node_selector or {}).items():
        found = change(LabelSelectorRequirement(key=key, operator="In", values=[value]))
        if found is not None:
            selector[found.key] = (found.values or [value])[0]
    spec = replace(pod.spec, node_selector=selector or None)
    affinity = spec.affinity
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    if affinity is not None and affinity.node_affinity is not None and required is not None:
        terms = [_term(term, change) for term in required.node_selector_terms or ()]
        # A term that asks for nothing any more is met by every node; as it stands it meets none.
        free = any(_is_empty(term) for term in terms)
        wanted = None if free else replace(required, node_selector_terms=terms)
        node_affinity = replace(affinity.node_affinity, required=wanted)
        spec = replace(spec, affinity=replace(affinity, node_affinity=node_affinity))
    return replace(pod, spec=spec)


def _term(term: NodeSelectorTerm, change: _RuleChange) -> NodeSelectorTerm:
    entries = [change(entry) for entry in term.match_expressions or ()]
    return replace(term, match_expressions=[e for e in entries if e is not None] or None)


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


# What else a pod asks for.


@dataclass(frozen=True, slots=True)
class Tolerate(PodEdit):
    """The pod tolerates a taint."""

    key: str
    value: str
    effect: str

    @property
    def text(self) -> str:
        """The change."""
        value = f"={self.value}" if self.value else ""
        return f"tolerate {self.key}{value}:{self.effect}"

    def pod(self, pod: Pod) -> Pod:
        """Return the pod with one more toleration."""
        operator = "Equal" if self.value else "Exists"
        toleration = Toleration(
            key=self.key, operator=operator, value=self.value, effect=self.effect
        )
        listed = [*(pod.spec.tolerations or ()), toleration]
        return replace(pod, spec=replace(pod.spec, tolerations=listed))


@dataclass(frozen=True, slots=True)
class AskLess(PodEdit):
    """The pod asks for less of a resource; its hungriest container gives it up."""

    resource: str
    most: int

    @property
    @override
    def subject(self) -> tuple[str, ...]:
        """What is changed."""
        return ("requests", self.resource)

    @property
    def text(self) -> str:
        """The change."""
        return f"ask for at most {format_amount(self.resource, self.most)} {self.resource}"

    def pod(self, pod: Pod) -> Pod:
        """Return the pod with requests that come to at most the amount."""
        excess = pod_requests(pod).get(self.resource, 0) - self.most
        containers = list(pod.spec.containers or ())
        if excess <= 0 or not containers:
            return pod
        asked = [_asked(container, self.resource) for container in containers]
        hungriest = max(range(len(asked)), key=lambda position: asked[position])
        left = asked[hungriest] - excess
        if left <= 0:
            return pod
        containers[hungriest] = _asking(containers[hungriest], self.resource, left)
        return replace(pod, spec=replace(pod.spec, containers=containers))


def _asked(container: Container, resource: str) -> int:
    resources = container.resources
    text = (resources.requests or {}).get(resource) or (resources.limits or {}).get(resource)
    return amount(resource, text) if text is not None else 0


def _asking(container: Container, resource: str, value: int) -> Container:
    text = format_amount(resource, value)
    requests = {**(container.resources.requests or {}), resource: text}
    limits = dict(container.resources.limits or {})
    if "/" in resource and resource in limits:
        limits[resource] = text  # an extended resource has one amount for both
    resources = replace(container.resources, requests=requests, limits=limits or None)
    return replace(container, resources=resources)


@dataclass(frozen=True, slots=True)
class SoftenSpread(PodEdit):
    """A spread becomes a wish."""

    key: str
    is_default: bool = False
    """Whether the pod has none of its own, and this one comes from the scheduler."""

    @property
    def text(self) -> str:
        """The change."""
        if self.is_default:
            return f"give the pod a spread over {short(self.key)} of its own, as ScheduleAnyway"
        return f"let the spread over {short(self.key)} be ScheduleAnyway"

    def pod(self, pod: Pod) -> Pod:
        """Return the pod with its constraints on the key turned into wishes."""
        constraints = [
            replace(constraint, when_unsatisfiable="ScheduleAnyway")
            if stable(constraint.topology_key) == self.key
            else constraint
            for constraint in pod.spec.topology_spread_constraints or ()
        ]
        return replace(pod, spec=replace(pod.spec, topology_spread_constraints=constraints))


@dataclass(frozen=True, slots=True)
class SoftenAffinity(PodEdit):
    """A required pod affinity, or anti-affinity, becomes a wish."""

    key: str
    anti: bool = False

    @property
    def text(self) -> str:
        """The change."""
        kind = "anti-affinity" if self.anti else "affinity"
        return f"let its pod {kind} by {short(self.key)} be preferred"

    def pod(self, pod: Pod) -> Pod:
        """Return the pod without the required terms on the key: the wish may go unmet."""
        affinity = pod.spec.affinity or Affinity()
        found = affinity.pod_anti_affinity if self.anti else affinity.pod_affinity
        if found is None:
            return pod
        kept = [term for term in found.required or () if stable(term.topology_key) != self.key]
        softened = replace(found, required=kept or None)
        affinity = (
            replace(affinity, pod_anti_affinity=softened)
            if self.anti
            else replace(affinity, pod_affinity=softened)
        )
        return replace(pod, spec=replace(pod.spec, affinity=affinity))


@dataclass(frozen=True, slots=True)
class FreePort(PodEdit):
    """The pod gives up a host port."""

    port: HostPort

    @property
    def text(self) -> str:
        """The change."""
        return f"give up host port {self.port}"

    def pod(self, pod: Pod) -> Pod:
        """Return the pod without the host port."""

        def without(containers: Sequence[Container] | None) -> list[Container] | None:
            if containers is None:
                return None
            return [
                replace(c, ports=[p for p in c.ports or () if p.host_port != self.port.port])
                for c in containers
            ]

        spec = replace(
            pod.spec,
            containers=without(pod.spec.containers),
            init_containers=without(pod.spec.init_containers),
        )
        return replace(pod, spec=spec)
