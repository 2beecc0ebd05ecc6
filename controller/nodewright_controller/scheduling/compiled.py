"""A problem made ready to be solved: integer ids, masks, and pods grouped into classes.

Reading is done here once per round. A pod that cannot be read is set aside with its reason and
never stops the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from nodewright_controller.api.pod import Pod, Toleration
from nodewright_controller.cluster.pods import is_active
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.cluster.volumes import (
    NO_VOLUMES,
    PodVolumes,
    VolumeProblem,
    VolumeProblemKind,
)
from nodewright_controller.constraints.host_ports import HostPort
from nodewright_controller.constraints.taints import PREFER_NO_SCHEDULE, untolerated
from nodewright_controller.kernel.resources import CPU, MEMORY, Resources
from nodewright_controller.scheduling.decision import Refusal
from nodewright_controller.scheduling.guard import Bar
from nodewright_controller.scheduling.node_index import NodeIndex
from nodewright_controller.scheduling.pools import (
    CompiledPool,
    compile_daemons,
)
from nodewright_controller.scheduling.problem import Problem, ordered
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.rules import pod_term, rule_book
from nodewright_controller.scheduling.shapes import Level, Shape, ShapeCompiler, namespaces_of
from nodewright_controller.scheduling.states import NEGATIVE, Constraint
from nodewright_controller.scheduling.topology import Tally, TallyBook
from nodewright_controller.scheduling.type_index import type_index

_UNUSABLE = {
    VolumeProblemKind.CLAIM_DELETING: "is being deleted",
    VolumeProblemKind.CLAIM_LOST: "has lost its volume",
    VolumeProblemKind.VOLUME_NOT_FOUND: "names volume {detail}, which does not exist",
    VolumeProblemKind.NOT_BOUND_YET: "is not bound to volume {detail} yet",
    VolumeProblemKind.NO_STORAGE_CLASS: "is unbound and has no storage class",
    VolumeProblemKind.STORAGE_CLASS_NOT_FOUND: "names storage class {detail}, which does not exist",
}


@dataclass(slots=True, eq=False)
class Size:
    """A vector of requests, and which bins have turned out to be too full for it."""

    requests: Resources
    vector: tuple[tuple[int, int], ...] = ()
    """(resource id, amount), zero amounts left out."""
    nodes: int = 0
    """Nodes that had room when the round began."""
    full: int = 0
    """Bins without room; bins only fill up, so this only grows."""


@dataclass(slots=True, eq=False)
class ShapeLevel:
    """What is known about a shape at one of its levels, for pods of every size."""

    level: Level
    nodes: int
    """Nodes whose labels, taints and static rules admit it."""
    pools: tuple[CompiledPool, ...]
    """Pools whose taints it tolerates, in order."""
    reachable: tuple[CompiledPool, ...] = ()
    """Pools it could be on at all; `PreferNoSchedule` does not keep a pod from a domain."""
    dead: int = 0
    """Bins that can never take it."""
    host_rules: bool = False
    """Whether any rule is about single hosts."""
    domain_rules: bool = False
    """Whether any rule is about other topology domains."""


@dataclass(slots=True, eq=False)
class ClassLevel:
    """What is known about a class at one level."""

    shape_level: ShapeLevel
    dead: int = 0
    """Bins that can never take it."""
    dead_in: dict[tuple[str, str], int] = field(default_factory=dict)
    """(topology key, value) to bins that can never take it there."""
    reach: dict[Tally, frozenset[str]] = field(default_factory=dict)
    """Domains in which it could ever be, per tally of a spread."""
    fresh: dict[CompiledPool, int] = field(default_factory=dict)
    """Types of a pool that hold it alone."""


@dataclass(slots=True, eq=False)
class PodClass:
    """Pods of one shape and one size: for the solver they are the same."""

    shape: Shape
    size: Size
    bars: tuple[Bar, ...] = ()
    """Shapes that missed these pods and are not bought for them now."""
    levels: list[ClassLevel] = field(default_factory=list)
    is_plain: bool = field(init=False)
    """Whether nothing but room and rules decides which types may hold it."""

    def __post_init__(self) -> None:
        """Look at what it brings once: it is asked for with every try."""
        self.is_plain = not (self.shape.ports or self.shape.volumes.attached or self.bars)


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod to place."""

    pod: Pod
    pod_class: PodClass


class Compiled:
    """All tables of a round."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._book = rule_book()
        self.table = self._book.table
        self.tallies = TallyBook()
        self.owners = TallyBook()
        self.rejected: dict[str, Refusal] = {}
        self._moving = frozenset(pod.key for pod in problem.pods)
        self.daemons = compile_daemons(problem.daemon_pods, self.table)
        self._sizes: dict[bytes, Size] = {}
        self._shapes: dict[bytes, Shape] = {}
        self._classes: dict[tuple[int, int, tuple[Bar, ...]], PodClass] = {}
        self._shape_levels: dict[Level, ShapeLevel] = {}
        self._attach_limits: dict[int, Callable[[str], int | None]] = {}
        self._type_limits: dict[str, Mapping[str, int]] | None = None
        self.soft_taints = self._any_soft_taint()
        self._shape_compiler = ShapeCompiler(
            table=self.table,
            tallies=self.tallies,
            owners=self.owners,
            namespaces=problem.namespaces,
            policy=problem.options.preference_policy,
            soft_taints=self.soft_taints,
        )
        queue = self._read_pods(problem.pods)
        self.resources = self._number_resources()
        self.nodes = NodeIndex(problem.nodes, self.daemons, self.resources)
        for size in self._sizes.values():
            size.nodes = self.nodes.fitting(size.vector)
        self.pools = self._compile_pools()
        self._own_existing_antis()
        for shape in self._shapes.values():
            self._shape_compiler.finish(shape)
        self.keys = tuple(sorted({tally.key for tally in self._tallies() if not tally.by_host}))
        for tally in self.tallies.all():
            tally.eligible_nodes = self._eligible_nodes(tally)
        self._count_running()
        for tally in self._tallies():
            tally.begin()
        self.queue = sorted(queue, key=_order)

    def _tallies(self) -> Iterable[Tally]:
        return (*self.tallies.all(), *self.owners.all())

    def rewind(self) -> None:
        """Forget what a round did, so that another can begin with the same tables."""
        for tally in self._tallies():
            tally.rewind()
        for pool in self.pools:
            pool.rewind()
        for size in self._sizes.values():
            size.full = 0
        for shape_level in self._shape_levels.values():
            shape_level.dead = 0
        for pod_class in self._classes.values():
            for known in pod_class.levels:
                known.dead = 0
                known.dead_in.clear()

    # Pods.

    def _read_pods(self, pods: Iterable[Pod]) -> list[QueuedPod]:
        queue = []
        for pod in pods:
            try:
                pod_class = self._read(pod)
            except ValueError as error:
                self.rejected[pod.key] = Refusal(
                    reason=Reason.INVALID, parameters={"detail": str(error)}
                )
                continue
            if isinstance(pod_class, Refusal):
                self.rejected[pod.key] = pod_class
            else:
                queue.append(QueuedPod(pod, pod_class))
        return queue

    def _read(self, pod: Pod) -> PodClass | Refusal:
        size_key, requests, ports = self._book.needs(pod)
        size = self._sizes.get(size_key)
        if size is None:
            size = self._sizes[size_key] = Size(requests)
        held = _not_planned(pod)
        if held is not None:
            return held
        volumes = self.problem.volumes.resolve(pod) if pod.spec.volumes else NO_VOLUMES
        if isinstance(volumes, VolumeProblem):
            return _volume_refusal(volumes)
        shape = self._shape(pod, ports, volumes)
        if shape.refuses_pools:
            return Refusal(reason=Reason.NO_POOL_WANTED)
        bars = self.problem.barred.get(pod.key, ()) if self.problem.barred else ()
        identity = (shape.number, id(size), bars)
        found = self._classes.get(identity)
        if found is None:
            found = self._classes[identity] = PodClass(shape, size, bars)
        return found

    def _shape(self, pod: Pod, ports: tuple[HostPort, ...], volumes: PodVolumes) -> Shape:
        key, rules = self._book.rules(pod)
        if ports or volumes is not NO_VOLUMES:
            key += repr((ports, volumes.alternatives, sorted(volumes.attached.items()))).encode()
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shape_compiler.compile(
                pod.metadata.namespace, pod.labels, rules, ports, volumes
            )
            self._shapes[key] = shape
        return shape

    def _number_resources(self) -> tuple[str, ...]:
        names = sorted({n for size in self._sizes.values() for n, v in size.requests.items() if v})
        number = {name: position for position, name in enumerate(names)}
        for size in self._sizes.values():
            size.vector = tuple(
                sorted((number[name], amount) for name, amount in size.requests.items() if amount)
            )
        return tuple(names)

    # Pools.

    def _any_soft_taint(self) -> bool:
        pools = (
            offer.node_pool.spec.template.spec.taints or () for offer in self.problem.node_pools
        )
        nodes = (node.taints for node in self.problem.nodes)
        return any(
            taint.effect == PREFER_NO_SCHEDULE for taints in (*pools, *nodes) for taint in taints
        )

    def _compile_pools(self) -> tuple[CompiledPool, ...]:
        pools = []
        for offer in ordered(self.problem.node_pools):
            index = type_index(offer.instance_types)
            pool = CompiledPool(offer, index, self.daemons, self.table, self.resources)
            if not pool.unready:
                pool.set_limits(self.problem.nodes)
            pools.append(pool)
        return tuple(pools)

    @cached_property
    def label_setters(self) -> Mapping[str, frozenset[str]]:
        """Pool to the labels that it gives its nodes, or chooses them by."""
        found = {}
        for pool in self.pools:
            template = pool.node_pool.spec.template
            keys = {entry.key for entry in template.spec.requirements}
            found[pool.name] = frozenset(keys | set(template.metadata.labels or {}))
        return found

    @cached_property
    def _usable_pools(self) -> tuple[CompiledPool, ...]:
        return tuple([p for p in self.pools if p.root is not None and not p.unready])

    # Levels.

    def class_level(self, pod_class: PodClass, number: int) -> ClassLevel:
        """Return what is known about a class at a level, worked out on first use."""
        while len(pod_class.levels) <= number:
            level = pod_class.shape.levels[len(pod_class.levels)]
            pod_class.levels.append(ClassLevel(self._shape_level(pod_class.shape, level)))
        return pod_class.levels[number]

    def _shape_level(self, shape: Shape, level: Level) -> ShapeLevel:
        found = self._shape_levels.get(level)
        if found is None:
            given = level.tolerations
            pools = reachable = self._usable_pools
            if any(pool.taints for pool in pools):
                pools = tuple([p for p in pools if p.tolerated(given)])
                reachable = tuple(
                    [p for p in reachable if p.tolerated(given, ignore_preferences=True)]
                )
            nodes = 0
            if self.nodes.everything:
                nodes = self.nodes.matching_any(level.choices) & self.nodes.tolerated(given)
            found = self._shape_levels[level] = ShapeLevel(level, nodes, pools, reachable)
            tallies = [rule.tally for rule in level.spreads]
            tallies.extend(rule.tally for rule in (*level.affinities, *level.antis))
            by_host = [tally.by_host for tally in (*tallies, *shape.kept_out)]
            found.host_rules = any(by_host)
            found.domain_rules = bool(shape.certain_keys) or not all(by_host)
        return found

    def holding(self, known: ClassLevel, pool: CompiledPool, pod_class: PodClass) -> int:
        """Return the types of a pool that hold one pod of the class beside the daemons."""
        found = known.fresh.get(pool)
        if found is None:
            found = pool.usable
            for resource, amount in pod_class.size.vector:
                found &= pool.room[resource].at_least(amount)
            shape = pod_class.shape
            if shape.ports:
                found &= pool.free_of(shape.ports)
            if shape.volumes.attached:
                found &= pool.attaching(shape.volumes.attached)
            if pod_class.bars:
                found &= ~barred_types(pod_class, pool)
            known.fresh[pool] = found
        return found

    def attach_limit(self, number: int) -> Callable[[str], int | None]:
        """Return the function from CSI driver to how many volumes a node attaches."""
        found = self._attach_limits.get(number)
        if found is None:
            if self._type_limits is None:
                self._type_limits = {
                    t.name: t.volume_limits for pool in self.pools for t in pool.index.types
                }
            catalog = self.problem.volumes
            found = self.nodes.attach_limits(catalog.attach_limits, self._type_limits, number)
            self._attach_limits[number] = found
        return found

    # Topology.

    def _own_existing_antis(self) -> None:
        """Make the owners' tallies of running pods, so that they keep new pods away."""
        self._running_owners: list[tuple[Tally, StateNode, int]] = []
        for node, number in self._all_nodes():
            for pod in node.pods:
                if pod.spec.affinity is None or pod.spec.affinity.pod_anti_affinity is None:
                    continue
                if not is_active(pod) or pod.key in self._moving:
                    continue
                for tally in self._owned_by(pod):
                    self._running_owners.append((tally, node, number))

    def _owned_by(self, pod: Pod) -> list[Tally]:
        affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
        found = []
        for stated in (affinity.required if affinity else None) or ():
            term = pod_term(pod, stated, weight=0)
            namespaces = namespaces_of(term, self.problem.namespaces)
            found.append(self.owners.tally(term.key, term.selector, namespaces))
        return found

    def _all_nodes(self) -> Iterable[tuple[StateNode, int]]:
        """Yield nodes with their number; those that are going have -1."""
        yield from ((node, number) for number, node in enumerate(self.nodes.nodes))
        yield from ((node, -1) for node in self.problem.leaving)

    def _eligible_nodes(self, tally: Tally) -> int:
        mask = self.nodes.everything
        if tally.eligibility.alternatives is not None:
            mask &= self.nodes.matching_any(tally.eligibility.alternatives)
        if tally.eligibility.tolerations is not None:
            mask &= self.nodes.tolerated(tolerations_of(tally))
        return mask

    def _count_running(self) -> None:
        """Count the pods that run where they are, by the tallies that select them."""
        for tally, node, number in self._running_owners:
            _count(tally, node, number)
        if not len(self.tallies):
            return
        for node, number in self._all_nodes():
            for pod in node.pods:
                selecting = self.tallies.selecting(pod.metadata.namespace, pod.labels)
                if not selecting or not is_active(pod) or pod.key in self._moving:
                    continue
                for tally in selecting:
                    if tally.eligible_nodes >> number & 1 if number >= 0 else _counts(tally, node):
                        _count(tally, node, number)


def barred_types(pod_class: PodClass, pool: CompiledPool) -> int:
    """Return the types of a pool that are not bought for these pods now."""
    mask = 0
    for bar in pod_class.bars:
        if bar.node_pool == pool.name:
            mask |= pool.named(bar.instance_type) if bar.instance_type else -1
    return mask & pool.index.everything


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


def _order(queued: QueuedPod) -> tuple[int, int, float, str, str]:
    """Order pods: much cpu first, then much memory, then old ones; names settle the rest."""
    requests = queued.pod_class.size.requests
    created = queued.pod.metadata.creation_timestamp
    return (
        -requests.get(CPU, 0),
        -requests.get(MEMORY, 0),
        created.timestamp() if created is not None else 0.0,
        queued.pod.metadata.uid,
        queued.pod.key,
    )


def _not_planned(pod: Pod) -> Refusal | None:
    """Return the refusal of a pod that nothing here can place, whatever nodes there are."""
    spec = pod.spec
    if spec.scheduling_gates:
        gates = ", ".join(sorted(gate.name for gate in spec.scheduling_gates))
        return Refusal(reason=Reason.GATED, parameters={"gate": gates})
    if spec.resource_claims:
        claims = ", ".join(sorted(claim.name for claim in spec.resource_claims))
        return Refusal(reason=Reason.RESOURCE_CLAIMS, parameters={"claims": claims})
    affinity = spec.affinity.node_affinity if spec.affinity else None
    terms = (
        affinity.required.node_selector_terms if affinity and affinity.required else None
    ) or ()
    fields = sorted({entry.key for term in terms for entry in term.match_fields or ()})
    if terms and all(term.match_fields for term in terms):
        return Refusal(reason=Reason.BY_FIELD, parameters={"field": fields[0]})
    return None


def _volume_refusal(problem: VolumeProblem) -> Refusal:
    parameters: Mapping[str, str] = {"claim": problem.claim, "detail": problem.detail}
    if problem.kind is VolumeProblemKind.CLAIM_NOT_FOUND:
        return Refusal(reason=Reason.CLAIM_NOT_FOUND, parameters=parameters)
    if problem.kind is VolumeProblemKind.UNBOUND_IMMEDIATE:
        return Refusal(reason=Reason.CLAIM_IMMEDIATE, parameters=parameters)
    detail = _UNUSABLE[problem.kind].format(detail=problem.detail)
    return Refusal(
        reason=Reason.CLAIM_UNUSABLE, parameters={"claim": problem.claim, "detail": detail}
    )
