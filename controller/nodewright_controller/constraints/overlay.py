"""NodeOverlays applied to instance types: other prices, and extended resources the catalogue lacks.

Decides which overlay wins (the higher weight; equal weights that touch the same thing conflict, and
the one whose name comes first in the alphabet gives way entirely) and what a price becomes. Whether
overlays are used at all is a feature gate, decided by the caller.
Upstream: pkg/controllers/nodeoverlay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from nodewright_controller.api.labels import INSTANCE_TYPE
from nodewright_controller.api.nodeoverlay import NodeOverlay
from nodewright_controller.constraints.instance_type import InstanceType, Offering
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

_NOT_EXTENDED = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """An overlay, read."""

    name: str
    weight: int
    requirements: Requirements
    price: float | None = None
    """USD per hour, instead of the listed price."""
    share: float | None = None
    """What the listed price is multiplied by: 0.32 for -68%."""
    shift: float | None = None
    """USD per hour that is added to the listed price."""
    capacity: Resources = field(default_factory=Resources)

    @property
    def prices(self) -> bool:
        """Whether it changes prices."""
        return any(part is not None for part in (self.price, self.share, self.shift))

    def applied(self, usd_per_hour: float) -> float:
        """Return the price that the overlay makes of a listed one; never below zero."""
        if self.price is not None:
            return self.price
        scaled = usd_per_hour * (1.0 if self.share is None else self.share)
        return max(0.0, scaled + (self.shift or 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTypes:
    """What a pool can buy before overlays."""

    labels: Requirements
    """What is true of all its nodes: template labels, and the pool's own name."""
    types: tuple[InstanceType, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlaid:
    """What the pools can buy with overlays."""

    types: Mapping[str, tuple[InstanceType, ...]]
    """Pool to its types, in the order given; types that no overlay touches are the same objects."""
    conflicts: tuple[str, ...] = ()
    """Names of overlays that are not applied because another one says otherwise."""


def read_overlay(overlay: NodeOverlay) -> Overlay:
    """Return an overlay as decisions use it.

    Raises:
        ValueError: a requirement, price or quantity is malformed; the message names the field.

    """
    spec = overlay.spec
    if spec.price is not None and spec.price_adjustment is not None:
        raise ValueError("spec.price: cannot stand beside priceAdjustment")
    share, shift = _adjustment(spec.price_adjustment)
    capacity = Resources.parse(spec.capacity)
    for resource in _NOT_EXTENDED:
        if resource in capacity:
            raise ValueError(f"spec.capacity: {resource} cannot be overlaid")
    return Overlay(
        name=overlay.name,
        weight=spec.weight or 0,
        requirements=Requirements.of_entries(spec.requirements),
        price=None if spec.price is None else _number(spec.price, "spec.price"),
        share=share,
        shift=shift,
        capacity=capacity,
    )


def _adjustment(text: str | None) -> tuple[float | None, float | None]:
    """Return factor and summand of an adjustment such as `-68%` or `+0.5`."""
    if text is None:
        return None, None
    if text[:1] not in ("+", "-"):
        raise ValueError(f"spec.priceAdjustment: {text!r} must begin with + or -")
    change = _number(text.removesuffix("%"), "spec.priceAdjustment")
    return (1.0 + change / 100.0, None) if text.endswith("%") else (None, change)


def _number(text: str, field_name: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{field_name}: {text!r} is no amount") from error


def overlay_types(overlays: Iterable[Overlay], pools: Mapping[str, PoolTypes]) -> Overlaid:
    """Return every pool's types with the overlays applied."""
    ordered = sorted(overlays, key=lambda found: (found.weight, found.name), reverse=True)
    plan = _Plan()
    for overlay in ordered:
        plan.take(overlay, pools)
    return Overlaid(
        types={
            name: tuple(plan.changed(name, found) for found in pool.types)
            for name, pool in pools.items()
        },
        conflicts=tuple(sorted(plan.conflicts)),
    )


def overlay_type(
    overlays: Iterable[Overlay], labels: Requirements, found: InstanceType
) -> InstanceType:
    """Return one type of a pool with overlays applied that are known not to conflict.

    `labels` are the pool's, as in `PoolTypes`; a type that nothing touches is the same object.
    """
    pool = PoolTypes(labels=labels, types=(found,))
    return overlay_types(overlays, {"": pool}).types[""][0]


def price_of_unlisted(overlays: Iterable[Overlay]) -> dict[str, float]:
    """Return the price by instance type that overlays give to types the price list lacks.

    Only an overlay that names types and nothing else, and states a price, can speak for them: a
    change needs a price to start from. The heavier overlay wins, as elsewhere.
    """
    prices: dict[str, float] = {}
    for overlay in sorted(overlays, key=lambda found: (found.weight, found.name)):
        named = overlay.requirements.get(INSTANCE_TYPE)
        alone = named is not None and len(overlay.requirements) == 1 and not named.complement
        if named is not None and alone and overlay.price is not None:
            prices.update(dict.fromkeys(named.values, overlay.price))
    return prices


_Part = str | int
"""Of a type: the position of an offering, or the name of a resource."""


class _Plan:
    """Who decides about what, filled from the heaviest overlay down."""

    def __init__(self) -> None:
        self._owners: defaultdict[tuple[str, str], dict[_Part, Overlay]] = defaultdict(dict)
        self.conflicts: list[str] = []

    def take(self, overlay: Overlay, pools: Mapping[str, PoolTypes]) -> None:
        """Let the overlay have what no heavier one has; an equal one in its way forbids it all."""
        touched = list(_touched(overlay, pools))
        known = (self._owners[place].get(part) for place, part in touched)
        if any(owner is not None and owner.weight == overlay.weight for owner in known):
            self.conflicts.append(overlay.name)
            return
        for place, part in touched:
            self._owners[place].setdefault(part, overlay)

    def changed(self, pool: str, found: InstanceType) -> InstanceType:
        """Return a type of the pool as the overlays make it."""
        owners = self._owners.get((pool, found.name))
        if not owners:
            return found
        offerings = tuple(
            _priced(owners.get(position), offering)
            for position, offering in enumerate(found.offerings)
        )
        extra = {
            resource: owner.capacity[resource]
            for resource, owner in owners.items()
            if isinstance(resource, str)
        }
        return replace(
            found,
            offerings=offerings,
            capacity=Resources({**found.capacity, **extra}),
            capacity_overlaid=bool(extra),
        )


def _priced(owner: Overlay | None, offering: Offering) -> Offering:
    if owner is None:
        return offering
    price = owner.applied(offering.usd_per_hour)
    return replace(offering, usd_per_hour=price, price_overlaid=True)


def _touched(
    overlay: Overlay, pools: Mapping[str, PoolTypes]
) -> Iterator[tuple[tuple[str, str], _Part]]:
    for name, pool in pools.items():
        for found in pool.types:
            if not pool.labels.merged(found.requirements).compatible(overlay.requirements):
                continue
            if overlay.prices:
                for position, offering in enumerate(found.offerings):
                    if not offering.requirements.intersect_conflicts(overlay.requirements):
                        yield (name, found.name), position
            for resource in overlay.capacity:
                yield (name, found.name), resource
