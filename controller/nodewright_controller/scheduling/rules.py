"""What a pod asks of its place, read once: the pod's rules before they meet a world.

Pods with the same rules share them, and so do rounds: as long as a Deployment waits, its pods are
read once (`RuleBook`). Which pods run where is not looked at here; `scheduling.shapes` ties rules
to the counts of a round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from nodewright_controller.api.labels import NODEPOOL
from nodewright_controller.api.pod import (
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from nodewright_controller.cluster.pods import pod_requests
from nodewright_controller.constraints.host_ports import HostPort, host_ports
from nodewright_controller.constraints.requirement import Operator, Requirement
from nodewright_controller.constraints.selectors import Expression, Selector
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scheduling.default_spreads import DefaultSpread
from nodewright_controller.scheduling.states import Constraint, ConstraintTable
from nodewright_controller.scheduling.terms import preferred_terms, required_alternatives
from nodewright_controller.scheduling.topology import EVERYWHERE, Eligibility

_KEPT_RULES: Final = 4096
_ENCODER: Final = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """A topology spread constraint."""

    key: str
    selector: Selector
    namespace: str
    eligibility: Eligibility
    max_skew: int
    min_domains: int
    counts_itself: bool
    is_default: bool
    """Whether it stands in no pod, but in the scheduler's configuration."""


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A pod affinity or anti-affinity term."""

    key: str
    selector: Selector
    own: str
    """The pod's namespace."""
    matches_itself: bool
    """Whether the selector matches the pod, namespaces apart."""
    namespaces: tuple[str, ...]
    """Those that are listed; the pod's own if the term says nothing of namespaces."""
    namespace_selector: Selector | None
    """Selects further namespaces by their labels."""
    weight: int
    text: str
    """The selector, for a person to read."""


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Everything that a pod asks of its place, but for room, ports and volumes."""

    required: tuple[Constraint, ...]
    """The node must meet one: the selector with a required affinity term."""
    tolerations: tuple[Toleration, ...]
    spreads: tuple[Spread, ...]
    affinities: tuple[Term, ...]
    antis: tuple[Term, ...]
    wanted_nodes: tuple[tuple[Requirement, ...], ...]
    """Preferred node terms, heaviest first."""
    wanted_spreads: tuple[Spread, ...]
    wanted_affinities: tuple[Term, ...]
    """Heaviest first."""
    wanted_antis: tuple[Term, ...]
    refuses_pools: bool
    """Whether every way to place the pod wants a node of no pool."""


class RuleBook:
    """The rules and requests of pods, by what their specs say; one object for equal ones."""

    def __init__(self) -> None:
        self.table = ConstraintTable()
        self._rules: dict[bytes, Rules] = {}
        self._needs: dict[bytes, tuple[Resources, tuple[HostPort, ...]]] = {}

    @property
    def full(self) -> bool:
        """Whether so much was read that most of it will be about pods that are gone."""
        sizes = len(self.table), len(self._rules), len(self._needs)
        return max(sizes) > _KEPT_RULES

    def rules(self, pod: Pod) -> tuple[bytes, Rules]:
        """Return a key that equal rules have in common, and the rules.

        Raises:
            ValueError: a rule is malformed.

        """
        spec = pod.spec
        spreads = spec.topology_spread_constraints or []
        key = _ENCODER.encode(
            [
                pod.metadata.namespace,
                pod.metadata.labels,
                spec.node_selector,
                spec.affinity,
                spec.tolerations,
                spreads,
                bool(spreads) and isinstance(spreads[0], DefaultSpread),
            ]
        )
        found = self._rules.get(key)
        if found is None:
            found = self._rules.setdefault(key, _read(pod, self.table))
        return key, found

    def needs(self, pod: Pod) -> tuple[bytes, Resources, tuple[HostPort, ...]]:
        """Return a key that equal needs have in common, the requests, and the host ports.

        Raises:
            ValueError: a quantity is malformed.

        """
        spec, status = pod.spec, pod.status
        sized: list[object] = [spec.containers, spec.init_containers, spec.overhead, spec.resources]
        if status.container_statuses:
            sized += [status.container_statuses, status.init_container_statuses]
        key = _ENCODER.encode(sized)
        found = self._needs.get(key)
        if found is None:
            found = self._needs.setdefault(key, (pod_requests(pod), host_ports(pod)))
        return key, *found


class _Shared:
    """The book that rounds share."""

    book = RuleBook()


def rule_book() -> RuleBook:
    """Return the book for a round that begins; an empty one when the last has grown large."""
    if _Shared.book.full:
        _Shared.book = RuleBook()
    return _Shared.book


def _read(pod: Pod, table: ConstraintTable) -> Rules:
    required = required_alternatives(pod, table)
    affinity = pod.spec.affinity
    near = affinity.pod_affinity if affinity else None
    away = affinity.pod_anti_affinity if affinity else None
    listed = pod.spec.topology_spread_constraints or ()
    hard = [one for one in listed if one.when_unsatisfiable != "ScheduleAnyway"]
    soft = [one for one in listed if one.when_unsatisfiable == "ScheduleAnyway"]
    return Rules(
        required=required,
        tolerations=tuple(pod.spec.tolerations or ()),
        spreads=tuple(_spread(pod, one, required) for one in hard),
        affinities=_terms(pod, near),
        antis=_terms(pod, away),
        wanted_nodes=tuple(tuple(term) for term in preferred_terms(pod)),
        wanted_spreads=tuple(_spread(pod, one, required) for one in soft),
        wanted_affinities=_wanted(pod, near),
        wanted_antis=_wanted(pod, away),
        refuses_pools=bool(required) and all(map(_is_about_no_pool, required)),
    )


def _is_about_no_pool(one: Constraint) -> bool:
    return any(r.key == NODEPOOL and r.operator is Operator.DOES_NOT_EXIST for r in one.stated)


def _spread(
    pod: Pod, constraint: TopologySpreadConstraint, required: tuple[Constraint, ...]
) -> Spread:
    selector = Selector.of(constraint.label_selector)
    if constraint.match_label_keys:
        selector = selector.requiring(_same_labels(pod, constraint.match_label_keys, "In"))
    honored = constraint.node_affinity_policy != "Ignore"
    by_taints = constraint.node_taints_policy == "Honor"
    restricts = honored and (not required or any(one.stated for one in required))
    eligibility = EVERYWHERE
    if restricts or by_taints:
        eligibility = Eligibility(
            alternatives=required if restricts else None,
            tolerations=_tolerations(pod) if by_taints else None,
        )
    return Spread(
        key=constraint.topology_key,
        selector=selector,
        namespace=pod.metadata.namespace,
        eligibility=eligibility,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains or 1,
        counts_itself=selector.matches(pod.labels),
        is_default=isinstance(constraint, DefaultSpread),
    )


def _terms(pod: Pod, affinity: PodAffinity | None) -> tuple[Term, ...]:
    return tuple(
        pod_term(pod, term, weight=0) for term in (affinity.required if affinity else None) or ()
    )


def _wanted(pod: Pod, affinity: PodAffinity | None) -> tuple[Term, ...]:
    wanted = (
        pod_term(pod, one.pod_affinity_term, weight=one.weight)
        for one in (affinity.preferred if affinity else None) or ()
    )
    return tuple(sorted(wanted, key=lambda term: -term.weight))


def pod_term(pod: Pod, term: PodAffinityTerm, *, weight: int) -> Term:
    """Return a pod affinity or anti-affinity term of a pod."""
    selector = Selector.of(term.label_selector)
    if term.match_label_keys or term.mismatch_label_keys:
        selector = selector.requiring(_same_labels(pod, term.match_label_keys, "In"))
        selector = selector.requiring(_same_labels(pod, term.mismatch_label_keys, "NotIn"))
    own, listed, further = pod.metadata.namespace, tuple(term.namespaces or ()), None
    if term.namespace_selector is not None:
        further = Selector.of(term.namespace_selector)
    return Term(
        key=term.topology_key,
        selector=selector,
        own=own,
        matches_itself=selector.matches(pod.labels),
        namespaces=listed if listed or further is not None else (own,),
        namespace_selector=further,
        weight=weight,
        text=_text(selector),
    )


def _same_labels(pod: Pod, keys: Sequence[str] | None, operator: str) -> Iterable[Expression]:
    """Yield, for each key that the pod has a label of, what the other pod's label must be."""
    for key in keys or ():
        if key in pod.labels:
            yield Expression(key, operator, frozenset((pod.labels[key],)))


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
