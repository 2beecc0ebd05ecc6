"""A batch of pods becomes claims, and what has no place is told with what would help."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.reconcilers import provisioning
from nodewright_controller.runtime.batch_window import BatchWindow

from tests.builders import instance_type, nodepool, offering, pod
from tests.fakes.cloud import FakeCloud
from tests.fakes.harness import Harness


class Stage(Harness):
    """A harness whose cloud sells some types."""

    def __init__(self, *types: InstanceType) -> None:
        super().__init__()
        self.cloud = FakeCloud(self.clock.now(), types)
        self.window = BatchWindow(idle_seconds=0.01, max_seconds=0.05)
        self.provisioner = self.make_provisioner(window=self.window)

    async def provision(
        self, pool: NodePool, *pods: Pod, until: Callable[[], bool] = lambda: True
    ) -> None:
        self.kube.add(pool)
        for one in pods:
            self.kube.add(one)
            self.provisioner.pod_changed(None, one)
        running = asyncio.create_task(self.provisioner.run())
        try:
            async with asyncio.timeout(10):
                while not (self.recorder.events and until()):  # noqa: ASYNC110 - the fake only keeps a list
                    await asyncio.sleep(0.01)
        finally:
            running.cancel()

    def told(self) -> list[str]:
        return [event.message for event in self.recorder.events]


async def test_a_pod_that_fits_gets_a_claim_and_hears_of_it() -> None:
    stage = Stage(instance_type("m5.large"))

    await stage.provision(nodepool(), pod("web"))

    assert len(stage.world.node_claims.all()) == 1
    assert stage.told()[0].startswith("Pod should schedule on: nodeclaim/general-")


async def test_a_pod_without_a_place_hears_why_and_what_would_help() -> None:
    stage = Stage(instance_type("m5.large"))

    await stage.provision(nodepool(requires="zone in a"), pod("web", requires="zone in b"))

    assert not list(stage.world.node_claims.all())
    assert stage.recorder.reasons() == ["FailedScheduling"]
    assert "→ add b to zone of pool general" in stage.told()[0]


async def test_types_that_do_not_boot_are_no_offer_but_explain_the_refusal() -> None:
    arm = InstanceType(
        "m7g.large",
        instance_type("m7g.large", arch="arm64").requirements,
        instance_type("m7g.large").offerings,
        instance_type("m7g.large").capacity,
        boots=False,
    )
    stage = Stage(instance_type("m5.large"), arm)

    await stage.provision(nodepool(), pod("web", requires="arch in arm64"))

    assert "node class default has no image for arm64" in stage.told()[0]


async def test_a_pod_that_waits_for_a_reservation_says_so() -> None:
    full = offering("test-zone-1", "reserved", 0.01, reservation="cr-1", reserved=0)
    stage = Stage(instance_type("m5.large", offerings=[full]))

    await stage.provision(nodepool(requires="karpenter.sh/capacity-type in reserved"), pod("web"))

    assert "[P501]" in stage.told()[0]


async def test_what_a_long_round_leaves_comes_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = itertools.count()
    monkeypatch.setattr(provisioning, "_after", lambda _: lambda: next(asked) > 0)
    stage = Stage(instance_type("m5.large"))
    pods = [pod(f"web-{number}", cpu="1500m") for number in range(200)]

    await stage.provision(nodepool(), *pods, until=lambda: stage.window.is_open)

    assert 0 < len(stage.world.node_claims.all()) < len(pods)
