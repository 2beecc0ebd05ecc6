"""Which topology domains a pod may go to now, and how a claim is pinned to one.

The rules of a level are folded into one `Demand` per topology key; bins that cannot satisfy a
demand are masked out at once, and a claim that could still be in several domains is pinned to the
best of them: the emptiest for a spread, then the cheapest, then the one with the fewest nodes, so
that pods with spreads find room everywhere and a lost zone takes less along; then by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from nodewright_controller.scheduling.bins import Domains
from nodewright_controller.scheduling.classes import ClassLevel, PodClass, ShapeLevel
from nodewright_controller.scheduling.compiled import Compiled
from nodewright_controller.scheduling.shapes import Shape
from nodewright_controller.scheduling.states import ConstraintTable, State
from nodewright_controller.scheduling.topology import AffinityRule, SpreadRule, Tally

_NONE: Final[frozenset[str]] = frozenset()
_NOTHING: Final[Mapping[str, int]] = {}


class Demand(NamedTuple):
    """What one topology key must be."""

    key: str
    allowed: frozenset[str] | None
    """The domains to choose from; None means any, or none at all."""
    blocked: frozenset[str]
    """Domains that are out."""
    counts: Mapping[str, int]
    """Pods per domain of the first spread; the emptiest comes first."""

    def admits(self, value: str) -> bool:
        """Whether the domain will do."""
        if value in self.blocked:
            return False
        return self.allowed is None or value in self.allowed

    def bins(self, domains: Domains) -> int:
        """Return the bins that are, or may come to be, in a domain that will do."""
        if self.allowed is not None:
            mask = 0
            for value in self.allowed:
                if value not in self.blocked:
                    mask |= domains.bins(value)
            return mask
        if not self.blocked:
            return -1
        mask = ~domains.having | domains.open
        for value, bins in domains.with_value.items():
            if value not in self.blocked:
                mask |= bins
        return mask


class _OnKey(NamedTuple):
    """The rules of a level on one topology key."""

    key: str
    spreads: tuple[SpreadRule, ...]
    affinities: tuple[AffinityRule, ...]
    repelling: tuple[Tally, ...]
    """Pods that keep the pod out of their domains."""

    @property
    def counts(self) -> Mapping[str, int]:
        """The pods per domain that count first when domains are compared."""
        return self.spreads[0].tally.counts if self.spreads else _NOTHING


class DemandReader:
    """Reads the demands of pods off the tallies, as they stand."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._interned: dict[frozenset[str], frozenset[str]] = {}
        self._plans: dict[ShapeLevel, tuple[_OnKey, ...]] = {}

    def demands(self, pod_class: PodClass, known: ClassLevel) -> list[Demand]:
        """Return one demand per topology key other than the host name."""
        found = []
        for on_key in self._plan(pod_class.shape, known.shape_level):
            allowed: frozenset[str] | None = None
            for spread in on_key.spreads:
                domains = spread.open_domains(self.reach(pod_class, known, spread))
                allowed = domains if allowed is None else allowed & domains
            for affinity in on_key.affinities:
                # Where it starts a domain, a node without the label will not do: it is in none.
                domains = (
                    self._everywhere(on_key.key, known)
                    if affinity.first
                    else frozenset(affinity.tally.counts)
                )
                allowed = domains if allowed is None else allowed & domains
            blocked = _NONE
            if on_key.repelling:
                blocked = blocked.union(*[tally.counts for tally in on_key.repelling])
            found.append(Demand(on_key.key, allowed, blocked, on_key.counts))
        return found

    def _plan(self, shape: Shape, shape_level: ShapeLevel) -> tuple[_OnKey, ...]:
        """Return the rules of a level by topology key."""
        found = self._plans.get(shape_level)
        if found is None:
            level = shape_level.level
            repelling = [rule.tally for rule in level.antis] + list(shape.kept_out)
            tallies = [rule.tally for rule in level.spreads] + repelling
            tallies.extend(rule.tally for rule in level.affinities)
            keys = {tally.key for tally in tallies if not tally.by_host}
            found = self._plans[shape_level] = tuple(
                _OnKey(
                    key,
                    tuple([rule for rule in level.spreads if rule.tally.key == key]),
                    tuple([rule for rule in level.affinities if rule.tally.key == key]),
                    tuple([tally for tally in repelling if tally.key == key]),
                )
                for key in sorted(keys.union(shape.certain_keys))
            )
        return found

    def host_bins(self, pod_class: PodClass, known: ClassLevel) -> int:
        """Return the bins that the rules about single hosts leave open."""
        level = known.shape_level.level
        mask = -1
        for spread in level.spreads:
            if spread.tally.by_host:
                mask &= spread.open_bins()
        for anti in level.antis:
            if anti.tally.by_host:
                mask &= ~anti.tally.bins_with(1)
        for tally in pod_class.shape.kept_out:
            if tally.by_host:
                mask &= ~tally.bins_with(1)
        for affinity in level.affinities:
            if affinity.tally.by_host and not affinity.first:
                mask &= affinity.tally.bins_with(1)
        return mask

    def needs_company(self, known: ClassLevel) -> bool:
        """Whether an affinity by host name rules a fresh node out."""
        return any(
            rule.tally.by_host and not rule.first for rule in known.shape_level.level.affinities
        )

    def reach(self, pod_class: PodClass, known: ClassLevel, spread: SpreadRule) -> frozenset[str]:
        """Return the domains over which a spread is measured for this pod.

        These are the domains of nodes that count by the constraint's policies, and those in which
        a pool could make a node that holds the pod. A zone that nobody can launch in is none.
        """
        found = known.reach.get(spread.tally)
        if found is None:
            tally = spread.tally
            values = {
                value
                for value, nodes in self._compiled.nodes.labels.get(tally.key, {}).items()
                if nodes & tally.eligible_nodes
            }
            values.update(self._makeable(pod_class, known, tally.key))
            plain = frozenset(values)
            found = known.reach[tally] = self._interned.setdefault(plain, plain)
        return found

    def _makeable(self, pod_class: PodClass, known: ClassLevel, key: str) -> Iterator[str]:
        for pool in known.shape_level.reachable:
            holding = self._compiled.holding(known, pool, pod_class)
            for alternative in pod_class.shape.required:
                state = pool.root.step(alternative) if pool.root is not None else None
                if state is not None:
                    yield from self._values_to_be_had(state, holding, key)

    def _values_to_be_had(self, state: State, types: int, key: str) -> Iterator[str]:
        """Yield the values of nodes that could be bought now; a full reservation makes none."""
        if self._compiled.problem.options.reservation_credits:
            values = state.values(key)
        else:
            values = state.launchable_values(key)
        for value, found in (values or {}).items():
            if found & types:
                yield value

    def _everywhere(self, key: str, known: ClassLevel) -> frozenset[str]:
        values = set(self._compiled.nodes.labels.get(key, ()))
        for pool in known.shape_level.pools:
            values.update((pool.root.values(key) if pool.root is not None else None) or ())
        return frozenset(values)


class Pinner:
    """Settles in which domains a claim shall be.

    Among domains with equally many pods the cheapest is taken, by the price of a node for what is
    on the claim now. If more pods will follow it there, the price for what a node holds (`by_size`)
    may be the better guess, or the domain that turns out to be cheap for all of them (`favourite`);
    which it is cannot be known before they are placed.
    """

    def __init__(
        self,
        table: ConstraintTable,
        domains: Mapping[str, Domains],
        *,
        by_size: bool = False,
        favourite: tuple[str, str] | None = None,
    ) -> None:
        self._table = table
        self._domains = domains
        self._by_size = by_size
        self._favourite = favourite
        self.rivals: set[tuple[str, str]] = set()
        """Domains, as (topology key, value), that were compared and differ in price."""

    def pinned(
        self,
        state: State,
        types: int,
        demands: Sequence[Demand],
        enough: Callable[[State], bool] | None = None,
    ) -> State | None:
        """Return the state with every demand settled so that some of the types remain, or None.

        `enough` says whether what remains will do; domains are tried in order until it does.
        """
        if not demands:
            if not state.types & types or (enough is not None and not enough(state)):
                return None
            return state
        demand, rest = demands[0], demands[1:]
        values = state.values(demand.key)
        if values is None:
            if demand.allowed is None:
                return self.pinned(state, types, rest, enough)
            values = dict.fromkeys(demand.allowed, state.types)
        elif not values:
            # No node made from here will have the label: it is in no domain.
            return self.pinned(state, types, rest, enough) if demand.allowed is None else None
        for value in self._best_first(state, types, demand, values):
            settled = state.step(self._table.equals(demand.key, value))
            if settled is not None and settled.types & types:
                found = self.pinned(settled, types, rest, enough)
                if found is not None:
                    return found
        return None

    def _best_first(
        self, state: State, types: int, demand: Demand, values: Mapping[str, int]
    ) -> Iterator[str]:
        options = [v for v, mask in values.items() if mask & types and demand.admits(v)]
        if len(options) < 2:
            yield from options
            return
        by_count: dict[int, list[str]] = {}
        for value in options:
            by_count.setdefault(demand.counts.get(value, 0), []).append(value)
        for count in sorted(by_count):
            alike = by_count[count]
            yield from self._ranked(state, types, demand, alike) if len(alike) > 1 else alike

    def _ranked(self, state: State, types: int, demand: Demand, alike: Sequence[str]) -> list[str]:
        prices = {value: self._price_in(state, types, demand.key, value) for value in alike}
        if len(set(prices.values())) > 1:
            self.rivals.update((demand.key, value) for value in alike)
        bins = self._domains[demand.key].with_value

        def rank(value: str) -> tuple[bool, float, int, str]:
            other = (demand.key, value) != self._favourite
            return other, prices[value], bins.get(value, 0).bit_count(), value

        return sorted(alike, key=rank)

    def _price_in(self, state: State, types: int, key: str, value: str) -> float:
        index = state.index
        kinds = state.kinds & index.kind_values.get(key, {}).get(value, state.kinds)
        values = state.values(key)
        types &= values.get(value, 0) if values is not None else state.types
        return index.cheapest(types, kinds, by_size=self._by_size)
