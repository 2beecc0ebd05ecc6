"""A pod's own rules about nodes, as constraints: selector, required terms, preferred terms."""

from __future__ import annotations

from collections.abc import Iterable

from nodewright_controller.api.pod import LabelSelectorRequirement, NodeSelectorTerm, Pod
from nodewright_controller.constraints.requirement import Operator, Requirement
from nodewright_controller.scheduling.states import Constraint, ConstraintTable


def _requirements(entries: Iterable[LabelSelectorRequirement]) -> list[Requirement]:
    return [Requirement.of(entry.key, entry.operator, entry.values or ()) for entry in entries]


def term_requirements(term: NodeSelectorTerm) -> list[Requirement]:
    """Return the requirements of a node selector term.

    Raises:
        ValueError: an expression is malformed.

    """
    return _requirements(term.match_expressions or ())


def selector_requirements(pod: Pod) -> list[Requirement]:
    """Return the requirements of the pod's nodeSelector."""
    selector = pod.spec.node_selector or {}
    return [Requirement.of(key, Operator.IN, (value,)) for key, value in selector.items()]


def required_alternatives(pod: Pod, table: ConstraintTable) -> tuple[Constraint, ...]:
    """Return what a node must meet one of: the selector with each required affinity term.

    Terms without any expression match nothing, as in Kubernetes, and terms that select by field
    match no node that is planned for; if only such terms are given, the result is empty.

    Raises:
        ValueError: a requirement is malformed; the message names its key.

    """
    selector = selector_requirements(pod)
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None or affinity.required is None:
        return (table.of(selector),)
    terms = affinity.required.node_selector_terms or []
    return tuple(
        table.of([*selector, *term_requirements(term)])
        for term in terms
        if term.match_expressions and not term.match_fields
    )


def preferred_terms(pod: Pod) -> list[list[Requirement]]:
    """Return the preferred node terms, heaviest first; equal weights keep their order.

    A wish that cannot be read, or that is about fields, is left out: a wish never holds a pod back.
    """
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    listed = (affinity.preferred if affinity else None) or []
    found = []
    for entry in sorted(listed, key=lambda entry: -entry.weight):
        if entry.preference.match_fields:
            continue
        try:
            found.append(term_requirements(entry.preference))
        except ValueError:
            continue
    return found
