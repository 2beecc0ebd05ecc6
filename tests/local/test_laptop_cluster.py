"""The control plane and the simulated nodes, for real."""

import json
from typing import Any

import pytest

from tests.local.running import START_ALLOWANCE_S, LaptopCluster, eventually, nodewright

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(START_ALLOWANCE_S)]

NODE = "ip-10-0-0-7.us-west-2.compute.internal"
CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "58"}


@pytest.fixture
def node(laptop_cluster: LaptopCluster) -> Any:
    """Join a node as the joiner would, and take it away afterwards."""
    laptop_cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": NODE,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {"kubernetes.io/os": "linux", "nodewright.local/test": "kwok"},
            },
            "spec": {"providerID": "aws:///us-west-2a/i-0123456789abcdef0"},
        }
    )
    status = {
        "capacity": CAPACITY,
        "allocatable": CAPACITY,
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": laptop_cluster.state.kubelet_port}},
    }
    patch(laptop_cluster, "node", NODE, {"status": status}, "--subresource=status")
    yield NODE
    laptop_cluster.kubectl("delete", "node", NODE, "--ignore-not-found")


def patch(cluster: LaptopCluster, kind: str, name: str, body: object, *more: str) -> None:
    cluster.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(body), *more)


def condition(found: Any, kind: str) -> str | None:
    conditions = found["status"].get("conditions", [])
    return next((c["status"] for c in conditions if c["type"] == kind), None)


def run_pod(cluster: LaptopCluster, name: str) -> None:
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"nodewright.local/test": "kwok"},
                "containers": [{"name": "main", "image": "nginx"}],
            },
        }
    )


def is_ready(cluster: LaptopCluster, *what: str) -> Any:
    found = cluster.get(*what)
    return found if found and condition(found, "Ready") == "True" else None


def test_a_joined_node_becomes_ready_and_keeps_what_the_joiner_said(
    laptop_cluster: LaptopCluster, node: str
) -> None:
    found = eventually(lambda: is_ready(laptop_cluster, "node", node))
    assert found["status"]["capacity"] == CAPACITY
    assert found["status"]["addresses"] == [{"type": "InternalIP", "address": "127.0.0.1"}]
    lease = eventually(lambda: laptop_cluster.get("lease", "-n", "kube-node-lease", node))
    assert lease["spec"]["leaseDurationSeconds"] == 40


def test_a_pod_runs_on_the_node_and_goes_when_it_is_deleted(
    laptop_cluster: LaptopCluster, node: str
) -> None:
    run_pod(laptop_cluster, "nginx")
    found = eventually(lambda: is_ready(laptop_cluster, "pod", "nginx"))
    assert found["spec"]["nodeName"] == node
    assert found["status"]["podIP"].startswith("100.64.")
    assert found["status"]["containerStatuses"][0]["state"]["running"]
    laptop_cluster.kubectl("delete", "pod", "nginx", "--wait=false")
    eventually(lambda: laptop_cluster.get("pod", "nginx") is None)


def test_a_finalizer_holds_a_pod_that_has_stopped(laptop_cluster: LaptopCluster, node: str) -> None:
    run_pod(laptop_cluster, "held")
    eventually(lambda: is_ready(laptop_cluster, "pod", "held"))
    patch(laptop_cluster, "pod", "held", {"metadata": {"finalizers": ["example.com/hold"]}})
    laptop_cluster.kubectl("delete", "pod", "held", "--wait=false")
    eventually(lambda: laptop_cluster.get("pod", "held")["status"]["phase"] == "Succeeded")
    assert laptop_cluster.get("pod", "held")["metadata"]["finalizers"] == ["example.com/hold"]
    patch(laptop_cluster, "pod", "held", {"metadata": {"finalizers": None}})
    eventually(lambda: laptop_cluster.get("pod", "held") is None)


def test_a_job_completes(laptop_cluster: LaptopCluster, node: str) -> None:
    laptop_cluster.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "sum"},
            "spec": {
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "nodeSelector": {"nodewright.local/test": "kwok"},
                        "containers": [{"name": "main", "image": "busybox"}],
                    }
                }
            },
        }
    )
    eventually(lambda: laptop_cluster.get("job", "sum")["status"].get("succeeded") == 1)
    laptop_cluster.kubectl("delete", "job", "sum")


def test_a_second_up_says_that_the_cluster_runs(laptop_cluster: LaptopCluster) -> None:
    answer = nodewright("local", "up", environ=laptop_cluster.environ)
    assert answer.returncode == 0
    assert "already running" in answer.stdout


def test_an_unknown_token_is_refused(laptop_cluster: LaptopCluster) -> None:
    answer = nodewright("local", "status", environ=laptop_cluster.environ)
    assert answer.returncode == 0, answer.stdout
    with pytest.raises(AssertionError, match=r"Unauthorized|logged in"):
        laptop_cluster.kubectl(
            "--kubeconfig=/dev/null",
            f"--server={laptop_cluster.state.api_server_url}",
            f"--certificate-authority={laptop_cluster.state.ca_file}",
            "--token=k8s-aws-v1.nonsense",
            "get",
            "namespaces",
        )
