"""Capacity that is reserved, and prices that a NodeOverlay corrects, on a running controller."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.stage import ALLOWANCE_S, Stage, node_class
from tests.e2e.test_workloads import CAPACITY_TYPE, FAMILY, pool
from tests.local.running import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(ALLOWANCE_S)]

CONTROLLER = ("-n", "karpenter", "deployment/karpenter")
RESERVATION = "karpenter.k8s.aws/capacity-reservation-id"
TYPE = "node.kubernetes.io/instance-type"
LARGE = "t3.large"


@pytest.fixture
def overlays(stage: Stage) -> Iterator[Stage]:
    """Open the gate NodeOverlay, and close it again afterwards."""
    set_gates(stage, "FEATURE_GATES=NodeOverlay=true")
    yield stage
    stage.cluster.kubectl("delete", "nodeoverlays", "--all")
    set_gates(stage, "FEATURE_GATES-")


def set_gates(stage: Stage, setting: str) -> None:
    stage.cluster.kubectl("set", "env", *CONTROLLER, setting)
    stage.cluster.kubectl("rollout", "status", *CONTROLLER, "--timeout=180s")


def overlay(name: str, price: str, *, types: list[str]) -> str:
    entry = {"key": TYPE, "operator": "In", "values": types}
    return json.dumps(
        {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": name},
            "spec": {"requirements": [entry], "price": price},
        }
    )


def overlay_conditions(stage: Stage, name: str) -> dict[str, Any]:
    text = stage.cluster.kubectl("get", "nodeoverlay", name, "-o", "json")
    found = json.loads(text).get("status", {}).get("conditions", [])
    return {each["type"]: each for each in found}


def test_an_overlay_says_what_is_cheapest_and_one_in_conflict_says_so(overlays: Stage) -> None:
    stage = overlays
    stage.apply(node_class(stage), pool("general", where={FAMILY: ["t3"]}))
    stage.apply(
        overlay("a-late", "9", types=[LARGE, "t3.small"]),
        overlay("cheap", "0.0001", types=[LARGE]),
    )
    eventually(
        lambda: overlay_conditions(stage, "a-late").get("Ready", {}).get("status") == "False",
        within_s=60,
        what="the overlay in conflict is told",
    )

    stage.run_pod("web", requests={"cpu": "100m"})
    instance = stage.instance_of(stage.wait_for_pod("web"))

    assert instance.instance_type == LARGE
    assert overlay_conditions(stage, "a-late")["ValidationSucceeded"]["reason"] == "Conflict"
    assert overlay_conditions(stage, "cheap")["Ready"]["status"] == "True"
    (claim,) = stage.claims().values()
    assert claim["metadata"]["annotations"]["karpenter.sh/price-overlay-applied"] == "true"


def test_a_capacity_reservation_is_used_before_anything_is_bought(stage: Stage) -> None:
    ec2 = stage.clients["ec2"]
    tags = [{"Key": "karpenter.sh/discovery", "Value": stage.cluster_name}]
    made = ec2.create_capacity_reservation(
        InstanceType="m5.xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-west-2b",
        InstanceCount=1,
        InstanceMatchCriteria="targeted",
        TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": tags}],
    )["CapacityReservation"]["CapacityReservationId"]
    try:
        types = ["m5.xlarge", "t3.medium", "t3.large"]
        terms = [{"tags": {"karpenter.sh/discovery": stage.cluster_name}}]
        stage.apply(
            node_class(stage, capacityReservationSelectorTerms=terms),
            pool("general", where={TYPE: types, CAPACITY_TYPE: ["reserved", "on-demand"]}),
        )
        stage.run_pod("first", requests={"cpu": "3"})
        first = stage.wait_for_pod("first")
        stage.run_pod("second", requests={"cpu": "1"})
        second = stage.wait_for_pod("second")

        assert stage.instance_of(first).instance_type == "m5.xlarge"
        assert stage.instance_of(first).zone == "us-west-2b"
        (node,) = stage.api.list("nodes", labels=f"{RESERVATION}={made}")
        assert node["metadata"]["name"] == first
        assert node["metadata"]["labels"][CAPACITY_TYPE] == "reserved"
        assert second != first
        assert stage.instance_of(second).instance_type.startswith("t3.")
        [(_, claim)] = [
            each for each in stage.claims().items() if each[1]["status"]["nodeName"] == second
        ]
        assert claim["metadata"]["labels"][CAPACITY_TYPE] == "on-demand"
    finally:
        ec2.cancel_capacity_reservation(CapacityReservationId=made)
