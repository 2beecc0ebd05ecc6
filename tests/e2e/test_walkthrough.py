"""One pod, one node, and back to nothing."""

import json
import time

import pytest
from nodewright_local.demo import observe

from tests.e2e.stage import ALLOWANCE_S, GONE_WITHIN_S, Stage
from tests.local.running import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(ALLOWANCE_S)]


def test_a_pod_that_fits_nowhere_gets_the_cheapest_node_and_the_node_goes_with_it(
    stage: Stage,
) -> None:
    stage.apply(
        stage.manifest("walkthrough-ec2nodeclass.yaml"), stage.manifest("walkthrough-nodepool.yaml")
    )
    stage.cluster.kubectl("run", "nginx", "--image=nginx")
    name = stage.wait_for_pod("nginx")

    instance = stage.instance_of(name)
    # The cheapest amd64 type of category t; price: AWS price list, us-west-2, November 2026.
    assert (instance.instance_type, instance.capacity_type) == ("t3a.nano", "on-demand")
    assert instance.usd_per_hour == pytest.approx(0.0047)
    assert instance.architecture == "x86_64"
    assert instance.image_family == "AL2023"
    assert instance.considered_types > 5
    [node] = stage.api.list("nodes", labels="app=hello-world")
    assert node["metadata"]["name"] == name
    assert node["spec"]["providerID"] == f"aws:///{instance.zone}/{instance.instance_id}"
    [claim] = stage.claims().values()
    eventually(lambda: observe.is_true(next(iter(stage.claims().values())), "Ready"), within_s=60)
    assert claim["metadata"]["labels"]["karpenter.sh/nodepool"] == "hello-world"

    stage.cluster.kubectl("delete", "pod", "nginx")
    emptied = time.monotonic()
    stage.wait_until_nothing_runs(within_s=GONE_WITHIN_S)
    assert time.monotonic() - emptied >= 29, "the node went before consolidateAfter had passed"


def test_the_controllers_logs_are_read_with_kubectl(stage: Stage) -> None:
    answer = stage.cluster.kubectl(
        "logs", "-n", "karpenter", "-l", "app.kubernetes.io/name=karpenter", "--tail=-1"
    )
    lines = [json.loads(line) for line in answer.splitlines()]
    assert {"level", "time", "logger", "message"} <= set.intersection(*map(set, lines))
    messages = [line["message"] for line in lines]
    assert messages.count("starting controller") == 2
    assert "became leader" in messages
