"""NodeOverlays of a running cluster: which are in force, and what they make of each pool's types.

`OverlaysInForce` answers whoever prices or launches; `NodeOverlayReconciler` keeps it current and
tells each overlay whether it is applied. How overlays combine is `constraints.overlay`.
Upstream: pkg/controllers/nodeoverlay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from nodewright_controller.api.conditions import Conditions, ConditionTypes
from nodewright_controller.api.nodeoverlay import NodeOverlay
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.overlay import (
    Overlay,
    PoolTypes,
    overlay_type,
    overlay_types,
    price_of_unlisted,
    read_overlay,
)
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.errors import CloudError, Conflict, NotFound, OverlaysPending
from nodewright_controller.ports.kube import Kube
from nodewright_controller.ports.store import Store
from nodewright_controller.runtime.reconciler import Result
from nodewright_controller.scheduling.claims import template_labels

log = structlog.get_logger()

VALIDATION: Final = "ValidationSucceeded"
NODE_OVERLAY: Final = ConditionTypes((VALIDATION,))
_SETTLED: Final = Result(6 * 3600.0)
_SOME_POOLS_MISSING: Final = Result(30.0)
_RACED: Final = Result(0.5)

Types = tuple[InstanceType, ...]
Listed = Callable[[NodePool], Awaitable[Types]]
"""What a pool can buy before overlays; raises CloudError when nobody can tell."""


class OverlaysInForce:
    """The overlays that are applied, and the pools that they were worked out for."""

    def __init__(self) -> None:
        self._overlays: tuple[Overlay, ...] = ()
        self._labels: Mapping[str, Requirements] = {}
        self._made: dict[tuple[str, str], tuple[InstanceType, InstanceType]] = {}
        # Pool and type name to a type as listed and as overlaid: what did not change stays the
        # same object, which is what the solver's index of types goes by.

    def put(self, overlays: Iterable[Overlay], labels: Mapping[str, Requirements]) -> bool:
        """Apply these from now on, to pools with these labels; return whether that is a change."""
        wanted = tuple(overlays)
        if wanted == self._overlays and labels == self._labels:
            return False
        self._overlays, self._labels, self._made = wanted, dict(labels), {}
        return True

    def applied(self, pool: str, types: Types) -> Types:
        """Return a pool's types as the overlays make them.

        Raises:
            OverlaysPending: the pool is too new for the overlays to be worked out.

        """
        labels = self._labels.get(pool)
        if labels is None:
            raise OverlaysPending(f"the NodeOverlays of NodePool {pool} are not worked out yet")
        if not self._overlays:
            return types
        return tuple(self._one(pool, labels, found) for found in types)

    def _one(self, pool: str, labels: Requirements, found: InstanceType) -> InstanceType:
        known = self._made.get((pool, found.name))
        if known is not None and known[0] is found:
            return known[1]
        made = overlay_type(self._overlays, labels, found)
        self._made[pool, found.name] = (found, made)
        return made


@dataclass(slots=True)
class _Look:
    """One look at all overlays."""

    seen: tuple[NodeOverlay, ...]
    """As they stood when it began; only these can be told what became of them."""
    readable: list[Overlay] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)
    """Name of an overlay that cannot be read to the reason."""
    pools: dict[str, PoolTypes] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    """Pools whose types nobody can tell now."""


class NodeOverlayReconciler:
    """Works out all overlays together: each of them may stand in another's way."""

    def __init__(  # noqa: PLR0913 - the ports of one reconciler
        self,
        kube: Kube,
        clock: Clock,
        *,
        overlays: Store[NodeOverlay],
        node_pools: Store[NodePool],
        listed: Listed,
        in_force: OverlaysInForce,
        price_unlisted: Callable[[Mapping[str, float]], None],
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._overlays = overlays
        self._node_pools = node_pools
        self._listed = listed
        self._in_force = in_force
        self._price_unlisted = price_unlisted

    async def step(self) -> Result:
        """Work out every overlay, apply those that can be, and tell all of them."""
        listed = (found for found in self._overlays.all() if not found.deleting)
        look = _Look(tuple(sorted(listed, key=lambda found: found.name)))
        _read(look)
        # A type without a price cannot be bought; an overlay may have one for it.
        self._price_unlisted(price_of_unlisted(look.readable))
        await self._list(look)
        found = await asyncio.to_thread(overlay_types, look.readable, look.pools)
        conflicts = frozenset(found.conflicts)
        kept = [overlay for overlay in look.readable if overlay.name not in conflicts]
        labels = {name: pool.labels for name, pool in look.pools.items()}
        if self._in_force.put(kept, labels):
            log.info(
                "applied nodeoverlays",
                applied=[overlay.name for overlay in kept],
                conflicting=sorted(conflicts),
                unreadable=sorted(look.faults),
                nodepools_missing=look.missing,
            )
        if await self._tell(look, conflicts):
            return _RACED
        return _SOME_POOLS_MISSING if look.missing else _SETTLED

    async def _list(self, look: _Look) -> None:
        for pool in sorted(self._node_pools.all(), key=lambda found: found.name):
            try:
                types = await self._listed(pool)
            except CloudError as error:
                log.debug("nodepool waits for nodeoverlays", nodepool=pool.name, error=str(error))
                look.missing.append(pool.name)
                continue
            labels = Requirements.of_labels(template_labels(pool))
            look.pools[pool.name] = PoolTypes(labels=labels, types=types)

    async def _tell(self, look: _Look, conflicts: frozenset[str]) -> bool:
        """Write what became of each overlay; return whether one changed in the meantime."""
        raced = False
        for overlay in look.seen:
            conditions = Conditions(
                NODE_OVERLAY, overlay.metadata, overlay.status.conditions, self._clock.now()
            )
            if overlay.name in look.faults:
                conditions.set_false(VALIDATION, "RuntimeValidation", look.faults[overlay.name])
            elif overlay.name in conflicts:
                conditions.set_false(VALIDATION, "Conflict", "conflict with another overlay")
            else:
                conditions.set_true(VALIDATION)
            if not conditions.changed:
                continue
            body = {
                "metadata": {"resourceVersion": overlay.metadata.resource_version},
                "status": {"conditions": conditions.patch()},
            }
            try:
                written = await self._kube.patch(NodeOverlay, overlay.name, body, status=True)
            except NotFound:
                continue
            except Conflict:
                raced = True
                continue
            self._overlays.observe(written)
        return raced


def _read(look: _Look) -> None:
    for overlay in look.seen:
        try:
            look.readable.append(read_overlay(overlay))
        except ValueError as error:
            look.faults[overlay.name] = str(error)
