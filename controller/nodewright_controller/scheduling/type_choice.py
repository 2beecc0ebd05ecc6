"""Why a claim is, or will be, of its instance type, and what that costs.

Our part is the `Plan` (`type_plan`). EC2's part is `Sold`: what it was offered, and which of that it
took. `explain_type` puts a code and money to both. Nothing here decides; the solver and the launch
have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from nodewright_controller.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, RESERVED, SPOT, ZONE
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scheduling.decision import Offer
from nodewright_controller.scheduling.explanations import (
    OfferView,
    OutOfStock,
    TypeExplanation,
    one_line,
)
from nodewright_controller.scheduling.type_plan import (
    SAME_PRICE,
    Plan,
    Shortage,
    asked_texts,
    by_price,
    funnel,
    offers_of,
    plan_of_claim,
)
from nodewright_controller.scheduling.type_reasons import TypeReason
from nodewright_controller.scheduling.why_text import usd

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sold:
    """What came of a launch."""

    instance_type: str
    zone: str
    capacity_type: str
    usd_per_hour: float | None
    """None: nobody knows."""
    offers: tuple[Offer, ...] = ()
    """What EC2 could choose from, cheapest first; empty when nobody knows any more."""
    shortages: tuple[Shortage, ...] = ()
    """What of it EC2 refused in its answer, for want of capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """A cause that holds."""

    reason: TypeReason
    parameters: Mapping[str, str]
    more: float = 0.0
    following: str = ""

    @property
    def text(self) -> str:
        return self.reason.template.format(**self.parameters)


def explain_type(
    name: str,
    plan: Plan,
    sold: Sold | None,
    now: datetime,
    *,
    offers: Sequence[Offer] = (),
    replayed: bool = False,
) -> TypeExplanation:
    """Explain the type of a claim: of one that was launched, or (without `sold`) of a planned one.

    `offers` is what a launch would offer, or did, where `sold` does not say so.
    """
    facts = _Facts(plan, sold, tuple(sold.offers if sold and sold.offers else offers))
    first, *further = _findings(facts)
    scope = f"{plan.pods} pod{'s' if plan.pods > 1 else ''}" if plan.pods else ""
    return TypeExplanation(
        node_claim=name,
        verdict=str(first.reason.verdict),
        code=first.reason.code,
        line=one_line(
            f"claim/{name}",
            str(first.reason.verdict),
            first.text,
            scope=scope,
            following=first.following,
            code=first.reason.code,
        ),
        as_of=now.replace(microsecond=0),
        replayed=replayed,
        node_pool=plan.node_pool,
        pods=plan.pods,
        instance_type=facts.instance_type,
        zone=facts.zone,
        capacity_type=facts.capacity_type,
        usd_per_hour=facts.price,
        least_usd_per_hour=facts.offers[0].usd_per_hour if facts.offers else None,
        most_usd_per_hour=facts.offers[-1].usd_per_hour if facts.offers else None,
        more_usd_per_hour=round(first.more, 6),
        offered=len(facts.offers),
        ranking=tuple(facts.ranking()),
        out_of_stock=tuple(_out_of_stock(one) for one in facts.shortages[:_SHOWN]),
        also=tuple(f"{one.text}  [{one.reason.code}]" for one in further),
    )


def _out_of_stock(short: Shortage) -> OutOfStock:
    return OutOfStock(
        instance_type=short.offer.instance_type,
        zone=short.offer.zone,
        capacity_type=short.offer.capacity_type,
        usd_per_hour=short.offer.usd_per_hour,
        until=short.until.replace(microsecond=0),
    )


class _Facts:
    """What was bought, or will be, beside what else there was."""

    def __init__(self, plan: Plan, sold: Sold | None, offers: tuple[Offer, ...]) -> None:
        bought = sold or plan.expected
        self.plan = plan
        self.launched = sold is not None
        self.instance_type = bought.instance_type
        self.zone = bought.zone
        self.capacity_type = bought.capacity_type
        self.price = bought.usd_per_hour
        self.offers = tuple(sorted(offers, key=by_price))
        refused = sold.shortages if sold is not None else ()
        gone = {_place(one.offer) for one in refused}
        there = [offer for offer in self.offers if _place(offer) not in gone]
        self.floor = there[0].usd_per_hour if there else self.price
        """The cheapest that could be had."""
        cheaper = (
            one for one in (*plan.shortages, *refused) if self._below(one.offer.usd_per_hour)
        )
        by_place = {_place(one.offer): one for one in cheaper}
        self.shortages = tuple(sorted(by_place.values(), key=lambda one: by_price(one.offer)))

    def _below(self, usd_per_hour: float) -> bool:
        return self.floor is not None and usd_per_hour < self.floor - SAME_PRICE

    @property
    def what(self) -> str:
        """What was bought, in words."""
        return f"{self.instance_type} {self.capacity_type} in {self.zone} at {usd(self.price)}"

    @property
    def rank(self) -> int:
        """Its place among the offers by price, 1 being the cheapest; equal prices share one."""
        return self._rank_of(self.price or 0.0)

    def _rank_of(self, usd_per_hour: float) -> int:
        below = usd_per_hour - SAME_PRICE
        return 1 + sum(1 for each in self.offers if each.usd_per_hour < below)

    def ranking(self) -> Iterator[OfferView]:
        """Yield the cheapest offers, and the one that was taken."""
        for position, each in enumerate(self.offers):
            chosen = (each.instance_type, each.zone) == (self.instance_type, self.zone)
            if position < _SHOWN or chosen:
                yield OfferView(
                    rank=self._rank_of(each.usd_per_hour),
                    instance_type=each.instance_type,
                    zone=each.zone,
                    capacity_type=each.capacity_type,
                    usd_per_hour=each.usd_per_hour,
                    chosen=chosen,
                )


def _place(offer: Offer) -> tuple[str, str, str]:
    return offer.instance_type, offer.zone, offer.capacity_type


def _findings(facts: _Facts) -> list[_Finding]:
    """Return every cause that holds, the foremost first; never none."""
    checks = (_reserved, _ec2_depth, _min_values, _out_of_stock_before, _weight, _forced)
    found = [finding for check in checks if (finding := check(facts)) is not None]
    return found or [_cheapest(facts)]


def _more(difference: float) -> str:
    return f"+${difference:.4f}/h"


def _reserved(facts: _Facts) -> _Finding | None:
    if facts.capacity_type != RESERVED:
        return None
    reservation = facts.plan.reservation or "of the node class"
    parameters = {"what": facts.what, "reservation": reservation}
    return _Finding(reason=TypeReason.RESERVED, parameters=parameters)


def _ec2_depth(facts: _Facts) -> _Finding | None:
    if not facts.launched or facts.price is None or facts.floor is None:
        return None
    difference = facts.price - facts.floor
    if difference <= SAME_PRICE:
        return None
    spot = facts.capacity_type == SPOT
    parameters = {
        "what": facts.what,
        "rank": _ordinal(facts.rank),
        "count": str(len(facts.offers)),
        "more": _more(difference),
        "why": "for spare spot depth" if spot else "by EC2's own choice",
    }
    return _Finding(reason=TypeReason.EC2_DEPTH, parameters=parameters, more=difference)


def _min_values(facts: _Facts) -> _Finding | None:
    plan = facts.plan
    difference = plan.expected.usd_per_hour - plan.cheapest_usd_per_hour
    if not plan.min_values or difference <= SAME_PRICE:
        return None
    keys = ", ".join(key.rpartition("/")[2] for key in plan.min_values)
    parameters = {"keys": keys, "what": facts.what, "more": _more(difference)}
    return _Finding(reason=TypeReason.MIN_VALUES, parameters=parameters, more=difference)


def _out_of_stock_before(facts: _Facts) -> _Finding | None:
    if not facts.shortages or facts.floor is None:
        return None
    best = facts.shortages[0]
    difference = facts.floor - best.offer.usd_per_hour
    parameters = {
        "short": f"{best.offer.instance_type} {best.offer.capacity_type}",
        "zone": best.offer.zone,
        "until": f"{best.until:%H:%M} UTC",
    }
    return _Finding(
        reason=TypeReason.OUT_OF_STOCK,
        parameters=parameters,
        more=difference,
        following=f"{facts.what}, {_more(difference)}",
    )


def _weight(facts: _Facts) -> _Finding | None:
    lighter = facts.plan.lighter
    if lighter is None:
        return None
    difference = facts.plan.expected.usd_per_hour - lighter.usd_per_hour
    parameters = {
        "pool": facts.plan.node_pool,
        "lighter": lighter.node_pool,
        "what": facts.what,
        "more": _more(difference),
    }
    return _Finding(reason=TypeReason.WEIGHT, parameters=parameters, more=difference)


def _forced(facts: _Facts) -> _Finding | None:
    if not facts.plan.only_type:
        return None
    return _Finding(reason=TypeReason.FORCED, parameters={"what": facts.what})


def _cheapest(facts: _Facts) -> _Finding:
    offered = len(facts.offers)
    count, noun = (offered, "offer") if offered else (facts.plan.types, "type")
    several = f"{count} {noun}s" if count > 1 else f"1 {noun}"
    parameters = {"what": facts.what, "count": several}
    return _Finding(reason=TypeReason.CHEAPEST, parameters=parameters)


def _ordinal(number: int) -> str:
    if 10 <= number % 100 <= 20:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


# Claims that were made earlier, and what a person asks next.


def explain_planned(
    claim: NodeClaim, plan: Plan, types: tuple[InstanceType, ...], now: datetime
) -> TypeExplanation:
    """Explain a claim that waits for its launch.

    Raises:
        ValueError: a requirement of the claim is malformed; the message names its key.

    """
    offers = _offers_now(claim, types, plan.expected.capacity_type)
    return with_detail(explain_type(claim.name, plan, None, now, offers=offers), claim, types)


def _offers_now(
    claim: NodeClaim, types: tuple[InstanceType, ...], capacity_type: str
) -> tuple[Offer, ...]:
    """Return every way to buy what the claim names, as one capacity type."""
    asked = Requirements.of_entries(claim.spec.requirements)
    named = asked.of(INSTANCE_TYPE)
    ways = offers_of(asked, (found for found in types if named.has(found.name)))
    return tuple(way for way in ways if way.capacity_type == capacity_type)


def replayed_type(
    claim: NodeClaim, types: tuple[InstanceType, ...], now: datetime
) -> TypeExplanation | None:
    """Explain a claim from itself and the types as they are now; None when nothing fits it now.

    Raises:
        ValueError: a requirement of the claim is malformed; the message names its key.

    """
    plan = plan_of_claim(claim, types)
    if plan is None:
        return None
    sold = _sold(claim, types)
    offers = _offers_now(claim, types, (sold or plan.expected).capacity_type)
    found = explain_type(claim.name, plan, sold, now, offers=offers, replayed=True)
    return with_detail(found, claim, types)


def _sold(claim: NodeClaim, types: tuple[InstanceType, ...]) -> Sold | None:
    """Return what a claim was launched as, at the prices of now; None before its launch."""
    if not claim.status.provider_id:
        return None
    name, zone, kind = (claim.labels.get(k, "") for k in (INSTANCE_TYPE, ZONE, CAPACITY_TYPE))
    prices = (
        offering.usd_per_hour
        for found in types
        if found.name == name
        for offering in found.offerings
        if (offering.zone, offering.capacity_type) == (zone, kind) and offering.usd_per_hour
    )
    return Sold(instance_type=name, zone=zone, capacity_type=kind, usd_per_hour=next(prices, None))


def with_detail(
    found: TypeExplanation, claim: NodeClaim, types: tuple[InstanceType, ...]
) -> TypeExplanation:
    """Return the explanation with what the claim asks for, and how many types each step leaves.

    Raises:
        ValueError: a requirement of the claim is malformed; the message names its key.

    """
    asked = Requirements.of_entries(claim.spec.requirements)
    requests = Resources.parse(claim.spec.resources.requests)
    return msgspec.structs.replace(
        found,
        asked=asked_texts(asked, requests),
        funnel=funnel(types, asked, requests) if types else None,
    )
