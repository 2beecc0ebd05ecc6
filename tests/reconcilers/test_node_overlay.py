"""NodeOverlays of a running cluster: what is applied, what is refused, and what each is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from nodewright_controller.api.meta import Condition, ObjectMeta
from nodewright_controller.api.nodeoverlay import NodeOverlay, NodeOverlaySpec, OverlayRequirement
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.ports.errors import NodeClassNotReady, OverlaysPending
from nodewright_controller.reconcilers.node_overlay import NodeOverlayReconciler, OverlaysInForce

from tests.builders import instance_type, nodepool, rules
from tests.fakes.harness import Harness

LARGE = instance_type("m.large", zones={"a": 0.10}, spot={"a": 0.04})
XLARGE = instance_type("m.xlarge", zones={"a": 0.20})


def overlay(name: str, requires: str = "", **spec: Any) -> NodeOverlay:
    entries = [
        OverlayRequirement(key=key, operator=operator, values=values or None)
        for key, operator, values in rules(requires)
    ]
    return NodeOverlay(
        metadata=ObjectMeta(name=name), spec=NodeOverlaySpec(requirements=entries, **spec)
    )


class Stage:
    """A reconciler over the fake API server, and a cloud that can be unable to answer."""

    def __init__(self) -> None:
        self.harness = Harness()
        self.kube = self.harness.kube
        self.in_force = OverlaysInForce()
        self.types: tuple[InstanceType, ...] = (LARGE, XLARGE)
        self.unlisted: set[str] = set()
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """What somebody does, once, while the types of the next pool are listed."""
        self.prices: Mapping[str, float] = {}
        self.reconciler = NodeOverlayReconciler(
            self.kube,
            self.harness.clock,
            overlays=self.kube.store(NodeOverlay),
            node_pools=self.kube.store(NodePool),
            listed=self.listed,
            in_force=self.in_force,
            price_unlisted=self.price_unlisted,
        )
        self.kube.add(nodepool("general"))

    async def listed(self, pool: NodePool) -> tuple[InstanceType, ...]:
        if self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            await happens()
        if pool.name in self.unlisted:
            raise NodeClassNotReady(f"the class of {pool.name} is not Ready")
        return self.types

    def price_unlisted(self, prices: Mapping[str, float]) -> None:
        self.prices = prices

    def prices_of(self, pool: str = "general") -> dict[tuple[str, str], float]:
        return {
            (found.name, offering.capacity_type): round(offering.usd_per_hour, 6)
            for found in self.in_force.applied(pool, self.types)
            for offering in found.offerings
        }

    def conditions(self, name: str) -> dict[str, Condition]:
        found = self.kube.store(NodeOverlay).get(name)
        assert found is not None
        return {each.type: each for each in found.status.conditions or ()}


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_an_overlay_is_applied_and_told_that_it_is_ready(stage: Stage) -> None:
    stage.kube.add(overlay("cheap", "type in m.xlarge", price_adjustment="-75%"))

    result = await stage.reconciler.step()

    assert stage.prices_of()["m.xlarge", "on-demand"] == 0.05
    assert {name: each.status for name, each in stage.conditions("cheap").items()} == {
        "ValidationSucceeded": "True",
        "Ready": "True",
    }
    assert result.requeue_after == 6 * 3600


async def test_an_overlay_that_is_gone_no_longer_applies(stage: Stage) -> None:
    stage.kube.add(overlay("cheap", price_adjustment="-75%"))
    await stage.reconciler.step()

    await stage.kube.delete(NodeOverlay, "cheap")
    await stage.reconciler.step()

    assert stage.in_force.applied("general", stage.types) == (LARGE, XLARGE)


async def test_an_overlay_in_conflict_says_so_and_is_not_applied(stage: Stage) -> None:
    stage.kube.add(overlay("a", price="0.5"))
    stage.kube.add(overlay("b", "type in m.large", price="0.01"))

    await stage.reconciler.step()

    refused = stage.conditions("a")["ValidationSucceeded"]
    assert (refused.status, refused.reason, refused.message) == (
        "False",
        "Conflict",
        "conflict with another overlay",
    )
    assert stage.conditions("a")["Ready"].status == "False"
    assert stage.conditions("b")["Ready"].status == "True"
    assert stage.prices_of()["m.xlarge", "on-demand"] == 0.2


async def test_a_weight_settles_the_conflict(stage: Stage) -> None:
    stage.kube.add(overlay("a", price="0.5", weight=2))
    stage.kube.add(overlay("b", "type in m.large", price="0.01"))

    await stage.reconciler.step()

    assert stage.conditions("a")["Ready"].status == "True"
    assert set(stage.prices_of().values()) == {0.5}


async def test_an_overlay_that_cannot_be_read_says_which_field(stage: Stage) -> None:
    stage.kube.add(overlay("odd", capacity={"cpu": "3"}))
    stage.kube.add(overlay("fine", price="1"))

    await stage.reconciler.step()

    refused = stage.conditions("odd")["ValidationSucceeded"]
    assert (refused.status, refused.reason) == ("False", "RuntimeValidation")
    assert refused.message == "spec.capacity: cpu cannot be overlaid"
    assert set(stage.prices_of().values()) == {1.0}


async def test_a_pool_that_cannot_be_listed_waits_and_does_not_hold_up_the_others(
    stage: Stage,
) -> None:
    stage.kube.add(nodepool("other"))
    stage.unlisted.add("other")
    stage.kube.add(overlay("cheap", price="0.01"))

    result = await stage.reconciler.step()

    assert set(stage.prices_of("general").values()) == {0.01}
    with pytest.raises(OverlaysPending, match="NodePool other"):
        stage.prices_of("other")
    assert result.requeue_after is not None
    assert result.requeue_after <= 60

    stage.unlisted.clear()
    await stage.reconciler.step()
    assert set(stage.prices_of("other").values()) == {0.01}


async def test_nothing_is_priced_before_the_overlays_are_worked_out(stage: Stage) -> None:
    with pytest.raises(OverlaysPending):
        stage.prices_of()


async def test_types_that_did_not_change_stay_the_same_objects(stage: Stage) -> None:
    stage.kube.add(overlay("cheap", "type in m.large", price="0.01"))
    await stage.reconciler.step()

    before = stage.in_force.applied("general", (LARGE, XLARGE))
    await stage.reconciler.step()
    after = stage.in_force.applied("general", (LARGE, XLARGE))

    assert [id(found) for found in before] == [id(found) for found in after]
    assert before[1] is XLARGE


async def test_a_status_that_is_right_is_not_written_again(stage: Stage) -> None:
    stage.kube.add(overlay("cheap", price="0.01"))
    await stage.reconciler.step()
    stage.kube.fail_next = [AssertionError("written again")]

    await stage.reconciler.step()


async def test_an_overlay_prices_a_type_that_the_price_list_lacks(stage: Stage) -> None:
    stage.kube.add(overlay("new", "type in m9.large", price="0.07"))
    stage.kube.add(overlay("vague", "arch in arm64", price="0.01"))
    stage.kube.add(overlay("relative", "type in m9.xlarge", price_adjustment="+1"))

    await stage.reconciler.step()

    assert stage.prices == {"m9.large": 0.07}


async def test_an_overlay_that_comes_during_a_look_is_told_nothing_yet(stage: Stage) -> None:
    stage.kube.add(overlay("cheap", price="0.01"))
    stage.meanwhile = lambda: stage.kube.create(overlay("late", capacity={"cpu": "3"}))

    await stage.reconciler.step()
    assert stage.conditions("late") == {}

    await stage.reconciler.step()
    assert stage.conditions("late")["Ready"].status == "False"


async def test_an_overlay_that_changes_during_a_look_is_told_of_its_new_self(stage: Stage) -> None:
    stage.kube.add(overlay("cheap", price="0.01"))
    wrong = {"spec": {"price": None, "capacity": {"cpu": "3"}}}
    stage.meanwhile = lambda: stage.kube.patch(NodeOverlay, "cheap", wrong)

    result = await stage.reconciler.step()
    assert result.requeue_after is not None
    assert result.requeue_after < 1
    assert stage.conditions("cheap") == {}

    await stage.reconciler.step()
    assert stage.conditions("cheap")["Ready"].status == "False"
