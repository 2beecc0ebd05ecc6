"""The disruption loop: which nodes may go, what the methods propose, and carrying it out.

Methods are tried in a fixed order and the first that proposes a command wins. A command waits before
it is carried out and is checked again on newer facts, so a pod that came meanwhile keeps its node.
Upstream: pkg/controllers/disruption/controller.go and queue.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from nodewright_controller.api import labels
from nodewright_controller.api.meta import condition
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.cluster.snapshot import Snapshot, StateNode
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.disruption.blockers import PdbLimits
from nodewright_controller.disruption.budgets import allowance
from nodewright_controller.disruption.candidates import Candidate, Candidates, candidates
from nodewright_controller.disruption.command import Command
from nodewright_controller.disruption.emptiness import (
    is_disruptable_when_empty,
    propose_emptiness,
    revalidate_emptiness,
)
from nodewright_controller.disruption.reasons import DisruptionReason
from nodewright_controller.lifecycle.termination import disrupted_taints
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.cloud import CloudProvider
from nodewright_controller.ports.errors import CloudError, NotFound
from nodewright_controller.ports.events import Event, Recorder
from nodewright_controller.reconcilers import observe
from nodewright_controller.reconcilers.world import World
from nodewright_controller.reconcilers.writes import Writes
from nodewright_controller.runtime import metrics
from nodewright_controller.runtime.reconciler import Result

log = structlog.get_logger()

_IDLE: Final = Result(10.0)
_AGAIN: Final = Result(0.1)
_UNSYNCED: Final = Result(1.0)
_VALIDATION_SECONDS: Final = 15.0
_EMPTY: Final = DisruptionReason.EMPTY.value.lower()
"""In metrics the reason, and the consolidation type too."""


class DisruptionLoop:
    """Finds nodes that are not needed and removes them within the budgets."""

    def __init__(
        self,
        *,
        world: World,
        writes: Writes,
        cloud: CloudProvider,
        recorder: Recorder,
        clock: Clock,
        validation_seconds: float = _VALIDATION_SECONDS,
    ) -> None:
        self._world = world
        self._writes = writes
        self._cloud = cloud
        self._recorder = recorder
        self._clock = clock
        self._validation_seconds = validation_seconds
        self._running: set[str] = set()

    async def step(self) -> Result:
        """Look at the whole cluster once."""
        if not self._world.synced:
            return _UNSYNCED
        with metrics.DISRUPTION_SECONDS.labels(_EMPTY, _EMPTY).time():
            return await self._remove_empty()

    async def _remove_empty(self) -> Result:
        snapshot, pools, found = await self._look()
        await self._clean_up(snapshot)
        self._tell_blocked(found, snapshot)
        disruptable = sum(map(is_disruptable_when_empty, found.eligible))
        metrics.DISRUPTION_ELIGIBLE.labels(_EMPTY).set(disruptable)
        allowed = self._allowed(snapshot, pools, DisruptionReason.EMPTY)
        command = propose_emptiness(found.eligible, allowed)
        if command is None:
            return _IDLE
        command = await self._validated(command)
        if command is None:
            return _IDLE
        await self._carry_out(command)
        return _AGAIN

    async def _look(self) -> tuple[Snapshot, dict[str, NodePool], Candidates]:
        snapshot = self._world.cluster.snapshot(self._clock.now())
        pools = {pool.name: pool for pool in snapshot.node_pools}
        limits = PdbLimits(self._world.disruption_budgets.all())
        prices = await self._prices(snapshot, pools)
        found = candidates(snapshot, pools, limits, prices, self._running)
        return snapshot, pools, found

    async def _prices(self, snapshot: Snapshot, pools: Mapping[str, NodePool]) -> dict[str, float]:
        """Return USD per hour by node name, where the offerings of the node's type tell it."""
        prices: dict[str, float] = {}
        by_pool: dict[str, list[StateNode]] = {}
        for node in snapshot.nodes:
            if node.managed and node.node_pool_name in pools:
                by_pool.setdefault(node.node_pool_name, []).append(node)
        for name, nodes in by_pool.items():
            try:
                instance_types = await self._cloud.instance_types(pools[name])
            except CloudError as error:
                log.debug("prices unknown", nodepool=name, error=str(error))
                continue
            types = {instance_type.name: instance_type for instance_type in instance_types}
            for node in nodes:
                price = _price(node, types)
                if price is not None:
                    prices[node.name] = price
        return prices

    def _allowed(
        self, snapshot: Snapshot, pools: Mapping[str, NodePool], reason: DisruptionReason
    ) -> dict[str, int]:
        allowed: dict[str, int] = {}
        for name, pool in pools.items():
            verdict = allowance(pool, snapshot.nodes, reason, self._clock.now())
            allowed[name] = verdict.allowed
            metrics.ALLOWED_DISRUPTIONS.labels(name, reason.value.lower()).set(verdict.allowed)
            if verdict.fault:
                log.error("budget cannot be read", nodepool=name, error=verdict.fault)
            if verdict.total and not verdict.allowed:
                text = (
                    f"No allowed disruptions for disruption reason {reason.value}"
                    " due to blocking budget"
                )
                detail = f": {verdict.fault}" if verdict.fault else ""
                event = Event(about=pool, reason="DisruptionBlocked", message=text + detail)
                self._recorder.record(event)
        return allowed

    def _tell_blocked(self, found: Candidates, snapshot: Snapshot) -> None:
        for blocked in found.blocked:
            node = snapshot.node(blocked.node_name)
            if node is None:
                continue
            for about in (node.node, node.node_claim):
                if about is not None:
                    self._recorder.record(
                        Event(
                            about=about,
                            reason="DisruptionBlocked",
                            message=blocked.message,
                            dedupe_seconds=900.0,
                        )
                    )

    def _patience(self, command: Command) -> float:
        """Return how long the command must still wait, in seconds.

        Every node must have been consolidatable for the validation period. One that waited that long
        behind a budget has been watched all the while, so it need not wait again.
        """
        now = self._clock.now()
        waits = [0.0]
        for candidate in command.candidates:
            claim = candidate.node.node_claim
            quiet = condition(claim.status.conditions if claim else None, "Consolidatable")
            since = (quiet.last_transition_time if quiet else None) or now
            waits.append(self._validation_seconds - (now - since).total_seconds())
        return min(max(waits), self._validation_seconds)

    async def _validated(self, command: Command) -> Command | None:
        """Wait, look again, and return what is still right of the command."""
        await asyncio.sleep(self._patience(command))
        if not self._world.synced:
            return None
        snapshot, pools, found = await self._look()
        allowed = self._allowed(snapshot, pools, command.reason)
        return revalidate_emptiness(command, found.eligible, allowed)

    async def _carry_out(self, command: Command) -> None:
        log.info(
            "disrupting node(s)",
            command=command.action.value,
            reason=command.reason.value,
            nodes=", ".join(command.node_names),
            usd_per_hour=round(sum(c.usd_per_hour for c in command.candidates), 4),
        )
        names = [c.node.node_claim.name for c in command.candidates if c.node.node_claim]
        self._world.cluster.mark_for_deletion(names)
        outcomes = await asyncio.gather(
            *(self._remove(candidate, command) for candidate in command.candidates),
            return_exceptions=True,
        )
        for candidate, outcome in zip(command.candidates, outcomes, strict=True):
            if isinstance(outcome, Exception):
                log.error("could not disrupt node", node=candidate.name, error=str(outcome))
                claim = candidate.node.node_claim
                if claim is not None:
                    self._world.cluster.unmark_for_deletion([claim.name])
        metrics.DISRUPTION_DECISIONS.labels(
            command.action.value, command.reason.value.lower(), command.consolidation_type
        ).inc()

    async def _remove(self, candidate: Candidate, command: Command) -> None:
        node, claim = candidate.node.node, candidate.node.node_claim
        if node is None or claim is None:
            return
        try:
            await self._taint(node)
        except NotFound:
            return
        conditions = self._writes.conditions_of(claim)
        conditions.set_true(
            "DisruptionReason", reason=command.reason.value, message=command.reason.value
        )
        claim = await self._writes.save_status(claim, conditions)
        reason = command.reason.value
        self._recorder.record(
            Event(about=node, reason="DisruptionTerminating", message=f"Disrupting Node: {reason}")
        )
        self._recorder.record(
            Event(
                about=claim,
                reason="DisruptionTerminating",
                message=f"Disrupting NodeClaim: {reason}",
            )
        )
        if await self._writes.delete_claim(claim):
            policy = candidate.node_pool.spec.disruption.consolidation_policy
            observe.claim_disrupted(claim, reason.lower(), _snake(policy))

    async def _taint(self, node: Node) -> None:
        taints = disrupted_taints(node)
        if taints is not None:
            await self._writes.set_taints(node, taints)

    async def _clean_up(self, snapshot: Snapshot) -> None:
        """Take back what a command of a former leader left on nodes that nobody disrupts any more."""
        for state in snapshot.nodes:
            node, claim = state.node, state.node_claim
            if node is None or claim is None or state.marked_for_deletion or node.deleting:
                continue
            kept = [t for t in node.spec.taints or () if t.key != labels.DISRUPTED_TAINT]
            if len(kept) < len(node.spec.taints or ()):
                await self._writes.set_taints(node, kept)
            conditions = self._writes.conditions_of(claim)
            if conditions.get("DisruptionReason") is not None:
                conditions.clear("DisruptionReason")
                await self._writes.save_status(claim, conditions)


def _price(node: StateNode, types: Mapping[str, InstanceType]) -> float | None:
    """Return what the node costs per hour, or None if no offering of its type tells."""
    bought_as = types.get(node.labels.get(labels.INSTANCE_TYPE, ""))
    if bought_as is None:
        return None
    wanted = (node.labels.get(labels.ZONE, ""), node.labels.get(labels.CAPACITY_TYPE, ""))
    return next(
        (o.usd_per_hour for o in bought_as.offerings if (o.zone, o.capacity_type) == wanted), None
    )


def _snake(policy: str) -> str:
    return "".join(
        f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(policy)
    )
