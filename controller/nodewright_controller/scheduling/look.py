"""One look at a problem: the loop over pods, and what one pod tries.

A pod tries existing nodes, then claims made in this round, then a new claim from the pools by
weight; if nothing takes it, it drops one preference and tries again. What failed for a class of
equal pods on a bin stays failed, because bins only fill up and claims only narrow; only topology
can change a no into a yes, so pods with such rules are tried again after others were placed.
Upstream: pkg/controllers/provisioning/scheduling/scheduler.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nodewright_controller.scheduling.bins import Bins, Claim, united
from nodewright_controller.scheduling.classes import (
    ClassLevel,
    PodClass,
    QueuedPod,
    barred_types,
)
from nodewright_controller.scheduling.compiled import Compiled
from nodewright_controller.scheduling.counting import Counting
from nodewright_controller.scheduling.decision import Decision
from nodewright_controller.scheduling.decode import decode
from nodewright_controller.scheduling.domains import Demand, DemandReader
from nodewright_controller.scheduling.explain import Explainer
from nodewright_controller.scheduling.fitting import NO_GUESSES, Fit, Fitter, Guesses, MustWait
from nodewright_controller.scheduling.limits import Limits
from nodewright_controller.scheduling.node_index import conflicting
from nodewright_controller.scheduling.pools import CompiledPool
from nodewright_controller.scheduling.states import Constraint, State

_ASK_TO_STOP_EVERY: Final = 128


class Look:
    """One run over the queue."""

    def __init__(self, compiled: Compiled, guesses: Guesses = NO_GUESSES) -> None:
        self._compiled = compiled
        self._options = compiled.problem.options
        self.bins = Bins(compiled, latest_first=guesses.latest_first)
        self.demands = DemandReader(compiled)
        self._fitter = Fitter(compiled, self.bins, guesses)
        self._counting = Counting(compiled)
        self._limits = Limits()
        self.unplaced: list[QueuedPod] = []
        self.waiting: list[QueuedPod] = []
        """Pods that wait for reserved capacity."""
        self.unasked: list[QueuedPod] = []
        """Pods that were not looked at in time."""

    def run(self) -> None:
        """Place the queue; pods with topology rules are tried until nothing moves any more."""
        queue: Sequence[QueuedPod] = self._compiled.queue
        while queue:
            failed, placed = self._pass(queue)
            retried = [queued for queued in failed if queued.pod_class.shape.may_change]
            self.unplaced.extend(q for q in failed if not q.pod_class.shape.may_change)
            released = self._release()
            if not retried or self.unasked or not (placed or released):
                self.unplaced.extend(retried)
                return
            queue = retried

    def _release(self) -> bool:
        """Let pods start domains of their own, once all others had their turn; whether any can."""
        waiting = [tally for tally in self._compiled.tallies.all() if tally.waits]
        for tally in waiting:
            tally.release()
        return bool(waiting)

    def _pass(self, queue: Sequence[QueuedPod]) -> tuple[list[QueuedPod], int]:
        failed: list[QueuedPod] = []
        hopeless: set[PodClass] = set()
        hopeless_now: set[PodClass] = set()
        placed = 0
        for position, queued in enumerate(queue):
            if position % _ASK_TO_STOP_EVERY == 0 and self._must_stop():
                self.unasked.extend(queue[position:])
                break
            if queued.pod_class in hopeless or queued.pod_class in hopeless_now:
                failed.append(queued)
                continue
            try:
                if self._place(queued):
                    placed += 1
                    hopeless_now.clear()
                else:
                    failed.append(queued)
                    known = hopeless_now if queued.pod_class.shape.may_change else hopeless
                    known.add(queued.pod_class)
            except MustWait:
                self.waiting.append(queued)
        return failed, placed

    def _must_stop(self) -> bool:
        return self._options.stop is not None and self._options.stop()

    # What came out.

    @property
    def rivals(self) -> frozenset[tuple[str, str]]:
        """Domains, as (topology key, value), that were compared and differ in price."""
        return frozenset(self._fitter.pinner.rivals)

    @property
    def all_placed(self) -> bool:
        """Whether every pod of the queue got a place."""
        return not (self.unplaced or self.waiting or self.unasked)

    def placed(self, pod: str) -> bool:
        """Whether the pod, by key, got a place."""
        return pod not in _keys((*self.unplaced, *self.waiting, *self.unasked))

    def is_better_than(self, other: Look) -> bool:
        """Whether it places every pod that the other does, for less money or on fewer nodes."""
        if not _keys(self.unplaced) <= _keys(other.unplaced):
            return False
        if not _keys((*self.waiting, *self.unasked)) <= _keys((*other.waiting, *other.unasked)):
            return False
        mine, theirs = self._usd_per_hour(), other._usd_per_hour()
        return (mine, len(self.bins.claims)) < (theirs, len(other.bins.claims))

    def _usd_per_hour(self) -> float:
        """Return the price of what is bought, each claim at its cheapest."""
        return round(sum(_cheapest(claim) for claim in self.bins.claims), 9)

    def decision(self) -> Decision:
        """Return what was decided, as plain values; before the tables are used again."""
        return decode(
            self._compiled,
            self.bins,
            waiting=self.waiting,
            unplaced=self.unplaced,
            unasked=self.unasked,
            explainer=Explainer(self._compiled, self.bins, self.demands),
        )

    # One pod.

    def _place(self, queued: QueuedPod) -> bool:
        pod_class = queued.pod_class
        for number in range(len(pod_class.shape.levels)):
            if number < len(pod_class.levels):
                known = pod_class.levels[number]
            else:
                known = self._compiled.class_level(pod_class, number)
            demands: list[Demand] = []
            if known.shape_level.domain_rules:
                demands = self.demands.demands(pod_class, known)
            if self._try_bins(queued, known, demands) or self._try_new(queued, known, demands):
                return True
        return False

    def _candidates(self, pod_class: PodClass, known: ClassLevel, demands: list[Demand]) -> int:
        shape_level, size = known.shape_level, pod_class.size
        mask = (shape_level.nodes & size.nodes) | self.bins.claim_bins
        mask &= ~(size.full | shape_level.dead | known.dead)
        if mask and shape_level.host_rules:
            mask &= self.demands.host_bins(pod_class, known)
        if mask and pod_class.shape.ports:
            mask &= ~conflicting(self.bins.ports, pod_class.shape.ports)
        for demand in demands:
            if not mask:
                break
            mask &= demand.bins(self.bins.domains[demand.key])
        if mask and known.dead_in and len(demands) == 1:
            mask &= ~self._dead_in_all(known, demands[0], mask)
        return mask

    def _dead_in_all(self, known: ClassLevel, demand: Demand, mask: int) -> int:
        """Return the bins that cannot take the pod in any domain that is open now."""
        domains = self.bins.domains[demand.key]
        alive = 0
        for value in demand.allowed if demand.allowed is not None else domains.with_value:
            if demand.admits(value):
                alive |= domains.bins(value) & ~known.dead_in.get((demand.key, value), 0)
        if demand.allowed is None:
            alive |= ~domains.having | domains.open
        return mask & ~alive

    def _try_bins(self, queued: QueuedPod, known: ClassLevel, demands: list[Demand]) -> bool:
        mask = self._candidates(queued.pod_class, known, demands)
        while mask:
            number, bit = self.bins.in_order(mask)
            if number < self.bins.first_claim:
                if self._try_node(queued, known, number):
                    return True
            elif self._try_claim(queued, known, number, demands):
                return True
            mask &= ~bit
        return False

    # Existing nodes.

    def _try_node(self, queued: QueuedPod, known: ClassLevel, number: int) -> bool:
        size, shape = queued.pod_class.size, queued.pod_class.shape
        room = self.bins.room[number]
        for resource, amount in size.vector:
            if room[resource] < amount:
                size.full |= 1 << number
                return False
        if shape.volumes.attached and not self._can_attach(queued.pod_class, number):
            known.dead |= 1 << number
            return False
        self.bins.put_on_node(number, queued)
        self._counting.on_node(queued.pod_class, number)
        return True

    def _can_attach(self, pod_class: PodClass, number: int) -> bool:
        limit_of = self._compiled.attach_limit(number)
        attached = self.bins.attached(number)
        for driver, volumes in pod_class.shape.volumes.attached.items():
            limit = limit_of(driver)
            if limit is not None and len(attached.get(driver, set()) | volumes) > limit:
                return False
        return True

    # Claims of this round.

    def _try_claim(
        self, queued: QueuedPod, known: ClassLevel, number: int, demands: list[Demand]
    ) -> bool:
        pod_class = queued.pod_class
        claim = self.bins.claim(number)
        types, room, totals = claim.types, claim.pool.room, claim.totals
        for resource, amount in pod_class.size.vector:
            types &= room[resource].at_least(totals[resource] + amount)
        if not types & claim.state.types:
            pod_class.size.full |= claim.bit
            return False
        if claim.pool not in known.shape_level.pools:
            known.shape_level.dead |= claim.bit
            return False
        if not pod_class.is_plain:
            types &= self._allowed_beside(claim, pod_class)
        fit, stepped = self._fitter.best_fit(claim.pool, claim.state, types, known, demands, claim)
        if fit is None:
            self._remember(claim, known, demands, stepped=stepped)
            return False
        self._put(queued, claim, fit)
        return True

    def _allowed_beside(self, claim: Claim, pod_class: PodClass) -> int:
        shape = pod_class.shape
        mask = -1
        if shape.ports:
            mask &= claim.pool.free_of(shape.ports)
        if shape.volumes.attached:
            mask &= claim.pool.attaching(united(claim.attached, shape.volumes.attached))
        if pod_class.bars:
            mask &= ~barred_types(pod_class, claim.pool)
        return mask

    def _remember(
        self, claim: Claim, known: ClassLevel, demands: list[Demand], *, stepped: bool
    ) -> None:
        """Keep what the failure proves for good."""
        if not stepped:
            known.shape_level.dead |= claim.bit
        elif not demands:
            known.dead |= claim.bit
        elif len(demands) == 1:
            demand = demands[0]
            for value in claim.state.values(demand.key) or ():
                if demand.admits(value):
                    key = (demand.key, value)
                    known.dead_in[key] = known.dead_in.get(key, 0) | claim.bit

    def _put(self, queued: QueuedPod, claim: Claim, fit: Fit) -> None:
        narrowed = fit.state is not claim.state
        self.bins.put_on_claim(claim, queued, fit.state, fit.types)
        if fit.reserved != claim.reserved:
            self._fitter.reservations.hold(claim.reserved, fit.reserved)
            claim.reserved = fit.reserved
        claim.min_values_relaxed = fit.relaxed
        self._counting.on_claim(queued.pod_class, claim, narrowed=narrowed)

    # New claims.

    def _try_new(self, queued: QueuedPod, known: ClassLevel, demands: list[Demand]) -> bool:
        if known.shape_level.host_rules and self.demands.needs_company(known):
            return False
        for pool, choice_state in self._starts(known):
            types = self._compiled.holding(known, pool, queued.pod_class)
            if not types & choice_state.types:
                continue
            if pool.limits:
                types = self._limits.allowing(pool, types & choice_state.types)
            if not types & choice_state.types:
                continue
            fit = self._fitter.settle(pool, choice_state, types, demands, None)
            if fit is not None:
                self._open(queued, pool, fit)
                return True
        return False

    def _starts(self, known: ClassLevel) -> Iterator[tuple[CompiledPool, State]]:
        """Yield the pools by weight, for each alternative of the pod in turn."""
        choices: Sequence[Constraint] = known.shape_level.level.choices
        for choice in choices:
            for pool in known.shape_level.pools:
                state = pool.root.step(choice) if pool.root is not None else None
                if state is not None:
                    yield pool, state

    def _open(self, queued: QueuedPod, pool: CompiledPool, fit: Fit) -> None:
        number = self.bins.first_claim + len(self.bins.claims)
        totals = [0] * len(self._compiled.resources)
        claim = Claim(number, pool, fit.state, fit.types, totals)
        if pool.limits:
            self._limits.count(claim)
        self.bins.add_claim(claim)
        self._put(queued, claim, fit)


def _keys(queue: Iterable[QueuedPod]) -> set[str]:
    return {queued.pod.key for queued in queue}


def _cheapest(claim: Claim) -> float:
    return claim.pool.index.cheapest(claim.candidates, claim.kinds)
