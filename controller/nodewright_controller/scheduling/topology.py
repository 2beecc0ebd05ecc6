"""How many pods of which kind run in which domain, and which domains a rule leaves open.

A `Tally` counts the pods that a selector selects, per value of a topology key; pods that select
each other share one. Host names are domains of one node each, so for them the tally keeps masks of
bins (nodes and claims) by count. Which rules a pod has is compiled in `scheduling.shapes`.
Upstream: pkg/controllers/provisioning/scheduling/topology*.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nodewright_controller.api.labels import HOSTNAME
from nodewright_controller.constraints.selectors import Selector
from nodewright_controller.scheduling.states import Constraint

Namespaces = frozenset[str] | None
"""Names of namespaces; None means all."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """On which nodes a spread constraint counts pods; None means on all."""

    alternatives: tuple[Constraint, ...] | None = None
    """One of these must be met (`nodeAffinityPolicy: Honor`)."""
    tolerations: tuple[tuple[str, str, str, str], ...] | None = None
    """Taints must be tolerated by these (`nodeTaintsPolicy: Honor`)."""


EVERYWHERE = Eligibility()


@dataclass(slots=True, eq=False)
class Tally:
    """Pods per domain."""

    key: str
    selector: Selector
    namespaces: Namespaces
    eligibility: Eligibility = EVERYWHERE
    hard: bool = False
    """Whether a required affinity or anti-affinity term reads it: then domains must be certain."""
    waits: bool = False
    """Whether pods that it selects, but that do not themselves follow it, are still to be placed.
    They may go anywhere, so a pod that wants to be near them must not start a domain before."""
    eligible_nodes: int = -1
    """Mask of the existing nodes on which pods count."""
    counts: dict[str, int] = field(default_factory=dict)
    levels: list[int] = field(default_factory=lambda: [-1])
    """For host names: `levels[n]` is the mask of bins with at least n pods."""
    _on_bin: dict[int, int] = field(default_factory=dict)
    total: int = 0
    version: int = 0
    """Grows with every change of the counts per domain, and of `waits`."""
    by_host: bool = field(init=False)
    """Whether each node is a domain of its own."""
    _begun: tuple[dict[str, int], list[int], dict[int, int], int, bool] | None = None

    def __post_init__(self) -> None:
        """Look at the key once: it is asked for with every pod."""
        self.by_host = self.key == HOSTNAME

    def begin(self) -> None:
        """Remember how things stand, for `rewind`."""
        on_bin = dict(self._on_bin)
        self._begun = dict(self.counts), list(self.levels), on_bin, self.total, self.waits

    def rewind(self) -> None:
        """Forget what was counted since `begin`."""
        assert self._begun is not None
        counts, levels, on_bin, self.total, self.waits = self._begun
        self.counts, self.levels, self._on_bin = dict(counts), list(levels), dict(on_bin)
        self.version += 1

    def release(self) -> None:
        """Let pods start a domain of their own."""
        self.waits = False
        self.version += 1

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod is counted."""
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return self.selector.matches(labels)

    def add_to_bin(self, bit: int) -> None:
        """Count a pod on a bin."""
        self.total += 1
        number = bit.bit_length()
        count = self._on_bin.get(number, 0) + 1
        self._on_bin[number] = count
        if count < len(self.levels):
            self.levels[count] |= bit
        else:
            self.levels.append(bit)

    def bins_with(self, count: int) -> int:
        """Return the bins with at least that many pods."""
        if count <= 0:
            return -1
        return self.levels[count] if count < len(self.levels) else 0

    def add_to_domain(self, value: str) -> None:
        """Count a pod in a domain."""
        self.total += 1
        self.version += 1
        self.counts[value] = self.counts.get(value, 0) + 1


@dataclass(slots=True, eq=False)
class SpreadRule:
    """A topology spread constraint of a pod."""

    tally: Tally
    max_skew: int
    min_domains: int
    counts_itself: bool
    is_default: bool = False
    """Whether it stands in no pod, but in the scheduler's configuration."""
    _seen: tuple[int, frozenset[str], frozenset[str]] | None = None

    def open_bins(self) -> int:
        """Return the bins that may take the pod, for host names.

        A new node can always be had, so the emptiest host has no pods.
        """
        return ~self.tally.bins_with(self.max_skew + 1 - self.counts_itself)

    def open_domains(self, reachable: frozenset[str]) -> frozenset[str]:
        """Return the domains that keep the skew, out of all that the pod could be in."""
        tally = self.tally
        if self._seen is not None and self._seen[0] == tally.version and self._seen[1] is reachable:
            return self._seen[2]
        most = self.least(reachable) + self.max_skew - self.counts_itself
        counts = tally.counts
        found = frozenset(domain for domain in reachable if counts.get(domain, 0) <= most)
        self._seen = (tally.version, reachable, found)
        return found

    def least(self, reachable: frozenset[str]) -> int:
        """Return the count of the emptiest domain; 0 while there are fewer than `minDomains`."""
        if len(reachable) < self.min_domains:
            return 0
        return min((self.tally.counts.get(domain, 0) for domain in reachable), default=0)


@dataclass(slots=True, eq=False)
class AffinityRule:
    """A pod affinity or anti-affinity term of a pod."""

    tally: Tally
    counts_itself: bool
    text: str = ""
    """The selector, for a person to read."""

    @property
    def first(self) -> bool:
        """Whether the pod may start a domain: it selects itself and nothing else is there."""
        return self.counts_itself and self.tally.total == 0 and not self.tally.waits


class TallyBook:
    """All tallies of a round, found by the pods that they count."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Tally] = {}
        self._anchored: dict[tuple[str, str], list[Tally]] = {}
        self._loose: list[Tally] = []
        self._selecting: dict[tuple[str, frozenset[tuple[str, str]]], tuple[Tally, ...]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def tally(
        self,
        key: str,
        selector: Selector,
        namespaces: Namespaces,
        eligibility: Eligibility = EVERYWHERE,
        *,
        hard: bool = False,
    ) -> Tally:
        """Return the tally of this kind, made on first use."""
        identity = (key, selector, namespaces, eligibility)
        found = self._known.get(identity)
        if found is None:
            found = Tally(key, selector, namespaces, eligibility)
            self._known[identity] = found
            anchor = selector.anchor()
            if anchor is not None:
                self._anchored.setdefault(anchor, []).append(found)
            else:
                self._loose.append(found)
            self._selecting.clear()
        found.hard = found.hard or hard
        return found

    def all(self) -> Iterable[Tally]:
        """Return every tally."""
        return self._known.values()

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> tuple[Tally, ...]:
        """Return the tallies that count a pod with these labels."""
        identity = (namespace, frozenset(labels.items()))
        found = self._selecting.get(identity)
        if found is None:
            near = [t for pair in sorted(labels.items()) for t in self._anchored.get(pair, ())]
            found = tuple(t for t in (*near, *self._loose) if t.selects(namespace, labels))
            self._selecting[identity] = found
        return found
