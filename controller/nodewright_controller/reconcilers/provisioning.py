"""Pending pods become NodeClaims: wait for the batch, solve on a snapshot, create what was decided.

Upstream: pkg/controllers/provisioning/provisioner.go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import structlog

from nodewright_controller.api import labels
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodeoverlay import NodeOverlay
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.pods import is_provisionable
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.cloud import CloudProvider
from nodewright_controller.ports.errors import KubeError
from nodewright_controller.ports.events import Event, Recorder
from nodewright_controller.reconcilers import observe
from nodewright_controller.reconcilers.loop_guard import LoopGuard
from nodewright_controller.reconcilers.nominations import Nominations
from nodewright_controller.reconcilers.offers import offers_of
from nodewright_controller.reconcilers.rounds import RoundMemory
from nodewright_controller.reconcilers.world import World
from nodewright_controller.reconcilers.writes import Writes
from nodewright_controller.runtime import metrics
from nodewright_controller.runtime.batch_window import BatchWindow
from nodewright_controller.runtime.undisturbed import undisturbed
from nodewright_controller.scheduling.claims import node_claim_from
from nodewright_controller.scheduling.decision import Decision, PlannedClaim, message
from nodewright_controller.scheduling.problem import Problem, SolverOptions, problem_from
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.solver import solve
from nodewright_controller.scheduling.type_plan import Plan, plans_of

log = structlog.get_logger()

_RETRIGGER_SECONDS: Final = 10.0
_MOST_SOLVE_SECONDS: Final = 60.0
"""A round ends after this with what it has; the rest comes at once in the next, as upstream."""
_UNSYNCED_LOG_SECONDS: Final = 30.0


class Provisioner:
    """The provisioning loop."""

    def __init__(  # noqa: PLR0913 - the ports of one reconciler
        self,
        *,
        world: World,
        writes: Writes,
        cloud: CloudProvider,
        recorder: Recorder,
        clock: Clock,
        nominations: Nominations,
        window: BatchWindow,
        options: SolverOptions,
        nomination: timedelta,
    ) -> None:
        self._world = world
        self._writes = writes
        self._cloud = cloud
        self._recorder = recorder
        self._clock = clock
        self._nominations = nominations
        self._window = window
        self._options = options
        self._nomination = nomination
        self._first_seen: dict[str, float] = {}
        self._told: dict[str, str] = {}
        self._guard = LoopGuard()
        self.memory = RoundMemory()
        """What rounds have found so far; for whoever explains."""

    @property
    def options(self) -> SolverOptions:
        """The options that every round is solved with."""
        return self._options

    @property
    def looks_within(self) -> timedelta:
        """How long a pod that waits is left alone at most."""
        return timedelta(seconds=_RETRIGGER_SECONDS + self._window.max_seconds)

    def pod_changed(self, _: Pod | None, new: Pod | None) -> None:
        """Start or extend the batch when a pod waits for a node."""
        if new is not None and is_provisionable(new):
            self._first_seen.setdefault(new.uid, asyncio.get_running_loop().time())
            self._window.trigger(new.uid)

    def claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        """Start or extend the batch when a claim ends unlaunched: its pods want the next best."""
        if new is None and old is not None and not old.status.provider_id:
            self._window.trigger(f"nodeclaim/{old.name}")

    def overlay_changed(self, old: NodeOverlay | None, new: NodeOverlay | None) -> None:
        """Start or extend the batch when a NodeOverlay changed, or was told that it is applied."""
        overlay = new or old
        if overlay is not None:
            self._window.trigger(f"nodeoverlay/{overlay.name}")

    def trigger(self, element: str) -> None:
        """Start or extend the batch for another reason, such as a node that is going."""
        self._window.trigger(element)

    async def retrigger(self) -> None:
        """Look again at pods that still wait, for as long as they do."""
        while True:
            await asyncio.sleep(_RETRIGGER_SECONDS)
            waiting = [pod for pod in self._world.pods.all() if is_provisionable(pod)]
            known = {pod.uid for pod in waiting}
            for uid in [uid for uid in self._first_seen if uid not in known]:
                del self._first_seen[uid]
            for pod in waiting:
                self._window.trigger(pod.uid)
            if not waiting:
                observe.left_over()

    async def run(self) -> None:
        """Provision batch after batch, until cancelled."""
        while True:
            await self._window.wait()
            await self._until_synced()
            try:
                await self._provision()
            except KubeError as error:
                log.warning("provisioning interrupted", error=str(error))
                self._window.trigger("retry")

    async def _until_synced(self) -> None:
        waited = 0.0
        while not self._world.synced:
            metrics.STATE_SYNCED.set(0)
            metrics.STATE_UNSYNCED_SECONDS.set(waited)
            if waited and waited % _UNSYNCED_LOG_SECONDS == 0:
                log.error("waiting on cluster sync", seconds=waited)
            await asyncio.sleep(0.5)
            waited += 0.5
        metrics.STATE_SYNCED.set(1)
        metrics.STATE_UNSYNCED_SECONDS.set(0)

    async def _provision(self) -> None:
        snapshot = self._world.cluster.snapshot(self._clock.now())
        metrics.STATE_NODES.set(len(snapshot.nodes))
        if not snapshot.pending_pods and not any(n.marked_for_deletion for n in snapshot.nodes):
            return
        offers = await offers_of(self._cloud, snapshot.node_pools)
        barred = self.memory.barred = self._guard.bars(snapshot)
        options = replace(self._options, stop=_after(_MOST_SOLVE_SECONDS))
        # Giving the pods of a large batch their default spreads takes a while.
        problem = await asyncio.to_thread(problem_from, snapshot, offers, options, barred=barred)
        if not problem.pods:
            return
        log.info("found provisionable pod(s)", pods=_some([p.key for p in problem.pods]))
        if all(offer.unready for offer in offers):
            log.info("no dynamic nodepools found that are ready", nodepools=len(offers))
        with observe.scheduling_round("provisioner", len(problem.pods)):
            decision, plans = await asyncio.to_thread(undisturbed, _decide, problem)
        pods = {pod.key: pod for pod in problem.pods}
        self._nominate(decision, pods)
        pools = {offer.node_pool.name: offer.node_pool for offer in offers}
        await self._create_all(decision.new_claims, plans, pools, pods)
        # Nodes are under way; what would help the rest may take a moment longer to find out.
        if decision.unschedulable:
            decision = await asyncio.to_thread(
                undisturbed, self.memory.fixes.with_fixes, problem, decision
            )
        if any(refused.reason is Reason.OUT_OF_TIME for refused in decision.deferred):
            log.warning("round ended before all pods were looked at", left=len(decision.deferred))
            self._window.trigger("rest")
        self.memory.remember(decision, pods, problem.now)
        self._report(decision, pods)

    def _report(self, decision: Decision, pods: dict[str, Pod]) -> None:
        now = asyncio.get_running_loop().time()
        observe.left_over(decision.unschedulable)
        told: dict[str, str] = {}
        waiting = (one for one in decision.deferred if one.reason is not Reason.OUT_OF_TIME)
        for refused in (*decision.unschedulable, *waiting):
            pod = pods.get(refused.pod)
            metrics.UNSCHEDULABLE_REASONS.labels(str(refused.code)).inc()
            if pod is None:
                continue
            text = told[refused.pod] = message(refused)
            if self._told.get(refused.pod) != text:
                log.info("could not schedule pod", pod=refused.pod, code=refused.code, reason=text)
            self._recorder.record(
                Event(
                    about=pod,
                    reason="FailedScheduling",
                    message=f"Failed to schedule pod, {text}",
                    warning=True,
                    dedupe_key=str(refused.code),
                    dedupe_seconds=300.0,
                )
            )
        self._told = told
        for pod in pods.values():
            seen = self._first_seen.pop(pod.uid, None)
            if seen is not None:
                metrics.POD_DECISION_SECONDS.observe(now - seen)

    def _nominate(self, decision: Decision, pods: dict[str, Pod]) -> None:
        until = self._clock.now() + self._nomination
        for key, name in decision.placements.items():
            self._world.cluster.nominate(name, until)
            pod = pods.get(key)
            if pod is not None:
                self._tell_nominated(pod, name)

    def _tell_nominated(self, pod: Pod, name: str) -> None:
        node = self._world.nodes.get(name)
        claim = (
            self._world.claim_of(node) if node is not None else self._world.node_claims.get(name)
        )
        where = [f"nodeclaim/{claim.name}"] if claim is not None else []
        if node is not None:
            where.append(f"node/{node.name}")
        text = f"Pod should schedule on: {', '.join(where)}"
        self._recorder.record(Event(about=pod, reason="Nominated", message=text))

    async def _create_all(
        self,
        planned: Sequence[PlannedClaim],
        plans: Sequence[Plan],
        pools: dict[str, NodePool],
        pods: dict[str, Pod],
    ) -> None:
        if not planned:
            return
        count = sum(len(claim.pods) for claim in planned)
        log.info("computed new nodeclaim(s) to fit pod(s)", nodeclaims=len(planned), pods=count)
        results = await asyncio.gather(
            *(
                self._create(claim, plan, pools[claim.node_pool], pods)
                for claim, plan in zip(planned, plans, strict=True)
            ),
            return_exceptions=True,
        )
        for claim, result in zip(planned, results, strict=True):
            if isinstance(result, Exception):
                log.error("could not create nodeclaim", nodepool=claim.node_pool, error=str(result))
                self._window.trigger("retry")

    async def _create(
        self, planned: PlannedClaim, plan: Plan, pool: NodePool, pods: dict[str, Pod]
    ) -> NodeClaim:
        claim = await self.create_claim(planned, pool, "provisioned", plan)
        for key in planned.pods:
            pod = pods.get(key)
            if pod is not None:
                self._tell_nominated(pod, claim.name)
        return claim

    async def create_claim(
        self, planned: PlannedClaim, pool: NodePool, reason: str, plan: Plan | None = None
    ) -> NodeClaim:
        """Create the claim of a plan, and nominate it for its pods."""
        wanted = node_claim_from(planned, pool)
        claim = await self._writes.kube.create(wanted)
        self._world.node_claims.observe(claim)
        self._nominations.nominate(claim.name, tuple(planned.pods), plan)
        self._guard.bought(claim.name, pool.name, planned.pods)
        self._world.cluster.nominate(claim.name, self._clock.now() + self._nomination)
        relaxed = claim.annotations.get(labels.MIN_VALUES_RELAXED) == "true"
        observe.claim_created(pool.name, reason, relaxed)
        log.info(
            "created nodeclaim",
            nodeclaim=claim.name,
            nodepool=pool.name,
            requests=Resources.parse(claim.spec.resources.requests).format(),
            instance_types=_some(list(planned.instance_types)),
            pods=_some(list(planned.pods)),
        )
        return claim


def _after(seconds: float) -> Callable[[], bool]:
    """Return what turns true when so many seconds have passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def _decide(problem: Problem) -> tuple[Decision, tuple[Plan, ...]]:
    """Return the decision, and why each new claim will be what."""
    decision = solve(problem)
    return decision, plans_of(problem, decision)


def _some(names: Sequence[str], shown: int = 5) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - shown
    listed = ", ".join(names[:shown])
    return f"{listed} and {more} other(s)" if more > 0 else listed
