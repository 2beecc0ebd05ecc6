"""What wakes the reconcilers of the leader."""

from __future__ import annotations

from typing import Any

import pytest
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.nodeoverlay import NodeOverlay
from nodewright_controller.main import leading
from nodewright_controller.main.leading import Ports, leader_loops
from nodewright_controller.runtime.batch_window import BatchWindow
from nodewright_controller.runtime.reconciler import Controller
from nodewright_controller.settings import Settings
from nodewright_controller.web.why import WhyDesk

from tests.fakes.harness import Harness


def lead(harness: Harness, **environ: str) -> None:
    settings = Settings.load([], {"CLUSTER_NAME": "c", **environ})
    ports = Ports(
        kube=harness.kube,
        cloud=harness.cloud,
        recorder=harness.recorder,
        clock=harness.clock,
        world=harness.world,
    )
    leader_loops(settings, ports, WhyDesk())


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> BatchWindow:
    made = BatchWindow(idle_seconds=1, max_seconds=10)
    monkeypatch.setattr(leading, "BatchWindow", lambda **_: made)
    return made


async def test_a_nodeoverlay_that_changes_starts_a_round(window: BatchWindow) -> None:
    harness = Harness()
    harness.world.node_overlays = harness.kube.store(NodeOverlay)
    lead(harness)
    assert not window.is_open

    harness.kube.add(NodeOverlay(metadata=ObjectMeta(name="cheaper")))

    assert window.is_open


async def test_more_cores_let_more_objects_be_handled_at_once(
    window: BatchWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, int] = {}
    plain = Controller.__init__

    def noted(self: Controller, name: str, *rest: Any, concurrency: int = 10, **more: Any) -> None:
        made[name] = concurrency
        plain(self, name, *rest, concurrency=concurrency, **more)

    monkeypatch.setattr(Controller, "__init__", noted)
    few: dict[str, int] = {}
    many: dict[str, int] = {}
    for cores, found in (("1000", few), ("60000", many)):
        made.clear()
        lead(Harness(), CPU_REQUESTS=cores)
        found.update(made)

    grown = {name: (few[name], many[name]) for name in few if few[name] != many[name]}
    assert grown == {
        "eviction-queue": (20, 100),
        "nodeclaim.lifecycle": (100, 500),
        "node.termination": (50, 250),
    }
