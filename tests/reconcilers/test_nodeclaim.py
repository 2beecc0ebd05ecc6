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
from nodewright_controller.runtime import metrics
from nodewright_controller.scheduling.decision import Offer
from nodewright_controller.scheduling.type_plan import Plan
from structlog.testing import capture_logs

from tests.fakes.harness import Harness


class Lifecycle(Harness):
    """A harness with the reconciler under test."""

    def __init__(self) -> None:
        super().__init__()
        self.nominations = Nominations()
        self.reconciler = NodeClaimReconciler(
            world=self.world,
            writes=self.writes,
            cloud=self.cloud,
            recorder=self.recorder,
            clock=self.clock,
            nominations=self.nominations,
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


# Why it is of its type.


def offer(name: str, usd_per_hour: float) -> Offer:
    return Offer(
        instance_type=name, zone="zone-a", capacity_type="on-demand", usd_per_hour=usd_per_hour
    )


def planned(cheapest: float) -> Plan:
    expected = offer("m5.large", cheapest)
    return Plan(
        node_pool="general",
        pods=3,
        expected=expected,
        types=2,
        cheapest_usd_per_hour=cheapest,
    )


def launches(code: str) -> float:
    return float(metrics.LAUNCH_REASONS.labels(code)._value.get())


async def test_a_launch_says_in_the_log_why_it_is_of_its_type_and_is_counted(
    lifecycle: Lifecycle,
) -> None:
    lifecycle.ask()
    lifecycle.nominations.nominate("general-1", ("a", "b", "c"), planned(0.096))
    before = launches("T101")

    with capture_logs() as logs:
        await lifecycle.reconcile()

    (launched,) = [entry for entry in logs if entry["event"] == "launched nodeclaim"]
    assert launched["code"] == "T101"
    assert launched["reason"].startswith("claim/general-1 chosen: m5.large on-demand in zone-a")
    assert launches("T101") == before + 1
    choice = lifecycle.nominations.choice_of("general-1")
    assert choice is not None
    assert choice.pods == 3


async def test_a_launch_that_costs_more_than_it_might_is_told_by_an_event(
    lifecycle: Lifecycle,
) -> None:
    lifecycle.ask()
    lifecycle.nominations.nominate("general-1", ("a",), planned(0.09))
    lifecycle.cloud.offers = (offer("m5a.large", 0.09), offer("m5.large", 0.096))

    await lifecycle.reconcile()

    (event,) = [e for e in lifecycle.recorder.events if e.reason == "InstanceTypeChosen"]
    assert "chosen by EC2" in event.message
    assert event.message.endswith("[T106]")
    assert not event.warning


async def test_a_launch_at_the_lowest_price_makes_no_event(lifecycle: Lifecycle) -> None:
    lifecycle.ask()
    lifecycle.nominations.nominate("general-1", ("a",), planned(0.096))

    await lifecycle.reconcile()

    assert "InstanceTypeChosen" not in lifecycle.recorder.reasons()


async def test_an_instance_that_an_earlier_process_asked_for_has_no_reason_yet(
    lifecycle: Lifecycle,
) -> None:
    lifecycle.ask()

    with capture_logs() as logs:
        await lifecycle.reconcile()

    (launched,) = [entry for entry in logs if entry["event"] == "launched nodeclaim"]
    assert launched["code"] == ""
    assert lifecycle.nominations.choice_of("general-1") is None


def test_a_claim_that_is_gone_is_forgotten_and_its_pods_belong_to_the_next() -> None:
    nominations = Nominations()
    nominations.nominate("general-1", ("shop/a", "shop/b"))
    nominations.nominate("general-2", ("shop/b",))

    nominations.forget("general-1")

    assert (nominations.claim_of("shop/a"), nominations.claim_of("shop/b")) == ("", "general-2")
    assert nominations.pods_of("general-1") == ()
