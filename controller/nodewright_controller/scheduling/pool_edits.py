"""Changes to a NodePool, or to what its node class can boot."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Protocol

from msgspec.structs import replace
from typing_extensions import override

from nodewright_controller.api.labels import ZONE
from nodewright_controller.api.nodepool import NodePool, NodeSelectorRequirementWithMinValues
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.kernel.resources import format_amount
from nodewright_controller.scheduling.edits import PoolEdit, named, short, stable
from nodewright_controller.scheduling.problem import PoolOffer


@dataclass(frozen=True, slots=True)
class AllowValues(PoolEdit):
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
            if stable(entry.key) != self.key:
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
class DropPoolRule(PoolEdit):
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
        return _with_requirements(node_pool, lambda e: None if stable(e.key) == self.key else e)


@dataclass(frozen=True, slots=True)
class LowerMinValues(PoolEdit):
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
            if stable(entry.key) != self.key or entry.min_values is None:
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
class SetLabel(PoolEdit):
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
class RaiseLimit(PoolEdit):
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
        return f"raise the limit of pool {self.node_pool} by {named(self.resource, self.by)}"

    @override
    def edited(self, node_pool: NodePool) -> NodePool:
        """Return the NodePool with the higher limit."""
        text = format_amount(self.resource, self.to)
        limits = {**(node_pool.spec.limits or {}), self.resource: text}
        return replace(node_pool, spec=replace(node_pool.spec, limits=limits))


@dataclass(frozen=True, slots=True)
class AddImage(PoolEdit):
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
        types = (*offer.instance_types, *(_with_image(found) for found in offer.imageless))
        ordered = tuple(sorted(types, key=lambda found: found.name))
        return changed(offer, instance_types=ordered, imageless=())


def _with_image(instance_type: InstanceType) -> InstanceType:
    """Return a type as it would be sold if an image booted it.

    A cloud may offer nothing of a type that it cannot boot; what has a price in a zone of the type
    is then taken to be in stock.
    """
    if any(offering.available for offering in instance_type.offerings):
        return instance_type
    zones = instance_type.requirements.of(ZONE)
    offerings = tuple(
        changed(each, available=each.usd_per_hour > 0 and zones.has(each.zone))
        for each in instance_type.offerings
    )
    return changed(instance_type, boots=True, offerings=offerings)
