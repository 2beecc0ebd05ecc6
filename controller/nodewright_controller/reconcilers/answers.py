"""Answers `why` from the leader's own memory: the same solver, on a snapshot of this moment.

Questions are answered one at a time and off the event loop, so that no number of them holds up a
lease or a round. What the solver said is kept while nothing that it read has changed, and for a few
seconds at most: stock and prices change without any object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from nodewright_controller.api.labels import NODEPOOL
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.snapshot import Snapshot, StateNode
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.ports.answers import NoAnswer, UnknownSubject
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.cloud import CloudProvider
from nodewright_controller.ports.errors import CloudError
from nodewright_controller.ports.store import Store
from nodewright_controller.reconcilers.nominations import Nominations
from nodewright_controller.reconcilers.offers import offers_of
from nodewright_controller.reconcilers.provisioning import Provisioner
from nodewright_controller.reconcilers.world import World
from nodewright_controller.runtime.undisturbed import undisturbed
from nodewright_controller.scheduling.decision import Decision
from nodewright_controller.scheduling.explanations import PodExplanation, TypeExplanation
from nodewright_controller.scheduling.hints import names_like
from nodewright_controller.scheduling.pod_why import decided, standing
from nodewright_controller.scheduling.problem import Problem, problem_from
from nodewright_controller.scheduling.solver import solve
from nodewright_controller.scheduling.type_choice import (
    explain_planned,
    replayed_type,
    with_detail,
)
from nodewright_controller.scheduling.type_plan import Plan

_KEPT: Final = timedelta(seconds=3)
_FIX_BUDGET: Final = 10_000
"""A third of what a round spends on fixes: a person waits for the answer."""


@dataclass(slots=True)
class _Solved:
    """What the solver said at one moment, and the answers that were made of it."""

    generation: int
    problem: Problem
    decision: Decision
    answers: dict[str, PodExplanation] = field(default_factory=dict)


class LeaderAnswers:
    """Implements `ports.answers.Answers` for as long as the process leads."""

    def __init__(
        self,
        *,
        world: World,
        cloud: CloudProvider,
        clock: Clock,
        provisioner: Provisioner,
        nominations: Nominations,
    ) -> None:
        self._world = world
        self._cloud = cloud
        self._clock = clock
        self._provisioner = provisioner
        self._nominations = nominations
        self._turn = asyncio.Lock()
        self._generation = 0
        self._solved: _Solved | None = None
        for store in _read_stores(world):
            store.on_change(self._changed)

    def _changed(self, _old: KubeObject | None, _new: KubeObject | None) -> None:
        self._generation += 1

    # Pods.

    async def pod(self, key: str) -> PodExplanation:
        """Return how it stands with a pod; see `Answers`."""
        pod = self._world.pods.get(key)
        if pod is None:
            raise UnknownSubject(f"there is no pod {key}{_near(key, self._world.pods.all())}")
        found = standing(pod, self._clock.now(), self._claim_for(pod))
        if found is not None:
            return found
        async with self._turn:
            solved = await self._solve()
            found = solved.answers.get(key)
            if found is None:
                found = solved.answers[key] = await asyncio.to_thread(self._explain, pod, solved)
        return self._with_time(found, pod)

    def _claim_for(self, pod: Pod) -> StateNode | None:
        """Return the claim that was made for a waiting pod, as it stands; None when it is gone."""
        claim = self._world.node_claims.get(self._nominations.claim_of(pod.key))
        if claim is None:
            return None
        nodes = self._world.nodes_of(claim.status.provider_id) if claim.status.provider_id else []
        return StateNode(node=nodes[0] if nodes else None, node_claim=claim)

    async def _solve(self) -> _Solved:
        """Ask the solver, unless what it said last still holds."""
        now, known = self._clock.now(), self._solved
        if (
            known is not None
            and known.generation == self._generation
            and now - known.problem.now < _KEPT
        ):
            return known
        generation = self._generation
        snapshot = self._world.cluster.snapshot(now)
        problem = await asyncio.to_thread(
            problem_from,
            snapshot,
            await offers_of(self._cloud, snapshot.node_pools),
            self._provisioner.options,
            barred=self._provisioner.memory.bars_at(now),
        )
        # Pods whose claim has no instance yet are provided for, though nothing shows it.
        provided = self._provided_for(snapshot)
        problem = replace(problem, pods=tuple(p for p in problem.pods if p.key not in provided))
        decision = await asyncio.to_thread(undisturbed, solve, problem)
        self._solved = _Solved(generation, problem, decision)
        return self._solved

    def _provided_for(self, snapshot: Snapshot) -> frozenset[str]:
        return frozenset(
            pod
            for node in snapshot.nodes
            if not node.provider_id and node.node_claim is not None
            for pod in self._nominations.pods_of(node.node_claim.name)
        )

    def _explain(self, pod: Pod, solved: _Solved) -> PodExplanation:
        return decided(
            pod,
            solved.problem,
            solved.decision,
            known_fixes=self._provisioner.memory.fixes.recall,
            budget=_FIX_BUDGET,
        )

    def _with_time(self, found: PodExplanation, pod: Pod) -> PodExplanation:
        """Add what only rounds know: since when, how often, and when next."""
        known = self._provisioner.memory.of(pod, found.code)
        return msgspec.structs.replace(
            found,
            since=_whole(known.since) if known is not None else found.since,
            evaluated=known.times if known is not None else 0,
            look_by=_whole(found.as_of + self._provisioner.looks_within),
        )

    # Instance types.

    async def node_claim(self, name: str) -> TypeExplanation:
        """Return why a claim is of its type; see `Answers`."""
        claim = self._world.node_claims.get(name)
        if claim is None:
            known = self._world.node_claims.all()
            raise UnknownSubject(f"there is no NodeClaim {name}{_near(name, known)}")
        choice, plan = self._nominations.choice_of(name), self._nominations.plan_of(name)
        async with self._turn:
            types = await self._types_of(claim, needed=choice is None)
            now = self._clock.now()
            try:
                found = await asyncio.to_thread(_type_of, claim, types, choice, plan, now)
            except ValueError as error:
                raise NoAnswer(f"NodeClaim {name} cannot be read: {error}") from error
        if found is None:
            raise NoAnswer(f"nothing that NodeClaim {name} allows can be had now")
        return found

    async def _types_of(self, claim: NodeClaim, *, needed: bool) -> tuple[InstanceType, ...]:
        """Return what the claim's pool can be made of; without `needed`, none will do as well."""
        name = claim.labels.get(NODEPOOL, "")
        pool = self._world.node_pools.get(name)
        try:
            if pool is not None:
                return await self._cloud.instance_types(pool)
            problem = f"its NodePool {name} does not exist"
        except CloudError as error:
            problem = str(error)
        if needed:
            raise NoAnswer(f"NodeClaim {claim.name} was made by an earlier leader, and {problem}")
        return ()


def _type_of(
    claim: NodeClaim,
    types: tuple[InstanceType, ...],
    choice: TypeExplanation | None,
    plan: Plan | None,
    now: datetime,
) -> TypeExplanation | None:
    """Return what was recorded at launch, else what was planned, else what the claim tells."""
    if choice is not None:
        return with_detail(choice, claim, types)
    if plan is not None and not claim.status.provider_id:
        return explain_planned(claim, plan, types, now)
    return replayed_type(claim, types, now)


def _read_stores(world: World) -> Iterable[Store[Any]]:
    """Return the stores of what the solver reads."""
    return (
        world.nodes,
        world.node_claims,
        world.node_pools,
        world.node_classes,
        world.pods,
        world.daemon_sets,
        world.limit_ranges,
        world.namespaces,
        world.volume_claims,
        world.volumes,
        world.storage_classes,
        world.csi_nodes,
        world.volume_attachments,
    )


def _near(key: str, known: Iterable[KubeObject]) -> str:
    """Return names that begin like this one."""
    near = names_like(key, (found.key for found in known))
    return f"; there is {', '.join(near)}" if near else ""


def _whole(at: datetime) -> datetime:
    return at.replace(microsecond=0)
