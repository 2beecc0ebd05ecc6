"""Everything that may take pods, under one numbering: nodes first, then claims as they are made.

A bin is a bit; sets of bins are masks. Kept here: how full each bin is, which topology domains it
is (or may come to be) in, its ports and volumes, and the order in which bins are tried.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field

from nodewright_controller.constraints.host_ports import HostPort
from nodewright_controller.scheduling.classes import QueuedPod
from nodewright_controller.scheduling.compiled import Compiled
from nodewright_controller.scheduling.node_index import add_port
from nodewright_controller.scheduling.pools import CompiledPool
from nodewright_controller.scheduling.reservations import Reservations
from nodewright_controller.scheduling.states import State
from nodewright_controller.scheduling.topology import Tally


@dataclass(slots=True, eq=False)
class Claim:
    """A node to be bought, while it fills up."""

    number: int
    """Its place among all bins."""
    pool: CompiledPool
    state: State
    types: int
    """Types that hold everything on it and allow its ports and volumes; offerings apart."""
    totals: list[int]
    """Requests of its pods, by resource id."""
    pods: list[QueuedPod] = field(default_factory=list)
    ports: tuple[HostPort, ...] = ()
    attached: dict[str, frozenset[str]] = field(default_factory=dict)
    waiting: list[Tally] = field(default_factory=list)
    """Tallies of pods on it whose domain is not certain yet."""
    counted: dict[str, int] = field(default_factory=dict)
    """What it counts against the limits of its pool."""
    reserved: frozenset[str] = frozenset()
    """Capacity reservations that are held for it."""
    min_values_relaxed: bool = False

    @property
    def bit(self) -> int:
        """Its bit among all bins."""
        return 1 << self.number

    @property
    def candidates(self) -> int:
        """The types it may become."""
        return self.state.types & self.types

    @property
    def kinds(self) -> int:
        """The kinds of offerings that it may be bought as: what it holds, if anything."""
        if not self.reserved:
            return self.state.kinds
        return self.state.kinds & Reservations.kinds_of(self.pool.index, self.reserved)


class Domains:
    """For one topology key: which bins are, or may come to be, in which domain."""

    __slots__ = ("having", "open", "with_value")

    def __init__(self, with_value: dict[str, int], having: int) -> None:
        self.with_value = dict(with_value)
        self.having = having
        self.open = 0
        """Claims whose value may be anything."""

    def bins(self, value: str) -> int:
        """Return the bins that are or may be in a domain."""
        return self.with_value.get(value, 0) | self.open

    def set(self, bit: int, old: dict[str, int] | None, new: dict[str, int] | None) -> None:
        """Replace what a claim may become."""
        for value in old or ():
            self.with_value[value] &= ~bit
        self.open &= ~bit
        if new is None:
            self.open |= bit
            self.having |= bit
            return
        for value in new:
            self.with_value[value] = self.with_value.get(value, 0) | bit
        self.having = self.having | bit if new else self.having & ~bit


class Bins:
    """All bins of a round."""

    def __init__(self, compiled: Compiled, *, latest_first: bool = False) -> None:
        self._compiled = compiled
        self._latest_first = latest_first
        index = compiled.nodes
        self.nodes = index.everything
        self.first_claim = len(index.nodes)
        self.room = [list(row) for row in index.room]
        self.claims: list[Claim] = []
        self.claim_bins = 0
        self.on_node: list[list[QueuedPod]] = [[] for _ in index.nodes]
        self.domains = {
            key: Domains(index.labels.get(key, {}), index.having.get(key, 0))
            for key in compiled.keys
        }
        self.ports = index.taken_ports() if _any_ports(compiled) else {}
        self._attached: dict[int, dict[str, set[str]]] = {}
        self._by_count: dict[int, int] = {}
        self._counts: list[int] = []
        self._moves = 0
        self._filled: dict[int, int] = {}
        """Bit of a claim to the position of its last pod; kept only where it is asked for."""

    def claim(self, number: int) -> Claim:
        """Return the claim of a bin."""
        return self.claims[number - self.first_claim]

    def in_order(self, mask: int) -> tuple[int, int]:
        """Return (number, bit) of the bin to try first among those of the mask, which has some.

        Nodes come first, in their order; then claims, those with the fewest pods first, because
        they leave the most freedom; then in the order in which they were made, or, if asked for,
        the one that was filled last.
        """
        nodes = mask & self.nodes
        if nodes:
            bit = nodes & -nodes
            return bit.bit_length() - 1, bit
        for count in self._counts:
            found = mask & self._by_count[count]
            if found:
                bit = self._latest(found) if self._latest_first else found & -found
                return bit.bit_length() - 1, bit
        raise AssertionError("every claim has a count")

    def _latest(self, found: int) -> int:
        """Return the bit of the claim that was filled last; for small batches only."""
        bits = []
        while found:
            bits.append(found & -found)
            found &= found - 1
        return max(bits, key=lambda bit: self._filled[bit])

    def add_claim(self, claim: Claim) -> None:
        """Take in a new claim, before its first pod is put on it."""
        self.claims.append(claim)
        self.claim_bins |= claim.bit
        self._move(claim.bit, None, 0)
        for key, domains in self.domains.items():
            domains.set(claim.bit, {}, claim.state.values(key))

    def put_on_node(self, number: int, queued: QueuedPod) -> None:
        """Take the pod's requests, ports and volumes from a node."""
        room = self.room[number]
        for resource, amount in queued.pod_class.size.vector:
            room[resource] -= amount
        self.on_node[number].append(queued)
        shape = queued.pod_class.shape
        for port in shape.ports:
            add_port(self.ports, port, 1 << number)
        if shape.volumes.attached:
            attached = self.attached(number)
            for driver, volumes in shape.volumes.attached.items():
                attached.setdefault(driver, set()).update(volumes)

    def put_on_claim(self, claim: Claim, queued: QueuedPod, state: State, types: int) -> None:
        """Add the pod's requests, ports and volumes to a claim, and narrow it."""
        for resource, amount in queued.pod_class.size.vector:
            claim.totals[resource] += amount
        self._move(claim.bit, len(claim.pods), len(claim.pods) + 1)
        claim.pods.append(queued)
        claim.types = types
        shape = queued.pod_class.shape
        if shape.ports:
            claim.ports = (*claim.ports, *shape.ports)
            for port in shape.ports:
                add_port(self.ports, port, claim.bit)
        if shape.volumes.attached:
            claim.attached = united(claim.attached, shape.volumes.attached)
        if state is not claim.state:
            old, claim.state = claim.state, state
            for key, domains in self.domains.items():
                domains.set(claim.bit, old.values(key), state.values(key))

    def attached(self, number: int) -> dict[str, set[str]]:
        """Return driver to the volumes that a node has attached."""
        found = self._attached.get(number)
        if found is None:
            node, catalog = self._compiled.nodes.nodes[number], self._compiled.problem.volumes
            there = catalog.attached_to(node.name)
            found = self._attached[number] = {driver: set(ids) for driver, ids in there.items()}
            for pod in node.pods:
                for driver, volumes in catalog.attached(pod).items():
                    found.setdefault(driver, set()).update(volumes)
        return found

    def _move(self, bit: int, old: int | None, new: int) -> None:
        if old is not None:
            left = self._by_count[old] & ~bit
            if left:
                self._by_count[old] = left
            else:
                del self._by_count[old]
                self._counts.remove(old)
        if new not in self._by_count:
            self._by_count[new] = 0
            insort(self._counts, new)
        self._by_count[new] |= bit
        if self._latest_first:
            self._moves += 1
            self._filled[bit] = self._moves


def united(
    some: Mapping[str, frozenset[str]], more: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """Return the volumes of both, by driver."""
    return {
        driver: some.get(driver, frozenset()) | more.get(driver, frozenset())
        for driver in {*some, *more}
    }


def _any_ports(compiled: Compiled) -> bool:
    return any(queued.pod_class.shape.ports for queued in compiled.queue)
