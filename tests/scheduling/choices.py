"""Small worlds, one for each reason why a node is of its type; they are the examples of the reference too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

from nodewright_controller.api.pod import Pod
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.scheduling.decision import Offer
from nodewright_controller.scheduling.explanations import TypeExplanation
from nodewright_controller.scheduling.problem import Problem
from nodewright_controller.scheduling.solver import solve
from nodewright_controller.scheduling.type_choice import Sold, explain_type
from nodewright_controller.scheduling.type_plan import Plan, Shortage, plans_of
from nodewright_controller.scheduling.type_reasons import TypeReason

from tests.builders import NOW, instance_type, nodepool, offering, pod, world

UNTIL = NOW + timedelta(minutes=3)
SPOT = "capacity in spot"
EITHER = "capacity in spot,on-demand"


def only_plan(problem: Problem) -> Plan:
    """Return the plan of the one claim that the solver makes."""
    decision = solve(problem)
    (plan,) = plans_of(problem, decision)
    return plan


def planned(problem: Problem, name: str = "general-k2x4q") -> TypeExplanation:
    """Explain the one claim that the solver makes, before its launch."""
    return explain_type(name, only_plan(problem), None, NOW)


def launched(problem: Problem, sold: Sold, name: str = "general-k2x4q") -> TypeExplanation:
    """Explain the one claim that the solver makes, launched so."""
    return explain_type(name, only_plan(problem), sold, NOW)


def sold_as(*offers: Offer, chosen: int = 0, shortages: tuple[Shortage, ...] = ()) -> Sold:
    """Return a launch that could choose from the offers, and took one by its position."""
    taken = offers[chosen]
    return Sold(
        instance_type=taken.instance_type,
        zone=taken.zone,
        capacity_type=taken.capacity_type,
        usd_per_hour=taken.usd_per_hour,
        offers=offers,
        shortages=shortages,
    )


def offer(name: str, price: float, zone: str = "a", capacity_type: str = "on-demand") -> Offer:
    """Return a way to buy a type."""
    return Offer(instance_type=name, zone=zone, capacity_type=capacity_type, usd_per_hour=price)


def short(price: float, zone: str = "a", capacity_type: str = "on-demand") -> InstanceType:
    """Return a type that is the cheapest there is, and out of stock in its one zone."""
    missing = replace(offering(zone, capacity_type, price, available=False), short_until=UNTIL)
    return instance_type("c7g.large", offerings=[missing])


def pods(count: int) -> list[Pod]:
    """Return small pods."""
    return [pod(f"web-{number}", cpu="100m") for number in range(count)]


def cheapest() -> TypeExplanation:
    """Two types do, and the cheaper one is taken."""
    types = [
        instance_type("m7g.large", zones={"a": 0.08}),
        instance_type("m7i.large", zones={"a": 0.1}),
    ]
    return launched(
        world(nodepool(), *types, *pods(2)),
        sold_as(offer("m7g.large", 0.08), offer("m7i.large", 0.1)),
    )


def forced() -> TypeExplanation:
    """One type is large enough."""
    types = [
        instance_type("m7g.large", zones={"a": 0.08}),
        instance_type("r7g.4xlarge", cpu=16, memory="128Gi", zones={"a": 0.86}),
    ]
    big = pod("train", cpu=8, memory="100Gi")
    return launched(world(nodepool(), *types, big), sold_as(offer("r7g.4xlarge", 0.86)))


def weight() -> TypeExplanation:
    """The pool that comes first is the dearer one."""
    types = [
        instance_type("m7g.large", zones={"a": 0.08}),
        instance_type("m7i.large", zones={"a": 0.1}),
    ]
    heavy = nodepool("intel", requires="type in m7i.large", weight=10)
    light = nodepool("arm", requires="type in m7g.large")
    return launched(
        world(heavy, light, *types, *pods(1)), sold_as(offer("m7i.large", 0.1)), "intel-8dzv2"
    )


def min_values() -> TypeExplanation:
    """Spot is dearer than on-demand now, and minValues keeps it."""
    types = [
        instance_type("m7g.large", zones={"a": 0.08}, spot={"a": 0.09}),
        instance_type("c7g.large", zones={"a": 0.07}, spot={"a": 0.085}),
    ]
    pool = nodepool(requires=f"{EITHER}; type in m7g.large,c7g.large", min_values={"type": 2})
    spot = [offer("c7g.large", 0.085, "a", "spot"), offer("m7g.large", 0.09, "a", "spot")]
    return launched(world(pool, *types, *pods(1)), sold_as(*spot))


def out_of_stock() -> TypeExplanation:
    """The cheapest was refused a moment ago."""
    problem = world(
        nodepool(), short(0.07), instance_type("m7g.large", zones={"a": 0.08}), *pods(2)
    )
    return launched(problem, sold_as(offer("m7g.large", 0.08)))


def ec2_depth() -> TypeExplanation:
    """EC2 took the third cheapest for its depth."""
    names = ("m7g.large", "m6g.large", "m6i.large", "m5.large")
    prices = (0.031, 0.033, 0.037, 0.04)
    types = [
        instance_type(name, spot={"a": price}) for name, price in zip(names, prices, strict=True)
    ]
    offers = [offer(n, p, "a", "spot") for n, p in zip(names, prices, strict=True)]
    return launched(world(nodepool(requires=SPOT), *types, *pods(9)), sold_as(*offers, chosen=2))


def reserved() -> TypeExplanation:
    """A reservation has room."""
    bought = instance_type(
        "m7i.large",
        offerings=[
            offering("a", "reserved", 0.0, reservation="cr-0f3a", reserved=2),
            offering("a", "on-demand", 0.1),
        ],
    )
    pool = nodepool(requires="capacity in reserved,on-demand")
    return launched(
        world(pool, bought, *pods(1)), sold_as(offer("m7i.large", 0.0, "a", "reserved"))
    )


EXAMPLES: Mapping[TypeReason, Callable[[], TypeExplanation]] = {
    TypeReason.CHEAPEST: cheapest,
    TypeReason.FORCED: forced,
    TypeReason.WEIGHT: weight,
    TypeReason.MIN_VALUES: min_values,
    TypeReason.OUT_OF_STOCK: out_of_stock,
    TypeReason.EC2_DEPTH: ec2_depth,
    TypeReason.RESERVED: reserved,
}
