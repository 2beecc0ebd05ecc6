"""Calls of the cloud are timed and their errors counted, by who called; nothing else changes."""

from __future__ import annotations

import asyncio

import pytest
from nodewright_controller.api import labels
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.ports.errors import (
    CloudError,
    InsufficientCapacity,
    NodeClaimNotFound,
    NodeClassNotReady,
    OverlaysPending,
)
from nodewright_controller.runtime.metered_cloud import MeteredCloud
from nodewright_controller.runtime.supervise import run_all
from typing_extensions import override

from tests.builders import nodepool
from tests.fakes.cloud import FakeCloud
from tests.fakes.harness import START
from tests.runtime.samples import sample

CLAIM = NodeClaim(metadata=ObjectMeta(name="a", uid="a", labels={labels.NODEPOOL: "general"}))


def calls(method: str, controller: str = "") -> float:
    return sample(
        "karpenter_cloudprovider_duration_seconds_count",
        controller=controller,
        method=method,
        provider="aws",
    )


def errors(method: str, error: str, node_pool: str = "", controller: str = "") -> float:
    return sample(
        "karpenter_cloudprovider_errors_total",
        controller=controller,
        method=method,
        provider="aws",
        error=error,
        nodepool=node_pool,
    )


async def test_every_call_is_timed_by_its_method() -> None:
    cloud = MeteredCloud(FakeCloud(START), "aws")
    names = ("Create", "Get", "List", "GetInstanceTypes", "IsDrifted", "Delete")
    before = {name: calls(name) for name in names}

    launched = await cloud.create(CLAIM)
    await cloud.get(launched.provider_id)
    await cloud.list()
    await cloud.instance_types(nodepool())
    await cloud.is_drifted(CLAIM)
    await cloud.delete(CLAIM)

    assert {name: calls(name) - before[name] for name in names} == dict.fromkeys(names, 1)


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (InsufficientCapacity("none left"), "InsufficientCapacityError"),
        (NodeClassNotReady("wait"), "NodeClassNotReadyError"),
        (CloudError("no answer"), "unknown"),
        (ValueError("odd"), "unknown"),
    ],
)
async def test_a_failed_launch_is_counted_by_its_error_and_its_pool(
    error: Exception, label: str
) -> None:
    inner = FakeCloud(START)
    inner.fail_next = [error]
    before, timed = errors("Create", label, "general"), calls("Create")

    with pytest.raises(type(error)):
        await MeteredCloud(inner, "aws").create(CLAIM)

    assert errors("Create", label, "general") == before + 1
    assert calls("Create") == timed + 1


async def test_the_error_of_a_call_about_no_pool_has_none() -> None:
    before = errors("Get", "NodeClaimNotFoundError")

    with pytest.raises(NodeClaimNotFound):
        await MeteredCloud(FakeCloud(START), "aws").get("aws:///zone-a/i-gone")

    assert errors("Get", "NodeClaimNotFoundError") == before + 1


async def test_a_pool_whose_overlays_are_pending_is_no_error_of_the_cloud() -> None:
    class Pending(FakeCloud):
        @override
        async def instance_types(self, node_pool: NodePool) -> tuple[InstanceType, ...]:
            raise OverlaysPending(node_pool.name)

    before = errors("GetInstanceTypes", "unknown", "general")

    with pytest.raises(OverlaysPending):
        await MeteredCloud(Pending(START), "aws").instance_types(nodepool("general"))

    assert errors("GetInstanceTypes", "unknown", "general") == before


async def test_a_call_is_counted_for_the_loop_from_which_it_comes() -> None:
    cloud = MeteredCloud(FakeCloud(START), "aws")
    asked = asyncio.Event()

    async def loop() -> None:
        async with asyncio.TaskGroup() as workers:
            workers.create_task(cloud.list())
        asked.set()
        await asyncio.Event().wait()

    before = calls("List", "provisioner")
    running = asyncio.create_task(run_all({"provisioner": loop}))
    async with asyncio.timeout(5):
        await asked.wait()
    running.cancel()

    assert calls("List", "provisioner") == before + 1
