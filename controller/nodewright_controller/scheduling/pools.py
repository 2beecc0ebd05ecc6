"""A NodePool compiled for one round: its types, what daemons leave of them, its limits.

Each type belongs to one daemon group: the DaemonSets whose pods will run on a node of that type.
What they take is subtracted from the type's allocatable once, so a claim's pods are compared with
what is left. Upstream: NodeClaimTemplate and the daemon overhead groups of the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nodewright_controller.api.labels import (
    HOSTNAME,
    INITIALIZED,
    REGISTERED,
)
from nodewright_controller.api.node import Taint
from nodewright_controller.api.pod import Pod, Toleration
from nodewright_controller.cluster.pods import pod_requests
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.constraints.host_ports import HostPort, host_ports
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.constraints.taints import untolerated
from nodewright_controller.kernel.resources import EMPTY, Resources
from nodewright_controller.scheduling.claims import template_requirements
from nodewright_controller.scheduling.edits import NODES
from nodewright_controller.scheduling.problem import PoolOffer
from nodewright_controller.scheduling.states import Constraint, ConstraintTable, State, start
from nodewright_controller.scheduling.terms import required_alternatives
from nodewright_controller.scheduling.thresholds import Threshold, members
from nodewright_controller.scheduling.type_index import Room, TypeIndex

_NEW_HOST = "a new node"
"""Host name of a node that does not exist yet: no pod can ask for it, none can mean it."""
_CERTAIN: Final = Requirements.of_labels(
    {REGISTERED: "true", INITIALIZED: "true", HOSTNAME: _NEW_HOST}
)
"""Labels that every new node has by the time that pods are bound to it."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """What a DaemonSet's pod brings to a node."""

    name: str
    requests: Resources
    ports: tuple[HostPort, ...]
    pod: Pod
    alternatives: tuple[Constraint, ...]
    """Selector and one required node affinity term each."""


@dataclass(slots=True)
class DaemonGroup:
    """The types on which the same daemons run."""

    types: int
    daemons: tuple[Daemon, ...] = ()
    requests: Resources = EMPTY


def compile_daemons(pods: Iterable[Pod], table: ConstraintTable) -> tuple[Daemon, ...]:
    """Return the daemons of a round by name; one that cannot be read is left out."""
    found = []
    for pod in sorted(pods, key=lambda pod: pod.key):
        try:
            alternatives = required_alternatives(pod, table)
            requests = pod_requests(pod)
        except ValueError:
            continue  # its DaemonSet cannot run either
        found.append(Daemon(pod.key, requests, host_ports(pod), pod, alternatives))
    return tuple(found)


class CompiledPool:
    """What the solver asks about a pool."""

    def __init__(
        self,
        offer: PoolOffer,
        index: TypeIndex,
        daemons: Sequence[Daemon],
        table: ConstraintTable,
        resources: Sequence[str],
    ) -> None:
        self.offer = offer
        self.name = offer.node_pool.name
        self.node_pool = offer.node_pool
        self.index = index
        self.taints: tuple[Taint, ...] = tuple(offer.node_pool.spec.template.spec.taints or ())
        self.unready = offer.unready
        self.table = table
        self.base, self.root = self._states()
        self.min_values = {
            key: requirement.min_values
            for key, requirement in (self.base.requirements if self.base else EMPTY_RULES).items()
            if requirement.min_values is not None
        }
        self.groups = self._daemon_groups(daemons)
        room = self._room()
        self.usable = room.usable
        self.room = tuple(room.of(resource) for resource in resources)
        self.limits: dict[str, int] = {}
        self.limits_left: dict[str, int] = {}
        self._limits_left: dict[str, int] = {}
        self._capacity: dict[str, Threshold] = {}
        self.has_reservations = any(kind.reservation for kind in index.kinds)
        self.is_demanding = self.has_reservations or bool(self.min_values)
        """Whether more than room and rules decides what a claim may become."""

    def _states(self) -> tuple[State | None, State | None]:
        """Return the state before types are looked at, and the one in which claims start."""
        try:
            template = template_requirements(self.node_pool)
            Resources.parse(self.node_pool.spec.limits)
        except ValueError as error:
            self.unready = self.unready or str(error)
            return None, None
        begun = start(self.index, template.merged(_CERTAIN), self.table)
        return begun.base, begun.root

    def _daemon_groups(self, daemons: Sequence[Daemon]) -> tuple[DaemonGroup, ...]:
        groups = [DaemonGroup(self.index.everything)]
        for daemon in daemons:
            reach = self._reach(daemon)
            split = []
            for group in groups:
                inside, outside = group.types & reach, group.types & ~reach
                if inside:
                    running = (*group.daemons, daemon)
                    split.append(DaemonGroup(inside, running, group.requests + daemon.requests))
                if outside:
                    split.append(DaemonGroup(outside, group.daemons, group.requests))
            groups = split
        return tuple(groups)

    def _reach(self, daemon: Daemon) -> int:
        """Return the types of this pool on which the daemon's pod will run."""
        tolerations = daemon.pod.spec.tolerations or ()
        if self.base is None or untolerated(tolerations, self.taints, ignore_preferences=True):
            return 0
        mask = 0
        for alternative in daemon.alternatives:
            if self.base.undefined(alternative):
                continue
            if self.base.requirements.intersect_conflicts(alternative.merged):
                continue
            merged = self.base.requirements.merged(alternative.merged)
            mask |= self.base.narrowed_types(alternative, merged)
        return mask

    def _room(self) -> Room:
        taken = tuple((group.types, group.requests) for group in self.groups)
        found = self.index.rooms.get(taken)
        if found is None:
            left: list[Resources] = [t.allocatable for t in self.index.types]
            for types, requests in taken:
                for number in members(types) if requests else ():
                    left[number] = left[number] - requests
            found = self.index.rooms[taken] = Room(left, _without_debt(left))
        return found

    # Limits.

    def set_limits(self, nodes: Iterable[StateNode]) -> None:
        """Start counting from what the pool's nodes have, those that are going left out."""
        limits = Resources.parse(self.node_pool.spec.limits)
        used: dict[str, int] = dict.fromkeys(limits, 0)
        for node in nodes:
            if node.node_pool_name != self.name:
                continue
            capacity = node.capacity
            for resource in limits:
                used[resource] += 1 if resource == NODES else capacity.get(resource, 0)
        self.limits = dict(limits)
        self._limits_left = {resource: limits[resource] - used[resource] for resource in limits}
        self.limits_left = dict(self._limits_left)
        self._capacity = {
            resource: self.index.capacity(resource) for resource in limits if resource != NODES
        }

    def rewind(self) -> None:
        """Forget what was counted since `set_limits`."""
        self.limits_left = dict(self._limits_left)

    def within_limits(self) -> int:
        """Return the types of which one more node would stay within every limit."""
        if self.limits_left.get(NODES, 1) < 1:
            return 0
        mask = self.index.everything
        for resource, threshold in self._capacity.items():
            mask &= threshold.at_most(self.limits_left[resource])
        return mask

    def up_to(self, resource: str, amount: int) -> int:
        """Return the types that count at most so much against a limit."""
        return self._capacity[resource].at_most(amount)

    def largest_capacity(self, types: int) -> dict[str, int]:
        """Return the most that a node of one of the types counts against each limit."""
        most = {r: threshold.largest(types) for r, threshold in self._capacity.items()}
        if NODES in self.limits:
            most[NODES] = 1
        return most

    def smallest_capacity(self, types: int, resource: str) -> int:
        """Return the least that a node of one of the types counts against a limit."""
        return 1 if resource == NODES else self._capacity[resource].smallest(types)

    def tolerated(
        self, tolerations: Sequence[Toleration], *, ignore_preferences: bool = False
    ) -> bool:
        """Whether all taints of the pool are tolerated."""
        if not self.taints:
            return True
        return not untolerated(tolerations, self.taints, ignore_preferences=ignore_preferences)

    # Types by what pods bring.

    def free_of(self, ports: Sequence[HostPort]) -> int:
        """Return the types whose daemons leave these host ports free."""
        mask = 0
        for group in self.groups:
            taken = (taken for daemon in group.daemons for taken in daemon.ports)
            if not any(mine.conflicts(other) for other in taken for mine in ports):
                mask |= group.types
        return mask

    def attaching(self, attached: Mapping[str, frozenset[str]]) -> int:
        """Return the types that can attach that many volumes; no known bound means any number."""
        mask = 0
        for number, instance_type in enumerate(self.index.types):
            limits = instance_type.volume_limits
            if all(len(ids) <= limits.get(d, len(ids)) for d, ids in attached.items()):
                mask |= 1 << number
        return mask

    def named(self, instance_type: str) -> int:
        """Return the type of that name, if the pool has it."""
        names = self.index.names
        return 1 << names.index(instance_type) if instance_type in names else 0

    def overhead(self, types: int) -> Resources:
        """Return what daemons take at least on a node of one of the types."""
        found = [group.requests for group in self.groups if group.types & types]
        if not found:
            return EMPTY
        common = set(found[0]).intersection(*found[1:])
        return Resources({name: min(r[name] for r in found) for name in sorted(common)})

    def unmet_min_values(
        self, state: State, types: int, kinds: int | None = None
    ) -> dict[str, int]:
        """Return the labels with too few values among the types, with how many there are.

        `kinds` are the kinds of offerings they may be bought as; all that the state allows if None.
        """
        kinds = state.kinds if kinds is None else kinds
        short = {}
        for key, wanted in self.min_values.items():
            allowed = state.requirements.of(key)
            found = self.index.values_of(key, types, kinds) or {}
            count = sum(1 for value in found if allowed.has(value))
            if count < wanted:
                short[key] = count
        return short


EMPTY_RULES = Requirements()


def _without_debt(left: Sequence[Resources]) -> int:
    """Return the types that daemons leave something of, or nothing, but no less."""
    mask = 0
    for number, amounts in enumerate(left):
        if all(value >= 0 for value in amounts.values()):
            mask |= 1 << number
    return mask
