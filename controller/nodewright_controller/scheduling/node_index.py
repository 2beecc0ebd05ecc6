"""Existing nodes (and claims in flight) as bit masks: by label value, by taints, by room.

Bit `i` is the i-th node in the order in which nodes are tried: initialized first, then by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nodewright_controller.api.labels import HOSTNAME
from nodewright_controller.api.node import Taint
from nodewright_controller.api.pod import Pod, Toleration
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.constraints.host_ports import HostPort, host_ports
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.taints import untolerated
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scheduling.pools import Daemon
from nodewright_controller.scheduling.states import NEGATIVE, Constraint
from nodewright_controller.scheduling.thresholds import Threshold, members


class NodeIndex:
    """What the solver asks about nodes that need not be bought."""

    def __init__(
        self, nodes: Sequence[StateNode], daemons: Sequence[Daemon], resources: Sequence[str]
    ) -> None:
        self.nodes = tuple(sorted(nodes, key=lambda node: (not node.initialized, node.name)))
        self.everything = (1 << len(self.nodes)) - 1
        self.labels: dict[str, dict[str, int]] = {}
        self.having: dict[str, int] = {}
        self._by_taints: dict[tuple[tuple[str, str, str], ...], tuple[tuple[Taint, ...], int]] = {}
        self._matching: dict[Requirement, int] = {}
        self._constraints: dict[Constraint, int] = {}
        for number, node in enumerate(self.nodes):
            self._learn(number, node)
        self.coming = self._coming_daemons(daemons)
        self.room, self._overfull = self._remaining(resources)
        self._initial = [
            Threshold([room[position] for room in self.room]) for position in range(len(resources))
        ]

    def _learn(self, number: int, node: StateNode) -> None:
        bit = 1 << number
        for key, value in node.labels.items():
            values = self.labels.setdefault(key, {})
            values[value] = values.get(value, 0) | bit
            self.having[key] = self.having.get(key, 0) | bit
        taints = node.taints
        identity = tuple(sorted((t.key, t.value, t.effect) for t in taints))
        _, mask = self._by_taints.get(identity, (taints, 0))
        self._by_taints[identity] = (taints, mask | bit)

    def host(self, number: int) -> str:
        """Return the host name of a node."""
        node = self.nodes[number]
        return node.labels.get(HOSTNAME, node.name)

    def value(self, number: int, key: str) -> str | None:
        """Return the value of a label; None if the node does not have it."""
        return self.nodes[number].labels.get(key)

    # Requirements.

    def matching(self, constraint: Constraint) -> int:
        """Return the nodes that meet every stated requirement as kube-scheduler reads it."""
        found = self._constraints.get(constraint)
        if found is None:
            found = self.everything
            for requirement in constraint.stated:
                found &= self._meeting(requirement)
            self._constraints[constraint] = found
        return found

    def matching_any(self, constraints: Sequence[Constraint]) -> int:
        """Return the nodes that meet one of the constraints."""
        mask = 0
        for constraint in constraints:
            mask |= self.matching(constraint)
        return mask

    def _meeting(self, requirement: Requirement) -> int:
        found = self._matching.get(requirement)
        if found is None:
            found = self._matching[requirement] = self._find_meeting(requirement)
        return found

    def _find_meeting(self, requirement: Requirement) -> int:
        values = self.labels.get(requirement.key, {})
        mask = 0
        if not requirement.complement:
            for value in requirement.values:
                mask |= values.get(value, 0)
        else:
            for value, nodes in values.items():
                if requirement.has(value):
                    mask |= nodes
        bounded = requirement.gte is not None or requirement.lte is not None
        if requirement.operator in NEGATIVE and not bounded:
            mask |= self.everything & ~self.having.get(requirement.key, 0)
        return mask

    # Taints.

    def tolerated(self, tolerations: Sequence[Toleration]) -> int:
        """Return the nodes all of whose taints are tolerated."""
        mask = 0
        for taints, nodes in self._by_taints.values():
            if not untolerated(tolerations, taints):
                mask |= nodes
        return mask

    # Room.

    def _coming_daemons(self, daemons: Sequence[Daemon]) -> list[list[Daemon]]:
        """Return, per node, the daemons that will run there and do not yet."""
        coming: list[list[Daemon]] = [[] for _ in self.nodes]
        if not daemons:
            return coming
        running = [_daemon_sets(node.pods) for node in self.nodes]
        for daemon in daemons:
            tolerations = daemon.pod.spec.tolerations or ()
            reach = self.matching_any(daemon.alternatives) & self._tolerated_hard(tolerations)
            for number in members(reach):
                if daemon.name not in running[number]:
                    coming[number].append(daemon)
        return coming

    def _tolerated_hard(self, tolerations: Sequence[Toleration]) -> int:
        mask = 0
        for taints, nodes in self._by_taints.values():
            if not untolerated(tolerations, taints, ignore_preferences=True):
                mask |= nodes
        return mask

    def _remaining(self, resources: Sequence[str]) -> tuple[list[list[int]], int]:
        rooms: list[list[int]] = []
        overfull = 0
        for number, node in enumerate(self.nodes):
            left: Resources = node.available
            for daemon in self.coming[number]:
                left = left - daemon.requests
            if any(value < 0 for value in left.values()):
                overfull |= 1 << number
            rooms.append([left.get(resource, 0) for resource in resources])
        return rooms, overfull

    def fitting(self, request: Sequence[tuple[int, int]]) -> int:
        """Return the nodes that had room for the request when the round began."""
        mask = self.everything & ~self._overfull
        for position, amount in request:
            mask &= self._initial[position].at_least(amount)
        return mask

    # Ports.

    def taken_ports(self) -> dict[tuple[str, int], dict[str, int]]:
        """Return (protocol, port) to address to the nodes where it is taken, daemons included."""
        taken: dict[tuple[str, int], dict[str, int]] = {}
        for number, node in enumerate(self.nodes):
            ports: list[HostPort] = [p for pod in node.pods for p in host_ports(pod)]
            ports.extend(port for daemon in self.coming[number] for port in daemon.ports)
            for port in ports:
                add_port(taken, port, 1 << number)
        return taken

    def attach_limits(
        self,
        limits: Callable[[str], Mapping[str, int | None] | None],
        type_limits: Mapping[str, Mapping[str, int]],
        number: int,
    ) -> Callable[[str], int | None]:
        """Return the function from driver to how many volumes the node attaches (None: no bound).

        A driver that has not registered on the node yet gets the bound of its instance type.
        """
        node = self.nodes[number]
        known = limits(node.name) or {}
        fallback = type_limits.get(node.labels.get("node.kubernetes.io/instance-type", ""), {})

        def limit(driver: str) -> int | None:
            return known[driver] if driver in known else fallback.get(driver)

        return limit


def add_port(taken: dict[tuple[str, int], dict[str, int]], port: HostPort, bins: int) -> None:
    """Note that a host port is taken on these bins."""
    by_address = taken.setdefault((port.protocol, port.port), {})
    by_address[port.ip] = by_address.get(port.ip, 0) | bins


def conflicting(taken: dict[tuple[str, int], dict[str, int]], ports: Sequence[HostPort]) -> int:
    """Return the bins on which one of the ports is taken."""
    mask = 0
    for port in ports:
        for address, bins in taken.get((port.protocol, port.port), {}).items():
            if not address or not port.ip or address == port.ip:
                mask |= bins
    return mask


def _daemon_sets(pods: Sequence[Pod]) -> set[str]:
    return {
        f"{pod.metadata.namespace}/{owner.name}"
        for pod in pods
        for owner in pod.owners
        if owner.kind == "DaemonSet"
    }
