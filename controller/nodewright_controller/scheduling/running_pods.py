"""Pods that run where they are: which domains they fill, and whom they keep away.

They are counted once, before a round begins; the pods of the round itself are not among them, even
where they still run on a node that is going.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nodewright_controller.api.pod import Pod, Toleration
from nodewright_controller.cluster.pods import is_active
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.constraints.taints import untolerated
from nodewright_controller.scheduling.node_index import NodeIndex
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.rules import pod_term
from nodewright_controller.scheduling.shapes import namespaces_of
from nodewright_controller.scheduling.states import NEGATIVE, Constraint
from nodewright_controller.scheduling.topology import Tally, TallyBook


class RunningPods:
    """Counts them into the tallies of a round."""

    def __init__(
        self, problem: Problem, nodes: NodeIndex, tallies: TallyBook, owners: TallyBook
    ) -> None:
        self._problem = problem
        self._nodes = nodes
        self._tallies = tallies
        self._owners = owners
        self._moving = frozenset(pod.key for pod in problem.pods)
        self._owned: list[tuple[Tally, StateNode, int]] = []

    def own(self) -> None:
        """Make the owners' tallies of running pods, so that they keep new pods away."""
        for node, number in self._all_nodes():
            for pod in node.pods:
                if pod.spec.affinity is None or pod.spec.affinity.pod_anti_affinity is None:
                    continue
                if not is_active(pod) or pod.key in self._moving:
                    continue
                for tally in self._owned_by(pod):
                    self._owned.append((tally, node, number))

    def _owned_by(self, pod: Pod) -> list[Tally]:
        affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
        found = []
        for stated in (affinity.required if affinity else None) or ():
            term = pod_term(pod, stated, weight=0)
            namespaces = namespaces_of(term, self._problem.namespaces)
            found.append(self._owners.tally(term.key, term.selector, namespaces))
        return found

    def _all_nodes(self) -> Iterable[tuple[StateNode, int]]:
        """Yield nodes with their number; those that are going have -1."""
        yield from ((node, number) for number, node in enumerate(self._nodes.nodes))
        yield from ((node, -1) for node in self._problem.leaving)

    def count(self) -> None:
        """Count the pods that run where they are, by the tallies that select them."""
        for tally, node, number in self._owned:
            _count(tally, node, number)
        if not len(self._tallies):
            return
        for node, number in self._all_nodes():
            for pod in node.pods:
                selecting = self._tallies.selecting(pod.metadata.namespace, pod.labels)
                if not selecting or not is_active(pod) or pod.key in self._moving:
                    continue
                for tally in selecting:
                    if tally.eligible_nodes >> number & 1 if number >= 0 else _counts(tally, node):
                        _count(tally, node, number)


def _counts(tally: Tally, node: StateNode) -> bool:
    """Whether pods on a node that is going count by the tally's policies."""
    alternatives, tolerations = tally.eligibility.alternatives, tally.eligibility.tolerations
    if alternatives is not None and not any(
        _meets(node.labels, alternative) for alternative in alternatives
    ):
        return False
    return tolerations is None or not untolerated(tolerations_of(tally), node.taints)


def _meets(labels: Mapping[str, str], constraint: Constraint) -> bool:
    for requirement in constraint.stated:
        value = labels.get(requirement.key)
        if value is None:
            bounded = requirement.gte is not None or requirement.lte is not None
            if requirement.operator not in NEGATIVE or bounded:
                return False
        elif not requirement.has(value):
            return False
    return True


def _count(tally: Tally, node: StateNode, number: int) -> None:
    if tally.by_host:
        if number >= 0:
            tally.add_to_bin(1 << number)
        else:
            tally.total += 1
        return
    value = node.labels.get(tally.key)
    if value is not None:
        tally.add_to_domain(value)


def tolerations_of(tally: Tally) -> list[Toleration]:
    """Return the tolerations by which the tally picks its nodes."""
    return [
        Toleration(key=key, operator=operator, value=value, effect=effect)
        for key, operator, value, effect in tally.eligibility.tolerations or ()
    ]
