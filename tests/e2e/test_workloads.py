"""One workload each of the kinds that people run: it gets the nodes it should get, and no others."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from nodewright_local.demo.emulator import Ec2Instance, Pool
from nodewright_local.demo.observe import is_true

from tests.e2e.stage import ALLOWANCE_S, NODE_WITHIN_S, Stage, node_class
from tests.local.running import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(ALLOWANCE_S)]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
ARCH = "kubernetes.io/arch"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
CATEGORY = "karpenter.k8s.aws/instance-category"
FAMILY = "karpenter.k8s.aws/instance-family"
NODE_POOL = "karpenter.sh/nodepool"
SMALL = {CATEGORY: ["t"]}
"""Burstable machines, the cheapest there are."""
WORKLOADS = "deployments,statefulsets,daemonsets,pods,persistentvolumeclaims"


@pytest.fixture
def stage(stage: Stage) -> Iterator[Stage]:
    """Remove what makes new pods, and the volumes, before the stage clears up the rest."""
    yield stage
    tidy(stage)


def tidy(stage: Stage) -> None:
    """Remove the workloads of the default namespace and wait until their volumes are gone."""
    stage.cluster.kubectl("delete", WORKLOADS, "--all", "-n", "default", "--wait=false")
    eventually(lambda: not persistent_volumes(stage), within_s=60, what="released volumes go")
    assert not volumes_for_pods(stage)


def pool(
    name: str, *, weight: int = 1, where: Mapping[str, list[str]] | None = None, **template: Any
) -> str:
    """Return a NodePool that keeps its nodes, for on-demand amd64 unless `where` says otherwise.

    `where` gives the values of labels, `template` further fields of the nodes' own spec.
    """
    wanted = {ARCH: ["amd64"], CAPACITY_TYPE: ["on-demand"], **(where or {})}
    requirements = [
        {"key": key, "operator": "In", "values": values} for key, values in wanted.items()
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {
        "weight": weight,
        "template": {"spec": {"nodeClassRef": reference, "requirements": requirements, **template}},
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
    }
    return json.dumps(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": spec,
        }
    )


def general(stage: Stage) -> None:
    """Apply a node class and a pool of small burstable machines in every zone."""
    stage.apply(node_class(stage), pool("general", where=SMALL))


def run(stage: Stage, kind: str, name: str, **fields: Any) -> None:
    """Create a Deployment, StatefulSet or DaemonSet with pods labelled `app: <name>`.

    `pod` is the pod's spec beside its one container, `container` that one's; the rest is the
    workload's own spec.
    """
    container = {"name": "main", "image": "nginx", **fields.pop("container", {})}
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container], **fields.pop("pod", {})}
    labels = {"app": name}
    stage.cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
                **fields,
            },
        }
    )


def spread_over_zones(app: str) -> list[dict[str, Any]]:
    """Return a hard constraint: zones differ by one pod at most."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
    ]


def cpu(amount: str) -> dict[str, Any]:
    """Return a container's resources that request so much CPU."""
    return {"resources": {"requests": {"cpu": amount}}}


def wait_for(stage: Stage, count: int) -> dict[str, str]:
    """Wait until so many pods of the default namespace are Ready; return their nodes by name."""

    def nodes() -> dict[str, str] | None:
        ready = {
            name: str(pod["spec"]["nodeName"])
            for name, pod in stage.pods().items()
            if is_true(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]
        }
        return ready if len(ready) == count else None

    found: dict[str, str] = eventually(
        nodes, within_s=NODE_WITHIN_S, what=f"{count} pods run: {stage.tell()}"
    )
    return found


def zones_of(stage: Stage, nodes: Mapping[str, str]) -> dict[str, str]:
    """Return each pod's zone, as its node's label says."""
    zones = {
        node["metadata"]["name"]: node["metadata"]["labels"][ZONE]
        for node in stage.api.list("nodes", labels=NODE_POOL)
    }
    return {pod: zones[node] for pod, node in nodes.items()}


def persistent_volumes(stage: Stage) -> list[Any]:
    """Return the PersistentVolumes."""
    found = stage.cluster.get("persistentvolumes")
    return list(found["items"]) if found else []


def volumes_for_pods(stage: Stage) -> dict[str, Any]:
    """Return EC2's volumes that were made for claims, by id."""
    filters = [{"Name": "tag-key", "Values": ["CSIVolumeName"]}]
    found = stage.clients["ec2"].describe_volumes(Filters=filters)["Volumes"]
    return {volume["VolumeId"]: volume for volume in found}


def test_replicas_that_must_spread_over_zones_get_a_node_in_each_of_three(stage: Stage) -> None:
    general(stage)
    spread = spread_over_zones("web")
    run(
        stage,
        "Deployment",
        "web",
        replicas=6,
        pod={"topologySpreadConstraints": spread},
        container=cpu("200m"),
    )
    nodes = wait_for(stage, 6)
    assert sorted(Counter(zones_of(stage, nodes).values()).values()) == [2, 2, 2]
    assert len(stage.emulator.fleet_instances()) == 3


def test_replicas_of_a_scheduler_profile_with_defaults_spread_without_saying_so(
    stage: Stage,
) -> None:
    general(stage)
    profile = {"schedulerName": "topology-spread-defaults"}
    run(stage, "Deployment", "web", replicas=3, pod=profile, container=cpu("100m"))
    run(stage, "Deployment", "packed", replicas=2, container=cpu("100m"))
    nodes = wait_for(stage, 5)
    spread = {pod: zone for pod, zone in zones_of(stage, nodes).items() if pod.startswith("web")}
    assert len(set(spread.values())) == 3
    assert len(stage.emulator.fleet_instances()) == 3


def test_replicas_that_refuse_each_others_host_get_a_node_each(stage: Stage) -> None:
    general(stage)
    term = {"labelSelector": {"matchLabels": {"app": "store"}}, "topologyKey": HOST}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    run(stage, "Deployment", "store", replicas=3, pod={"affinity": affinity})
    assert len(set(wait_for(stage, 3).values())) == 3
    assert len(stage.emulator.fleet_instances()) == 3


def test_pods_with_the_same_host_port_get_a_node_each(stage: Stage) -> None:
    general(stage)
    ports = [{"containerPort": 8080, "hostPort": 8080}]
    run(stage, "Deployment", "edge", replicas=2, container={"ports": ports})
    assert len(set(wait_for(stage, 2).values())) == 2
    assert len(stage.emulator.fleet_instances()) == 2


def run_database(stage: Stage) -> dict[str, str]:
    """Run two pods with a volume each, in two zones, and return their nodes."""
    run(
        stage,
        "StatefulSet",
        "db",
        replicas=2,
        serviceName="db",
        podManagementPolicy="Parallel",
        pod={"topologySpreadConstraints": spread_over_zones("db")},
        container={"volumeMounts": [{"name": "data", "mountPath": "/data"}], **cpu("200m")},
        volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": claim_spec("gp3")}],
    )
    return wait_for(stage, 2)


def claim_spec(storage_class: str) -> dict[str, Any]:
    """Return the spec of a claim for one gibibyte."""
    return {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }


def test_a_stateful_pod_comes_back_in_the_zone_of_its_volume(stage: Stage) -> None:
    driver = {"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute"}
    stage.apply(node_class(stage), pool("general", where=SMALL, startupTaints=[driver]))
    nodes = run_database(stage)
    zones = zones_of(stage, nodes)
    assert len(set(zones.values())) == 2
    volumes = volumes_of(stage)
    assert {pod: volume["AvailabilityZone"] for pod, volume in volumes.items()} == zones
    assert hosts_of(volumes) == instances_of(stage, nodes)

    old = stage.instance_of(nodes["db-0"])
    stage.cluster.kubectl("delete", "node", nodes["db-0"], "--wait=false")
    again = wait_for_move(stage, "db-0", nodes)
    assert zones_of(stage, again) == zones
    moved = volumes_of(stage)
    assert hosts_of(moved) == instances_of(stage, again)
    assert ids_of(moved) == ids_of(volumes)
    let_go_before_the_end(stage, old, volumes["db-0"]["VolumeId"])


def test_a_stateful_pod_comes_back_after_its_machine_has_died(stage: Stage) -> None:
    general(stage)
    nodes = run_database(stage)
    zones, volumes = zones_of(stage, nodes), volumes_of(stage)

    dead = stage.instance_of(nodes["db-1"])
    stage.clients["ec2"].terminate_instances(InstanceIds=[dead.instance_id])
    again = wait_for_move(stage, "db-1", nodes)
    assert zones_of(stage, again) == zones
    moved = volumes_of(stage)
    assert hosts_of(moved) == instances_of(stage, again)
    assert ids_of(moved) == ids_of(volumes)


def wait_for_move(stage: Stage, pod: str, before: Mapping[str, str]) -> dict[str, str]:
    """Wait until a pod is Ready on another node, and the others where they were."""

    def moved() -> dict[str, str] | None:
        nodes = {name: stage.node_of(name) for name in before}
        stays = all(nodes[name] == node for name, node in before.items() if name != pod)
        new = nodes[pod] not in (None, before[pod])
        return {name: str(node) for name, node in nodes.items()} if stays and new else None

    found: dict[str, str] = eventually(
        moved, within_s=NODE_WITHIN_S, what=f"{pod} runs elsewhere: {stage.tell()}"
    )
    return found


def instances_of(stage: Stage, nodes: Mapping[str, str]) -> dict[str, str]:
    """Return the instance of each pod's node."""
    return {pod: stage.instance_of(node).instance_id for pod, node in nodes.items()}


def hosts_of(volumes: Mapping[str, Any]) -> dict[str, str]:
    """Return the instance that each pod's volume is attached to, the only one."""
    hosts = {}
    for pod, volume in volumes.items():
        [attachment] = volume["Attachments"]
        hosts[pod] = str(attachment["InstanceId"])
    return hosts


def ids_of(volumes: Mapping[str, Any]) -> dict[str, str]:
    """Return the id of each pod's volume."""
    return {pod: str(volume["VolumeId"]) for pod, volume in volumes.items()}


def volumes_of(stage: Stage) -> dict[str, Any]:
    """Return EC2's volume behind the claim `data-<pod>` of each pod, by the pod's name."""
    volumes = volumes_for_pods(stage)
    return {
        str(item["spec"]["claimRef"]["name"]).removeprefix("data-"): volumes[
            item["spec"]["csi"]["volumeHandle"]
        ]
        for item in persistent_volumes(stage)
    }


def let_go_before_the_end(stage: Stage, instance: Ec2Instance, volume_id: str) -> None:
    """Assert that the volume was detached before the instance was asked to terminate."""
    ended = eventually(
        lambda: [
            call["time"]
            for call in stage.emulator.calls("TerminateInstances")
            if instance.instance_id in json.dumps(call["request"])
        ],
        within_s=60,
        what="the old instance is terminated",
    )
    detached = [
        call["time"]
        for call in stage.emulator.calls("DetachVolume")
        if call["request"]["VolumeId"] == volume_id
    ]
    assert detached, "the volume was never detached"
    assert detached[0] < ended[0]


def test_a_pod_that_wants_a_gpu_gets_a_machine_with_one_and_the_image_for_it(stage: Stage) -> None:
    stage.apply(
        node_class(stage),
        pool("general", weight=10, where={CATEGORY: ["t", "m"]}),
        pool("gpu", where={CATEGORY: ["g", "p"]}),
    )
    gpu = {"nvidia.com/gpu": "1"}
    run(stage, "Deployment", "train", replicas=1, container={"resources": {"limits": gpu}})
    [node] = wait_for(stage, 1).values()
    instance = stage.instance_of(node)
    assert instance.instance_type.startswith(("g", "p"))
    assert "nvidia" in instance.image_name
    [found] = stage.api.list("nodes", labels=NODE_POOL)
    assert found["metadata"]["labels"][NODE_POOL] == "gpu"
    assert int(found["status"]["allocatable"]["nvidia.com/gpu"]) >= 1


def test_graviton_spot_is_preferred_and_on_demand_takes_over_when_it_is_drained(
    stage: Stage,
) -> None:
    small = {FAMILY: ["t4g", "m7g"], ARCH: ["arm64"]}
    stage.apply(
        node_class(stage),
        pool("graviton-spot", weight=50, where={**small, CAPACITY_TYPE: ["spot"]}),
        pool("fallback", weight=10, where={ARCH: ["arm64", "amd64"], CATEGORY: ["t"]}),
    )
    stage.run_pod("first", requests={"cpu": "100m"})
    first = stage.instance_of(stage.wait_for_pod("first"))
    assert (first.capacity_type, first.architecture) == ("spot", "arm64")
    assert first.tags[NODE_POOL] == "graviton-spot"

    stage.emulator.set_capacity([Pool(capacity_type="spot")])
    stage.run_pod("second", requests={"cpu": "3"})  # more than the first node has left
    second = stage.instance_of(stage.wait_for_pod("second"))
    assert second.capacity_type == "on-demand"
    assert second.tags[NODE_POOL] == "fallback"
    assert len(stage.emulator.fleet_instances()) == 2


def test_the_requests_of_daemons_are_counted_when_a_machine_is_chosen(stage: Stage) -> None:
    general(stage)
    run(
        stage,
        "DaemonSet",
        "agent",
        pod={"nodeSelector": {NODE_POOL: "general"}},
        container=cpu("1"),
    )
    # Both fit two cores alone, and need four together.
    stage.run_pod("web", requests={"cpu": "1200m"})
    nodes = wait_for(stage, 2)
    assert len(set(nodes.values())) == 1
    [node] = stage.api.list("nodes", labels=NODE_POOL)
    assert node["status"]["capacity"]["cpu"] == "4"
    assert len(stage.emulator.fleet_instances()) == 1


def told(stage: Stage, pod: str, code: str) -> str | None:
    """Return the one line of `kubectl describe pod` that says why it waits, if it has that code."""
    text = stage.cluster.kubectl("describe", "pod", pod, "-n", "default")
    lines = [line for line in text.splitlines() if "FailedScheduling" in line]
    found = [line for line in lines if "karpenter" in line and f"[{code}]" in line]
    assert len(found) <= 1, found
    return found[0] if found else None


@pytest.mark.parametrize(
    ("spec", "words", "code"),
    [
        pytest.param(
            {"nodeSelector": {ZONE: "us-west-2x"}}, ["us-west-2x"], "P101", id="another zone"
        ),
        pytest.param({"nodeSelector": {"team": "blue"}}, ["team"], "P102", id="an unknown label"),
        pytest.param({"requests": {"memory": "4Ti"}}, ["memory"], "P104", id="too large"),
        pytest.param(
            {"nodeSelector": {ARCH: "arm64"}}, ["kubernetes.io/arch"], "P101", id="not that kind"
        ),
    ],
)
def test_a_pod_that_cannot_be_placed_says_why_in_one_line(
    stage: Stage, spec: dict[str, Any], words: list[str], code: str
) -> None:
    general(stage)
    stage.run_pod("stuck", **spec)

    line = eventually(lambda: told(stage, "stuck", code), within_s=60, what="describe tells why")
    for word in words:
        assert word in line
    assert not stage.claims()


def test_a_pod_whose_volume_is_out_of_reach_says_so(stage: Stage) -> None:
    zones = ["us-west-2a", "us-west-2b"]
    stage.apply(node_class(stage), pool("general", where={**SMALL, ZONE: zones}))
    with storage_class(stage, "far", zone="us-west-2c"):
        stage.cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "archive", "namespace": "default"},
                "spec": claim_spec("far"),
            }
        )
        mounted = {"name": "data", "persistentVolumeClaim": {"claimName": "archive"}}
        stage.run_pod("stuck", volumes=[mounted])
        line = eventually(
            lambda: told(stage, "stuck", "P203"), within_s=60, what="describe tells why"
        )
        assert "archive" in line
        assert "us-west-2c" in line
        assert not stage.claims()


@contextmanager
def storage_class(stage: Stage, name: str, *, zone: str) -> Iterator[None]:
    """Offer volumes of one zone, made as soon as they are claimed, for as long as the block runs."""
    expression = {"key": "topology.ebs.csi.aws.com/zone", "values": [zone]}
    stage.cluster.apply(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "Immediate",
            "allowedTopologies": [{"matchLabelExpressions": [expression]}],
        }
    )
    try:
        yield
    finally:
        stage.cluster.kubectl("delete", "storageclass", name)
