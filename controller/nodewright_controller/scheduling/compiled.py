"""A problem made ready to be solved: integer ids, masks, and pods grouped into classes.

Reading is done here once per round; what a look then finds out is kept with the classes, until
`rewind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from nodewright_controller.constraints.taints import PREFER_NO_SCHEDULE
from nodewright_controller.scheduling.classes import (
    ClassLevel,
    PodClass,
    ShapeLevel,
    barred_types,
    solving_order,
)
from nodewright_controller.scheduling.node_index import NodeIndex
from nodewright_controller.scheduling.pod_reader import PodReader
from nodewright_controller.scheduling.pools import CompiledPool, compile_daemons
from nodewright_controller.scheduling.problem import Problem, ordered
from nodewright_controller.scheduling.rules import rule_book
from nodewright_controller.scheduling.running_pods import RunningPods, tolerations_of
from nodewright_controller.scheduling.shapes import Level, Shape, ShapeCompiler
from nodewright_controller.scheduling.topology import Tally, TallyBook
from nodewright_controller.scheduling.type_index import type_index


class Compiled:
    """All tables of a round."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        book = rule_book()
        self.table = book.table
        self.tallies = TallyBook()
        self.owners = TallyBook()
        self.daemons = compile_daemons(problem.daemon_pods, self.table)
        self.soft_taints = self._any_soft_taint()
        shapes = ShapeCompiler(
            table=self.table,
            tallies=self.tallies,
            owners=self.owners,
            namespaces=problem.namespaces,
            policy=problem.options.preference_policy,
            soft_taints=self.soft_taints,
        )
        self._pods = PodReader(problem, book, shapes)
        queue = self._pods.read(problem.pods)
        self.rejected = self._pods.rejected
        self.resources = self._pods.number_resources()
        self.nodes = NodeIndex(problem.nodes, self.daemons, self.resources)
        for size in self._pods.sizes.values():
            size.nodes = self.nodes.fitting(size.vector)
        self.pools = self._compile_pools()
        self._shape_levels: dict[Level, ShapeLevel] = {}
        self._attach_limits: dict[int, Callable[[str], int | None]] = {}
        self._type_limits: dict[str, Mapping[str, int]] | None = None
        self._count(shapes)
        self.keys = tuple(sorted({tally.key for tally in self._tallies() if not tally.by_host}))
        self.queue = sorted(queue, key=solving_order)

    def _count(self, shapes: ShapeCompiler) -> None:
        """Bring the tallies to where a look begins."""
        running = RunningPods(self.problem, self.nodes, self.tallies, self.owners)
        running.own()
        for shape in self._pods.shapes.values():
            shapes.finish(shape)
        for tally in self.tallies.all():
            tally.eligible_nodes = self._eligible_nodes(tally)
        running.count()
        for tally in self._tallies():
            tally.begin()

    def _tallies(self) -> Iterable[Tally]:
        return (*self.tallies.all(), *self.owners.all())

    def rewind(self) -> None:
        """Forget what a round did, so that another can begin with the same tables."""
        for tally in self._tallies():
            tally.rewind()
        for pool in self.pools:
            pool.rewind()
        for size in self._pods.sizes.values():
            size.full = 0
        for shape_level in self._shape_levels.values():
            shape_level.dead = 0
        for pod_class in self._pods.classes.values():
            for known in pod_class.levels:
                known.dead = 0
                known.dead_in.clear()

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

    def _eligible_nodes(self, tally: Tally) -> int:
        mask = self.nodes.everything
        if tally.eligibility.alternatives is not None:
            mask &= self.nodes.matching_any(tally.eligibility.alternatives)
        if tally.eligibility.tolerations is not None:
            mask &= self.nodes.tolerated(tolerations_of(tally))
        return mask
