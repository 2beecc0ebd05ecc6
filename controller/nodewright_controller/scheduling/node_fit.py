"""What a pod needs of a node, and what each running node lacks for it; as texts for a person.

The solver knows all this as masks over many nodes at once. Here one pod is put beside each node by
itself, and the first thing that is in its way is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.pods import pod_requests
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.cluster.volumes import VolumeCatalog, VolumeProblem
from nodewright_controller.constraints.host_ports import HostPort, host_ports
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.constraints.taints import untolerated
from nodewright_controller.kernel.resources import Resources, human_amount
from nodewright_controller.scheduling.default_spreads import DefaultSpread
from nodewright_controller.scheduling.explanations import Fitting


def needs(pod: Pod, volumes: VolumeCatalog) -> Iterator[str]:
    """Yield what the pod needs: amounts in one text, then each rule.

    Raises:
        ValueError: the pod cannot be read; the message says what is wrong.

    """
    yield " · ".join([*amounts(pod_requests(pod)), "1 pod"])
    for alternative in _alternatives(pod):
        rules = [rule(found) for found in alternative.values()]
        if rules:
            yield ", ".join(rules)
    found = volumes.resolve(pod)
    if not isinstance(found, VolumeProblem) and found.origin:
        places = " or ".join(
            ", ".join(rule(one) for one in place.values()) for place in found.alternatives
        )
        yield f"{places}, because its volume claim {found.origin} is there"
    for port in host_ports(pod):
        yield f"host port {port}"
    for spread in pod.spec.topology_spread_constraints or ():
        soft = "" if spread.when_unsatisfiable == "DoNotSchedule" else " if possible"
        whose = ", a default of the scheduler" if isinstance(spread, DefaultSpread) else ""
        yield f"spread over {spread.topology_key}, skew at most {spread.max_skew}{soft}{whose}"


def amounts(resources: Resources) -> list[str]:
    """Return one text per resource, pods apart."""
    return [_amount(name, value) for name, value in resources.items() if value and name != "pods"]


def _amount(name: str, value: int) -> str:
    return f"{human_amount(name, value)} {name}"


def rule(requirement: Requirement) -> str:
    """Return a requirement as a person writes it: `KEY In a, b`."""
    return str(requirement).replace("['", "").replace("']", "").replace("', '", ", ")


def _alternatives(pod: Pod) -> tuple[Requirements, ...]:
    """Return what the node must be by selector and required affinity; one of them will do."""
    selector = Requirements.of_labels(pod.spec.node_selector or {})
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None or affinity.required is None:
        return (selector,)
    terms = affinity.required.node_selector_terms or ()
    return tuple(
        selector.merged(Requirements.of_entries(term.match_expressions or ())) for term in terms
    )


def fitting(pod: Pod, nodes: Iterable[StateNode], volumes: VolumeCatalog) -> Fitting:
    """Count the nodes that have what the pod needs, and what the others lack first.

    Raises:
        ValueError: the pod cannot be read; the message says what is wrong.

    """
    counts: Counter[str] = Counter()
    total, fit, gaps = 0, 0, list[tuple[float, str, str]]()
    wish = _Wish(pod, volumes)
    for node in nodes:
        total += 1
        lacks = wish.first_obstacle(node)
        if lacks:
            counts[lacks] += 1
            if lacks in wish.asked:
                gaps.append(_gap(node, lacks, wish.asked))
        else:
            fit += 1
    nearest = min(gaps, default=None)
    return Fitting(
        fit=fit,
        total=total,
        lacking=dict(sorted(counts.items(), key=lambda row: (-row[1], row[0]))),
        nearest=f"nearest {nearest[1]} lacks {nearest[2]}" if nearest else "",
    )


def _gap(node: StateNode, resource: str, asked: Resources) -> tuple[float, str, str]:
    missing = asked[resource] - node.available.get(resource, 0)
    return missing / asked[resource], node.name, _amount(resource, missing)


class _Wish:
    """What the pod needs, worked out once for all nodes."""

    def __init__(self, pod: Pod, volumes: VolumeCatalog) -> None:
        self.asked = pod_requests(pod)
        self._tolerations = pod.spec.tolerations or ()
        self._alternatives = _alternatives(pod)
        found = volumes.resolve(pod)
        self._places = None if isinstance(found, VolumeProblem) else found.alternatives
        self._ports = host_ports(pod)

    def first_obstacle(self, node: StateNode) -> str:
        """Return the first thing on the node that is in the way; empty when nothing here is."""
        for taint in untolerated(self._tolerations, node.taints):
            return f"taint {taint.key}"
        labels = Requirements.of_labels(node.labels)
        wrong = [_mismatch(labels, alternative) for alternative in self._alternatives]
        if wrong and all(wrong):
            return min(wrong, key=len)
        if self._places is not None and not any(labels.compatible(p) for p in self._places):
            return "volume zone"
        if self._ports and _any_conflict(self._ports, node):
            return "host port"
        room = node.available
        return next((name for name, value in self.asked.items() if value > room.get(name, 0)), "")


def _any_conflict(ports: Iterable[HostPort], node: StateNode) -> bool:
    taken = [port for other in node.pods for port in host_ports(other)]
    return any(port.conflicts(used) for port in ports for used in taken)


def _mismatch(labels: Requirements, asked: Requirements) -> str:
    keys = (*labels.undefined(asked), *labels.intersect_conflicts(asked))
    return keys[0].rpartition("/")[2] if keys else ""
