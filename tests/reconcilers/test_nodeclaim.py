"""A NodeClaim from launch to its end."""

from __future__ import annotations

import pytest
from nodewright_controller.api import labels
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.node import Taint
from nodewright_controller.api.nodeclaim import NodeClaim, NodeClaimSpec, ResourceRequests
from nodewright_controller.ports.errors import (
    CloudError,
    CreateFailed,
    InsufficientCapacity,
    KubeError,
    NodeClassNotReady,
)
from nodewright_controller.reconcilers.nodeclaim import NodeClaimReconciler
from nodewright_controller.reconcilers.nominations import Nominations

from tests.fakes.harness import Harness


class Lifecycle(Harness):
    """A harness with the reconciler under test."""

    def __init__(self) -> None:
        super().__init__()
        self.reconciler = NodeClaimReconciler(
            world=self.world,
            writes=self.writes,
            cloud=self.cloud,
            recorder=self.recorder,
            clock=self.clock,
            nominations=Nominations(),
        )

    def ask(self, name: str = "general-1", spec: NodeClaimSpec | None = None) -> NodeClaim:
        meta = ObjectMeta(name=name, labels={labels.NODEPOOL: "general", "team": "a"})
        return self.kube.add(NodeClaim(metadata=meta, spec=spec or NodeClaimSpec()))

    async def reconcile(self, name: str = "general-1") -> float | None:
        return (await self.reconciler.reconcile(name)).requeue_after


@pytest.fixture
def lifecycle() -> Lifecycle:
    return Lifecycle()


async def test_a_launch_fills_labels_and_status_and_the_claims_own_labels_win(
    lifecycle: Lifecycle,
) -> None:
    lifecycle.ask()

    await lifecycle.reconcile()

    claim = lifecycle.claim("general-1")
    assert claim.status.provider_id == "aws:///zone-a/i-0001"
    assert claim.status.image_id == "ami-1"
    assert claim.labels[labels.INSTANCE_TYPE] == "m5.large"
    assert claim.labels["team"] == "a"
    assert labels.TERMINATION_FINALIZER in claim.finalizers
    launched = lifecycle.condition("general-1", "Launched")
    assert launched is not None
    assert launched.status == "True"


async def test_a_status_that_could_not_be_written_never_launches_a_second_instance(
    lifecycle: Lifecycle,
) -> None:
    lifecycle.ask()
    await lifecycle.writes.add_finalizer(
        NodeClaim,
        lifecycle.claim("general-1"),
        labels.TERMINATION_FINALIZER,
        lifecycle.world.node_claims,
    )
    lifecycle.kube.fail_next = [KubeError("the API server is away")]

    with pytest.raises(KubeError):
        await lifecycle.reconcile()
    await lifecycle.reconcile()

    assert lifecycle.cloud.creates == 1
    assert len(lifecycle.cloud.instances) == 1
    assert lifecycle.claim("general-1").status.provider_id


async def test_a_failed_launch_shows_its_reason_and_is_tried_again(lifecycle: Lifecycle) -> None:
    lifecycle.ask()
    lifecycle.cloud.fail_next = [CreateFailed("Unauthorized", "not allowed to pass the role")]

    with pytest.raises(CreateFailed):
        await lifecycle.reconcile()

    launched = lifecycle.condition("general-1", "Launched")
    assert launched is not None
    assert (launched.status, launched.reason) == ("Unknown", "Unauthorized")
    assert launched.message == "not allowed to pass the role"
    await lifecycle.reconcile()
    assert lifecycle.claim("general-1").status.provider_id


@pytest.mark.parametrize(
    "error", [InsufficientCapacity("nothing in stock"), NodeClassNotReady("class default")]
)
async def test_a_claim_that_cannot_be_had_is_deleted_so_that_pods_are_planned_anew(
    lifecycle: Lifecycle, error: Exception
) -> None:
    lifecycle.ask()
    lifecycle.cloud.fail_next = [error]

    await lifecycle.reconcile()
    await lifecycle.reconcile()

    assert lifecycle.world.node_claims.get("general-1") is None


async def test_a_joined_node_is_registered_with_the_claims_labels_taints_and_owner(
    lifecycle: Lifecycle,
) -> None:
    spec = NodeClaimSpec(taints=[Taint(key="dedicated", value="a", effect="NoSchedule")])
    lifecycle.ask(spec=spec)
    await lifecycle.reconcile()
    lifecycle.join("general-1", ready=False)

    await lifecycle.reconcile()

    node = lifecycle.node("node-general-1")
    assert node.labels[labels.REGISTERED] == "true"
    assert node.labels["team"] == "a"
    assert [(t.key, t.effect) for t in node.spec.taints or ()] == [("dedicated", "NoSchedule")]
    assert node.owners[0].name == "general-1"
    assert labels.TERMINATION_FINALIZER in node.finalizers
    initialized = lifecycle.condition("general-1", "Initialized")
    assert initialized is not None
    assert initialized.reason == "NodeNotReady"


async def test_a_ready_node_with_everything_it_was_asked_for_is_initialized(
    lifecycle: Lifecycle,
) -> None:
    lifecycle.ask(spec=NodeClaimSpec(resources=ResourceRequests(requests={"cpu": "1"})))
    await lifecycle.reconcile()
    lifecycle.join("general-1")

    await lifecycle.reconcile()

    assert lifecycle.node("node-general-1").labels[labels.INITIALIZED] == "true"
    ready = lifecycle.condition("general-1", "Ready")
    assert ready is not None
    assert ready.status == "True"


async def test_a_node_without_a_requested_device_stays_uninitialized(lifecycle: Lifecycle) -> None:
    lifecycle.ask(spec=NodeClaimSpec(resources=ResourceRequests(requests={"nvidia.com/gpu": 1})))
    await lifecycle.reconcile()
    lifecycle.join("general-1")

    await lifecycle.reconcile()

    initialized = lifecycle.condition("general-1", "Initialized")
    assert initialized is not None
    assert initialized.reason == "ResourceNotRegistered"
    assert "nvidia.com/gpu" in initialized.message


async def test_a_claim_whose_node_never_joins_is_given_up_after_fifteen_minutes(
    lifecycle: Lifecycle,
) -> None:
    lifecycle.ask()
    wait = await lifecycle.reconcile()
    assert wait is not None
    assert 890 < wait < 910

    lifecycle.clock.move(minutes=15, seconds=1)
    await lifecycle.reconcile()

    assert lifecycle.claim("general-1").deleting


async def test_a_deleted_claim_ends_only_when_its_instance_is_gone(lifecycle: Lifecycle) -> None:
    lifecycle.ask()
    await lifecycle.reconcile()
    await lifecycle.kube.delete(NodeClaim, "general-1")

    wait = await lifecycle.reconcile()

    assert wait == 5
    assert lifecycle.cloud.terminating == {"aws:///zone-a/i-0001"}
    terminating = lifecycle.condition("general-1", "InstanceTerminating")
    assert terminating is not None
    lifecycle.cloud.finish_terminations()
    await lifecycle.reconcile()
    assert lifecycle.world.node_claims.get("general-1") is None


async def test_the_instance_of_a_launch_that_was_never_written_down_is_stopped_too(
    lifecycle: Lifecycle,
) -> None:
    lifecycle.ask()
    await lifecycle.writes.add_finalizer(
        NodeClaim,
        lifecycle.claim("general-1"),
        labels.TERMINATION_FINALIZER,
        lifecycle.world.node_claims,
    )
    lifecycle.kube.fail_next = [KubeError("the API server is away")]
    with pytest.raises(KubeError):
        await lifecycle.reconcile()
    await lifecycle.kube.delete(NodeClaim, "general-1")

    await lifecycle.reconcile()

    assert lifecycle.cloud.terminating == {"aws:///zone-a/i-0001"}


async def test_the_termination_grace_period_becomes_a_deadline_on_the_claim(
    lifecycle: Lifecycle,
) -> None:
    lifecycle.ask(spec=NodeClaimSpec(termination_grace_period="10m"))
    await lifecycle.reconcile()
    await lifecycle.kube.delete(NodeClaim, "general-1")

    await lifecycle.reconcile()

    stamp = lifecycle.claim("general-1").annotations[labels.TERMINATION_TIMESTAMP]
    assert stamp == "2026-01-01T12:10:00Z"
    assert "TerminationGracePeriodExpiring" in lifecycle.recorder.reasons()


async def test_an_instance_whose_launch_was_never_answered_goes_with_its_claim(
    lifecycle: Lifecycle,
) -> None:
    lifecycle.ask()
    lifecycle.cloud.lose_next_answers = 1
    with pytest.raises(CloudError):
        await lifecycle.reconcile()
    assert len(lifecycle.cloud.instances) == 1
    await lifecycle.kube.delete(NodeClaim, "general-1")

    await lifecycle.reconcile()
    lifecycle.cloud.finish_terminations()
    await lifecycle.reconcile()

    assert lifecycle.cloud.instances == {}
    assert lifecycle.world.node_claims.get("general-1") is None
