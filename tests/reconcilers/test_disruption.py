"""The disruption loop removes empty nodes, within budgets, and only if they still are empty."""

from __future__ import annotations

import pytest
from nodewright_controller.api import labels
from nodewright_controller.api.meta import Condition, ObjectMeta
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import Budget, Disruption, NodePool, NodePoolSpec
from nodewright_controller.api.pod import LabelSelector, Pod, PodSpec, PodStatus
from nodewright_controller.api.policy import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from nodewright_controller.reconcilers.disruption import DisruptionLoop
from nodewright_controller.reconcilers.nodeclaim import NodeClaimReconciler
from nodewright_controller.reconcilers.nodeclaim_disruption import NodeClaimDisruptionReconciler
from nodewright_controller.reconcilers.nominations import Nominations

from tests.fakes.harness import Harness


class Quiet(Harness):
    """A harness with one pool, and nodes that have been initialised for a while."""

    def __init__(
        self,
        budgets: list[Budget] | None = None,
        consolidate_after: str = "30s",
        validation_seconds: float = 0,
    ) -> None:
        super().__init__()
        disruption = Disruption(
            consolidate_after=consolidate_after, budgets=budgets or [Budget(nodes="100%")]
        )
        self.kube.add(
            NodePool(metadata=ObjectMeta(name="general"), spec=NodePoolSpec(disruption=disruption))
        )
        self.claims = NodeClaimReconciler(
            world=self.world,
            writes=self.writes,
            cloud=self.cloud,
            recorder=self.recorder,
            clock=self.clock,
            nominations=Nominations(),
        )
        self.conditions = NodeClaimDisruptionReconciler(
            world=self.world, writes=self.writes, clock=self.clock
        )
        self.loop = DisruptionLoop(
            world=self.world,
            writes=self.writes,
            cloud=self.cloud,
            recorder=self.recorder,
            clock=self.clock,
            validation_seconds=validation_seconds,
        )

    async def add_node(self, name: str) -> None:
        meta = ObjectMeta(name=name, labels={labels.NODEPOOL: "general"})
        self.kube.add(NodeClaim(metadata=meta))
        await self.claims.reconcile(name)
        self.join(name)
        await self.claims.reconcile(name)

    async def settle(self) -> None:
        for claim in self.world.node_claims.all():
            await self.conditions.reconcile(claim.name)

    def going(self) -> list[str]:
        return sorted(c.name for c in self.world.node_claims.all() if c.deleting)

    def pod_on(self, claim_name: str, name: str = "web", **annotations: str) -> Pod:
        return self.kube.add(
            Pod(
                metadata=ObjectMeta(
                    name=name, namespace="shop", labels={"app": name}, annotations=annotations
                ),
                spec=PodSpec(node_name=f"node-{claim_name}"),
                status=PodStatus(phase="Running"),
            )
        )


async def test_an_empty_node_goes_after_consolidate_after_and_not_before() -> None:
    quiet = Quiet()
    await quiet.add_node("a")

    quiet.clock.move(seconds=29)
    await quiet.settle()
    await quiet.loop.step()
    assert quiet.going() == []

    quiet.clock.move(seconds=2)
    await quiet.settle()
    await quiet.loop.step()
    assert quiet.going() == ["a"]
    assert "DisruptionTerminating" in quiet.recorder.reasons()


async def test_a_node_with_a_pod_stays() -> None:
    quiet = Quiet()
    await quiet.add_node("a")
    quiet.pod_on("a")
    quiet.clock.move(minutes=5)
    await quiet.settle()

    await quiet.loop.step()

    assert quiet.going() == []


async def test_consolidate_after_never_keeps_empty_nodes() -> None:
    quiet = Quiet(consolidate_after="Never")
    await quiet.add_node("a")
    quiet.clock.move(hours=5)
    await quiet.settle()

    await quiet.loop.step()

    assert quiet.going() == []


@pytest.mark.parametrize(("budget", "expected"), [("0", 0), ("1", 1), ("50%", 2), ("100%", 3)])
async def test_no_more_nodes_go_at_once_than_the_budget_allows(budget: str, expected: int) -> None:
    quiet = Quiet(budgets=[Budget(nodes=budget)])
    for name in ("a", "b", "c"):
        await quiet.add_node(name)
    quiet.clock.move(minutes=5)
    await quiet.settle()

    await quiet.loop.step()
    await quiet.loop.step()

    assert len(quiet.going()) == expected


async def test_a_budget_for_another_reason_does_not_hold_empty_nodes_back() -> None:
    quiet = Quiet(budgets=[Budget(nodes="0", reasons=["Drifted"]), Budget(nodes="100%")])
    await quiet.add_node("a")
    quiet.clock.move(minutes=5)
    await quiet.settle()

    await quiet.loop.step()

    assert quiet.going() == ["a"]


async def test_a_budget_that_cannot_be_read_closes_its_pool() -> None:
    quiet = Quiet(
        budgets=[Budget(nodes="100%", schedule="every tuesday", duration="1h", reasons=["Drifted"])]
    )
    await quiet.add_node("a")
    quiet.clock.move(minutes=5)
    await quiet.settle()

    await quiet.loop.step()

    assert quiet.going() == []
    blocked = [e.message for e in quiet.recorder.events if e.reason == "DisruptionBlocked"]
    assert any("spec.disruption.budgets[0]" in text for text in blocked)


@pytest.mark.parametrize(("quiet_for", "expected"), [(0, 15), (6, 9), (60, 0)])
async def test_a_command_waits_until_its_nodes_have_been_quiet_for_the_validation_period(
    monkeypatch: pytest.MonkeyPatch, quiet_for: int, expected: int
) -> None:
    quiet = Quiet(validation_seconds=15)
    await quiet.add_node("a")
    quiet.clock.move(minutes=5)
    await quiet.settle()
    quiet.clock.move(seconds=quiet_for)
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("nodewright_controller.reconcilers.disruption.asyncio.sleep", sleep)
    await quiet.loop.step()

    assert waited == [expected]
    assert quiet.going() == ["a"]


async def test_a_node_that_got_a_pod_while_the_command_waited_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quiet = Quiet()
    await quiet.add_node("a")
    await quiet.add_node("b")
    quiet.clock.move(minutes=5)
    await quiet.settle()

    async def pod_arrives(_: float) -> None:
        if quiet.world.pods.get("shop/web") is None:
            quiet.pod_on("a")

    monkeypatch.setattr("nodewright_controller.reconcilers.disruption.asyncio.sleep", pod_arrives)
    await quiet.loop.step()

    assert quiet.going() == ["b"]


async def test_a_node_annotated_do_not_disrupt_stays_and_says_so() -> None:
    quiet = Quiet()
    await quiet.add_node("a")
    await quiet.kube.patch(
        Node, "node-a", {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: "true"}}}
    )
    quiet.clock.move(minutes=5)
    await quiet.settle()

    await quiet.loop.step()

    assert quiet.going() == []
    assert any("do-not-disrupt" in event.message for event in quiet.recorder.events)


async def test_a_pdb_without_room_blocks_the_node_and_is_named() -> None:
    quiet = Quiet()
    await quiet.add_node("a")
    quiet.pod_on("a", **{labels.POD_DELETION_COST: str(-(2**31))})
    quiet.kube.add(
        PodDisruptionBudget(
            metadata=ObjectMeta(name="web", namespace="shop"),
            spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "web"})),
            status=PodDisruptionBudgetStatus(disruptions_allowed=0),
        )
    )
    quiet.clock.move(minutes=5)
    await quiet.settle()

    await quiet.loop.step()

    assert quiet.going() == []
    assert any("pdb shop/web" in event.message.lower() for event in quiet.recorder.events)


async def test_what_a_former_leader_left_on_a_node_is_taken_back() -> None:
    quiet = Quiet()
    await quiet.add_node("a")
    quiet.pod_on("a")
    taint = {"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}
    await quiet.kube.patch(Node, "node-a", {"spec": {"taints": [taint]}})
    claim = quiet.claim("a")
    conditions = [
        *(claim.status.conditions or ()),
        Condition(type="DisruptionReason", status="True"),
    ]
    await quiet.kube.patch(NodeClaim, "a", {"status": {"conditions": conditions}}, status=True)

    await quiet.loop.step()

    assert not quiet.node("node-a").spec.taints
    assert quiet.condition("a", "DisruptionReason") is None
