"""What happens when a part fails: the leader dies, AWS does not answer, capacity is short."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from nodewright_local.aws.ec2.prices import on_demand_price
from nodewright_local.demo.emulator import Pool
from nodewright_local.demo.figures import controller_processes

from tests.e2e.stage import ALLOWANCE_S, NODE_WITHIN_S, Stage, node_class, node_pool
from tests.local.running import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(ALLOWANCE_S)]

SILENCE_S = 60.0


def leader(stage: Stage) -> str:
    """Return the pod that holds the lease, empty when nobody does."""
    for lease in stage.api.list("leases", namespace="karpenter"):
        if lease["metadata"]["name"] == "karpenter-leader-election":
            return str(lease["spec"].get("holderIdentity") or "").split("_")[0]
    return ""


def pid_of(stage: Stage, pod: str) -> int | None:
    """Return the process of a controller pod, by the POD_NAME in its environment."""
    for process in controller_processes(stage.state.pids["kubelets"]):
        with suppress(OSError):  # it may be ending right now
            variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            if f"POD_NAME={pod}".encode() in variables:
                return process.pid
    return None


def kill(stage: Stage, pod: str) -> None:
    """Kill a pod's process, as a machine that runs out of memory would."""
    pid = pid_of(stage, pod)
    assert pid, f"no process of pod {pod}"
    os.kill(pid, signal.SIGKILL)


@contextmanager
def silent(pid: int) -> Iterator[None]:
    """Keep a process from running for as long as the block does."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="finds processes by /proc")
def test_the_lease_moves_when_the_leader_is_killed_and_a_pending_pod_still_gets_its_node(
    stage: Stage,
) -> None:
    stage.apply(node_class(stage), node_pool("web", category=["t"]))
    first = eventually(lambda: leader(stage), within_s=60, what="somebody leads")
    kill(stage, first)
    stage.run_pod("web")
    second = eventually(
        lambda: (now := leader(stage)) != first and now, within_s=90, what="the lease moves"
    )
    assert second in [
        pod["metadata"]["name"] for pod in stage.api.list("pods", namespace="karpenter")
    ]
    stage.wait_for_pod("web")
    assert len(stage.emulator.fleet_instances()) == 1


def test_a_minute_without_aws_loses_nothing_and_doubles_nothing(stage: Stage) -> None:
    stage.apply(node_class(stage), node_pool("web", category=["t"]))
    stage.run_pod("early", requests={"cpu": "100m"})
    early = stage.wait_for_pod("early")
    before = stage.instance_of(early)
    known = {item.instance_id for item in stage.emulator.instances(launched_by="fleet")}

    with silent(stage.state.pids["aws"]):
        # Too big to fit beside the first pod, so that it needs a node of its own.
        stage.run_pod("late", requests={"cpu": "3"})
        time.sleep(SILENCE_S)
        still = stage.cluster.get("pods", "-n", "default", "early")
        assert still["spec"]["nodeName"] == early
        assert not still["metadata"].get("deletionTimestamp")

    late = stage.wait_for_pod("late", within_s=NODE_WITHIN_S)
    assert late != early
    assert stage.node_of("early") == early
    assert stage.instance_of(early).instance_id == before.instance_id
    time.sleep(5)  # a doubled launch would show by now
    launched = {item.instance_id for item in stage.emulator.instances(launched_by="fleet")} - known
    assert launched == {stage.instance_of(late).instance_id}
    assert len(stage.claims()) == 2


def launches(stage: Stage) -> list[dict[str, Any]]:
    """Return the requests that were meant to launch something (validation only tries)."""
    requests = [call["request"] for call in stage.emulator.calls("CreateFleet")]
    return [request for request in requests if not request.get("DryRun")]


def dearer_types(stage: Stage, instance_type: str) -> list[str]:
    """Return what the last launch would have taken in a type's place, cheapest first."""
    request = launches(stage)[-1]
    offered = {
        override["InstanceType"]
        for template in request["LaunchTemplateConfigs"]
        for override in template["Overrides"]
    }
    prices = {name: on_demand_price(stage.state.region, name) or 1e9 for name in offered}
    assert instance_type == min(prices, key=lambda name: (prices[name], name))
    return sorted(offered - {instance_type}, key=lambda name: (prices[name], name))


# A type that was drained counts as unavailable for three minutes. These tests keep to categories
# that no other test uses.


def test_a_drained_pool_leads_to_the_next_cheapest_type(stage: Stage) -> None:
    stage.apply(node_class(stage), node_pool("web", category=["c"], cpu=["2"]))
    stage.run_pod("first", requests={"cpu": "1100m"})
    cheapest = stage.instance_of(stage.wait_for_pod("first")).instance_type
    next_cheapest = dearer_types(stage, cheapest)[0]

    stage.emulator.set_capacity([Pool(instance_type=cheapest)])
    stage.run_pod("second", requests={"cpu": "1100m"})  # more than the first node has left
    instance = stage.instance_of(stage.wait_for_pod("second"))

    assert instance.instance_type == next_cheapest


def test_a_pod_waits_while_nothing_can_be_had_and_gets_a_node_of_another_pool(
    stage: Stage,
) -> None:
    stage.apply(node_class(stage), node_pool("scarce", category=["r"], cpu=["2"]))
    stage.emulator.set_capacity([Pool(capacity_type="on-demand")])
    before = len(launches(stage))
    stage.run_pod("web")
    eventually(
        lambda: len(launches(stage)) > before,
        within_s=60,
        what="a launch is tried",
    )
    eventually(lambda: not stage.claims(), within_s=60, what="the claim that got nothing goes")
    assert stage.node_of("web") is None

    stage.emulator.set_capacity(())
    stage.apply(node_pool("plenty", category=["m"]))
    instance = stage.instance_of(stage.wait_for_pod("web"))
    assert instance.instance_type.startswith("m")
