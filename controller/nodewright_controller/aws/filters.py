"""From the types a NodeClaim allows to the ones a launch offers to EC2. Pure.

Each filter is a function from candidates to candidates with a sentence for what it leaves; the
first that leaves nothing explains the shortage. Upstream: pkg/providers/instance/filter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nodewright_controller.api.labels import (
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    ON_DEMAND,
    RESERVED,
    SPOT,
)
from nodewright_controller.aws.capacity import ACCELERATORS
from nodewright_controller.aws.capacity_reservations import CAPACITY_BLOCK, DEFAULT
from nodewright_controller.aws.reserved import reservation_of
from nodewright_controller.constraints.instance_type import InstanceType, Offering
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import Resources

MAX_TYPES: Final = 60
"""How many types one CreateFleet offers."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A type and the offerings of it that may be bought, cheapest first; never none."""

    instance_type: InstanceType
    offerings: tuple[Offering, ...]

    @property
    def usd_per_hour(self) -> float:
        """Price of the cheapest offering."""
        return self.offerings[0].usd_per_hour


@dataclass(frozen=True, slots=True)
class Choice:
    """What is offered to EC2: one capacity type, cheapest candidates first."""

    capacity_type: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class NoChoice:
    """Nothing is left to offer; `because` is a sentence for the user."""

    because: str


def choose(
    instance_types: tuple[InstanceType, ...], asked: Requirements, requests: Resources
) -> Choice | NoChoice:
    """Return what to offer to EC2 for requirements and resources, or why there is nothing.

    The capacity type is the first of reserved, spot, on-demand that has anything to sell.
    """
    fitting = tuple(
        found
        for found in instance_types
        if asked.compatible_with_new_node(found.requirements)
        and requests.fits_in(found.allocatable)
    )
    if not fitting:
        return NoChoice(f"no instance type meets {asked} and fits {requests.format()}")
    candidates = _launchable(fitting, asked)
    if not candidates:
        return NoChoice(f"all {len(fitting)} instance types that fit are out of stock or not sold")
    candidates = reserved_only(candidates)
    if not any(found.min_values for found in asked.values()):
        candidates = without_exotic(candidates)
        candidates = without_dear_spot(candidates)
    return _one_capacity_type(candidates, asked)


def _launchable(
    instance_types: tuple[InstanceType, ...], asked: Requirements
) -> tuple[Candidate, ...]:
    found = ((each, each.launchable(asked)) for each in instance_types)
    return tuple(Candidate(each, offerings) for each, offerings in found if offerings)


def reserved_only(candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Keep what comes from capacity reservations, if anything does: it is paid for.

    One launch buys from one kind of reservation, the kind with the cheapest offering; of a capacity
    block it buys one type in one zone; and of several reservations of a type in a zone, the one
    with most room.
    """
    from_reservations = _keep(candidates, lambda o: o.capacity_type == RESERVED)
    if not from_reservations:
        return candidates
    cheapest = min(
        ((_kind(o), c, o) for c in from_reservations for o in c.offerings),
        key=lambda found: (
            found[2].usd_per_hour,
            _KINDS.index(found[0]),
            found[1].instance_type.name,
        ),
    )
    kind, candidate, offering = cheapest
    if kind == CAPACITY_BLOCK:
        return (Candidate(candidate.instance_type, (offering,)),)
    of_kind = _keep(from_reservations, lambda o: _kind(o) == kind)
    return tuple(Candidate(c.instance_type, _roomiest(c.offerings)) for c in of_kind)


_INTERRUPTIBLE: Final = "interruptible"
_KINDS: Final = (DEFAULT, CAPACITY_BLOCK, _INTERRUPTIBLE)


def _kind(offering: Offering) -> str:
    reservation = reservation_of(offering)
    if reservation is None:
        return ""
    if reservation.type == CAPACITY_BLOCK:
        return CAPACITY_BLOCK
    return _INTERRUPTIBLE if reservation.interruptible else DEFAULT


def _roomiest(offerings: tuple[Offering, ...]) -> tuple[Offering, ...]:
    """Return one offering per zone, cheapest first: the one whose reservation has most room."""
    best: dict[str, Offering] = {}
    for offering in offerings:
        known = best.get(offering.zone)
        if known is None or offering.reservation_capacity > known.reservation_capacity:
            best[offering.zone] = offering
    return tuple(best.values())


def without_exotic(candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Drop bare metal and accelerated types, unless nothing ordinary is left."""
    ordinary = tuple(found for found in candidates if not _is_exotic(found.instance_type))
    return ordinary or candidates


def _is_exotic(instance_type: InstanceType) -> bool:
    if "metal" in instance_type.name:
        return True
    return any(instance_type.capacity.get(resource, 0) > 0 for resource in ACCELERATORS)


def without_dear_spot(candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Where both can be had, drop spot offerings dearer than the cheapest on-demand one."""
    on_demand = [
        offering.usd_per_hour
        for found in candidates
        for offering in found.offerings
        if offering.capacity_type == ON_DEMAND
    ]
    if not on_demand:
        return candidates
    cheapest = min(on_demand)
    return _keep(candidates, lambda o: o.capacity_type != SPOT or o.usd_per_hour <= cheapest)


def _keep(
    candidates: tuple[Candidate, ...], wanted: Callable[[Offering], bool]
) -> tuple[Candidate, ...]:
    kept = []
    for found in candidates:
        offerings = tuple(offering for offering in found.offerings if wanted(offering))
        if offerings:
            kept.append(Candidate(found.instance_type, offerings))
    return tuple(kept)


def _one_capacity_type(candidates: tuple[Candidate, ...], asked: Requirements) -> Choice | NoChoice:
    for capacity_type in CAPACITY_TYPES:
        if not asked.of(CAPACITY_TYPE).has(capacity_type):
            continue
        of_type = _keep(candidates, lambda o, wanted=capacity_type: o.capacity_type == wanted)  # type: ignore[misc]
        if of_type:
            return _truncate(Choice(capacity_type, of_type), asked)
    return NoChoice("no capacity type that the requirements allow has anything to sell")


def _truncate(choice: Choice, asked: Requirements) -> Choice | NoChoice:
    ordered = sorted(
        choice.candidates, key=lambda found: (found.usd_per_hour, found.instance_type.name)
    )
    kept = Choice(choice.capacity_type, tuple(ordered[:MAX_TYPES]))
    short = _breadth_missing(kept, asked)
    if short:
        return NoChoice(
            f"minValues is not met by the {len(kept.candidates)} cheapest types: {short}"
        )
    return kept


def _breadth_missing(choice: Choice, asked: Requirements) -> str:
    missing = []
    for requirement in asked.values():
        if requirement.min_values is None:
            continue
        covered = values_of(choice, requirement)
        if len(covered) < requirement.min_values:
            missing.append(f"{requirement.key} has {len(covered)} of {requirement.min_values}")
    return "; ".join(missing)


def values_of(choice: Choice, requirement: Requirement) -> frozenset[str]:
    """Return the values of a label that the candidates cover, as far as it allows them."""
    return frozenset(
        value
        for found in choice.candidates
        for value in found.instance_type.requirements.of(requirement.key).values
        if requirement.has(value)
    )
