"""Our part of why a claim is of its type: what was wanted, and what kept us from something cheaper.

A `Plan` is made when the solver has decided, or anew from a claim that was made earlier. Nothing here
decides. Whether a lighter pool was cheaper takes the solver: see `lighter_pools`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Final

from nodewright_controller.api.labels import (
    CAPACITY_RESERVATION_ID,
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    INSTANCE_TYPE,
    NODEPOOL,
    RESERVED,
    SPOT,
)
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.constraints.instance_type import InstanceType, Offering, allows
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scheduling.decision import Decision, Offer, PlannedClaim
from nodewright_controller.scheduling.explanations import Funnel
from nodewright_controller.scheduling.lighter_pools import Lighter, LighterPools
from nodewright_controller.scheduling.node_fit import amounts, rule
from nodewright_controller.scheduling.problem import Problem

SAME_PRICE: Final = 1e-9
"""Prices closer than this are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A way that was out of stock."""

    offer: Offer
    until: datetime
    """Until when it is not tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is known of a claim's type before anything is launched."""

    node_pool: str
    pods: int = 0
    """How many it is made for; 0 when nobody knows."""
    expected: Offer
    """The cheapest that can be had, of the capacity type that is asked for first."""
    types: int
    """How many types the claim lists."""
    only_type: bool = False
    """Whether no other type would do, in stock or not."""
    cheapest_usd_per_hour: float
    """Over all capacity types; less than `expected` where minValues keeps dear Spot."""
    min_values: tuple[str, ...] = ()
    """Labels of which the claim asks for a minimum of values."""
    shortages: tuple[Shortage, ...] = ()
    """Ways out of stock that are cheaper than what is expected, cheapest first."""
    lighter: Lighter | None = None
    """A pool of less weight that would have been cheaper."""
    reservation: str = ""


class Stock:
    """A pool's types, and of these what is out of stock, found once for all its claims."""

    def __init__(self, types: tuple[InstanceType, ...]) -> None:
        self.types = types
        self._short = tuple((found, offering) for found in types for offering in found.out_of_stock)
        self._allowed: dict[Requirements, tuple[tuple[InstanceType, Offering], ...]] = {}

    def short(self, asked: Requirements) -> tuple[tuple[InstanceType, Offering], ...]:
        """Return the ways out of stock that the requirements allow, cheapest first.

        A zone can run dry of every type, and most claims of a round ask for the same, so it is
        looked up once for all of them.
        """
        found = self._allowed.get(asked)
        if found is None:
            found = self._allowed[asked] = self._within(asked)
        return found

    def _within(self, asked: Requirements) -> tuple[tuple[InstanceType, Offering], ...]:
        allowed = [
            (instance_type, offering)
            for instance_type, offering in self._short
            if allows(asked, offering.requirements)
            and asked.compatible_with_new_node(instance_type.requirements)
        ]
        return tuple(sorted(allowed, key=lambda way: by_price(_offer(*way))))


def plan_of(planned: PlannedClaim, stock: Stock, lighter: Lighter | None = None) -> Plan:
    """Return the plan of a claim that the solver decided on."""
    counted = tuple(sorted(k for k, r in planned.requirements.items() if r.min_values is not None))
    expected = planned.cheapest
    if counted and not planned.min_values_relaxed:
        names = frozenset(planned.instance_types)
        ways = offers_of(planned.requirements, (t for t in stock.types if t.name in names))
        expected = next(iter(_asked_first(ways, planned.requirements)), expected)
    limits = _Limits(stock, planned.requirements, planned.requests)
    return Plan(
        node_pool=planned.node_pool,
        pods=len(planned.pods),
        expected=expected,
        types=len(planned.instance_types),
        only_type=len(planned.instance_types) == 1 and limits.allow_only(planned.instance_types[0]),
        cheapest_usd_per_hour=planned.usd_per_hour,
        min_values=counted,
        shortages=limits.shortages_below(expected.usd_per_hour),
        lighter=lighter,
        reservation=", ".join(planned.reservations),
    )


def plans_of(problem: Problem, decision: Decision) -> tuple[Plan, ...]:
    """Return the plan of each new claim of a decision, in its order; asks the solver at most a few times."""
    bought = {planned.node_pool for planned in decision.new_claims}
    stocks = {
        offer.node_pool.name: Stock(offer.instance_types)
        for offer in problem.node_pools
        if offer.node_pool.name in bought
    }
    lighter = LighterPools(problem)
    return tuple(
        plan_of(planned, stocks[planned.node_pool], lighter.cheaper(planned))
        for planned in decision.new_claims
    )


def plan_of_claim(claim: NodeClaim, types: tuple[InstanceType, ...]) -> Plan | None:
    """Return the plan of a claim that was made earlier, by today's stock and prices.

    What it cannot know any more is left out: the pods, and pools of less weight. None when nothing
    that the claim allows is known.

    Raises:
        ValueError: a requirement of the claim is malformed; the message names its key.

    """
    asked = Requirements.of_entries(claim.spec.requirements)
    requests = Resources.parse(claim.spec.resources.requests)
    named = asked.of(INSTANCE_TYPE)
    possible = tuple(found for found in types if named.has(found.name))
    ways = offers_of(asked, possible)
    expected = next(iter(_asked_first(ways, asked)), None)
    if expected is None:
        return None
    limits = _Limits(Stock(types), asked.without(INSTANCE_TYPE), requests)
    listed = len({way.instance_type for way in ways})
    return Plan(
        node_pool=claim.labels.get(NODEPOOL, ""),
        expected=expected,
        types=listed,
        only_type=listed == 1 and limits.allow_only(expected.instance_type),
        cheapest_usd_per_hour=ways[0].usd_per_hour,
        min_values=tuple(sorted(k for k, r in asked.items() if r.min_values is not None)),
        shortages=limits.shortages_below(expected.usd_per_hour),
        reservation=claim.labels.get(CAPACITY_RESERVATION_ID, ""),
    )


def plan_of_launch(node_pool: str, offers: Sequence[Offer]) -> Plan | None:
    """Return what the offers of a launch tell, for a claim that no round has planned.

    None when nobody knows what was offered.
    """
    if not offers:
        return None
    cheapest = min(offers, key=by_price)
    types = len({offer.instance_type for offer in offers})
    return Plan(
        node_pool=node_pool,
        expected=cheapest,
        types=types,
        only_type=types == 1,
        cheapest_usd_per_hour=cheapest.usd_per_hour,
    )


def offers_of(asked: Requirements, types: Iterable[InstanceType]) -> tuple[Offer, ...]:
    """Return every way to buy one of the types within what is asked, cheapest first."""
    found = (
        _offer(instance_type, offering)
        for instance_type in types
        for offering in instance_type.launchable(asked)
    )
    return tuple(sorted(found, key=by_price))


def _offer(instance_type: InstanceType, offering: Offering) -> Offer:
    return Offer(
        instance_type=instance_type.name,
        zone=offering.zone,
        capacity_type=offering.capacity_type,
        usd_per_hour=offering.usd_per_hour,
    )


def by_price(offer: Offer) -> tuple[float, str, str]:
    """Return the key by which offers are ordered: price, then names."""
    return offer.usd_per_hour, offer.instance_type, offer.zone


def _asked_first(ways: Sequence[Offer], asked: Requirements) -> list[Offer]:
    """Return the ways of the capacity type that a launch asks for first, cheapest first.

    That is the first of reserved, Spot and on-demand which has any; without minValues, Spot that is
    dearer than all on-demand does not count.
    """
    flexible = not any(found.min_values for found in asked.values())
    dearest = min(
        (w.usd_per_hour for w in ways if w.capacity_type not in (SPOT, RESERVED)), default=None
    )
    for capacity_type in CAPACITY_TYPES:
        found = [
            way
            for way in ways
            if way.capacity_type == capacity_type
            and not (
                flexible
                and capacity_type == SPOT
                and dearest is not None
                and way.usd_per_hour > dearest
            )
        ]
        if found and asked.of(CAPACITY_TYPE).has(capacity_type):
            return found
    return []


class _Limits:
    """What is out of stock and could have taken the place of the type that was chosen."""

    def __init__(self, stock: Stock, asked: Requirements, requests: Resources) -> None:
        self._ways = stock.short(asked)
        self._requests = requests

    def allow_only(self, name: str) -> bool:
        """Whether there would be no other type, were everything in stock."""
        return not any(
            found.name != name and self._requests.fits_in(found.allocatable)
            for found, _ in self._ways
        )

    def shortages_below(self, usd_per_hour: float) -> tuple[Shortage, ...]:
        """Return what would have been cheaper than that, cheapest first."""
        cheaper = takewhile(lambda way: way[1].usd_per_hour < usd_per_hour - SAME_PRICE, self._ways)
        return tuple(
            Shortage(offer=_offer(instance_type, offering), until=offering.short_until)
            for instance_type, offering in cheaper
            if offering.short_until is not None
            and self._requests.fits_in(instance_type.allocatable)
        )


def asked_texts(asked: Requirements, requests: Resources) -> tuple[str, ...]:
    """Return what a claim asks for: amounts in one text, then each rule.

    Left out are the types, of which there may be hundreds, and what names pool and node class.
    """
    plain = (key for key in sorted(asked) if key not in (INSTANCE_TYPE, NODEPOOL))
    rules = [rule(asked[key]) for key in plain if not key.endswith("/ec2nodeclass")]
    return (" · ".join(amounts(requests)), *rules)


def funnel(types: Iterable[InstanceType], asked: Requirements, requests: Resources) -> Funnel:
    """Count the types that are left after each step."""
    everything = tuple(types)
    wide = asked.without(INSTANCE_TYPE)
    meet = [found for found in everything if wide.compatible_with_new_node(found.requirements)]
    large = [found for found in meet if requests.fits_in(found.allocatable)]
    stock = [found for found in large if found.launchable(wide)]
    named = asked.of(INSTANCE_TYPE)
    return Funnel(
        types=len(everything),
        meet=len(meet),
        large_enough=len(large),
        in_stock=len(stock),
        listed=sum(1 for found in everything if named.has(found.name)),
    )
