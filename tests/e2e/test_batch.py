"""Spot nodes with Bottlerocket for batch work, up to a limit."""

import time

import pytest

from tests.e2e.stage import ALLOWANCE_S, GONE_WITHIN_S, NODE_WITHIN_S, Stage
from tests.local.running import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(ALLOWANCE_S)]

JOBS = tuple(f"job-{number}" for number in range(1, 6))


def test_batch_pods_get_spot_nodes_up_to_the_limit_and_the_nodes_go_a_minute_after_them(
    stage: Stage,
) -> None:
    stage.apply(
        stage.manifest("bottlerocket-ec2nodeclass.yaml"), stage.manifest("batch-spot-nodepool.yaml")
    )
    for job in JOBS:  # more than half of a node's four cores: each needs a node of its own
        stage.run_pod(job, requests={"cpu": "2500m"}, nodeSelector={"nodegroup": "batch"})

    def running() -> list[str]:
        return [job for job in JOBS if stage.node_of(job)]

    eventually(lambda: len(running()) == 4, within_s=NODE_WITHIN_S, what=f"four run {stage.tell()}")
    instances = stage.emulator.fleet_instances()
    assert len(instances) == 4
    for instance in instances:
        assert instance.capacity_type == "spot"
        assert instance.architecture == "arm64"
        assert instance.image_family == "Bottlerocket"
        assert "1.60.0" in instance.image_name
    nodes = stage.api.list("nodes", labels="karpenter.sh/nodepool=batch-spot")
    assert [node["status"]["capacity"]["cpu"] for node in nodes] == ["4"] * 4
    assert {node["metadata"]["labels"]["capacity-type"] for node in nodes} == {"spot"}

    [waiting] = set(JOBS) - set(running())
    [message, *_] = eventually(
        lambda: [text for text in stage.events(waiting, "FailedScheduling") if "limit" in text],
        within_s=60,
        what="the event that names the limit",
    )
    assert "batch-spot" in message
    assert "cpu" in message
    assert len(stage.claims()) == 4

    stage.cluster.kubectl("delete", "pods", *JOBS)
    emptied = time.monotonic()
    stage.wait_until_nothing_runs(within_s=GONE_WITHIN_S)
    assert time.monotonic() - emptied >= 59, "a node went before consolidateAfter had passed"
