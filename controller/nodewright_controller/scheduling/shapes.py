"""Pods with the same rules are one shape, and a shape has levels: its rules with ever fewer wishes.

Thousands of replicas are compiled once. Level 0 treats every preference as a rule; each further
level drops one, in Karpenter's order: preferred pod affinity, preferred pod anti-affinity and
preferred node affinity (heaviest first), `ScheduleAnyway` spreads, and last the wish to avoid
`PreferNoSchedule` taints. Required node affinity terms are alternatives at every level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nodewright_controller.api.pod import (
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from nodewright_controller.cluster.volumes import PodVolumes
from nodewright_controller.constraints.host_ports import HostPort
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.selectors import Expression, Selector
from nodewright_controller.constraints.taints import TOLERATE_PREFERENCES
from nodewright_controller.scheduling.problem import PreferencePolicy
from nodewright_controller.scheduling.states import Constraint, ConstraintTable
from nodewright_controller.scheduling.terms import preferred_terms, required_alternatives
from nodewright_controller.scheduling.topology import (
    EVERYWHERE,
    AffinityRule,
    Eligibility,
    Namespaces,
    SpreadRule,
    Tally,
    TallyBook,
)


@dataclass(slots=True, eq=False)
class Level:
    """The rules of a shape with some of its preferences."""

    number: int
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
    hard_antis: tuple[AffinityRule, ...] = ()
    """Its required anti-affinity, which keeps others away as well."""
    owned: tuple[Tally, ...] = ()
    """Tallies of owners that it adds to when it is placed: one per required anti-affinity term."""
    counted: tuple[Tally, ...] = ()
    """Tallies that select it; known once all shapes are."""
    kept_out: tuple[Tally, ...] = ()
    """Tallies of owners whose anti-affinity selects it."""
    certain_keys: tuple[str, ...] = ()
    """Topology keys that must have one value wherever it is placed."""


@dataclass(slots=True)
class ShapeCompiler:
    """Compiles shapes against the tables of one round."""

    table: ConstraintTable
    tallies: TallyBook
    owners: TallyBook
    namespaces: Mapping[str, Mapping[str, str]]
    policy: PreferencePolicy
    soft_taints: bool
    """Whether any pool or node has a `PreferNoSchedule` taint."""
    _count: int = field(default=0)

    def compile(self, pod: Pod, ports: tuple[HostPort, ...], volumes: PodVolumes) -> Shape:
        """Return the shape of a pod.

        Raises:
            ValueError: a rule of the pod is malformed.

        """
        required = required_alternatives(pod, self.table)
        affinity = pod.spec.affinity
        antis = self._terms(pod, affinity.pod_anti_affinity if affinity else None)
        parts = _Parts(
            required=required,
            volumes=tuple(self.table.of(r.values()) for r in volumes.alternatives),
            tolerations=tuple(pod.spec.tolerations or ()),
            spreads=tuple(self._spreads(pod, required, hard=True)),
            affinities=self._terms(pod, affinity.pod_affinity if affinity else None),
            antis=antis,
        )
        wishes = _Wishes()
        if self.policy is PreferencePolicy.RESPECT:
            wishes = _Wishes(
                affinities=self._wanted(pod, affinity.pod_affinity if affinity else None),
                antis=self._wanted(pod, affinity.pod_anti_affinity if affinity else None),
                nodes=tuple(tuple(term) for term in preferred_terms(pod)),
                spreads=tuple(self._spreads(pod, required, hard=False)),
            )
        shape = Shape(
            number=self._count,
            namespace=pod.metadata.namespace,
            labels=pod.labels,
            levels=tuple(self._levels(parts, wishes)),
            required=required,
            ports=ports,
            volumes=volumes,
            hard_antis=antis,
            owned=tuple(
                self.owners.tally(rule.tally.key, rule.tally.selector, rule.tally.namespaces)
                for rule in antis
            ),
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
        levels = [self._level(0, parts, wishes)]
        for step in wishes.relaxed():
            levels.append(self._level(len(levels), parts, step))
        if self.soft_taints:
            given = (*parts.tolerations, TOLERATE_PREFERENCES)
            last = _Parts(
                parts.required, parts.volumes, given, parts.spreads, parts.affinities, parts.antis
            )
            levels.append(self._level(len(levels), last, _Wishes()))
        return levels

    def _level(self, number: int, parts: _Parts, wishes: _Wishes) -> Level:
        alternatives = parts.required
        if wishes.nodes:
            preferred = self.table.of(wishes.nodes[0])
            alternatives = tuple(self.table.both(one, preferred) for one in alternatives)
        return Level(
            number=number,
            alternatives=alternatives,
            choices=tuple(
                self.table.both(one, volume) for one in alternatives for volume in parts.volumes
            ),
            tolerations=parts.tolerations,
            spreads=(*parts.spreads, *wishes.spreads),
            affinities=(*parts.affinities, *wishes.affinities),
            antis=(*parts.antis, *wishes.antis),
        )

    # Topology rules.

    def _spreads(
        self, pod: Pod, required: tuple[Constraint, ...], *, hard: bool
    ) -> list[SpreadRule]:
        return [
            self._spread(pod, constraint, required)
            for constraint in pod.spec.topology_spread_constraints or ()
            if (constraint.when_unsatisfiable != "ScheduleAnyway") is hard
        ]

    def _spread(
        self, pod: Pod, constraint: TopologySpreadConstraint, required: tuple[Constraint, ...]
    ) -> SpreadRule:
        selector = Selector.of(constraint.label_selector)
        selector = selector.requiring(_same_labels(pod, constraint.match_label_keys, "In"))
        honored = constraint.node_affinity_policy != "Ignore"
        restricts = any(alternative.stated for alternative in required) or not required
        eligibility = Eligibility(
            alternatives=required if honored and restricts else None,
            tolerations=_tolerations(pod) if constraint.node_taints_policy == "Honor" else None,
        )
        namespaces = frozenset((pod.metadata.namespace,))
        tally = self.tallies.tally(constraint.topology_key, selector, namespaces, eligibility)
        return SpreadRule(
            tally,
            max_skew=constraint.max_skew,
            min_domains=constraint.min_domains or 1,
            counts_itself=selector.matches(pod.labels),
        )

    def _terms(self, pod: Pod, affinity: PodAffinity | None) -> tuple[AffinityRule, ...]:
        terms = (affinity.required if affinity else None) or ()
        return tuple(self._term(pod, term, hard=True, weight=0) for term in terms)

    def _wanted(self, pod: Pod, affinity: PodAffinity | None) -> tuple[AffinityRule, ...]:
        terms = (affinity.preferred if affinity else None) or ()
        rules = (
            self._term(pod, term.pod_affinity_term, hard=False, weight=term.weight)
            for term in terms
        )
        return tuple(sorted(rules, key=lambda rule: -rule.weight))

    def _term(self, pod: Pod, term: PodAffinityTerm, *, hard: bool, weight: int) -> AffinityRule:
        selector = Selector.of(term.label_selector)
        selector = selector.requiring(_same_labels(pod, term.match_label_keys, "In"))
        selector = selector.requiring(_same_labels(pod, term.mismatch_label_keys, "NotIn"))
        namespaces = self._namespaces(pod, term)
        tally = self.tallies.tally(term.topology_key, selector, namespaces, EVERYWHERE, hard=hard)
        itself = tally.selects(pod.metadata.namespace, pod.labels)
        return AffinityRule(tally, counts_itself=itself, weight=weight, text=_text(selector))

    def _namespaces(self, pod: Pod, term: PodAffinityTerm) -> Namespaces:
        return term_namespaces(term, pod.metadata.namespace, self.namespaces)


def term_namespaces(
    term: PodAffinityTerm, own: str, namespaces: Mapping[str, Mapping[str, str]]
) -> Namespaces:
    """Return the namespaces of an affinity term: its own unless it lists or selects some."""
    listed = term.namespaces or []
    if term.namespace_selector is None:
        return frozenset(listed or (own,))
    selector = Selector.of(term.namespace_selector)
    if not selector.expressions:
        return None
    return frozenset(listed) | {n for n, labels in namespaces.items() if selector.matches(labels)}


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


def _same_labels(pod: Pod, keys: Sequence[str] | None, operator: str) -> list[Expression]:
    return [
        Expression(key, operator, frozenset((pod.labels[key],)))
        for key in keys or ()
        if key in pod.labels
    ]


def _tolerations(pod: Pod) -> tuple[tuple[str, str, str, str], ...]:
    listed = pod.spec.tolerations or ()
    return tuple(sorted((t.key, t.operator, t.value, t.effect) for t in listed))


def _text(selector: Selector) -> str:
    parts = []
    for expression in sorted(selector.expressions, key=lambda e: (e.key, e.operator)):
        values = ",".join(sorted(expression.values))
        exact = expression.operator == "In" and len(expression.values) == 1
        parts.append(f"{expression.key}={values}" if exact else f"{expression.key} {values}")
    return " ".join(parts) or "any pod"
