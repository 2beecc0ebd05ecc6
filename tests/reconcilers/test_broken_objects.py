"""One object with a field that cannot be read never stops the provisioner, and is told of once."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from nodewright_controller.reconcilers.faults import REASON, FaultWatch
from nodewright_controller.reconcilers.nodepool import NodePoolReconciler
from nodewright_controller.runtime import metrics
from structlog.testing import capture_logs

from tests.broken import BROKEN, Broken
from tests.builders import instance_type, node, nodepool, pod
from tests.fakes.cloud import FakeCloud
from tests.fakes.harness import Harness


class Stage(Harness):
    """A harness with a provisioner and a pool, whose faults are told of."""

    def __init__(self) -> None:
        super().__init__()
        self.cloud = FakeCloud(self.clock.now(), (instance_type("m5.large"),))
        FaultWatch(self.recorder).follow(self.world)
        self.provisioner = self.make_provisioner()
        self.kube.add(nodepool())

    async def provision_until(self, *events: tuple[str, str]) -> None:
        """Provision until all of these were told, as (name, reason)."""
        running = asyncio.create_task(self.provisioner.run())
        self.provisioner.trigger("test")
        try:
            async with asyncio.timeout(10):
                while not set(events) <= set(self.told()):
                    await asyncio.sleep(0.01)
                    assert not running.done(), running.exception()
        finally:
            running.cancel()

    def told(self) -> list[tuple[str, str]]:
        return [(event.about.name, event.reason) for event in self.recorder.events]


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
async def test_the_other_pod_gets_its_node_whatever_is_broken(broken: Broken) -> None:
    stage = Stage()
    for found in broken.objects:
        stage.kube.add(found)
    stage.kube.add(pod("other", cpu="200m"))

    # Those without a place are told after the claims of the others are made.
    refused = [(broken.refused.partition("/")[2], "FailedScheduling")] if broken.refused else []
    await stage.provision_until(("other", "Nominated"), *refused)

    texts = [event.message for event in stage.recorder.events if event.reason == REASON]
    assert bool(texts) == bool(broken.said)
    if broken.said:
        assert texts[0].startswith(broken.said)


def test_a_fault_is_told_once_and_counted_until_it_is_corrected() -> None:
    stage = Stage()
    (odd,) = BROKEN["a node's allocatable"].objects
    count = metrics.UNREADABLE_OBJECTS.labels("Node")

    with capture_logs() as logs:
        stage.kube.add(odd)
        stage.world.nodes.observe(stage.node("odd"))
        store = stage.kube.store(type(odd))
        store.put(replace(odd, metadata=replace(odd.metadata, labels={"more": "labels"})))

    assert [entry for entry in logs if entry["log_level"] == "warning"] == [
        {
            "event": "field cannot be read",
            "log_level": "warning",
            "kind": "Node",
            "object": "odd",
            "field": "status.allocatable[cpu]",
            "value": "'abc'",
            "until_then": "it takes no new pods",
        }
    ]
    assert stage.told() == [("odd", REASON)]
    assert count._value.get() == 1

    store.put(node("odd"))

    assert count._value.get() == 0


def test_an_object_that_goes_is_counted_no_more() -> None:
    stage = Stage()
    (odd,) = BROKEN["a node's allocatable"].objects
    count = metrics.UNREADABLE_OBJECTS.labels("Node")
    stage.kube.add(odd)

    stage.kube.store(type(odd)).drop("odd")

    assert count._value.get() == 0


async def test_a_pool_with_a_node_that_cannot_be_read_still_counts_the_others() -> None:
    stage = Stage()
    for found in BROKEN["the capacity of a claim in flight"].objects:
        stage.kube.add(found)
    reconciler = NodePoolReconciler(world=stage.world, writes=stage.writes, clock=stage.clock)

    await reconciler.reconcile("general")

    pool = stage.world.node_pools.get("general")
    assert pool is not None
    assert pool.status.nodes == 1
