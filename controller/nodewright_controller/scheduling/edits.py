"""Small changes to a pod or a NodePool that might give a pod its place.

An edit is a value that can be printed and applied to a copy of the objects. Whether it helps is
decided by solving the edited problem (`scheduling.fixes`); nothing here changes what runs. No edit
weakens a disruption budget or takes an annotation away that protects a pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Final, Protocol

from msgspec.structs import replace
from typing_extensions import override

from nodewright_controller.api.labels import NORMALIZED, WELL_KNOWN
from nodewright_controller.api.nodepool import NodePool, NodeSelectorRequirementWithMinValues
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
from nodewright_controller.kernel.resources import MEMORY, amount, format_amount, human_amount
from nodewright_controller.scheduling.problem import PoolOffer

NODES: Final = "nodes"
"""The limit that counts nodes rather than a resource."""


class Edit(Protocol):
    """A change that a person could make."""

    @property
    def text(self) -> str:
        """The change as an imperative without its subject's owner, for the end of a line."""

    def pod(self, pod: Pod) -> Pod:
        """Return the pod with the change; the same object where it changes nothing."""

    def offer(self, offer: PoolOffer) -> PoolOffer:
        """Return the pool with the change; the same object where it changes nothing."""

    @property
    def subject(self) -> tuple[str, ...]:
        """What is changed; edits of one subject differ in how far they go."""


class _PodEdit:
    """An edit that leaves every pool alone."""

    __slots__ = ()

    @property
    def subject(self) -> tuple[str, ...]:
        """What is changed: by default, no other edit is about the same."""
        return (repr(self),)

    def offer(self, offer: PoolOffer) -> PoolOffer:
        """Return the pool as it is."""
        return offer


class _PoolEdit:
    """An edit that leaves the pod alone."""

    __slots__ = ()
    node_pool: str

    @property
    def subject(self) -> tuple[str, ...]:
        """What is changed: by default, no other edit is about the same."""
        return (repr(self),)

    def pod(self, pod: Pod) -> Pod:
        """Return the pod as it is."""
        return pod

    def offer(self, offer: PoolOffer) -> PoolOffer:
        """Return the pool with the change, if it is the one that is meant."""
        if offer.node_pool.name != self.node_pool:
            return offer
        return changed(offer, node_pool=self.edited(offer.node_pool))

    def edited(self, node_pool: NodePool) -> NodePool:
        """Return the NodePool with the change."""
        raise NotImplementedError


def short(key: str) -> str:
    """Return a label as people say it: `zone` for the well-known one, others in full."""
    return key.rpartition("/")[2] if key in WELL_KNOWN else key


# The pod's own rules about nodes.


@dataclass(frozen=True, slots=True)
class DropRule(_PodEdit):
    """The pod no longer asks for a label."""

    key: str

    @property
    def text(self) -> str:
        """The change."""
        return f"drop the pod's rule on {short(self.key)}"

    def pod(self, pod: Pod) -> Pod:
        """Return the pod without its rules on the label."""
        return _with_rules(pod, lambda entry: None if _key(entry.key) == self.key else entry)


@dataclass(frozen=True, slots=True)
class RenameLabel(_PodEdit):
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
            return replace(entry, key=self.new) if _key(entry.key) == self.old else entry

        return _with_rules(pod, renamed)


@dataclass(frozen=True, slots=True)
class ReplaceValue(_PodEdit):
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
            if _key(entry.key) != self.key or self.old not in (entry.values or ()):
                return entry
            values = [self.new if value == self.old else value for value in entry.values or ()]
            return replace(entry, values=values)

        return _with_rules(pod, corrected)


class _RuleChange(Protocol):
    def __call__(self, entry: LabelSelectorRequirement, /) -> LabelSelectorRequirement | None: ...


def _key(key: str) -> str:
    return NORMALIZED.get(key, key)


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
class Tolerate(_PodEdit):
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
class AskLess(_PodEdit):
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


def _named(resource: str, value: int) -> str:
    """Return `2 cpu`, `4 GiB`, `1 nvidia.com/gpu`."""
    if resource == NODES and value == 1:
        return "1 node"
    name = "" if resource == MEMORY else f" {resource}"
    return f"{human_amount(resource, value)}{name}"


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
class SoftenSpread(_PodEdit):
    """A spread becomes a wish."""

    key: str

    @property
    def text(self) -> str:
        """The change."""
        return f"let the spread over {short(self.key)} be ScheduleAnyway"

    def pod(self, pod: Pod) -> Pod:
        """Return the pod with its constraints on the key turned into wishes."""
        constraints = [
            replace(constraint, when_unsatisfiable="ScheduleAnyway")
            if _key(constraint.topology_key) == self.key
            else constraint
            for constraint in pod.spec.topology_spread_constraints or ()
        ]
        return replace(pod, spec=replace(pod.spec, topology_spread_constraints=constraints))


@dataclass(frozen=True, slots=True)
class SoftenAffinity(_PodEdit):
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
        kept = [term for term in found.required or () if _key(term.topology_key) != self.key]
        softened = replace(found, required=kept or None)
        affinity = (
            replace(affinity, pod_anti_affinity=softened)
            if self.anti
            else replace(affinity, pod_affinity=softened)
        )
        return replace(pod, spec=replace(pod.spec, affinity=affinity))


@dataclass(frozen=True, slots=True)
class FreePort(_PodEdit):
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


# Pools.


@dataclass(frozen=True, slots=True)
class AllowValues(_PoolEdit):
    """A pool allows more values of a label."""

    node_pool: str
    key: str
    values: tuple[str, ...]

    @property
    def text(self) -> str:
        """The change."""
        return f"add {', '.join(self.values)} to {short(self.key)} of pool {self.node_pool}"

    @override
    def edited(self, node_pool: NodePool) -> NodePool:
        """Return the NodePool with requirements that also allow the values."""

        def wider(
            entry: NodeSelectorRequirementWithMinValues,
        ) -> NodeSelectorRequirementWithMinValues | None:
            if _key(entry.key) != self.key:
                return entry
            listed = entry.values or []
            if entry.operator == "In":
                return replace(entry, values=sorted({*listed, *self.values}))
            if entry.operator == "NotIn":
                left = [value for value in listed if value not in self.values]
                return replace(entry, values=left) if left else None
            return None

        return _with_requirements(node_pool, wider)


@dataclass(frozen=True, slots=True)
class DropPoolRule(_PoolEdit):
    """A pool no longer restricts a label."""

    node_pool: str
    key: str

    @property
    def text(self) -> str:
        """The change."""
        return f"drop the rule on {short(self.key)} from pool {self.node_pool}"

    @override
    def edited(self, node_pool: NodePool) -> NodePool:
        """Return the NodePool without requirements on the label."""
        return _with_requirements(node_pool, lambda e: None if _key(e.key) == self.key else e)


@dataclass(frozen=True, slots=True)
class LowerMinValues(_PoolEdit):
    """A pool asks for less breadth."""

    node_pool: str
    key: str
    to: int

    @property
    @override
    def subject(self) -> tuple[str, ...]:
        """What is changed."""
        return ("minValues", self.node_pool, self.key)

    @property
    def text(self) -> str:
        """The change."""
        return f"lower minValues of {short(self.key)} to {self.to} in pool {self.node_pool}"

    @override
    def edited(self, node_pool: NodePool) -> NodePool:
        """Return the NodePool with lower minValues."""

        def lower(
            entry: NodeSelectorRequirementWithMinValues,
        ) -> NodeSelectorRequirementWithMinValues:
            if _key(entry.key) != self.key or entry.min_values is None:
                return entry
            return replace(entry, min_values=self.to or None)

        return _with_requirements(node_pool, lower)


class _RequirementChange(Protocol):
    def __call__(
        self, entry: NodeSelectorRequirementWithMinValues, /
    ) -> NodeSelectorRequirementWithMinValues | None: ...


def _with_requirements(node_pool: NodePool, change: _RequirementChange) -> NodePool:
    template = node_pool.spec.template
    entries = [change(entry) for entry in template.spec.requirements]
    spec = replace(template.spec, requirements=[e for e in entries if e is not None])
    return replace(node_pool, spec=replace(node_pool.spec, template=replace(template, spec=spec)))


@dataclass(frozen=True, slots=True)
class SetLabel(_PoolEdit):
    """A pool gives its nodes a label."""

    node_pool: str
    key: str
    value: str

    @property
    def text(self) -> str:
        """The change."""
        return f"give pool {self.node_pool} the label {self.key}={self.value}"

    @override
    def edited(self, node_pool: NodePool) -> NodePool:
        """Return the NodePool with one more template label."""
        template = node_pool.spec.template
        labels = {**(template.metadata.labels or {}), self.key: self.value}
        metadata = replace(template.metadata, labels=labels)
        return replace(
            node_pool,
            spec=replace(node_pool.spec, template=replace(template, metadata=metadata)),
        )


@dataclass(frozen=True, slots=True)
class RaiseLimit(_PoolEdit):
    """A pool may grow further."""

    node_pool: str
    resource: str
    by: int
    to: int

    @property
    @override
    def subject(self) -> tuple[str, ...]:
        """What is changed."""
        return ("limit", self.node_pool, self.resource)

    @property
    def text(self) -> str:
        """The change."""
        return f"raise the limit of pool {self.node_pool} by {_named(self.resource, self.by)}"

    @override
    def edited(self, node_pool: NodePool) -> NodePool:
        """Return the NodePool with the higher limit."""
        text = format_amount(self.resource, self.to)
        limits = {**(node_pool.spec.limits or {}), self.resource: text}
        return replace(node_pool, spec=replace(node_pool.spec, limits=limits))


@dataclass(frozen=True, slots=True)
class AddImage(_PoolEdit):
    """The node class gets an image for the types that have none."""

    node_pool: str
    node_class: str
    what: str

    @property
    def text(self) -> str:
        """The change."""
        return f"add an image for {self.what} to node class {self.node_class}"

    @override
    def offer(self, offer: PoolOffer) -> PoolOffer:
        """Return the pool with the types that have no image yet."""
        if offer.node_pool.name != self.node_pool:
            return offer
        types = tuple(
            sorted((*offer.instance_types, *offer.imageless), key=lambda found: found.name)
        )
        return changed(offer, instance_types=types, imageless=())


def joined(edits: Iterable[Edit]) -> str:
    """Return the edits of one fix as one text."""
    return " and ".join(edit.text for edit in edits)
