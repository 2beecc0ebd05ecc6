"""How a claim may take a pod: which alternative, which domains, which reservations.

What a look has to guess on the way (`Guesses`) is decided by whoever asks for the look.
Upstream: nodeclaim.go of the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from nodewright_controller.scheduling.bins import Bins, Claim
from nodewright_controller.scheduling.classes import ClassLevel
from nodewright_controller.scheduling.compiled import Compiled
from nodewright_controller.scheduling.domains import Demand, Pinner
from nodewright_controller.scheduling.pools import CompiledPool
from nodewright_controller.scheduling.problem import MinValuesPolicy
from nodewright_controller.scheduling.reservations import Held, Reservations, UsedUp, Wait
from nodewright_controller.scheduling.states import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """What a look assumes where it cannot know; no guess is the better one in every world."""

    latest_first: bool = False
    """Of equally full claims, fill the one that was filled last, not the one that was made first."""
    by_size: bool = False
    """Compare domains by the price for what a node holds, not by that of the smallest fitting one."""
    favourite: tuple[str, str] | None = None
    """Topology key and domain that is taken before others with as many pods, whatever it costs."""


NO_GUESSES: Final = Guesses()


class Fit(NamedTuple):
    """How a claim would look with the pod on it. One is made per pod: a tuple is made quickly."""

    state: State
    types: int
    reserved: frozenset[str] = frozenset()
    relaxed: bool = False


class MustWait(Exception):
    """Reserved capacity is promised to others; the pod is neither relaxed nor tried elsewhere."""


class Fitter:
    """Finds fits within one look."""

    def __init__(self, compiled: Compiled, bins: Bins, guesses: Guesses) -> None:
        options = compiled.problem.options
        self._best_effort = options.min_values_policy is MinValuesPolicy.BEST_EFFORT
        self.pinner = Pinner(
            compiled.table,
            bins.domains,
            by_size=guesses.by_size,
            favourite=guesses.favourite,
        )
        self.reservations = Reservations(
            strict=options.reserved_strict, credits=options.reservation_credits
        )
        for pool in compiled.pools:
            if pool.root is not None:
                self.reservations.learn(pool.root)

    def best_fit(
        self,
        pool: CompiledPool,
        start: State,
        types: int,
        known: ClassLevel,
        demands: list[Demand],
        claim: Claim | None,
    ) -> tuple[Fit | None, bool]:
        """Return the first way to meet the pod's rules, and whether any alternative could be met.

        Raises:
            MustWait: only capacity that is promised to others would do.

        """
        stepped = False
        for choice in known.shape_level.level.choices:
            state = start.step(choice)
            if state is None:
                continue
            stepped = True
            fit = self.settle(pool, state, types, demands, claim)
            if fit is not None:
                return fit, True
        return None, stepped

    def settle(
        self,
        pool: CompiledPool,
        state: State,
        types: int,
        demands: list[Demand],
        claim: Claim | None,
    ) -> Fit | None:
        """Return the fit in the best domains, or in the best that leave the pool's minValues."""
        if not demands and not pool.is_demanding:
            return Fit(state, types) if state.types & types else None
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
    ) -> Fit | None:
        """Return the fit if the reservations agree to it."""
        held: frozenset[str] = claim.reserved if claim is not None else frozenset()
        if pool.has_reservations:
            verdict = self.reservations.decide(state, state.types & types, held)
            match verdict:
                case Wait():
                    raise MustWait
                case UsedUp():
                    return None
                case Held(ids):
                    held = ids if self._stays_broad(pool, state, types, ids) else frozenset()
        return Fit(state, types, held, relaxed)

    def _stays_broad(
        self, pool: CompiledPool, state: State, types: int, ids: frozenset[str]
    ) -> bool:
        """Whether what the reservations are for meets the pool's minValues by itself."""
        if not ids or not pool.min_values:
            return True
        kinds = state.kinds & Reservations.kinds_of(state.index, ids)
        left = state.types & types & state.index.offered(kinds)
        return not pool.unmet_min_values(state, left, kinds)
