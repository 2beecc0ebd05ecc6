"""One look at a problem: the loop over pods, and what one pod tries.

A pod tries existing nodes, then claims made in this round, then a new claim from the pools by
weight; if nothing takes it, it drops one preference and tries again. What failed for a class of
equal pods on a bin stays failed, because bins only fill up and claims only narrow; only topology
can change a no into a yes, so pods with such rules are tried again after others were placed.
Upstream: pkg/controllers/provisioning/scheduling/scheduler.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from nodewright_controller.scheduling.bins import Bins, Claim, united
from nodewright_controller.scheduling.compiled import (
    ClassLevel,
    Compiled,
    PodClass,
    QueuedPod,
    barred_types,
    tolerations_of,
)
from nodewright_controller.scheduling.decision import Decision
from nodewright_controller.scheduling.decode import decode
from nodewright_controller.scheduling.domains import Demand, DemandReader, Pinner
from nodewright_controller.scheduling.explain import Explainer
from nodewright_controller.scheduling.limits import Limits
from nodewright_controller.scheduling.node_index import conflicting
from nodewright_controller.scheduling.pools import CompiledPool
from nodewright_controller.scheduling.problem import MinValuesPolicy
from nodewright_controller.scheduling.reservations import Held, Reservations, UsedUp, Wait
from nodewright_controller.scheduling.states import Constraint, State
from nodewright_controller.scheduling.topology import EVERYWHERE, Tally

_ASK_TO_STOP_EVERY: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """What a look assumes where it cannot know; no guess is the better one in every world."""

    latest_first: bool = False
    """Of equally full claims, fill the one that was filled last, not the one that was made first."""
    by_size: bool = False
    """Compare domains by the price for what a node holds, not by that of the smallest fitting one."""
    favourite: tuple[str, str] | None = None
    """Topology key and domain that is taken before others with as many pods, whatever it costs."""


class _Fit(NamedTuple):
    """How a claim would look with the pod on it. One is made per pod: a tuple is made quickly."""

    state: State
    types: int
    reserved: frozenset[str] = frozenset()
    relaxed: bool = False


class _MustWait(Exception):
    """Reserved capacity is promised to others; the pod is neither relaxed nor tried elsewhere."""


class Look:
    """One run over the queue."""

    def __init__(self, compiled: Compiled, guesses: Guesses = Guesses()) -> None:
        self._compiled = compiled
        self._options = compiled.problem.options
        self._best_effort = self._options.min_values_policy is MinValuesPolicy.BEST_EFFORT
        self.bins = Bins(compiled, latest_first=guesses.latest_first)
        self.pinner = Pinner(
            compiled.table,
            self.bins.domains,
            by_size=guesses.by_size,
            favourite=guesses.favourite,
        )
        self.demands = DemandReader(compiled)
        self._limits = Limits()
        self._reservations = Reservations(
            strict=self._options.reserved_strict, credits=self._options.reservation_credits
        )
        for pool in compiled.pools:
            if pool.root is not None:
                self._reservations.learn(pool.root)
        self.unplaced: list[QueuedPod] = []
        self.waiting: list[QueuedPod] = []
        """Pods that wait for reserved capacity."""
        self.unasked: list[QueuedPod] = []
        """Pods that were not looked at in time."""
        self._eligible_pools: dict[tuple[Tally, CompiledPool], bool] = {}

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
            except _MustWait:
                self.waiting.append(queued)
        return failed, placed

    def _must_stop(self) -> bool:
        return self._options.stop is not None and self._options.stop()

    # What came out.

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
        self._record_on_node(queued.pod_class, number)
        return True

    def _can_attach(self, pod_class: PodClass, number: int) -> bool:
        limit_of = self._compiled.attach_limit(number)
        attached = self.bins.attached(number)
        for driver, volumes in pod_class.shape.volumes.attached.items():
            limit = limit_of(driver)
            if limit is not None and len(attached.get(driver, set()) | volumes) > limit:
                return False
        return True

    def _record_on_node(self, pod_class: PodClass, number: int) -> None:
        shape, bit = pod_class.shape, 1 << number
        for tally in shape.counted:
            if tally.eligible_nodes & bit:
                self._count_on_node(tally, number)
        for tally in shape.owned:
            self._count_on_node(tally, number)

    def _count_on_node(self, tally: Tally, number: int) -> None:
        if tally.by_host:
            tally.add_to_bin(1 << number)
            return
        value = self._compiled.nodes.value(number, tally.key)
        if value is not None:
            tally.add_to_domain(value)

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
        fit, stepped = self._best_fit(claim.pool, claim.state, types, known, demands, claim)
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

    def _best_fit(
        self,
        pool: CompiledPool,
        start: State,
        types: int,
        known: ClassLevel,
        demands: list[Demand],
        claim: Claim | None,
    ) -> tuple[_Fit | None, bool]:
        """Return the first way to meet the pod's rules, and whether any alternative could be met.

        Raises:
            _MustWait: only capacity that is promised to others would do.

        """
        stepped = False
        for choice in known.shape_level.level.choices:
            state = start.step(choice)
            if state is None:
                continue
            stepped = True
            fit = self._settle(pool, state, types, demands, claim)
            if fit is not None:
                return fit, True
        return None, stepped

    def _settle(
        self,
        pool: CompiledPool,
        state: State,
        types: int,
        demands: list[Demand],
        claim: Claim | None,
    ) -> _Fit | None:
        """Return the fit in the best domains, or in the best that leave the pool's minValues."""
        if not demands and not pool.is_demanding:
            return _Fit(state, types) if state.types & types else None
        relaxed = claim.min_values_relaxed if claim is not None else False
        enough: Callable[[State], bool] | None = None
        if pool.min_values and not relaxed:

            def enough(settled: State) -> bool:
                return not pool.unmet_min_values(settled, settled.types & types)

        settled = self.pinner.pinned(state, types, demands, enough)
        if settled is None and enough is not None and claim is None and self._best_effort:
            settled, relaxed = self.pinner.pinned(state, types, demands), True
        return None if settled is None else self._reserved(pool, settled, types, claim, relaxed)

    def _reserved(
        self, pool: CompiledPool, state: State, types: int, claim: Claim | None, relaxed: bool
    ) -> _Fit | None:
        """Return the fit if the reservations agree to it."""
        held: frozenset[str] = claim.reserved if claim is not None else frozenset()
        if pool.has_reservations:
            verdict = self._reservations.decide(state, state.types & types, held)
            match verdict:
                case Wait():
                    raise _MustWait
                case UsedUp():
                    return None
                case Held(ids):
                    held = ids if self._stays_broad(pool, state, types, ids) else frozenset()
        return _Fit(state, types, held, relaxed)

    def _stays_broad(
        self, pool: CompiledPool, state: State, types: int, ids: frozenset[str]
    ) -> bool:
        """Whether what the reservations are for meets the pool's minValues by itself."""
        if not ids or not pool.min_values:
            return True
        kinds = state.kinds & Reservations.kinds_of(state.index, ids)
        left = state.types & types & state.index.offered(kinds)
        return not pool.unmet_min_values(state, left, kinds)

    def _put(self, queued: QueuedPod, claim: Claim, fit: _Fit) -> None:
        changed = fit.state is not claim.state
        self.bins.put_on_claim(claim, queued, fit.state, fit.types)
        if fit.reserved != claim.reserved:
            self._reservations.hold(claim.reserved, fit.reserved)
            claim.reserved = fit.reserved
        claim.min_values_relaxed = fit.relaxed
        if changed and claim.waiting:
            claim.waiting = [t for t in claim.waiting if not self._count_in_domain(t, claim)]
        shape = queued.pod_class.shape
        for tally in shape.counted:
            if tally.eligibility is EVERYWHERE or self._counts_on(tally, claim):
                self._count_on_claim(tally, claim)
        for tally in shape.owned:
            self._count_on_claim(tally, claim)

    def _count_on_claim(self, tally: Tally, claim: Claim) -> None:
        if tally.by_host:
            tally.add_to_bin(claim.bit)
        elif not self._count_in_domain(tally, claim):
            claim.waiting.append(tally)

    def _count_in_domain(self, tally: Tally, claim: Claim) -> bool:
        """Count a pod of the claim if its domain is certain; whether it was."""
        values = claim.state.values(tally.key)
        if values is None or len(values) > 1:
            return False
        for value in values:
            tally.add_to_domain(value)
        return True

    def _counts_on(self, tally: Tally, claim: Claim) -> bool:
        eligibility = tally.eligibility
        if eligibility.alternatives is not None and not any(
            claim.state.step(alternative) for alternative in eligibility.alternatives
        ):
            return False
        if eligibility.tolerations is None:
            return True
        identity = (tally, claim.pool)
        found = self._eligible_pools.get(identity)
        if found is None:
            found = self._eligible_pools[identity] = claim.pool.tolerated(tolerations_of(tally))
        return found

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
            fit = self._settle(pool, choice_state, types, demands, None)
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

    def _open(self, queued: QueuedPod, pool: CompiledPool, fit: _Fit) -> None:
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
    index, kinds = claim.pool.index, claim.state.kinds
    if claim.reserved:
        kinds &= Reservations.kinds_of(index, claim.reserved)
    return index.cheapest(claim.candidates, kinds)
