"""The Node as it registers."""

from datetime import UTC, datetime
from typing import Any

import pytest
from nodewright_local.kubelets.instance import parse_instance
from nodewright_local.kubelets.node_object import first_conditions, node_object, node_status
from nodewright_local.kubelets.userdata.bootstrap import Taint

from tests.local.kubelets.builders import bootstrap, hardware, instance


def test_a_node_carries_what_user_data_and_machine_say() -> None:
    data = bootstrap(
        labels={"app": "web", "kubernetes.io/arch": "made-up"},
        taints=(Taint(key="team", value="a", effect="NoSchedule"),),
    )

    node = node_object(instance(), data, "usw2-az1")

    assert node["metadata"] == {
        "name": "ip-10-0-1-2.us-west-2.compute.internal",
        "labels": {
            "app": "web",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": "ip-10-0-1-2.us-west-2.compute.internal",
            "node.kubernetes.io/instance-type": "m5.large",
            "topology.kubernetes.io/region": "us-west-2",
            "topology.kubernetes.io/zone": "us-west-2a",
            "topology.ebs.csi.aws.com/zone": "us-west-2a",
            "topology.k8s.aws/zone-id": "usw2-az1",
        },
        "annotations": {
            "kwok.x-k8s.io/node": "fake",
            "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        },
    }
    assert node["spec"] == {
        "providerID": "aws:///us-west-2a/i-0123456789abcdef0",
        "taints": [
            {"key": "team", "value": "a", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        ],
    }


def test_an_unknown_zone_id_leaves_no_label() -> None:
    labels = node_object(instance(), bootstrap(), None)["metadata"]["labels"]

    assert "topology.k8s.aws/zone-id" not in labels


@pytest.mark.parametrize("family", ["AL2023", "Bottlerocket", "AL2"])
def test_the_status_leads_to_the_kubelet_server(family: str) -> None:
    machine = instance(image_family=family, architecture="arm64")

    status = node_status(
        machine, hardware(), bootstrap(), kubelet_version="v1.36.3", kubelet_port=10250
    )

    assert status["addresses"][0] == {"type": "InternalIP", "address": "127.0.0.1"}
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    assert status["nodeInfo"]["kubeletVersion"] == "v1.36.3"
    assert status["nodeInfo"]["architecture"] == "arm64"
    assert status["capacity"]["cpu"] == "2"
    assert status["allocatable"]["cpu"] == "1930m"


def test_ids_are_stable_for_an_instance_and_differ_between_instances() -> None:
    def ids(name: str) -> tuple[str, str]:
        status = node_status(
            instance(instance_id=name),
            hardware(),
            bootstrap(),
            kubelet_version="v1",
            kubelet_port=1,
        )
        return status["nodeInfo"]["machineID"], status["nodeInfo"]["bootID"]

    assert ids("i-1") == ids("i-1")
    assert ids("i-1") != ids("i-2")


def test_a_fresh_kubelet_is_healthy_but_not_ready() -> None:
    conditions = first_conditions(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))

    assert {item["type"]: item["status"] for item in conditions} == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "False",
    }
    assert {item["lastTransitionTime"] for item in conditions} == {"2026-01-02T03:04:05Z"}


def test_an_instance_is_read_from_the_stand_ins_list() -> None:
    document: dict[str, Any] = {
        "instance_id": "i-1",
        "instance_type": "m6g.large",
        "zone": "us-west-2b",
        "state": "running",
        "image_family": "Bottlerocket",
        "architecture": "arm64",
        "private_dns_name": "ip-10-0-0-1",
        "role_arn": None,
        "user_data_base64": "eA==",
        "tags": {},
    }

    found = parse_instance(document, "us-west-2")

    assert found.provider_id == "aws:///us-west-2b/i-1"
    assert found.kubernetes_architecture == "arm64"
    assert found.image_variant == "standard"
