"""What happened in a run, as values; `report` puts them into the words of the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from nodewright_controller.kernel.resources import Resources

OfferingKey = tuple[str, str, str]
"""Instance type, zone, capacity type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimView:
    """A claim that a round of provisioning made, and what a launch would make of it now."""

    name: str
    node_pool: str
    pods: tuple[str, ...]
    """Keys of the pods planned onto it."""
    instance_type: str
    zone: str
    capacity_type: str
    usd_per_hour: float
    instance_types: tuple[str, ...]
    """All types on the claim, cheapest first."""
    labels: Mapping[str, str]
    """Every label that is decided: the template's, and requirements with a single value."""
    daemon_overhead: Resources
    allocatable: Resources
    """Of the instance type, for its node class."""
    offered: frozenset[OfferingKey]
    """What a launch would let EC2 choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A pod that stayed without a place, and what a person is told."""

    pod: str
    kind: str
    """The foremost cause."""
    kinds: frozenset[str]
    """Every word that names the cause, where several pools miss by equally little."""
    text: str
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of provisioning."""

    claims: tuple[ClaimView, ...] = ()
    nominations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Node, or claim in flight, to the keys of the pods planned onto it."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Claim name to the name of its node."""
    pending: tuple[Refused, ...] = ()
    """By pod."""
    zones_of_pods: Mapping[str, int] = field(default_factory=dict)
    """Zone to the number of pods planned onto new claims there."""
    total_node_claims: int = 0
    """Claims there are after the round, older ones included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """One CreateFleet call and its answer."""

    node_claim: str
    request: Mapping[str, Any]
    images: tuple[str, ...]
    tags: Mapping[str, str]
    error: str = ""
    """Code of the error; empty when an instance was launched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPass:
    """One launch step: every claim that had no instance."""

    fleets: tuple[Fleet, ...] = ()
    launched: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    events: tuple[tuple[str, str], ...] = ()
    """Reason and text of each event about a claim that failed."""
    unavailable: frozenset[OfferingKey] = frozenset()
    """Offerings that are marked as out of stock afterwards."""
    full_subnets: frozenset[str] = frozenset()
    """Subnets that are marked as without free addresses."""
    open_zones: frozenset[str] = frozenset()
    """Zones in which something can still be launched."""
    retry_after: timedelta | None = None
    """How long they stay marked."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Everything that the steps found, in the order in which it happened."""

    name: str
    rounds: list[Round] = field(default_factory=list)
    launches: list[LaunchPass] = field(default_factory=list)
    validation: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a pool, class, claim or overlay to what is wrong with it."""
    by_kind: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The same by `Kind/name`, for names that several kinds use."""
    allowed: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    """NodePool to instant to reason to count."""
    warnings: list[str] = field(default_factory=list)
    lint: list[str] = field(default_factory=list)
    missing_steps: list[str] = field(default_factory=list)
    """Steps that were asked for and that the runner cannot take yet."""

    def invalid(self) -> Mapping[str, str]:
        """Return the objects that are not valid, and why."""
        whole = self.validation | self.by_kind
        return {name: "; ".join(found) for name, found in whole.items() if found}
