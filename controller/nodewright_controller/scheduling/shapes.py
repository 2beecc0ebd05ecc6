"""Pods with the same rules are one shape, and a shape has levels: its rules with ever fewer wishes.

Thousands of replicas are compiled once. Level 0 treats every preference as a rule; each further
level drops one, in Karpenter's order: preferred pod affinity, preferred pod anti-affinity and
preferred node affinity (heaviest first), `ScheduleAnyway` spreads, and last the wish to avoid
`PreferNoSchedule` taints. Required node affinity terms are alternatives at every level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nodewright_controller.api.pod import Toleration
from nodewright_controller.cluster.volumes import PodVolumes
from nodewright_controller.constraints.host_ports import HostPort
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.taints import TOLERATE_PREFERENCES
from nodewright_controller.scheduling.problem import PreferencePolicy
from nodewright_controller.scheduling.rules import Rules, Spread, Term
from nodewright_controller.scheduling.states import Constraint, ConstraintTable
from nodewright_controller.scheduling.topology import (
    EVERYWHERE,
    AffinityRule,
    Namespaces,
    SpreadRule,
    Tally,
    TallyBook,
)


@dataclass(slots=True, eq=False)
class Level:
    """The rules of a shape with some of its preferences."""

    alternatives: tuple[Constraint, ...]
    """The node must meet one: selector, a required term, and a preferred term while there is one."""
    choices: tuple[Constraint, ...]
    """The alternatives, each with each alternative of the volumes."""
    tolerations: tuple[Toleration, ...]
    spreads: tuple[SpreadRule, ...]
    affinities: tuple[AffinityRule, ...]
    antis: tuple[AffinityRule, ...]


@dataclass(slots=True, eq=False)
class Shape:
    """Everything that the pods of a shape have in common, but for their size."""

    number: int
    namespace: str
    labels: Mapping[str, str]
    levels: tuple[Level, ...]
    required: tuple[Constraint, ...]
    """Alternatives without preferences and volumes: what spread constraints go by."""
    ports: tuple[HostPort, ...]
    volumes: PodVolumes
    owned: tuple[Tally, ...] = ()
    """Tallies of owners that it adds to when it is placed: one per required anti-affinity term."""
    counted: tuple[Tally, ...] = ()
    """Tallies that select it; known once all shapes are."""
    kept_out: tuple[Tally, ...] = ()
    """Tallies of owners whose anti-affinity selects it."""
    certain_keys: tuple[str, ...] = ()
    """Topology keys that must have one value wherever it is placed."""
    may_change: bool = False
    """Whether pods placed later could open a place for it."""
    refuses_pools: bool = False
    """Whether every way to place it wants a node of no pool."""


@dataclass(slots=True)
class ShapeCompiler:
    """Ties rules to the tables of one round."""

    table: ConstraintTable
    tallies: TallyBook
    owners: TallyBook
    namespaces: Mapping[str, Mapping[str, str]]
    policy: PreferencePolicy
    soft_taints: bool
    """Whether any pool or node has a `PreferNoSchedule` taint."""
    _count: int = field(default=0)

    def compile(
        self,
        namespace: str,
        labels: Mapping[str, str],
        rules: Rules,
        ports: tuple[HostPort, ...],
        volumes: PodVolumes,
    ) -> Shape:
        """Return the shape of pods with these rules."""
        antis = self._terms(rules.antis, hard=True)
        parts = _Parts(
            required=rules.required,
            volumes=tuple([self.table.of(r.values()) for r in volumes.alternatives]),
            tolerations=rules.tolerations,
            spreads=self._spreads(rules.spreads),
            affinities=self._terms(rules.affinities, hard=True),
            antis=antis,
        )
        wishes = _NO_WISHES
        if self.policy is PreferencePolicy.RESPECT:
            wishes = _Wishes(
                affinities=self._terms(rules.wanted_affinities, hard=False),
                antis=self._terms(rules.wanted_antis, hard=False),
                nodes=rules.wanted_nodes,
                spreads=self._spreads(rules.wanted_spreads),
            )
        owned = (rule.tally for rule in antis)
        levels = tuple(self._levels(parts, wishes))
        shape = Shape(
            number=self._count,
            namespace=namespace,
            labels=labels,
            levels=levels,
            required=rules.required,
            ports=ports,
            volumes=volumes,
            may_change=any(level.spreads or level.affinities for level in levels),
            refuses_pools=rules.refuses_pools,
            owned=tuple([self.owners.tally(t.key, t.selector, t.namespaces) for t in owned]),
        )
        self._count += 1
        return shape

    def finish(self, shape: Shape) -> None:
        """Tell the shape which tallies select it; call it once all shapes are compiled."""
        shape.counted = self.tallies.selecting(shape.namespace, shape.labels)
        shape.kept_out = self.owners.selecting(shape.namespace, shape.labels)
        followed = {rule.tally for rule in shape.levels[-1].affinities}
        for tally in shape.counted:
            tally.waits = tally.waits or tally not in followed
        certain = {tally.key for tally in shape.counted if tally.hard and not tally.by_host}
        certain.update(t.key for t in (*shape.owned, *shape.kept_out) if not t.by_host)
        shape.certain_keys = tuple(sorted(certain))

    def _levels(self, parts: _Parts, wishes: _Wishes) -> list[Level]:
        levels = [self._level(parts, wishes)]
        levels.extend(self._level(parts, step) for step in wishes.relaxed())
        if self.soft_taints:
            given = (*parts.tolerations, TOLERATE_PREFERENCES)
            last = _Parts(
                parts.required, parts.volumes, given, parts.spreads, parts.affinities, parts.antis
            )
            levels.append(self._level(last, _NO_WISHES))
        return levels

    def _level(self, parts: _Parts, wishes: _Wishes) -> Level:
        alternatives = parts.required
        if wishes.nodes:
            preferred = self.table.of(wishes.nodes[0])
            alternatives = tuple(self.table.both(one, preferred) for one in alternatives)
        return Level(
            alternatives=alternatives,
            choices=tuple(
                [self.table.both(one, volume) for one in alternatives for volume in parts.volumes]
            ),
            tolerations=parts.tolerations,
            spreads=(*parts.spreads, *wishes.spreads),
            affinities=(*parts.affinities, *wishes.affinities),
            antis=(*parts.antis, *wishes.antis),
        )

    # Topology rules.

    def _spreads(self, spreads: Iterable[Spread]) -> tuple[SpreadRule, ...]:
        return tuple([self._spread(spread) for spread in spreads])

    def _spread(self, spread: Spread) -> SpreadRule:
        own = frozenset((spread.namespace,))
        return SpreadRule(
            self.tallies.tally(spread.key, spread.selector, own, spread.eligibility),
            max_skew=spread.max_skew,
            min_domains=spread.min_domains,
            counts_itself=spread.counts_itself,
            is_default=spread.is_default,
        )

    def _terms(self, terms: Iterable[Term], *, hard: bool) -> tuple[AffinityRule, ...]:
        return tuple([self._term(term, hard=hard) for term in terms])

    def _term(self, term: Term, *, hard: bool) -> AffinityRule:
        among = namespaces_of(term, self.namespaces)
        tally = self.tallies.tally(term.key, term.selector, among, EVERYWHERE, hard=hard)
        itself = term.matches_itself and (among is None or term.own in among)
        return AffinityRule(tally, counts_itself=itself, text=term.text)


def namespaces_of(term: Term, namespaces: Mapping[str, Mapping[str, str]]) -> Namespaces:
    """Return the namespaces of an affinity term: its own unless it lists or selects some."""
    selector = term.namespace_selector
    if selector is None:
        return frozenset(term.namespaces)
    if not selector.expressions:
        return None
    selected = {name for name, labels in namespaces.items() if selector.matches(labels)}
    return frozenset(selected.union(term.namespaces))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What is required."""

    required: tuple[Constraint, ...]
    volumes: tuple[Constraint, ...]
    tolerations: tuple[Toleration, ...]
    spreads: tuple[SpreadRule, ...]
    affinities: tuple[AffinityRule, ...]
    antis: tuple[AffinityRule, ...]


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What is preferred; only the first of `nodes` counts at a time."""

    affinities: tuple[AffinityRule, ...] = ()
    antis: tuple[AffinityRule, ...] = ()
    nodes: tuple[tuple[Requirement, ...], ...] = ()
    spreads: tuple[SpreadRule, ...] = ()

    def relaxed(self) -> list[_Wishes]:
        """Return what is left after each step, the last of which leaves nothing."""
        steps: list[_Wishes] = []
        affinities, antis, nodes = self.affinities, self.antis, self.nodes
        spreads = list(self.spreads)
        while affinities or antis or nodes or spreads:
            if affinities:
                affinities = affinities[1:]
            elif antis:
                antis = antis[1:]
            elif nodes:
                nodes = nodes[1:]
            else:
                spreads = spreads[1:]
            steps.append(_Wishes(affinities, antis, nodes, tuple(spreads)))
        return steps


_NO_WISHES = _Wishes()
