"""Capacity reservations: found, offered, bought from, counted, and left when they end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from nodewright_controller.api.ec2nodeclass import (
    CapacityReservationSelectorTerm,
    CapacityReservationStatus,
    EC2NodeClass,
)
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.node import Node, NodeSpec
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.capacity_reservations import reservation_queries
from nodewright_controller.aws.nodeclass import NodeClassReconciler
from nodewright_controller.aws.reservation_upkeep import ReservationUpkeep
from nodewright_controller.constraints.instance_type import Offering
from nodewright_controller.ports.cloud import Launched
from nodewright_controller.ports.errors import InsufficientCapacity, NodeClaimNotFound, NotFound

from tests.aws.world import ON_DEMAND, START, X86, World, node_claim, node_class, node_pool
from tests.fakes.harness import FakeRecorder
from tests.fakes.kube import FakeKube

ZONE_A, ZONE_B = "us-west-2a", "us-west-2b"
RESERVED = {"karpenter.sh/capacity-type": ["reserved"]}
ANY = {"karpenter.sh/capacity-type": ["reserved", "spot", "on-demand"]}
RESERVATION = "karpenter.k8s.aws/capacity-reservation-id"
DISCOVERY = {"karpenter.sh/discovery": "demo"}


async def reserving(*reservations: Mapping[str, Any], **more_options: Any) -> World:
    """Return a world whose node class has found these reservations."""
    world = World(more_options=more_options)
    for each in reservations:
        values = dict(each)
        world.aws.ec2.reserve(
            values.pop("id"), values.pop("type"), values.pop("zone"), values.pop("count"), **values
        )
    await find(world)
    return world


async def find(world: World) -> None:
    """Let the node class look for its reservations, as its reconciler does every minute."""
    made = world.node_classes["default"]
    terms = [CapacityReservationSelectorTerm(tags=DISCOVERY)]
    made.spec.capacity_reservation_selector_terms = terms
    found = await world.provider.reservations.select(terms)
    made.status.capacity_reservations = [each.status(world.clock.now()) for each in found]


def large(id_: str = "cr-1", zone: str = ZONE_A, count: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": id_, "type": "m5.large", "zone": zone, "count": count, **more}


async def offerings(world: World, name: str = "m5.large") -> list[Offering]:
    """Return the reserved offerings of a type."""
    types = await world.provider.instance_types(node_pool())
    found = next(each for each in types if each.name == name)
    return [offering for offering in found.offerings if offering.capacity_type == "reserved"]


def launched_claim(answer: Launched, name: str = "claim-1") -> NodeClaim:
    claim = node_claim(name)
    claim.status.provider_id = answer.provider_id
    claim.metadata.labels = {**claim.labels, **answer.labels}
    return claim


def last_fleet(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.aws.ec2.requests("create_fleet")[-1]
    return found


def template_of(world: World, request: Mapping[str, Any]) -> dict[str, Any]:
    (config,) = request["LaunchTemplateConfigs"]
    name = config["LaunchTemplateSpecification"]["LaunchTemplateName"]
    data: dict[str, Any] = world.aws.ec2.templates[name]["LaunchTemplateData"]
    return data


# ----------------------------------------------------------------------------------- discovery


def test_ids_go_into_one_query_and_every_other_term_into_its_own() -> None:
    active = {"Name": "state", "Values": ["active"]}
    found = reservation_queries(
        [
            CapacityReservationSelectorTerm(id="cr-2"),
            CapacityReservationSelectorTerm(tags={"team": "a"}, owner_id="123456789012"),
            CapacityReservationSelectorTerm(id="cr-1"),
            CapacityReservationSelectorTerm(instance_match_criteria="open"),
        ]
    )

    assert found == [
        {"CapacityReservationIds": ["cr-1", "cr-2"], "Filters": [active]},
        {
            "Filters": [
                active,
                {"Name": "tag:team", "Values": ["a"]},
                {"Name": "owner-id", "Values": ["123456789012"]},
            ]
        },
        {"Filters": [active, {"Name": "instance-match-criteria", "Values": ["open"]}]},
    ]


async def test_an_id_that_does_not_exist_does_not_hide_the_others() -> None:
    world = await reserving(large("cr-1"), large("cr-2", ZONE_B))
    terms = [CapacityReservationSelectorTerm(id=id_) for id_ in ("cr-1", "cr-0", "cr-2")]

    found = await world.provider.reservations.select(terms)

    assert [each.id for each in found] == ["cr-1", "cr-2"]


async def test_many_launches_at_once_ask_for_what_is_left_only_once() -> None:
    world = await reserving(large("cr-1"))
    asked = len(world.aws.ec2.requests("describe_capacity_reservations"))
    world.clock.move(days=2)  # nothing is remembered any more

    chosen = world.node_classes["default"]
    await asyncio.gather(*(world.provider.reservations.ensure_known(chosen) for _ in range(20)))

    assert len(world.aws.ec2.requests("describe_capacity_reservations")) == asked + 1
    assert world.provider.reservations.available("cr-1") > 0


async def reconciled(
    world: World, terms: list[CapacityReservationSelectorTerm] | None
) -> tuple[EC2NodeClass, float | None]:
    kube = FakeKube(world.clock.now)
    made = node_class(capacity_reservation_selector_terms=terms)
    made.status.conditions = None
    kube.add(made)
    reconciler = NodeClassReconciler(
        world.provider,
        kube,
        FakeRecorder(),
        world.clock,
        node_classes=kube.store(EC2NodeClass),
        node_claims=kube.store(NodeClaim),
    )
    result = await reconciler.reconcile("default")
    found = kube.store(EC2NodeClass).get("default")
    assert found is not None
    return found, result.requeue_after


async def test_the_node_class_lists_what_its_terms_select() -> None:
    world = World()
    world.aws.ec2.reserve("cr-2", "m5.large", ZONE_B, 3)
    end = START + timedelta(hours=2)
    world.aws.ec2.reserve(
        "cr-1", "p5.48xlarge", ZONE_A, 1, ReservationType="capacity-block", EndDate=end
    )
    world.aws.ec2.reserve("cr-3", "m5.large", ZONE_B, 3, Tags=[])
    world.aws.ec2.reserve("cr-4", "m5.large", ZONE_B, 3, State="cancelled")

    found, requeue = await reconciled(world, [CapacityReservationSelectorTerm(tags=DISCOVERY)])

    assert [each.id for each in found.status.capacity_reservations or ()] == ["cr-1", "cr-2"]
    block = (found.status.capacity_reservations or [CapacityReservationStatus()])[0]
    assert (block.reservation_type, block.end_time, block.state) == (
        "capacity-block",
        end,
        "active",
    )
    conditions = {each.type: each.status for each in found.status.conditions or ()}
    assert conditions["CapacityReservationsReady"] == conditions["Ready"] == "True"
    assert requeue == 60


async def test_without_terms_nothing_is_asked_and_the_class_is_ready() -> None:
    world = World()

    found, _ = await reconciled(world, None)

    conditions = {each.type: each.status for each in found.status.conditions or ()}
    assert conditions["CapacityReservationsReady"] == conditions["Ready"] == "True"
    assert world.aws.ec2.requests("describe_capacity_reservations") == []


async def test_with_the_gate_closed_reservations_are_neither_listed_nor_kept_out_of() -> None:
    world = World(more_options={"reserved_capacity": False})
    world.aws.ec2.reserve("cr-1", "m5.large", ZONE_A, 1)

    found, _ = await reconciled(world, [CapacityReservationSelectorTerm(tags=DISCOVERY)])
    await world.provider.create(node_claim(requires=X86 | ON_DEMAND))

    assert not found.status.capacity_reservations
    types = {each.type for each in found.status.conditions or ()}
    assert "CapacityReservationsReady" not in types
    assert all(
        "CapacityReservationSpecification" not in made["LaunchTemplateData"]
        for made in world.aws.ec2.templates.values()
    )


async def test_a_block_is_expiring_from_forty_minutes_before_its_end() -> None:
    world = World()
    end = START + timedelta(minutes=50)
    world.aws.ec2.reserve(
        "cr-1", "p5.48xlarge", ZONE_A, 1, ReservationType="capacity-block", EndDate=end
    )
    terms = [CapacityReservationSelectorTerm(id="cr-1")]
    found, _ = await reconciled(world, terms)
    assert [each.state for each in found.status.capacity_reservations or ()] == ["active"]

    world.clock.move(minutes=9, seconds=30)
    _, requeue = await reconciled(world, terms)
    assert requeue == 30

    world.clock.move(minutes=1)
    found, _ = await reconciled(world, terms)
    assert [each.state for each in found.status.capacity_reservations or ()] == ["expiring"]


# ----------------------------------------------------------------------------------- offerings


async def test_a_reservation_is_an_offering_that_costs_next_to_nothing() -> None:
    world = await reserving(large(count=2))

    (offering,) = await offerings(world)

    assert offering.requirements.labels() == {
        "karpenter.sh/capacity-type": "reserved",
        "topology.kubernetes.io/zone": ZONE_A,
        "topology.k8s.aws/zone-id": "usw2-az2",
        RESERVATION: "cr-1",
        "karpenter.k8s.aws/capacity-reservation-type": "default",
        "karpenter.k8s.aws/capacity-reservation-interruptible": "false",
    }
    assert 0 < offering.usd_per_hour < 1e-6
    assert (offering.available, offering.reservation_capacity) == (True, 2)
    assert await offerings(world, "m5.xlarge") == []


async def test_only_the_type_of_a_reservation_is_made_anew_when_its_count_changes() -> None:
    world = await reserving(large(count=2))
    before = {each.name: each for each in await world.provider.instance_types(node_pool())}

    world.provider.reservations.mark_launched("cr-1")
    after = {each.name: each for each in await world.provider.instance_types(node_pool())}

    assert [name for name in after if after[name] is not before[name]] == ["m5.large"]


async def test_a_used_up_reservation_stays_available_with_nothing_left() -> None:
    world = await reserving(large(count=0))

    (offering,) = await offerings(world)

    assert (offering.available, offering.launchable) == (True, False)


async def test_after_a_restart_the_counts_are_asked_for_before_anything_is_offered() -> None:
    world = await reserving(large(count=2))
    world.restart()

    (offering,) = await offerings(world)

    assert offering.reservation_capacity == 2


# ----------------------------------------------------------------------------------- launch


async def test_a_launch_takes_the_reservation_and_then_falls_back() -> None:
    world = await reserving(large(count=1))

    first = await world.provider.create(node_claim("claim-1", X86 | ANY))
    request = last_fleet(world)
    second = await world.provider.create(node_claim("claim-2", X86 | ANY))

    assert first.labels["karpenter.sh/capacity-type"] == "reserved"
    assert first.labels["node.kubernetes.io/instance-type"] == "m5.large"
    assert first.labels[RESERVATION] == "cr-1"
    assert first.labels["karpenter.k8s.aws/capacity-reservation-type"] == "default"
    assert request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "on-demand"
    assert request["OnDemandOptions"] == {"AllocationStrategy": "lowest-price"}
    assert template_of(world, request)["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
    }
    assert second.labels["karpenter.sh/capacity-type"] == "spot"
    assert RESERVATION not in second.labels
    assert {
        str(made["LaunchTemplateData"]["CapacityReservationSpecification"])
        for made in world.aws.ec2.templates.values()
        if "none" in str(made["LaunchTemplateData"])
    } == {"{'CapacityReservationPreference': 'none'}"}


async def test_of_two_reservations_in_a_zone_the_roomier_is_taken_and_each_has_its_template() -> (
    None
):
    world = await reserving(
        large("cr-1", ZONE_A, 1), large("cr-2", ZONE_A, 5), large("cr-3", ZONE_B, 1)
    )

    await world.provider.create(node_claim(requires=X86 | RESERVED))

    request = last_fleet(world)
    targets = {
        world.aws.ec2.templates[config["LaunchTemplateSpecification"]["LaunchTemplateName"]][
            "LaunchTemplateData"
        ]["CapacityReservationSpecification"]["CapacityReservationTarget"][
            "CapacityReservationId"
        ]: [each["AvailabilityZone"] for each in config["Overrides"]]
        for config in request["LaunchTemplateConfigs"]
    }
    assert targets == {"cr-2": [ZONE_A], "cr-3": [ZONE_B]}


async def test_a_claim_that_names_a_reservation_gets_that_one() -> None:
    world = await reserving(large("cr-1", ZONE_A, 5), large("cr-2", ZONE_B, 1))
    asked = X86 | RESERVED | {RESERVATION: ["cr-2"]}

    launched = await world.provider.create(node_claim(requires=asked))

    assert launched.labels[RESERVATION] == "cr-2"


@pytest.mark.parametrize(
    ("kind", "target", "market", "options"),
    [
        ({"ReservationType": "capacity-block"}, "capacity-block", "capacity-block", {}),
        (
            {"Interruptible": True},
            "reserved-capacity",
            "interruptible-capacity-reservation",
            {
                "ReservedCapacityOptions": {
                    "ReservationTypes": ["interruptible-capacity-reservation"]
                }
            },
        ),
    ],
)
async def test_blocks_and_interruptible_reservations_are_markets_of_their_own(
    kind: dict[str, Any], target: str, market: str, options: dict[str, Any]
) -> None:
    world = await reserving(large(**kind))

    await world.provider.create(node_claim(requires=X86 | RESERVED))

    request = last_fleet(world)
    assert request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == target
    assert template_of(world, request)["InstanceMarketOptions"] == {"MarketType": market}
    assert {key: value for key, value in request.items() if key.endswith("Options")} == options


async def test_of_capacity_blocks_one_type_in_one_zone_is_asked_for() -> None:
    block = {"ReservationType": "capacity-block"}
    world = await reserving(
        large("cr-1", ZONE_A, 1, **block),
        {"id": "cr-2", "type": "m5.xlarge", "zone": ZONE_B, "count": 1, **block},
    )

    await world.provider.create(node_claim(requires=X86 | ANY))

    (config,) = last_fleet(world)["LaunchTemplateConfigs"]
    places = [(each["InstanceType"], each["AvailabilityZone"]) for each in config["Overrides"]]
    assert places == [("m5.large", ZONE_A)]


async def test_a_reservation_that_turns_out_full_is_counted_as_empty_and_not_as_out_of_stock() -> (
    None
):
    world = await reserving(large(count=1))
    world.aws.ec2.reservations["cr-1"]["AvailableInstanceCount"] = 0  # somebody else was faster

    with pytest.raises(InsufficientCapacity, match="ReservationCapacityExceeded"):
        await world.provider.create(node_claim("claim-1", X86 | RESERVED))

    (offering,) = await offerings(world)
    assert (offering.available, offering.reservation_capacity) == (True, 0)
    assert not world.provider.unavailable.is_unavailable("m5.large", ZONE_A, "on-demand")


async def test_another_shortage_speaks_about_the_reservation_alone_for_three_minutes() -> None:
    world = await reserving(large("cr-1", ZONE_A, 1), large("cr-2", ZONE_A, 1))
    world.aws.ec2.reservation_errors = {"cr-1": "InsufficientInstanceCapacity"}
    asked = X86 | RESERVED | {RESERVATION: ["cr-1"]}

    with pytest.raises(InsufficientCapacity):
        await world.provider.create(node_claim("claim-1", asked))

    found = {each.requirements.of(RESERVATION).any_value(): each for each in await offerings(world)}
    assert {name: each.available for name, each in found.items()} == {"cr-1": False, "cr-2": True}
    assert found["cr-1"].reservation_capacity == 1
    assert not world.provider.unavailable.is_unavailable("m5.large", ZONE_A, "on-demand")
    world.clock.move(minutes=3, seconds=1)
    assert all(each.available for each in await offerings(world))


async def test_a_lost_answer_still_counts_as_reserved() -> None:
    world = await reserving(large(count=2))
    world.aws.ec2.lose_answers = {"create_fleet": 1}
    claim = node_claim(requires=X86 | RESERVED)
    with pytest.raises(Exception, match="read timeout"):
        await world.provider.create(claim)

    launched = await world.provider.create(claim)

    assert len(world.instance_ids()) == 1
    assert launched.labels["karpenter.sh/capacity-type"] == "reserved"
    assert launched.labels[RESERVATION] == "cr-1"


# ----------------------------------------------------------------------------------- counting


async def test_the_place_of_an_instance_is_free_once_it_is_gone_and_only_once() -> None:
    world = await reserving(large(count=1))
    answer = await world.provider.create(node_claim(requires=X86 | RESERVED))
    claim = launched_claim(answer)
    assert world.provider.reservations.available("cr-1") == 0

    await world.provider.delete(claim)
    assert world.provider.reservations.available("cr-1") == 0
    (instance,) = world.aws.ec2.instances.values()
    instance["State"]["Name"] = "terminated"
    for _ in range(2):
        with pytest.raises(NodeClaimNotFound):
            await world.provider.delete(claim)

    assert world.provider.reservations.available("cr-1") == 1


async def test_ec2s_count_is_believed_a_minute_later() -> None:
    world = await reserving(large(count=1))
    world.aws.ec2.reservations["cr-1"]["AvailableInstanceCount"] = 7
    await find(world)
    assert world.provider.reservations.available("cr-1") == 1

    world.clock.move(minutes=1)
    await find(world)
    assert world.provider.reservations.available("cr-1") == 7


# ----------------------------------------------------------------------------------- upkeep


async def test_a_reservation_that_is_no_longer_selected_is_drift() -> None:
    world = await reserving(large(count=1))
    claim = launched_claim(await world.provider.create(node_claim(requires=X86 | RESERVED)))
    assert await world.provider.is_drifted(claim) == ""

    world.node_classes["default"].status.capacity_reservations = []

    assert await world.provider.is_drifted(claim) == "CapacityReservationDrift"


class Upkeep:
    """The rounds over a world with one reserved claim and its node."""

    def __init__(self, world: World, claim: NodeClaim) -> None:
        self.kube = FakeKube(world.clock.now)
        self.kube.add(world.node_classes["default"])
        self.kube.add(claim)
        self.kube.add(
            Node(
                metadata=ObjectMeta(name="node-1", labels=dict(claim.labels)),
                spec=NodeSpec(provider_id=claim.status.provider_id),
            )
        )
        self.rounds = ReservationUpkeep(
            world.provider,
            self.kube,
            world.clock,
            node_claims=self.kube.store(NodeClaim),
            node_classes=self.kube.store(EC2NodeClass),
            nodes_of=lambda provider_id: [
                node for node in self.kube.store(Node).all() if node.spec.provider_id == provider_id
            ],
        )

    def claims(self) -> Sequence[NodeClaim]:
        return self.kube.store(NodeClaim).all()


async def test_claims_in_a_block_that_ends_are_deleted_in_time() -> None:
    end = START + timedelta(hours=1)
    world = await reserving(large(ReservationType="capacity-block", EndDate=end))
    claim = launched_claim(await world.provider.create(node_claim(requires=X86 | RESERVED)))
    upkeep = Upkeep(world, claim)

    await upkeep.rounds.expire()
    assert upkeep.kube.store(NodeClaim).keys() == {"claim-1"}
    world.clock.move(minutes=20)
    await upkeep.rounds.expire()

    assert upkeep.kube.store(NodeClaim).keys() == set()


async def test_what_left_its_reservation_is_called_on_demand() -> None:
    world = await reserving(large(count=1))
    claim = launched_claim(await world.provider.create(node_claim(requires=X86 | RESERVED)))
    upkeep = Upkeep(world, claim)
    await upkeep.rounds.relabel()
    (kept,) = upkeep.kube.store(NodeClaim).all()
    assert kept.labels[RESERVATION] == "cr-1"

    (instance,) = world.aws.ec2.instances.values()
    del instance["CapacityReservationId"]
    await upkeep.rounds.relabel()

    for changed in (*upkeep.kube.store(NodeClaim).all(), *upkeep.kube.store(Node).all()):
        assert changed.labels["karpenter.sh/capacity-type"] == "on-demand"
        assert not any("capacity-reservation" in key for key in changed.labels)


async def test_a_node_that_is_just_gone_does_not_keep_the_others_from_their_labels() -> None:
    world = await reserving(large(count=2))
    first, second = [
        launched_claim(await world.provider.create(node_claim(name, requires=X86 | RESERVED)), name)
        for name in ("claim-1", "claim-2")
    ]
    upkeep = Upkeep(world, first)
    upkeep.kube.add(second)
    for instance in world.aws.ec2.instances.values():
        del instance["CapacityReservationId"]
    upkeep.kube.fail_next = [NotFound("node-1 is not there")]

    await upkeep.rounds.relabel()

    left = {claim.name: claim.labels["karpenter.sh/capacity-type"] for claim in upkeep.claims()}
    assert left == {"claim-1": "reserved", "claim-2": "on-demand"}
    await upkeep.rounds.relabel()
    assert {claim.labels["karpenter.sh/capacity-type"] for claim in upkeep.claims()} == {
        "on-demand"
    }
