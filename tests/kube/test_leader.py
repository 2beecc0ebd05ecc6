"""Leader election: one leads, the other waits; a dead leader is replaced, a deaf one stops."""

from __future__ import annotations

import asyncio

import pytest
from nodewright_controller.api.coordination import Lease
from nodewright_controller.kube.leader import LeaderElection, LeaseOptions, LostLeadership
from nodewright_controller.ports.errors import KubeError

from tests.fakes.kube import FakeKube

pytestmark = pytest.mark.looptime


def election(kube: FakeKube, identity: str) -> LeaderElection:
    return LeaderElection(
        kube, LeaseOptions(name="lease", namespace="karpenter", identity=identity)
    )


async def lead(kube: FakeKube, identity: str, leading: list[str]) -> None:
    async def work() -> None:
        leading.append(identity)
        try:
            await asyncio.Event().wait()
        finally:
            leading.remove(identity)

    await election(kube, identity).lead(work)


async def test_only_one_of_two_replicas_leads() -> None:
    kube, leading = FakeKube(), list[str]()
    tasks = [asyncio.create_task(lead(kube, name, leading)) for name in ("one", "two")]

    for _ in range(60):
        await asyncio.sleep(1)
        assert len(leading) <= 1
    assert len(leading) == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_leader_that_stops_hands_the_lease_over_at_once() -> None:
    kube, leading = FakeKube(), list[str]()
    first = asyncio.create_task(lead(kube, "one", leading))
    await asyncio.sleep(1)
    second = asyncio.create_task(lead(kube, "two", leading))
    await asyncio.sleep(10)

    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await asyncio.sleep(3)

    assert leading == ["two"]
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)


async def test_a_leader_that_died_is_replaced_when_its_lease_has_run_out() -> None:
    kube, leading = FakeKube(), list[str]()
    task = asyncio.create_task(lead(kube, "one", leading))
    await asyncio.sleep(1)
    lease = await kube.get(Lease, "lease", "karpenter")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    # A process that is killed does not release: put the lease back as it was.
    spec = {"holderIdentity": "one", "leaseDurationSeconds": lease.spec.lease_duration_seconds}
    await kube.patch(Lease, "lease", {"spec": spec}, namespace="karpenter")

    second = asyncio.create_task(lead(kube, "two", leading))
    await asyncio.sleep(14)
    assert leading == []
    await asyncio.sleep(8)
    assert leading == ["two"]
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)


async def test_the_standby_takes_over_and_not_the_leader_that_crashed_and_came_back() -> None:
    kube, leading = FakeKube(), list[str]()
    crashed = asyncio.create_task(lead(kube, "one", leading))
    await asyncio.sleep(1)
    standby = asyncio.create_task(lead(kube, "two", leading))
    await asyncio.sleep(10)
    lease = await kube.get(Lease, "lease", "karpenter")
    crashed.cancel()
    await asyncio.gather(crashed, return_exceptions=True)
    spec = {"holderIdentity": "one", "leaseDurationSeconds": lease.spec.lease_duration_seconds}
    await kube.patch(Lease, "lease", {"spec": spec}, namespace="karpenter")

    back = asyncio.create_task(lead(kube, "one again", leading))
    await asyncio.sleep(30)

    assert leading == ["two"]
    for task in (standby, back):
        task.cancel()
    await asyncio.gather(standby, back, return_exceptions=True)


async def test_a_leader_that_cannot_renew_stops_working_before_the_lease_runs_out() -> None:
    kube, leading = FakeKube(), list[str]()
    task = asyncio.create_task(lead(kube, "one", leading))
    await asyncio.sleep(5)
    assert leading == ["one"]
    kube.fail_next = [KubeError("away")] * 1000

    done, _ = await asyncio.wait({task}, timeout=15)

    assert done == {task}
    assert isinstance(task.exception(), LostLeadership)
    assert leading == []


async def test_a_standby_knows_the_pod_that_leads() -> None:
    kube, leading = FakeKube(), list[str]()
    first = asyncio.create_task(lead(kube, "karpenter-abc_0001", leading))
    await asyncio.sleep(1)
    standby = election(kube, "karpenter-def_0002")
    waiting = asyncio.create_task(standby.lead(asyncio.Event().wait))  # type: ignore[arg-type]
    assert standby.leader == ""

    await asyncio.sleep(3)

    assert standby.leader == "karpenter-abc"
    for task in (first, waiting):
        task.cancel()
    await asyncio.gather(first, waiting, return_exceptions=True)
