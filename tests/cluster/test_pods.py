"""What a pod is to us, and what it takes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from nodewright_controller.api.meta import Condition
from nodewright_controller.api.pod import (
    Container,
    ContainerStatus,
    Pod,
    ResourceRequirements,
)
from nodewright_controller.cluster.pods import (
    has_do_not_disrupt,
    is_drainable,
    is_evictable,
    is_provisionable,
    is_reschedulable,
    pod_requests,
)

from tests.builders import NOW, copied, pod

PROTECTED = {"karpenter.sh/do-not-disrupt": "true"}


def test_a_pod_is_provisionable_only_when_the_scheduler_gave_up_on_it() -> None:
    waits = pod("a")
    gated = replace(
        waits,
        status=replace(
            waits.status, conditions=[Condition(type="PodScheduled", reason="SchedulingGated")]
        ),
    )

    assert is_provisionable(waits)
    assert not is_provisionable(gated)
    assert not is_provisionable(pod("b", node="n1"))
    assert not is_provisionable(pod("c", owner="DaemonSet/x"))
    assert not is_provisionable(pod("d", owner="Node/n1"))
    assert not is_provisionable(
        replace(waits, status=replace(waits.status, nominated_node_name="n1"))
    )
    assert not is_provisionable(copied(waits, deletion_timestamp=NOW))


def test_a_terminating_pod_is_rescheduled_only_for_a_stateful_set() -> None:
    going = copied(pod("a", node="n1"), deletion_timestamp=NOW)
    successor = copied(pod("b-0", node="n1", owner="StatefulSet/b"), deletion_timestamp=NOW)

    assert is_reschedulable(pod("c", node="n1"))
    assert not is_reschedulable(going)
    assert is_reschedulable(successor)


def test_a_protected_pod_is_waited_for_but_not_evicted() -> None:
    protected = pod("a", node="n1", annotations=PROTECTED)

    assert is_drainable(protected, NOW)
    assert not is_evictable(protected, NOW)
    assert is_evictable(pod("b", node="n1"), NOW)


def test_pods_that_tolerate_the_taint_and_stuck_ones_do_not_hold_a_drain() -> None:
    stays = pod("a", node="n1", tolerates=["*"])
    stuck = copied(pod("b", node="n1"), deletion_timestamp=NOW - timedelta(minutes=2))

    assert not is_drainable(stays, NOW)
    assert not is_drainable(stuck, NOW)


@pytest.mark.parametrize(
    ("value", "minutes", "protected"),
    [
        ("true", 99, True),
        ("5m", 4, True),
        ("5m", 5, False),
        ("-5m", 0, False),
        ("soon", 0, False),
        ("false", 0, False),
    ],
)
def test_do_not_disrupt_takes_true_or_a_time_since_the_start(
    value: str, minutes: int, protected: bool
) -> None:
    one = pod("a", node="n1", annotations={"karpenter.sh/do-not-disrupt": value})
    one.status.start_time = NOW

    assert has_do_not_disrupt(one, NOW + timedelta(minutes=minutes)) is protected


def container(cpu: str, *, sidecar: bool = False) -> Container:
    """A container."""
    return Container(
        name=f"c{cpu}",
        resources=ResourceRequirements(requests={"cpu": cpu}),
        restart_policy="Always" if sidecar else None,
    )


def cpu_of(one: Pod) -> int:
    """The millicores a pod takes."""
    return pod_requests(one).get("cpu", 0)


def test_init_containers_run_one_by_one_and_sidecars_stay() -> None:
    one = pod("a", cpu="500m", init_containers=[container("200m", sidecar=True), container("2")])

    assert cpu_of(one) == 2200
    assert cpu_of(pod("b", cpu="3", init_containers=[container("200m", sidecar=True)])) == 3200


def test_overhead_and_pod_level_resources_count() -> None:
    one = pod("a", cpu="500m")
    one.spec.overhead = {"cpu": "100m"}
    one.spec.resources = ResourceRequirements(requests={"cpu": "2"}, limits={"memory": "1Gi"})

    assert cpu_of(one) == 2100
    assert pod_requests(one)["memory"] == 2**30
    assert pod_requests(one)["pods"] == 1


def test_a_limit_stands_in_for_a_missing_request() -> None:
    assert cpu_of(pod("a", cpu=None, limits={"cpu": "700m"})) == 700


def test_a_resize_counts_the_larger_of_asked_and_granted_unless_it_cannot_be_done() -> None:
    one = pod("a", cpu="1", node="n1")
    one.status.container_statuses = [
        ContainerStatus(name="main", allocated_resources={"cpu": "400m"})
    ]
    assert cpu_of(one) == 1000

    one.status.conditions = [Condition(type="PodResizePending", status="True", reason="Infeasible")]
    assert cpu_of(one) == 400


def test_a_malformed_quantity_is_named_with_its_pod() -> None:
    with pytest.raises(ValueError, match=r"pod default/a: resource cpu: 'lots'"):
        pod_requests(pod("a", cpu="lots"))
