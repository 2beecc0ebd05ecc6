"""Why a node is of its type: one code per cause, and what the cause costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.scheduling.claims import node_claim_from
from nodewright_controller.scheduling.lighter_pools import LighterPools
from nodewright_controller.scheduling.solver import solve
from nodewright_controller.scheduling.type_choice import (
    explain_planned,
    explain_type,
    replayed_type,
)
from nodewright_controller.scheduling.type_plan import Shortage, Stock, plan_of, plan_of_launch
from nodewright_controller.scheduling.type_reasons import TypeReason
from nodewright_controller.scheduling.why_text import as_tree

from tests.builders import NOW, instance_type, node_claim, nodepool, pod, world
from tests.scheduling import choices
from tests.scheduling.choices import (
    EXAMPLES,
    SPOT,
    UNTIL,
    launched,
    offer,
    planned,
    pods,
    short,
    sold_as,
)

CHEAP = instance_type("m7g.large", zones={"a": 0.08})
DEAR = instance_type("m7i.large", zones={"a": 0.1})


@pytest.mark.parametrize("reason", list(TypeReason), ids=lambda reason: reason.code)
def test_every_code_has_an_example_that_comes_to_it(reason: TypeReason) -> None:
    found = EXAMPLES[reason]()

    assert (found.code, found.verdict) == (reason.code, reason.verdict)
    assert found.line.endswith(f"  [{reason.code}]")
    assert len(found.line) <= 160


def test_codes_are_unique_and_107_is_kept_for_commitments() -> None:
    codes = [reason.code for reason in TypeReason]

    assert len(set(codes)) == len(codes)
    assert "T107" not in codes


def test_the_cheapest_of_what_was_offered_costs_nothing_extra() -> None:
    found = choices.cheapest()

    assert found.line == (
        "claim/general-k2x4q chosen: m7g.large on-demand in a at $0.0800/h"
        " is the cheapest of 2 offers (2 pods)  [T101]"
    )
    assert found.more_usd_per_hour == 0
    assert (found.least_usd_per_hour, found.most_usd_per_hour) == (0.08, 0.1)


def test_one_that_waits_for_its_launch_is_compared_with_the_types_it_lists() -> None:
    found = planned(world(nodepool(), CHEAP, DEAR, *pods(1)))

    assert "is the cheapest of 2 types (1 pod)  [T101]" in found.line
    assert found.usd_per_hour == 0.08


def test_the_only_type_that_does_is_forced() -> None:
    assert (
        "r7g.4xlarge on-demand in a at $0.8600/h is the only instance type" in choices.forced().line
    )


def test_a_type_is_not_the_only_one_while_another_is_just_out_of_stock() -> None:
    found = planned(world(nodepool(), CHEAP, short(0.09), *pods(1)))

    assert found.code == "T101"


def test_a_heavier_pool_that_is_dearer_is_named_with_the_one_it_hides() -> None:
    found = choices.weight()

    assert "pool intel outweighs cheaper pool arm" in found.line
    assert found.more_usd_per_hour == pytest.approx(0.02)
    assert found.also == (
        "m7i.large on-demand in a at $0.1000/h is the only instance type that does  [T102]",
    )


def test_a_lighter_pool_that_cannot_take_the_pods_hides_nothing() -> None:
    heavy = nodepool("intel", requires="type in m7i.large", weight=10)
    light = nodepool("arm", requires="type in m7g.large", taints=["team=a:NoSchedule"])

    assert planned(world(heavy, light, CHEAP, DEAR, *pods(1))).code == "T102"


def test_a_lighter_pool_with_dearer_types_is_not_even_asked() -> None:
    heavy = nodepool("arm", requires="type in m7g.large", weight=10)
    light = nodepool("intel", requires="type in m7i.large")
    problem = world(heavy, light, CHEAP, DEAR, *pods(1))
    (claim,) = solve(problem).new_claims

    assert LighterPools(problem, most_questions=1).cheaper(claim) is None


def test_only_so_many_questions_about_lighter_pools_are_asked_in_a_round() -> None:
    heavy = nodepool("intel", requires="type in m7i.large", weight=10)
    light = nodepool("arm", requires="type in m7g.large")
    problem = world(heavy, light, CHEAP, DEAR, *pods(1))
    (claim,) = solve(problem).new_claims
    pools = LighterPools(problem, most_questions=1)

    first, other = (
        pools.cheaper(claim),
        pools.cheaper(replace(claim, requests=claim.requests + {"cpu": 1})),
    )

    assert first is not None
    assert first.node_pool == "arm"
    assert other is None
    assert pools.cheaper(claim) == first


def test_min_values_that_keep_dear_spot_say_what_that_costs() -> None:
    found = choices.min_values()

    assert "minValues on instance-type keeps dearer spot" in found.line
    assert found.more_usd_per_hour == pytest.approx(0.015)


def test_min_values_that_change_nothing_are_not_the_reason() -> None:
    pool = nodepool(requires="type in m7g.large,m7i.large", min_values={"type": 2})

    assert planned(world(pool, CHEAP, DEAR, *pods(1))).code == "T101"


def test_a_cheaper_way_that_is_out_of_stock_makes_it_a_fallback() -> None:
    found = choices.out_of_stock()

    assert found.line == (
        "claim/general-k2x4q fallback: c7g.large on-demand was out of stock in a until 10:03 UTC"
        " (2 pods) → m7g.large on-demand in a at $0.0800/h, +$0.0100/h  [T105]"
    )
    assert [each.until for each in found.out_of_stock] == [UNTIL]


def test_what_is_out_of_stock_and_dearer_or_too_small_is_no_reason() -> None:
    tiny = replace(short(0.01), capacity=instance_type("tiny", cpu="100m").capacity)

    found = planned(world(nodepool(), CHEAP, DEAR, short(0.09), pod("web", cpu=1)))
    small = planned(world(nodepool(), CHEAP, DEAR, tiny, pod("web", cpu=1)))

    assert (found.code, small.code) == ("T101", "T101")


def test_an_offer_that_ec2_refused_in_its_answer_makes_it_a_fallback_too() -> None:
    first, second = offer("m7g.large", 0.08), offer("m7i.large", 0.1)
    refused = (Shortage(offer=first, until=UNTIL),)

    found = launched(
        world(nodepool(), CHEAP, DEAR, *pods(1)),
        sold_as(first, second, chosen=1, shortages=refused),
    )

    assert found.code == "T105"
    assert found.more_usd_per_hour == pytest.approx(0.02)


def test_a_dearer_spot_offer_is_ec2s_choice_and_its_rank_and_price_are_told() -> None:
    found = choices.ec2_depth()

    assert "3rd cheapest of 4 offers, +$0.0060/h for spare spot depth (9 pods)" in found.line
    assert [each.rank for each in found.ranking if each.chosen] == [3]


def test_equal_prices_share_a_rank_so_that_none_of_them_is_dearer() -> None:
    both = instance_type("m7g.large", spot={"a": 0.03, "b": 0.03})
    offers = (offer("m7g.large", 0.03, "a", "spot"), offer("m7g.large", 0.03, "b", "spot"))

    found = launched(world(nodepool(requires=SPOT), both, *pods(1)), sold_as(*offers, chosen=1))

    assert found.code == "T102"
    assert [each.rank for each in found.ranking] == [1, 1]


def test_a_choice_of_ec2_stands_before_a_shortage_and_both_are_told() -> None:
    types = (
        short(0.02, capacity_type="spot"),
        instance_type("m7g.large", spot={"a": 0.03, "b": 0.035}),
    )
    offers = (offer("m7g.large", 0.03, "a", "spot"), offer("m7g.large", 0.035, "b", "spot"))

    found = launched(world(nodepool(requires=SPOT), *types, *pods(1)), sold_as(*offers, chosen=1))

    assert found.code == "T106"
    assert found.more_usd_per_hour == pytest.approx(0.005)
    assert [text[-6:] for text in found.also] == ["[T105]"]


def test_a_reservation_with_room_comes_first() -> None:
    assert "from reservation cr-0f3a" in choices.reserved().line


def test_a_price_that_nobody_knows_is_called_so() -> None:
    sold = replace(sold_as(offer("m7g.large", 0.08)), usd_per_hour=None)

    found = launched(world(nodepool(), CHEAP, DEAR, *pods(1)), sold)

    assert "m7g.large on-demand in a at price unknown" in found.line
    assert found.usd_per_hour is None


def test_the_same_snapshot_gives_the_same_explanation() -> None:
    assert choices.ec2_depth() == choices.ec2_depth()


def test_the_tree_shows_the_way_from_all_types_to_the_one() -> None:
    types = (CHEAP, DEAR, instance_type("t3.nano", cpu="100m", zones={"a": 0.01}))
    problem = world(nodepool(requires="arch in amd64"), *types, pod("web", cpu=1))
    (claim,) = solve(problem).new_claims
    plan = plan_of(claim, Stock(types))

    found = explain_planned(node_claim_from(claim, nodepool()), plan, types, NOW)

    tree = list(as_tree(found))
    assert "asked   1 cpu" in tree
    assert "funnel  3 types → 3 meeting the requirements → 2 large enough → 2 in stock" in tree[-4]
    assert tree[-3] == "ranking  1 m7g.large on-demand in a, $0.0800/h  ←"
    assert tree[-1] == "range   $0.0800 to $0.1000 over 2 offers"


# Claims that no round of this process has planned.


def earlier(*types: InstanceType, launched_as: str, zone: str = "a") -> str:
    problem = world(nodepool(), *types, *pods(1))
    (claim,) = solve(problem).new_claims
    made = node_claim_from(claim, nodepool())
    old = node_claim("general-old", instance_type=launched_as, zone=zone)
    old.spec.requirements = made.spec.requirements
    old.spec.resources = made.spec.resources
    found = replayed_type(old, types, NOW)
    assert found is not None
    assert found.replayed
    return found.line


def test_a_claim_of_an_earlier_leader_is_explained_by_the_prices_of_now() -> None:
    assert earlier(CHEAP, DEAR, launched_as="m7g.large") == (
        "claim/general-old chosen: m7g.large on-demand in a at $0.0800/h is the cheapest of"
        " 2 offers  [T101]"
    )


def test_what_has_become_cheaper_since_shows_as_a_difference() -> None:
    assert "2nd cheapest of 2 offers, +$0.0200/h" in earlier(CHEAP, DEAR, launched_as="m7i.large")


def test_a_claim_whose_types_are_all_gone_has_no_explanation() -> None:
    problem = world(nodepool(), CHEAP, *pods(1))
    (claim,) = solve(problem).new_claims

    assert replayed_type(node_claim_from(claim, nodepool()), (), NOW) is None


def test_a_claim_without_a_plan_is_explained_by_what_was_offered() -> None:
    offers = (offer("m7g.large", 0.08), offer("m7i.large", 0.1))
    plan = plan_of_launch("fixed", offers)
    assert plan is not None

    found = explain_type("fixed-1", plan, sold_as(*offers), NOW)

    assert found.code == "T101"
    assert plan_of_launch("fixed", ()) is None
