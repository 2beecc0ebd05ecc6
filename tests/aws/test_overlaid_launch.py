"""A launch under NodeOverlays: their prices order it, and their resources count."""

from __future__ import annotations

import pytest
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.nodeoverlay import NodeOverlay, NodeOverlaySpec, OverlayRequirement
from nodewright_controller.constraints.overlay import read_overlay
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.ports.errors import CreateFailed, OverlaysPending
from nodewright_controller.reconcilers.node_overlay import OverlaysInForce

from tests.aws.world import ON_DEMAND, SPOT, X86, World, node_claim, node_pool

TYPE = "node.kubernetes.io/instance-type"


def overlaid(*specs: NodeOverlaySpec) -> World:
    """Return a world in which these overlays apply to the pool `general`."""
    world = World()
    read = [
        read_overlay(NodeOverlay(metadata=ObjectMeta(name=f"overlay-{number}"), spec=spec))
        for number, spec in enumerate(specs)
    ]
    in_force = OverlaysInForce()
    in_force.put(read, {"general": Requirements.of_labels({"karpenter.sh/nodepool": "general"})})
    world.provider.adjust = in_force.applied
    return world


def only(name: str) -> list[OverlayRequirement]:
    return [OverlayRequirement(key=TYPE, operator="In", values=[name])]


@pytest.mark.parametrize(
    ("bought_as", "option", "strategy"),
    [
        (ON_DEMAND, "OnDemandOptions", "prioritized"),
        (SPOT, "SpotOptions", "capacity-optimized-prioritized"),
    ],
)
async def test_the_type_that_an_overlay_makes_cheapest_is_bought(
    bought_as: dict[str, list[str]], option: str, strategy: str
) -> None:
    world = overlaid(NodeOverlaySpec(requirements=only("m5.xlarge"), price="0.0001"))

    launched = await world.provider.create(node_claim(requires=X86 | bought_as))

    assert launched.labels[TYPE] == "m5.xlarge"
    assert launched.usd_per_hour == 0.0001
    assert launched.annotations["karpenter.sh/price-overlay-applied"] == "true"
    assert "karpenter.sh/capacity-overlay-applied" not in launched.annotations
    (request,) = world.aws.ec2.requests("create_fleet")
    assert request[option] == {"AllocationStrategy": strategy}


async def test_without_an_overlay_in_the_choice_ec2_chooses_by_its_own_prices() -> None:
    world = overlaid(NodeOverlaySpec(requirements=only("m6g.large"), price="0.0001"))

    launched = await world.provider.create(node_claim(requires=X86 | ON_DEMAND))

    assert "karpenter.sh/price-overlay-applied" not in launched.annotations
    (request,) = world.aws.ec2.requests("create_fleet")
    assert request["OnDemandOptions"] == {"AllocationStrategy": "lowest-price"}


async def test_a_resource_of_an_overlay_fits_and_is_reported_before_the_node_has_it() -> None:
    fuse = "example.test/fuse"
    world = overlaid(NodeOverlaySpec(requirements=only("m5.large"), capacity={fuse: "2"}))
    asked = node_claim(requests={"cpu": "100m", "pods": "1", fuse: "1"})

    launched = await world.provider.create(asked)

    assert launched.labels[TYPE] == "m5.large"
    assert launched.capacity[fuse] == launched.allocatable[fuse] == 2
    assert launched.annotations["karpenter.sh/capacity-overlay-applied"] == "true"


async def test_a_pool_is_neither_priced_nor_launched_for_before_its_overlays_are_known() -> None:
    world = World()
    world.provider.adjust = OverlaysInForce().applied

    with pytest.raises(OverlaysPending):
        await world.provider.instance_types(node_pool())
    with pytest.raises(CreateFailed) as refused:
        await world.provider.create(node_claim())
    assert refused.value.reason == "NodeOverlaysPending"
    assert world.aws.ec2.requests("create_fleet") == []


async def test_an_overlay_sells_a_type_that_has_no_price() -> None:
    world = World()
    await world.provider.catalog.ensure_loaded()
    before = await offerings_of(world, "p5.48xlarge")
    world.provider.pricing._on_demand = {}
    world.provider.pricing.price_unlisted({"p5.48xlarge": 9.0})
    after = await offerings_of(world, "p5.48xlarge")

    assert {price for price, _ in before} != {9.0}
    assert set(after) == {(9.0, True)}
    assert not any(available for _, available in await offerings_of(world, "m5.large"))


async def offerings_of(world: World, name: str) -> list[tuple[float, bool]]:
    types = await world.provider.instance_types(node_pool())
    found = next(each for each in types if each.name == name)
    return [(offering.usd_per_hour, offering.available) for offering in found.offerings]
