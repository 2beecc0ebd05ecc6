"""What the solver decides, rule by rule, in small worlds."""

from __future__ import annotations

from typing import Any

from nodewright_controller.api import labels as names
from nodewright_controller.api.pod import ContainerPort, Pod
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scheduling.decision import Decision, message
from nodewright_controller.scheduling.problem import (
    MinValuesPolicy,
    PreferencePolicy,
    SolverOptions,
)
from nodewright_controller.scheduling.reasons import Reason
from nodewright_controller.scheduling.solver import solve

from tests.builders import (
    daemon,
    instance_type,
    near,
    node,
    node_claim,
    nodepool,
    offering,
    pod,
    spread,
    world,
)

WEB = {"app": "web"}


def codes(decision: Decision, name: str) -> set[str]:
    """The codes of a pod's refusals."""
    found = next(one for one in decision.unschedulable if one.pod == f"default/{name}")
    return {refusal.code for refusal in found.refusals}


def zones(decision: Decision) -> list[str]:
    """The zones of the new claims, sorted."""
    return sorted(claim.zone for claim in decision.new_claims)


# Choice of node.


def test_a_pod_gets_the_cheapest_type_and_zone_that_fit_it() -> None:
    decision = solve(
        world(
            nodepool(),
            instance_type("small", cpu=1, zones={"a": 0.05}),
            instance_type("large", cpu=4, zones={"a": 0.20, "b": 0.18}),
            instance_type("huge", cpu=16, zones={"a": 0.80}),
            pod("web", cpu=2),
        )
    )

    claim = decision.new_node("web")
    assert claim.instance_types == ("large", "huge")
    assert (claim.cheapest.zone, claim.usd_per_hour) == ("b", 0.18)


def test_an_existing_node_is_used_before_a_new_one_is_bought() -> None:
    decision = solve(world(nodepool(), instance_type(), node("n1"), pod("web")))

    assert decision.placements == {"default/web": "n1"}
    assert decision.new_claims == ()


def test_a_claim_in_flight_takes_pods() -> None:
    decision = solve(world(nodepool(), instance_type(), node_claim("general-x"), pod("web")))

    assert decision.placements == {"default/web": "general-x"}


def test_initialized_nodes_come_before_those_that_are_starting() -> None:
    starting = node("a", pool="general", initialized=False)
    ready = node("b", pool="general")

    decision = solve(world(nodepool(), instance_type(), starting, ready, pod("web")))

    assert decision.placements == {"default/web": "b"}


def test_pods_of_one_batch_share_a_node() -> None:
    decision = solve(world(nodepool(), instance_type(cpu=4), *(pod(cpu=1) for _ in range(3))))

    assert len(decision.new_claims) == 1


def test_a_heavier_pool_comes_first_and_a_lighter_one_when_nothing_fits_there() -> None:
    small, large = instance_type("small", cpu=1), instance_type("large", cpu=8)
    pools = [
        nodepool("tight", weight=50, requires="type in small"),
        nodepool("roomy", weight=10),
    ]

    decision = solve(world(*pools, small, large, pod("little", cpu="500m"), pod("hungry", cpu=6)))

    assert decision.new_node("hungry").node_pool == "roomy"
    assert {claim.node_pool for claim in decision.new_claims} == {"roomy"}
    alone = solve(world(*pools, small, large, pod("little", cpu="500m")))
    assert alone.new_node("little").node_pool == "tight"


def test_equal_weights_are_ordered_by_name_from_the_end_of_the_alphabet() -> None:
    decision = solve(world(nodepool("aaa"), nodepool("zzz"), instance_type(), pod("web")))

    assert decision.new_node("web").node_pool == "zzz"


def test_zone_and_capacity_type_are_matched_as_a_pair() -> None:
    only = instance_type(zones={"a": 0.1}, spot={"b": 0.03})

    decision = solve(world(nodepool(), only, pod("web", requires="zone in a; capacity in spot")))

    assert codes(decision, "web") == {"P106"}


def test_an_offering_that_is_out_of_stock_is_said_to_be_so() -> None:
    sold_out = instance_type(offerings=[offering("a", available=False)])

    decision = solve(world(nodepool(), sold_out, pod("web")))

    assert codes(decision, "web") == {"P401"}
    assert decision.unschedulable[0].reason.verdict == "starved"


# Labels and taints.


def test_an_existing_node_without_a_well_known_label_does_not_count_as_having_it() -> None:
    bare = node("n1")

    decision = solve(world(bare, pod("web", select={"capacity": "on-demand"})))

    assert decision.placements == {}


def test_a_label_that_no_pool_sets_is_named() -> None:
    decision = solve(world(nodepool(), instance_type(), pod("web", select={"nodegroup": "x"})))

    assert codes(decision, "web") == {"P102"}
    assert "nodegroup" in message(decision.unschedulable[0])


def test_exists_together_with_not_in_still_needs_the_label() -> None:
    decision = solve(
        world(
            nodepool(),
            instance_type(),
            node("n1"),
            pod("web", requires="team exists; team not in x"),
        )
    )

    assert codes(decision, "web") == {"P102"}


def test_a_custom_requirement_narrows_to_what_the_pods_ask_for() -> None:
    pool = nodepool(requires="team in x,y,z")

    decision = solve(world(pool, instance_type(), pod("web", requires="team in y,z,q")))

    assert decision.new_node("web").requirements.of("team").values == {"y", "z"}


def test_pods_that_cannot_share_a_label_get_nodes_of_their_own() -> None:
    pool = nodepool(requires="team in x,y")

    decision = solve(
        world(
            pool,
            instance_type(),
            pod("one", select={"team": "x"}),
            pod("two", select={"team": "y"}),
        )
    )

    assert len(decision.new_claims) == 2


def test_the_second_node_affinity_term_is_tried_when_the_first_cannot_be_met() -> None:
    decision = solve(
        world(nodepool(), instance_type(), pod("web", requires=["zone in nowhere", "zone in b"]))
    )

    assert decision.new_node("web").zone == "b"


def test_a_taint_keeps_pods_out_that_do_not_tolerate_it() -> None:
    pool = nodepool(taints=["dedicated=gpu:NoSchedule"])

    decision = solve(
        world(pool, instance_type(), pod("web"), pod("gpu", tolerates=["dedicated=gpu:NoSchedule"]))
    )

    assert decision.new_node("gpu").node_pool == "general"
    assert codes(decision, "web") == {"P103"}


def test_prefer_no_schedule_is_avoided_while_another_pool_will_do() -> None:
    soft = nodepool("soft", weight=100, taints=["noisy:PreferNoSchedule"])

    both = solve(world(soft, nodepool("calm"), instance_type(), pod("web")))
    only = solve(world(soft, instance_type(), pod("web")))

    assert both.new_node("web").node_pool == "calm"
    assert only.new_node("web").node_pool == "soft"


def test_a_startup_taint_does_not_hide_a_node_that_is_starting() -> None:
    starting = node("n1", pool="general", initialized=False, taints=["agent:NoSchedule"])
    claim = node_claim(node=starting, startup_taints=["agent:NoSchedule"])

    decision = solve(world(nodepool(), instance_type(), starting, claim, pod("web")))

    assert decision.placements == {"default/web": "n1"}


# Limits.


def test_the_node_limit_counts_within_one_batch() -> None:
    pool = nodepool(limits={"nodes": "2"})
    apart = [pod(f"web-{i}", labels=WEB, anti=[near(WEB, "host")]) for i in range(4)]

    decision = solve(world(pool, instance_type(), *apart))

    assert len(decision.new_claims) == 2
    assert {one.code for one in decision.unschedulable} == {"P302"}


def test_a_resource_limit_counts_claims_that_never_joined() -> None:
    claims = [node_claim(f"x{i}", pool="apps", cpu=4, zone="a") for i in range(2)]
    pool = nodepool("apps", limits={"cpu": "8"})

    decision = solve(
        world(pool, instance_type("m", cpu=4), *claims, pod("late", cpu=1, requires="zone in b"))
    )

    assert codes(decision, "late") == {"P301"}
    line = message(decision.unschedulable[0])
    assert all(word in line for word in ("apps", "cpu", "8"))


def test_types_over_the_limit_are_left_out() -> None:
    pool = nodepool(limits={"cpu": "4"})

    decision = solve(
        world(pool, instance_type("s", cpu=2), instance_type("l", cpu=8), pod("web", cpu=1))
    )

    assert decision.new_node("web").instance_types == ("s",)


# Daemons.


def test_daemons_are_counted_per_instance_type() -> None:
    agent = daemon("gpu-agent", cpu=1, requires="type in gpu")
    types = [instance_type("gpu", cpu=2, zones={"a": 0.9}), instance_type("plain", cpu=2)]

    decision = solve(world(nodepool(), *types, agent, pod("web", cpu="1500m")))

    assert decision.new_node("web").instance_types == ("plain",)


def test_a_daemon_that_tolerates_everything_runs_on_tainted_pools_and_others_do_not() -> None:
    pool = nodepool("batch", taints=["batch:NoSchedule"])
    daemons = [daemon("netd", cpu="600m", tolerates=["*"]), daemon("logd", cpu="700m")]
    types = [
        instance_type("small", cpu="900m", zones={"a": 0.05}),
        instance_type("large", cpu="1900m", zones={"a": 0.1}),
        instance_type("xlarge", cpu="3900m", zones={"a": 0.2}),
    ]

    decision = solve(world(pool, *types, *daemons, pod("crunch", cpu="700m", tolerates=["batch"])))

    claim = decision.new_node("crunch")
    assert claim.cheapest.instance_type == "large"
    assert claim.daemon_overhead == Resources({"cpu": 600, "pods": 1})


def test_a_daemon_that_selects_the_registered_label_is_counted() -> None:
    agent = daemon("agent", cpu=1, requires="karpenter.sh/registered in true")

    decision = solve(world(nodepool(), instance_type(cpu=2), agent, pod("web", cpu="1500m")))

    assert codes(decision, "web") == {"P104"}


def test_a_daemon_still_to_come_keeps_its_room_on_a_node() -> None:
    decision = solve(world(node("n1", cpu=2), daemon("agent", cpu=1), pod("web", cpu="1500m")))

    assert decision.placements == {}


def test_a_daemon_already_running_is_not_counted_twice() -> None:
    running = pod("agent-x", cpu=1, owner="DaemonSet/agent", node="n1")

    decision = solve(world(node("n1", cpu=2), daemon("agent", cpu=1), running, pod("web", cpu=1)))

    assert decision.placements == {"default/web": "n1"}


# Host ports.


def test_pods_with_the_same_host_port_get_nodes_of_their_own() -> None:
    decision = solve(
        world(nodepool(), instance_type(cpu=8), pod("one", ports=[80]), pod("two", ports=[80]))
    )

    assert len(decision.new_claims) == 2


def test_a_host_port_of_a_daemon_is_never_free_and_both_are_named() -> None:
    exporter = daemon("exporter", ports=[9100])
    udp = ContainerPort(container_port=9100, host_port=9100, protocol="UDP")

    decision = solve(
        world(
            nodepool("apps"),
            instance_type(),
            exporter,
            pod("tcp", ports=[9100]),
            pod("udp", ports=[udp]),
        )
    )

    assert decision.new_node("udp").node_pool == "apps"
    line = message(decision.unschedulable[0])
    assert decision.unschedulable[0].reason is Reason.HOST_PORT
    assert all(word in line for word in ("9100", "TCP", "exporter"))


def test_a_daemons_port_counts_on_a_node_where_it_does_not_run_yet() -> None:
    decision = solve(world(node("n1"), daemon("exporter", ports=[9100]), pod("tcp", ports=[9100])))

    assert decision.placements == {}


# Topology spread.


def spread_pods(count: int, **fields: Any) -> list[Pod]:
    """Pods labelled web."""
    return [pod(f"web-{i}", labels=WEB, **fields) for i in range(count)]


def test_a_zone_spread_fills_zones_evenly() -> None:
    pods = spread_pods(4, cpu="1500m", spreads=[spread("zone", WEB)])

    decision = solve(world(nodepool(), instance_type(), *pods))

    assert sorted(zones(decision).count(z) for z in "abc") == [1, 1, 2]


def test_pods_that_run_count_in_a_spread() -> None:
    running = pod("old", labels=WEB, node="n1")

    decision = solve(
        world(
            nodepool(),
            instance_type(),
            node("n1", zone="a"),
            running,
            pod("web", labels=WEB, spreads=[spread("zone", WEB)]),
        )
    )

    assert decision.new_node("web").zone in ("b", "c")


def test_zones_that_only_other_pools_reach_do_not_count() -> None:
    mine = nodepool("mine", requires="slot in 1")
    other = nodepool("other", requires="slot in 2,3,4")
    pods = spread_pods(2, select={"pool": "mine"}, spreads=[spread("slot", WEB)])

    decision = solve(world(mine, other, instance_type(), *pods))

    assert {claim.node_pool for claim in decision.new_claims} == {"mine"}
    assert decision.unschedulable == ()


def test_a_zone_that_nobody_can_launch_in_is_no_domain() -> None:
    typo = nodepool("typo", requires="zone in z")
    pods = spread_pods(4, cpu="1500m", spreads=[spread("zone", WEB)])
    lone = node("lone", cpu="100m")
    lone.labels.pop(names.ZONE)

    decision = solve(world(nodepool(), typo, instance_type(), lone, *pods))

    assert len(decision.new_claims) == 4


def test_a_spread_with_min_domains_starts_from_an_empty_tainted_pool() -> None:
    pool = nodepool("dedicated", taints=["team:NoSchedule"])
    pods = spread_pods(
        3,
        cpu="1500m",
        select={"pool": "dedicated"},
        tolerates=["team"],
        spreads=[spread("zone", WEB, min_domains=3)],
    )

    decision = solve(world(pool, instance_type(), *pods))

    assert zones(decision) == ["a", "b", "c"]


def test_too_few_domains_for_min_domains_hold_the_emptiest_at_zero() -> None:
    pods = spread_pods(3, cpu="1500m", spreads=[spread("zone", WEB, min_domains=3)])

    decision = solve(world(nodepool(requires="zone in a,b"), instance_type(), *pods))

    assert zones(decision) == ["a", "b"]
    assert decision.unschedulable[0].reason is Reason.SPREAD


def test_a_host_spread_puts_one_pod_on_each_node() -> None:
    pods = spread_pods(3, spreads=[spread("host", WEB)])

    decision = solve(world(nodepool(), instance_type(), *pods))

    assert len(decision.new_claims) == 3


def test_match_label_keys_count_each_revision_apart() -> None:
    rule = spread("zone", WEB, match_label_keys=["rev"])
    old = pod("old", labels={**WEB, "rev": "1"}, node="n1")

    decision = solve(
        world(
            nodepool(requires="zone in a,b"),
            instance_type(),
            node("n1", zone="a", cpu="100m"),
            old,
            pod("new", labels={**WEB, "rev": "2"}, requires="zone in a", spreads=[rule]),
        )
    )

    assert decision.new_node("new").zone == "a"


def test_a_soft_spread_gives_way_and_is_not_looked_at_when_preferences_are_ignored() -> None:
    pods = spread_pods(3, requires="zone in a", spreads=[spread("zone", WEB, soft=True)])
    ignoring = SolverOptions(preference_policy=PreferencePolicy.IGNORE)
    hosts = spread_pods(3, spreads=[spread("host", WEB, soft=True)])

    respected = solve(world(nodepool(), instance_type(), *pods))
    ignored = solve(world(nodepool(), instance_type(), *hosts, options=ignoring))

    assert respected.unschedulable == ()
    assert len(ignored.new_claims) == 1


def test_a_spread_names_the_domains_it_leaves_open() -> None:
    running = [pod(f"old-{i}", labels=WEB, node="n1") for i in range(2)]

    decision = solve(
        world(
            nodepool(),
            instance_type(),
            node("n1", zone="b"),
            *running,
            pod("web", labels=WEB, requires="zone in b", spreads=[spread("zone", WEB)]),
        )
    )

    # The pod's own rule leaves one domain, whose count then is the emptiest there is.
    assert decision.placements == {"default/web": "n1"}


# Pod affinity and anti-affinity.


def test_zone_anti_affinity_places_one_pod_per_zone_in_one_batch() -> None:
    pods = spread_pods(4, anti=[near(WEB, "zone")])

    decision = solve(world(nodepool(), instance_type(), *pods))

    assert zones(decision) == ["a", "b", "c"]
    assert {one.reason for one in decision.unschedulable} == {Reason.ANTI_AFFINITY}


def test_the_anti_affinity_of_a_running_pod_keeps_others_out() -> None:
    loner = pod("loner", anti=[near(WEB, "zone")], node="n1")

    decision = solve(
        world(nodepool(), instance_type(), node("n1", zone="a"), loner, pod("web", labels=WEB))
    )

    assert decision.new_node("web").requirements.of(names.ZONE).values == {"b"}


def test_pods_follow_those_they_want_to_be_near() -> None:
    leader = pod("leader", labels={"app": "db"}, cpu="100m", requires="zone in c")

    decision = solve(
        world(
            nodepool(),
            instance_type(),
            leader,
            *(pod(f"f{i}", cpu="1900m", affinity=[near({"app": "db"})]) for i in range(2)),
        )
    )

    assert set(zones(decision)) == {"c"}
    assert decision.unschedulable == ()


def test_pods_that_want_each_other_start_one_domain() -> None:
    pods = spread_pods(3, cpu="1500m", affinity=[near(WEB)])

    decision = solve(world(nodepool(), instance_type(), *pods))

    assert len(set(zones(decision))) == 1
    assert len(decision.new_claims) == 3


def test_the_zone_is_the_one_that_is_cheapest_for_all_who_follow() -> None:
    small = instance_type("m.small", cpu=2, zones={"a": 0.01, "b": 0.02})
    large = instance_type("m.huge", cpu=32, memory="128Gi", zones={"a": 2.0, "b": 1.0})
    crowd = [
        pod(f"w{number}", cpu=1, labels={"app": "w"}, affinity=[near({"app": "w"})])
        for number in range(20)
    ]

    decision = solve(world(nodepool(), small, large, *crowd))

    assert [claim.cheapest.zone for claim in decision.new_claims] == ["b"]
    assert decision.usd_per_hour == 1.0


def test_equally_cheap_zones_get_nodes_in_turn() -> None:
    one_each = [
        pod(f"{app}{number}", cpu="1500m", labels={"app": app}, affinity=[near({"app": app})])
        for app in "xyz"
        for number in range(2)
    ]

    decision = solve(world(nodepool(), instance_type(), *one_each))

    assert sorted(zones(decision)) == ["a", "a", "b", "b", "c", "c"]


def test_a_pod_does_not_start_a_domain_while_its_company_may_still_go_elsewhere() -> None:
    company = pod("plain", labels=WEB, cpu="100m", requires="zone in b")
    fan = pod("fan", labels=WEB, cpu="1500m", affinity=[near(WEB)])

    decision = solve(world(nodepool(), instance_type(), company, fan))

    assert set(zones(decision)) == {"b"}


def test_an_affinity_that_nothing_can_meet_is_named() -> None:
    decision = solve(world(nodepool(), instance_type(), pod("web", affinity=[near({"app": "db"})])))

    assert codes(decision, "web") == {"P206"}
    assert "app=db" in message(decision.unschedulable[0])


def test_an_impossible_preference_is_dropped_and_the_rest_is_kept() -> None:
    wishes = [(10, "karpenter.sh/nodepool absent"), (1, "zone in b")]

    decision = solve(world(nodepool(), instance_type(), pod("web", prefers=wishes)))

    assert decision.new_node("web").zone == "b"


# minValues, reservations.


def test_min_values_keep_enough_types_or_refuse() -> None:
    pool = nodepool(requires="type in s,l", min_values={"type": 2})
    types = [instance_type("s", cpu=2), instance_type("l", cpu=8)]

    kept = solve(world(pool, *types, pod("one", cpu=1), pod("two", cpu=1)))
    refused = solve(world(pool, *types, pod("big", cpu=6)))
    relaxed = solve(
        world(
            pool,
            *types,
            pod("big", cpu=6),
            options=SolverOptions(min_values_policy=MinValuesPolicy.BEST_EFFORT),
        )
    )

    assert all(len(claim.instance_types) == 2 for claim in kept.new_claims)
    assert codes(refused, "big") == {"P303"}
    assert relaxed.new_node("big").min_values_relaxed


def test_a_spread_tries_the_zones_in_which_min_values_can_be_kept() -> None:
    pool = nodepool(requires="type in s,l", min_values={"type": 2})
    types = [
        instance_type("s", zones={"a": 0.1, "b": 0.2}),
        instance_type("l", zones={"b": 0.3}),
    ]

    decision = solve(world(pool, *types, pod("web", labels=WEB, spreads=[spread("zone", WEB)])))

    assert decision.new_node("web").zone == "b"


def test_the_cut_to_the_cheapest_types_keeps_min_values() -> None:
    pool = nodepool(requires="arch in amd64,arm64", min_values={"arch": 2})
    types = [
        *(instance_type(f"x{n}", zones={"a": 0.1 + n / 100}) for n in range(5)),
        instance_type("arm", arch="arm64", zones={"a": 0.9}),
    ]

    decision = solve(world(pool, *types, pod("web"), options=SolverOptions(max_instance_types=3)))

    assert decision.new_node("web").instance_types == ("x0", "x1", "arm")


def test_the_cut_prefers_types_that_serve_several_min_values_at_once() -> None:
    pool = nodepool(requires="zone in a,b; type exists", min_values={"zone": 2, "type": 2})
    types = [
        instance_type("x1", zones={"a": 0.1}),
        instance_type("x2", zones={"a": 0.2}),
        instance_type("y", zones={"b": 0.9}),
    ]

    decision = solve(world(pool, *types, pod("web"), options=SolverOptions(max_instance_types=2)))

    assert decision.new_node("web").instance_types == ("x1", "y")


def test_a_tight_limit_is_shared_out_within_one_batch() -> None:
    types = [instance_type(f"m{n}", cpu=n, zones={"a": n / 10}) for n in (2, 4, 8)]
    pods = [pod(f"web-{n}", cpu="1500m", anti=[near(WEB, "host")], labels=WEB) for n in range(5)]

    decision = solve(world(nodepool(limits={"cpu": 8}), *types, *pods))

    assert [claim.instance_types for claim in decision.new_claims] == [("m2",)] * 4
    assert codes(decision, "web-4") == {"P301"}


def test_no_claim_gives_up_more_than_the_limit_asks_for() -> None:
    types = [instance_type(f"m{n}", cpu=n, zones={"a": n / 10}) for n in (2, 4, 8)]
    pods = [pod(f"web-{n}", cpu="1500m", anti=[near(WEB, "host")], labels=WEB) for n in range(2)]

    decision = solve(world(nodepool(limits={"cpu": 8}), *types, *pods))

    assert [claim.instance_types for claim in decision.new_claims] == [("m2", "m4"), ("m2", "m4")]


def test_reserved_capacity_is_used_first_and_the_rest_waits_for_it() -> None:
    sold = [
        offering("a", "reserved", 0.0, reservation="cr-1", reserved=1),
        offering("a", "on-demand", 0.1),
    ]
    only = instance_type(cpu=2, offerings=sold)
    pods = [pod(f"web-{i}", cpu="1500m") for i in range(2)]

    strict = solve(world(nodepool(), only, *pods))
    fallback = solve(world(nodepool(), only, *pods, options=SolverOptions(reserved_strict=False)))

    assert [claim.reservations for claim in strict.new_claims] == [("cr-1",)]
    assert strict.new_claims[0].cheapest.capacity_type == "reserved"
    assert [one.code for one in strict.deferred] == ["P501"]
    assert sorted(claim.reservations for claim in fallback.new_claims) == [(), ("cr-1",)]


def test_a_full_reservation_does_not_keep_on_demand_away() -> None:
    sold = [
        offering("a", "reserved", 0.0, reservation="cr-1", reserved=0),
        offering("a", "on-demand", 0.1),
    ]

    decision = solve(world(nodepool(), instance_type(offerings=sold), pod("web")))

    assert decision.new_node("web").cheapest.capacity_type == "on-demand"


def test_a_claim_that_holds_a_reservation_lists_only_types_that_it_is_for() -> None:
    reserved = instance_type(
        "m.reserved",
        offerings=[
            offering("a", "reserved", 0.0, reservation="cr-1", reserved=1),
            offering("a", "on-demand", 0.3),
        ],
    )
    other = instance_type("m.other", zones={"a": 0.1})

    claim = solve(world(nodepool(), reserved, other, pod("web"))).new_node("web")

    assert claim.reservations == ("cr-1",)
    assert claim.instance_types == ("m.reserved",)
    assert claim.usd_per_hour == 0.0


def test_a_reservation_that_would_break_min_values_is_not_held() -> None:
    pool = nodepool(requires="type exists", min_values={"type": 2})
    sold = [
        offering("a", "reserved", 0.0, reservation="cr-1", reserved=1),
        offering("a", "on-demand", 0.3),
    ]
    types = [instance_type("one", offerings=sold), instance_type("two", zones={"a": 0.2})]

    claim = solve(world(pool, *types, pod("web"))).new_node("web")

    assert claim.reservations == ()
    assert set(claim.instance_types) == {"one", "two"}


def test_a_zone_with_nothing_but_a_full_reservation_is_no_domain() -> None:
    sold = [
        offering("a", "on-demand", 0.1),
        offering("b", "reserved", 0.0, reservation="cr-1", reserved=0),
    ]
    replicas = [pod(f"web-{n}", labels=WEB, spreads=[spread("zone", WEB)]) for n in range(3)]

    decision = solve(world(nodepool(), instance_type(offerings=sold), *replicas))

    assert not decision.unschedulable
    assert decision.new_node("web-2").zone == "a"


def test_pods_on_a_node_that_is_going_count_where_the_constraint_counts() -> None:
    spreads = [spread("zone", WEB)]
    problem = world(
        nodepool(),
        instance_type(),
        node("old-a", zone="a", labels={"disk": "hdd"}),
        pod("old", labels=WEB, node="old-a"),
        pod("web", labels=WEB, spreads=spreads, requires="disk not in hdd"),
        leaving=["old-a"],
    )

    assert solve(problem).new_node("web").zone == "a"


# The round as a whole.


def test_two_rounds_with_the_same_types_share_what_is_known_about_them() -> None:
    types = [instance_type("s", cpu=2), instance_type("l", cpu=8)]
    first = solve(world(nodepool(), *types, pod("web", cpu=1)))

    again = solve(world(nodepool(), *types, daemon("d", cpu="1500m"), pod("web", cpu=1)))

    assert first.new_node("web").instance_types == ("l", "s")
    assert again.new_node("web").instance_types == ("l",)


def test_a_pod_that_cannot_be_read_does_not_stop_the_others() -> None:
    decision = solve(
        world(
            nodepool(),
            instance_type(),
            pod("broken", cpu="lots"),
            pod("odd", requires="zone > x"),
            pod("web"),
        )
    )

    assert decision.new_node("web").node_pool == "general"
    assert {one.pod: one.code for one in decision.unschedulable} == {
        "default/broken": "P109",
        "default/odd": "P109",
    }


def test_pods_that_were_not_looked_at_in_time_are_deferred() -> None:
    decision = solve(
        world(nodepool(), instance_type(), pod("web"), options=SolverOptions(stop=lambda: True))
    )

    assert [one.code for one in decision.deferred] == ["P502"]


def test_without_pools_the_line_says_so() -> None:
    decision = solve(world(pod("web")))

    assert codes(decision, "web") == {"P306"}


def test_a_pool_that_is_not_ready_makes_nothing() -> None:
    decision = solve(world(nodepool(ready=False), instance_type(), pod("web")))

    assert codes(decision, "web") == {"P304"}


def test_every_failed_check_of_a_pool_is_told_and_near_misses_come_first() -> None:
    far = nodepool("far", weight=100, requires="team in x", taints=["t:NoSchedule"])
    close = nodepool("close")

    decision = solve(
        world(far, close, instance_type(cpu=2), pod("web", cpu=4, select={"team": "y"}))
    )

    refusals = decision.unschedulable[0].refusals
    assert [r.node_pool for r in refusals][-3:] == ["far"] * 3
    assert {r.code for r in refusals if r.node_pool == "far"} == {"P101", "P103", "P104"}
    assert {r.code for r in refusals if r.node_pool == "close"} == {"P102", "P104"}
    assert message(decision.unschedulable[0]).endswith("; +1 not meant for it (0/2 pools)  [P102]")


def test_gpus_and_other_extended_resources_are_counted() -> None:
    gpu = instance_type("gpu", cpu=8, zones={"a": 3.0}, extra={"nvidia.com/gpu": 8})
    pods = [pod(f"g{i}", cpu="100m", requests={"nvidia.com/gpu": "5"}) for i in range(2)]

    decision = solve(world(nodepool(), gpu, instance_type("plain"), *pods))

    assert [claim.instance_types for claim in decision.new_claims] == [("gpu",), ("gpu",)]
