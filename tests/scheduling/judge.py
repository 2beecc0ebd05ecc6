"""A slow and obvious judge of decisions: every Kubernetes rule, checked pod by pod.

It shares only the API types, the label algebra of single requirements and the arithmetic of
resources with the product; no index, no mask, no state. `judge` returns sentences, none when all
is well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nodewright_controller.api import labels as names
from nodewright_controller.api.node import Taint
from nodewright_controller.api.pod import (
    LabelSelector,
    LabelSelectorRequirement,
    Pod,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from nodewright_controller.api.volumes import PersistentVolumeClaim
from nodewright_controller.cluster.pods import pod_requests
from nodewright_controller.cluster.volumes import EBS_DRIVER
from nodewright_controller.constraints.host_ports import host_ports
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.kernel.resources import Resources, total
from nodewright_controller.scheduling.decision import Decision, PlannedClaim
from nodewright_controller.scheduling.problem import PoolOffer, Problem


@dataclass(frozen=True, kw_only=True)
class Place:
    """A node as it is, or as it may turn out."""

    name: str
    possible: tuple[Mapping[str, str], ...]
    """The label sets it may have: one for a node, one per type and offering for a claim."""
    taints: tuple[Taint, ...]
    placed: tuple[Pod, ...] = ()
    running: tuple[Pod, ...] = ()
    new: bool = False
    going: bool = False

    def values(self, key: str) -> set[str]:
        """The values that a label may have; empty if it has none."""
        if key == names.HOSTNAME:
            return {self.name}
        return {labels[key] for labels in self.possible if key in labels}


def judge(problem: Problem, decision: Decision) -> list[str]:
    """Return every rule that the decision breaks."""
    faults = list(_everyone_once(problem, decision))
    places = [*_nodes(problem, decision), *_claims(problem, decision)]
    for place in places:
        faults += _labels_and_taints(place)
        faults += _ports(problem, place)
    for existing in problem.nodes:
        faults += _node_room(problem, decision, existing.name)
    for claim in decision.new_claims:
        faults += _claim_room(problem, claim)
        faults += _min_values(problem, claim)
        faults += _barred(problem, claim)
    for place in places:
        faults += _volume_places(problem, place)
    faults += _attachments(problem, decision)
    faults += _reservations(problem, decision)
    faults += _limits(problem, decision)
    faults += _anti_affinity(problem, places)
    faults += _affinity(problem, places)
    faults += _spread(problem, places)
    faults += _left_out(problem, decision)
    return faults


def _everyone_once(problem: Problem, decision: Decision) -> Iterator[str]:
    seen: list[str] = list(decision.placements)
    seen += [key for claim in decision.new_claims for key in claim.pods]
    seen += [one.pod for one in decision.unschedulable]
    seen += [one.pod for one in decision.deferred]
    if sorted(seen) != sorted(pod.key for pod in problem.pods):
        yield f"not every pod is spoken for once: {sorted(seen)}"


# Places.


def _nodes(problem: Problem, decision: Decision) -> Iterator[Place]:
    by_key = {pod.key: pod for pod in problem.pods}
    for existing in (*problem.nodes, *problem.leaving):
        placed = [by_key[k] for k, name in decision.placements.items() if name == existing.name]
        yield Place(
            name=existing.name,
            possible=(existing.labels,),
            taints=existing.taints,
            placed=tuple(placed),
            running=tuple(pod for pod in existing.pods if pod.key not in by_key),
            going=existing in problem.leaving,
        )


def _claims(problem: Problem, decision: Decision) -> Iterator[Place]:
    by_key = {pod.key: pod for pod in problem.pods}
    for number, claim in enumerate(decision.new_claims):
        yield Place(
            name=f"new-{number}",
            possible=tuple(labels for _, labels in _outcomes(problem, claim)),
            taints=claim.taints,
            placed=tuple(by_key[key] for key in claim.pods),
            new=True,
        )


def _offer(problem: Problem, claim: PlannedClaim) -> PoolOffer:
    return next(o for o in problem.node_pools if o.node_pool.name == claim.node_pool)


def _types(problem: Problem, claim: PlannedClaim) -> list[InstanceType]:
    wanted = set(claim.instance_types)
    return [t for t in _offer(problem, claim).instance_types if t.name in wanted]


def _outcomes(
    problem: Problem, claim: PlannedClaim
) -> Iterator[tuple[InstanceType, Mapping[str, str]]]:
    """Every way the claim may turn out, as labels."""
    custom = {
        key: sorted(requirement.values) or []
        for key, requirement in claim.requirements.items()
        if not requirement.complement and requirement.values
    }
    for instance_type in _types(problem, claim):
        for offering in instance_type.offerings:
            if not offering.available:
                continue
            labels = {**instance_type.requirements.labels(), **offering.requirements.labels()}
            allowed = all(
                claim.requirements.of(key).has(value)
                for key, value in labels.items()
                if key in claim.requirements
            )
            if not allowed:
                continue
            options: list[dict[str, str]] = [{**claim.labels, **labels}]
            for key, values in custom.items():
                if key not in labels and key not in claim.labels:
                    options = [{**one, key: value} for one in options for value in values]
            for key, requirement in claim.requirements.items():
                if requirement.complement and key not in labels:
                    value = requirement.any_value()
                    options = [{**one, key: value} if value else one for one in options]
            for one in options:
                yield instance_type, one


# Rules about one node.


def _expression_holds(entry: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    key = names.NORMALIZED.get(entry.key, entry.key)
    value, values = labels.get(key), entry.values or []
    if entry.operator == "In":
        return value is not None and value in values
    if entry.operator == "NotIn":
        return value is None or value not in values
    if entry.operator == "Exists":
        return value is not None
    if entry.operator == "DoesNotExist":
        return value is None
    if entry.operator in ("Gt", "Lt") and len(values) == 1:
        if value is None or not value.isdecimal():
            return False
        return (
            int(value) > int(values[0]) if entry.operator == "Gt" else int(value) < int(values[0])
        )
    raise NotImplementedError(entry.operator)


def _node_rules_hold(pod: Pod, labels: Mapping[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in (pod.spec.node_selector or {}).items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None or affinity.required is None:
        return True
    return any(
        all(_expression_holds(entry, labels) for entry in term.match_expressions or ())
        for term in affinity.required.node_selector_terms or ()
    )


def _tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    for toleration in tolerations:
        key_fits = not toleration.key or toleration.key == taint.key
        effect_fits = not toleration.effect or toleration.effect == taint.effect
        exists = toleration.operator == "Exists"
        value_fits = exists or (bool(toleration.key) and toleration.value == taint.value)
        if key_fits and effect_fits and value_fits:
            return True
    return False


def _labels_and_taints(place: Place) -> Iterator[str]:
    for pod in place.placed:
        if place.going:
            yield f"{pod.key} is sent to {place.name}, which is going"
        if not place.possible:
            yield f"{place.name} cannot be had at all"
        for labels in place.possible:
            if not _node_rules_hold(pod, labels):
                yield f"{pod.key} may not be on {place.name} with {dict(labels)}"
        for taint in place.taints:
            hard = taint.effect != "PreferNoSchedule"
            if hard and not _tolerates(pod.spec.tolerations or (), taint):
                yield f"{pod.key} does not tolerate {taint.key} of {place.name}"


def _daemons_on(problem: Problem, labels: Mapping[str, str], taints: Sequence[Taint]) -> list[Pod]:
    certain = {names.REGISTERED: "true", names.INITIALIZED: "true"}
    return [
        daemon
        for daemon in problem.daemon_pods
        if _node_rules_hold(daemon, {**labels, **certain})
        and all(
            _tolerates(daemon.spec.tolerations or (), taint)
            for taint in taints
            if taint.effect != "PreferNoSchedule"
        )
    ]


def _ports(problem: Problem, place: Place) -> Iterator[str]:
    for labels in place.possible:
        daemons = _daemons_on(problem, labels, place.taints)
        if not place.new:
            daemons = [d for d in daemons if not _runs(d, place.running)]
        pods = [*place.placed, *place.running, *daemons]
        for position, one in enumerate(pods):
            for other in pods[position + 1 :]:
                if one not in place.placed and other not in place.placed:
                    continue
                if any(p.conflicts(q) for p in host_ports(one) for q in host_ports(other)):
                    yield f"{one.key} and {other.key} want the same port of {place.name}"


def _runs(daemon: Pod, pods: Iterable[Pod]) -> bool:
    owner = daemon.owners[0].name
    return any(o.kind == "DaemonSet" and o.name == owner for pod in pods for o in pod.owners)


def _exceeding(asked: Resources, room: Resources) -> list[str]:
    return [name for name, amount in asked.items() if amount > room.get(name, 0)]


def _node_room(problem: Problem, decision: Decision, name: str) -> Iterator[str]:
    existing = next(node for node in problem.nodes if node.name == name)
    by_key = {pod.key: pod for pod in problem.pods}
    placed = [by_key[key] for key, found in decision.placements.items() if found == name]
    if not placed:
        return
    coming = [
        daemon
        for daemon in _daemons_on_node(problem, existing.labels, existing.taints)
        if not _runs(daemon, existing.pods)
    ]
    asked = total(pod_requests(pod) for pod in [*placed, *existing.pods, *coming])
    for resource in _exceeding(asked, existing.allocatable):
        yield f"node {name} has too little {resource}"


def _daemons_on_node(
    problem: Problem, labels: Mapping[str, str], taints: Sequence[Taint]
) -> list[Pod]:
    return [
        daemon
        for daemon in problem.daemon_pods
        if _node_rules_hold(daemon, labels)
        and all(
            _tolerates(daemon.spec.tolerations or (), taint)
            for taint in taints
            if taint.effect != "PreferNoSchedule"
        )
    ]


def _claim_room(problem: Problem, claim: PlannedClaim) -> Iterator[str]:
    by_key = {pod.key: pod for pod in problem.pods}
    outcomes = list(_outcomes(problem, claim))
    for name in set(claim.instance_types) - {t.name for t, _ in outcomes}:
        yield f"type {name} of a claim of {claim.node_pool} cannot be bought as asked"
    for instance_type, labels in outcomes:
        daemons = _daemons_on(problem, labels, claim.taints)
        asked = total(pod_requests(pod) for pod in [*(by_key[k] for k in claim.pods), *daemons])
        for resource in _exceeding(asked, instance_type.allocatable):
            yield f"{instance_type.name} has too little {resource} for {claim.pods}"


def _min_values(problem: Problem, claim: PlannedClaim) -> Iterator[str]:
    if claim.min_values_relaxed:
        if problem.options.min_values_policy != "BestEffort":
            yield f"minValues of {claim.node_pool} are relaxed, and must not be"
        return
    for entry in _offer(problem, claim).node_pool.spec.template.spec.requirements:
        if entry.min_values is None:
            continue
        values = set()
        for instance_type, labels in _outcomes(problem, claim):
            values.add(labels.get(entry.key, instance_type.name))
        if len(values) < entry.min_values:
            yield f"claim of {claim.node_pool} has {len(values)} values of {entry.key}"


def _barred(problem: Problem, claim: PlannedClaim) -> Iterator[str]:
    for key in claim.pods:
        for bar in problem.barred.get(key, ()):
            names_listed = [bar.instance_type] if bar.instance_type else claim.instance_types
            if bar.node_pool == claim.node_pool and set(names_listed) & set(claim.instance_types):
                yield f"{key} is to get {names_listed}, which missed it"


# Volumes.


def _claims_of(problem: Problem, pod: Pod) -> Iterator[PersistentVolumeClaim]:
    for found in pod.spec.volumes or ():
        if found.persistent_volume_claim is not None:
            name = found.persistent_volume_claim.claim_name
            claim = problem.volumes.claims.get(f"{pod.metadata.namespace}/{name}")
            if claim is not None:
                yield claim


def _volume_places(problem: Problem, place: Place) -> Iterator[str]:
    for pod in place.placed:
        for claim in _claims_of(problem, pod):
            if not all(_reaches(problem, claim, labels) for labels in place.possible):
                yield f"{pod.key} on {place.name} cannot use its claim {claim.key}"


def _reaches(problem: Problem, claim: PersistentVolumeClaim, labels: Mapping[str, str]) -> bool:
    volume = problem.volumes.volumes.get(claim.spec.volume_name)
    if volume is not None:
        required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
        terms = (required.node_selector_terms if required else None) or ()
        return not terms or any(
            all(_expression_holds(entry, labels) for entry in term.match_expressions or ())
            for term in terms
        )
    topologies = problem.volumes.classes[claim.spec.storage_class_name or ""].allowed_topologies
    return not topologies or any(
        all(
            labels.get(names.NORMALIZED.get(entry.key, entry.key)) in (entry.values or ())
            for entry in topology.match_label_expressions or ()
        )
        for topology in topologies
    )


def _attachments(problem: Problem, decision: Decision) -> Iterator[str]:
    by_key = {pod.key: pod for pod in problem.pods}
    limits = {
        t.name: t.volume_limits.get(EBS_DRIVER)
        for o in problem.node_pools
        for t in o.instance_types
    }
    for node in problem.nodes:
        placed = [by_key[k] for k, name in decision.placements.items() if name == node.name]
        pods = [*placed, *(pod for pod in node.pods if pod.key not in by_key)]
        used = {c.spec.volume_name or c.key for pod in pods for c in _claims_of(problem, pod)}
        attached = used | _left_attached(problem, node.name)
        limit = _node_limit(
            problem, node.name, limits.get(node.labels.get(names.INSTANCE_TYPE, ""))
        )
        bringing = any(list(_claims_of(problem, pod)) for pod in placed)
        if bringing and limit is not None and len(attached) > limit:
            yield f"{node.name} attaches {len(attached)} volumes, over {limit}"
    for number, planned in enumerate(decision.new_claims):
        attached = {c.key for key in planned.pods for c in _claims_of(problem, by_key[key])}
        for name in planned.instance_types:
            limit = limits[name]
            if limit is not None and len(attached) > limit:
                yield f"claim {number} may be {name}, which attaches {limit}, not {len(attached)}"


def _left_attached(problem: Problem, node: str) -> set[str]:
    """The volumes that are attached to a node, used or not."""
    return {
        found.spec.source.persistent_volume_name or ""
        for found in problem.volumes.attachments.get(node, ())
        if found.spec.attacher == EBS_DRIVER
    }


def _node_limit(problem: Problem, node: str, of_type: int | None) -> int | None:
    """What the node says of its driver; while the driver has not registered, its type's limit."""
    said = problem.volumes.csi_nodes.get(node)
    for driver in (said.spec.drivers if said else None) or ():
        if driver.name == EBS_DRIVER:
            return driver.allocatable.count if driver.allocatable else None
    return of_type


# Reservations.


def _reservations(problem: Problem, decision: Decision) -> Iterator[str]:
    left: dict[str, int] = {}
    for offer in problem.node_pools:
        for instance_type in offer.instance_types:
            for offering in instance_type.offerings:
                rule = offering.requirements.of(names.CAPACITY_RESERVATION_ID)
                for name in rule.values:
                    left[name] = min(left.get(name, 99), offering.reservation_capacity)
    for planned in decision.new_claims:
        for name in planned.reservations:
            left[name] -= 1
    for name, count in left.items():
        if count + problem.options.reservation_credits.get(name, 0) < 0:
            yield f"more claims hold reservation {name} than it has instances"


def _limits(problem: Problem, decision: Decision) -> Iterator[str]:
    for offer in problem.node_pools:
        limits = Resources.parse(offer.node_pool.spec.limits)
        name = offer.node_pool.name
        claims = [claim for claim in decision.new_claims if claim.node_pool == name]
        if not claims:
            continue
        running = [node for node in problem.nodes if node.node_pool_name == name]
        for resource, limit in limits.items():
            used = sum(1 if resource == "nodes" else n.capacity.get(resource, 0) for n in running)
            for claim in claims:
                most = max(t.capacity.get(resource, 0) for t in _types(problem, claim))
                used += 1 if resource == "nodes" else most
            if used > limit:
                yield f"pool {name} may come to {used} {resource}, over {limit}"


# Rules between pods.


def _selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    exact = all(labels.get(k) == v for k, v in (selector.match_labels or {}).items())
    return exact and all(_expression_holds(e, labels) for e in selector.match_expressions or ())


def _term_selects(problem: Problem, term: PodAffinityTerm, owner: Pod, other: Pod) -> bool:
    spaces = set(term.namespaces or ())
    if term.namespace_selector is not None:
        spaces |= {
            n for n, ls in problem.namespaces.items() if _selects(term.namespace_selector, ls)
        }
    elif not spaces:
        spaces = {owner.metadata.namespace}
    return other.metadata.namespace in spaces and _selects(term.label_selector, other.labels)


def _anti_terms(pod: Pod) -> list[PodAffinityTerm]:
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return (affinity.required if affinity else None) or []


def _pairs(places: Sequence[Place]) -> Iterator[tuple[Place, Pod, Place, Pod]]:
    everyone = [(place, pod) for place in places for pod in (*place.placed, *place.running)]
    for one_place, one in everyone:
        for other_place, other in everyone:
            if one is not other and (one in one_place.placed or other in other_place.placed):
                yield one_place, one, other_place, other


def _anti_affinity(problem: Problem, places: Sequence[Place]) -> Iterator[str]:
    for one_place, one, other_place, other in _pairs(places):
        for term in _anti_terms(one):
            if not _term_selects(problem, term, one, other):
                continue
            shared = one_place.values(term.topology_key) & other_place.values(term.topology_key)
            if shared:
                yield f"{one.key} and {other.key} must be apart, and may share {sorted(shared)}"


def _affinity(problem: Problem, places: Sequence[Place]) -> Iterator[str]:
    for place in places:
        for pod in place.placed:
            affinity = pod.spec.affinity.pod_affinity if pod.spec.affinity else None
            for term in (affinity.required if affinity else None) or ():
                yield from _one_affinity(problem, places, place, pod, term)


def _one_affinity(
    problem: Problem, places: Sequence[Place], place: Place, pod: Pod, term: PodAffinityTerm
) -> Iterator[str]:
    mine = place.values(term.topology_key)
    if len(mine) != 1:
        yield f"{pod.key} has a {term.topology_key} affinity and its domain is {sorted(mine)}"
        return
    others = [
        (where, other)
        for where in places
        for other in (*where.placed, *where.running)
        if other is not pod and _term_selects(problem, term, pod, other)
    ]
    if any(where.values(term.topology_key) == mine for where, _ in others):
        return
    starts = _term_selects(problem, term, pod, pod)
    elsewhere = [where for where, _ in others if where.values(term.topology_key)]
    if not starts or elsewhere:
        yield f"{pod.key} is not near what it wants by {term.topology_key}"


def _spread(problem: Problem, places: Sequence[Place]) -> Iterator[str]:
    for place in places:
        for pod in place.placed:
            for constraint in pod.spec.topology_spread_constraints or ():
                if constraint.when_unsatisfiable == "ScheduleAnyway":
                    continue
                yield from _one_spread(problem, places, place, pod, constraint)


def _one_spread(
    problem: Problem,
    places: Sequence[Place],
    place: Place,
    pod: Pod,
    constraint: TopologySpreadConstraint,
) -> Iterator[str]:
    key = constraint.topology_key
    mine = place.values(key)
    if len(mine) != 1:
        yield f"{pod.key} is spread by {key} and its domain is {sorted(mine)}"
        return
    counted = [
        (where, other)
        for where in places
        for other in (*where.placed, *where.running)
        if other.metadata.namespace == pod.metadata.namespace
        and _selects(constraint.label_selector, other.labels)
        and any(_node_rules_hold(pod, labels) for labels in where.possible)
    ]
    same = all(
        constraint in (other.spec.topology_spread_constraints or ())
        and other.spec.node_selector == pod.spec.node_selector
        and _node_affinity(other) == _node_affinity(pod)
        and (other.spec.tolerations == pod.spec.tolerations)
        and _asked(other) == _asked(pod)
        and problem.barred.get(other.key) == problem.barred.get(pod.key)
        for where, other in counted
        if other in where.placed
    )
    if not same:
        return  # the order of binding decides; it cannot be told from the end state
    counts: dict[str, int] = {}
    for where, _ in counted:
        for value in where.values(key) if len(where.values(key)) == 1 else ():
            counts[value] = counts.get(value, 0) + 1
    least = 0
    if key != names.HOSTNAME:
        reachable = _reachable(problem, pod, key)
        least = min((counts.get(value, 0) for value in reachable), default=0)
        if constraint.min_domains is not None and len(reachable) < constraint.min_domains:
            least = 0
    domain = next(iter(mine))
    if counts.get(domain, 0) - least > constraint.max_skew:
        yield f"{pod.key}: {key} {domain} has {counts.get(domain)}, the emptiest {least}"


def _node_affinity(pod: Pod) -> object:
    return pod.spec.affinity.node_affinity if pod.spec.affinity else None


def _asked(pod: Pod) -> Resources:
    return pod_requests(pod)


def _reachable(problem: Problem, pod: Pod, key: str) -> set[str]:
    found = set()
    for node in problem.nodes:
        if key in node.labels and _node_rules_hold(pod, node.labels):
            found.add(node.labels[key])
    for _, labels in fresh_nodes(problem, pod):
        if key in labels:
            found.add(labels[key])
    return found


def fresh_nodes(problem: Problem, pod: Pod) -> Iterator[tuple[InstanceType, Mapping[str, str]]]:
    """Every node that some pool could make and that would hold the pod by itself.

    A daemon that may run on some node of that type and pool is counted on all of them.
    """
    for offer in problem.node_pools:
        taints = offer.node_pool.spec.template.spec.taints or []
        hard = [taint for taint in taints if taint.effect != "PreferNoSchedule"]
        if offer.unready or not all(_tolerates(pod.spec.tolerations or (), t) for t in hard):
            continue
        barred = {
            bar.instance_type
            for bar in problem.barred.get(pod.key, ())
            if bar.node_pool == offer.node_pool.name
        }
        for instance_type in offer.instance_types:
            if barred & {"", instance_type.name}:
                continue
            everything = _made(offer, instance_type, only_available=False)
            daemons = {d.key: d for ls in everything for d in _daemons_on(problem, ls, taints)}
            asked = total(pod_requests(one) for one in [pod, *daemons.values()])
            if _exceeding(asked, instance_type.allocatable):
                continue
            credits = bool(problem.options.reservation_credits)
            for labels in _made(offer, instance_type, only_available=True, credits=credits):
                if _node_rules_hold(pod, labels):
                    yield instance_type, labels


def _made(
    offer: PoolOffer, instance_type: InstanceType, *, only_available: bool, credits: bool = False
) -> list[dict[str, str]]:
    """The label sets that a node of this pool and type may have."""
    found = []
    for offering in instance_type.offerings:
        launchable = offering.available if credits else offering.launchable
        if launchable or not only_available:
            fixed = {**instance_type.requirements.labels(), **offering.requirements.labels()}
            found += _with_pool_labels(offer, fixed)
    return found


def _with_pool_labels(offer: PoolOffer, fixed: Mapping[str, str]) -> list[dict[str, str]]:
    pool = offer.node_pool
    options: list[dict[str, str]] = [
        {**fixed, **(pool.spec.template.metadata.labels or {}), names.NODEPOOL: pool.name}
    ]
    for entry in pool.spec.template.spec.requirements:
        rule = Requirement.of(entry.key, entry.operator, entry.values or ())
        grown = []
        for labels in options:
            if rule.key in labels:
                grown += [labels] if rule.has(labels[rule.key]) else []
            elif not rule.complement:
                grown += [{**labels, rule.key: value} for value in sorted(rule.values)]
            elif rule.operator == "Exists":
                grown += [{**labels, rule.key: value} for value in ("x", "y", "0")]
            else:
                grown.append(labels)
        options = grown
    return options


def _left_out(problem: Problem, decision: Decision) -> Iterator[str]:
    """Pods without a place that a node of their own would have held, whatever the others do."""
    by_key = {pod.key: pod for pod in problem.pods}
    limited = any(offer.node_pool.spec.limits for offer in problem.node_pools)
    for failed in decision.unschedulable:
        pod = by_key[failed.pod]
        between_pods = pod.spec.topology_spread_constraints or (
            pod.spec.affinity
            and (pod.spec.affinity.pod_affinity or pod.spec.affinity.pod_anti_affinity)
        )
        kept_out = any(
            _term_selects(problem, term, other, pod)
            for other in (
                *problem.pods,
                *(p for n in (*problem.nodes, *problem.leaving) for p in n.pods),
            )
            for term in _anti_terms(other)
        )
        claims = list(_claims_of(problem, pod))
        if len(claims) < len(pod.spec.volumes or ()):
            continue
        if limited or between_pods or kept_out or host_ports(pod) or pod.key in problem.barred:
            continue
        for instance_type, labels in fresh_nodes(problem, pod):
            if labels[names.CAPACITY_TYPE] == names.RESERVED or _is_broad(problem, labels):
                continue
            if len(claims) > instance_type.volume_limits.get(EBS_DRIVER, len(claims)):
                continue
            if not all(_reaches(problem, claim, labels) for claim in claims):
                continue
            yield f"{pod.key} is left out though {instance_type.name} {labels} would hold it"
            break


def _is_broad(problem: Problem, labels: Mapping[str, str]) -> bool:
    """Whether the pool of a node has minValues, which one node cannot show to be met."""
    offer = next(o for o in problem.node_pools if o.node_pool.name == labels[names.NODEPOOL])
    return any(e.min_values is not None for e in offer.node_pool.spec.template.spec.requirements)
