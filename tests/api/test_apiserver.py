"""The definitions and the webhook on a real API server: accepted, refused, converted, explained."""
# ruff: noqa: E501 - tables read better with a case on a line

from __future__ import annotations

import asyncio
import base64
import copy
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from nodewright_controller.api.conversion import KUBELET, NODE_CLASS_REFERENCE
from nodewright_controller.web.certificates import renewed
from nodewright_controller.web.conversion import conversion_app
from nodewright_templates.crds import load

from tests.api.apiserver import ApiServer, running

Json = dict[str, Any]
MANIFESTS = Path(__file__).parents[1] / "data" / "manifests"
CLUSTER_NAME = "demo"

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]


# --- The server, with our definitions and our webhook ---


@contextmanager
def serve_conversion(directory: Path) -> Iterator[tuple[str, bytes]]:
    """Serve the webhook with our own certificate; yield its URL and the authority."""
    certificates = renewed(None, ("127.0.0.1",), datetime.now(UTC))
    for name, content in (
        ("tls.crt", certificates.serving.certificate),
        ("tls.key", certificates.serving.key),
    ):
        (directory / name).write_bytes(content)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        conversion_app(),
        lifespan="off",
        log_config=None,
        ssl_certfile=str(directory / "tls.crt"),
        ssl_keyfile=str(directory / "tls.key"),
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True
    )
    thread.start()
    try:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/convert", certificates.authorities
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    directory = tmp_path_factory.mktemp("apiserver")
    with running(directory) as api_server:
        if api_server is None:
            pytest.skip(
                "etcd, kube-apiserver or kubectl is missing: `nodewright local up` builds them"
            )
        with serve_conversion(directory) as (url, authority):
            api_server.apply(*definitions(url, authority))
            api_server.kubectl(
                "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"
            )
            wait_until_converting(api_server)
            yield api_server


def definitions(url: str, authority: bytes) -> list[Json]:
    """Return the packaged definitions with the webhook by URL, as on a laptop."""
    found = list(copy.deepcopy(load()).values())
    for definition in found:
        webhook = definition["spec"].get("conversion", {}).get("webhook")
        if webhook:
            webhook["clientConfig"] = {
                "url": url,
                "caBundle": base64.b64encode(authority).decode(),
            }
    return found


def wait_until_converting(server: ApiServer) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if (
            "error"
            not in server.kubectl("get", "nodepools.v1beta1.karpenter.sh", check=False).lower()
        ):
            return
        time.sleep(0.3)
    raise AssertionError("the API server does not serve the definitions")


@pytest.fixture(autouse=True)
def _clean(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    server: ApiServer = request.getfixturevalue("server")
    server.kubectl(
        "delete", "nodepools,nodeclaims,ec2nodeclasses,nodeoverlays", "--all", "--wait=false"
    )


def manifest(name: str) -> str:
    return (MANIFESTS / name).read_text().replace("${CLUSTER_NAME}", CLUSTER_NAME)


# --- Objects ---


def pool(template: Json | None = None, metadata: Json | None = None, **spec: Any) -> Json:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {
            "template": {
                "metadata": metadata or {},
                "spec": {"requirements": [], "nodeClassRef": reference, **(template or {})},
            },
            **spec,
        },
    }


def requiring(key: str, operator: str, *values: str, **more: Any) -> Json:
    requirement = {"key": key, "operator": operator, "values": list(values), **more}
    return pool({"requirements": [requirement]})


def beta_pool(**disruption: Any) -> Json:
    body = pool({"nodeClassRef": {"name": "default"}}, disruption=disruption)
    return {**body, "apiVersion": "karpenter.sh/v1beta1"}


def node_class(version: str = "v1", **spec: Any) -> Json:
    body = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "node",
        "subnetSelectorTerms": [{"tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
        **spec,
    }
    return {
        "apiVersion": f"karpenter.k8s.aws/{version}",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {key: value for key, value in body.items() if value is not None},
    }


def overlay(**spec: Any) -> Json:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "cheap"},
        "spec": {"requirements": [], **spec},
    }


# --- Accepted, and read back in both versions ---


def test_the_walkthrough_is_taken_as_it_stands_and_means_the_same_in_v1(server: ApiServer) -> None:
    server.kubectl("apply", "-f", "-", stdin=manifest("walkthrough-ec2nodeclass.yaml"))
    server.kubectl("apply", "-f", "-", stdin=manifest("walkthrough-nodepool.yaml"))

    v1 = server.get("nodepools.v1.karpenter.sh", "hello-world")
    beta = server.get("nodepools.v1beta1.karpenter.sh", "hello-world")
    written = yaml.safe_load(manifest("walkthrough-nodepool.yaml"))
    assert v1["spec"]["disruption"] == {
        "budgets": [{"nodes": "10%"}],
        "consolidateAfter": "30s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
    }
    assert v1["spec"]["template"]["spec"]["expireAfter"] == "720h"
    assert v1["spec"]["template"]["spec"]["nodeClassRef"] == {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": "default",
    }
    assert v1["metadata"]["annotations"][NODE_CLASS_REFERENCE] == '{"name":"default"}'
    assert beta["spec"]["template"] == written["spec"]["template"]
    assert beta["spec"]["disruption"] == {
        **written["spec"]["disruption"],
        "budgets": [{"nodes": "10%"}],
        "expireAfter": "720h",
    }

    v1_class = server.get("ec2nodeclasses.v1.karpenter.k8s.aws", "default")
    beta_class = server.get("ec2nodeclasses.v1beta1.karpenter.k8s.aws", "default")
    assert v1_class["spec"]["amiSelectorTerms"] == [{"alias": "al2023@latest"}]
    assert v1_class["spec"]["metadataOptions"]["httpPutResponseHopLimit"] == 2
    assert v1_class["spec"]["role"] == "KarpenterNodeRole-demo"
    assert "amiSelectorTerms" not in beta_class["spec"]
    assert beta_class["spec"]["amiFamily"] == "AL2023"


def test_the_batch_manifests_are_taken_as_they_stand(server: ApiServer) -> None:
    server.kubectl("apply", "-f", "-", stdin=manifest("bottlerocket-ec2nodeclass.yaml"))
    server.kubectl("apply", "-f", "-", stdin=manifest("batch-spot-nodepool.yaml"))

    written = yaml.safe_load(manifest("batch-spot-nodepool.yaml"))["spec"]
    v1 = server.get("nodepools.v1.karpenter.sh", "batch-spot")["spec"]
    assert v1["template"] == written["template"]
    assert v1["limits"] == {"cpu": "16"}
    beta = server.get("nodepools.v1beta1.karpenter.sh", "batch-spot")["spec"]
    assert beta["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert beta["disruption"]["consolidateAfter"] == "1m"
    v1_class = server.get("ec2nodeclasses.v1.karpenter.k8s.aws", "default")["spec"]
    assert v1_class["amiSelectorTerms"] == [{"alias": "bottlerocket@1.60.0"}]
    assert v1_class["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }


@pytest.mark.parametrize("name", sorted(path.name for path in MANIFESTS.glob("*.yaml")))
def test_applying_a_manifest_again_changes_nothing(server: ApiServer, name: str) -> None:
    server.kubectl("apply", "-f", "-", stdin=manifest(name))

    assert "unchanged" in server.kubectl("apply", "-f", "-", stdin=manifest(name))


@pytest.mark.parametrize("name", sorted(path.name for path in MANIFESTS.glob("*.yaml")))
def test_server_side_apply_again_writes_nothing(server: ApiServer, name: str) -> None:
    body = yaml.safe_load(manifest(name))
    server.apply(body)
    resource = f"{body['kind'].lower()}.{body['apiVersion'].rpartition('/')[2]}.{body['apiVersion'].partition('/')[0]}"
    before = server.get(resource, body["metadata"]["name"])

    server.apply(body)

    assert before == server.get(resource, body["metadata"]["name"])


def test_an_edit_through_v1beta1_keeps_what_only_v1_knows(server: ApiServer) -> None:
    budgets = [{"nodes": "1", "reasons": ["Drifted"]}]
    server.apply(pool({"terminationGracePeriod": "1h"}, disruption={"budgets": budgets}))

    server.kubectl(
        "patch", "nodepools.v1beta1.karpenter.sh", "general", "--type=merge",
        "-p", '{"spec": {"weight": 7, "template": {"spec": {"kubelet": {"maxPods": 20}}}}}',
    )  # fmt: skip

    v1 = server.get("nodepools.v1.karpenter.sh", "general")
    assert v1["spec"]["weight"] == 7
    assert v1["spec"]["template"]["spec"]["terminationGracePeriod"] == "1h"
    assert v1["spec"]["disruption"]["budgets"] == budgets
    assert v1["metadata"]["annotations"] == {KUBELET: '{"maxPods":20}'}


def test_status_is_written_in_one_version_and_read_in_the_other(server: ApiServer) -> None:
    server.apply(beta_pool())
    patch = '{"status": {"nodes": 3, "resources": {"cpu": "12"}, "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-11-01T00:00:00Z"}]}}'
    server.kubectl(
        "patch", "nodepools.v1.karpenter.sh", "general", "--subresource=status", "--type=merge", "-p", patch
    )  # fmt: skip

    status = server.get("nodepools.v1beta1.karpenter.sh", "general")["status"]

    assert status["nodes"] == 3
    assert status["conditions"][0]["type"] == "Ready"


def test_ubuntu_is_taken_and_stays_writable(server: ApiServer) -> None:
    ubuntu = node_class("v1beta1", amiFamily="Ubuntu", amiSelectorTerms=None)
    server.kubectl("create", "-f", "-", stdin=yaml.safe_dump(ubuntu))

    # The controller must still be able to put its finalizer on a class that is not ready.
    server.kubectl(
        "patch", "ec2nodeclasses.v1.karpenter.k8s.aws", "default", "--type=merge",
        "-p", '{"metadata": {"annotations": {"a": "b"}}}',
    )  # fmt: skip

    v1 = server.get("ec2nodeclasses.v1.karpenter.k8s.aws", "default")["spec"]
    assert (v1["amiFamily"], v1["amiSelectorTerms"]) == ("AL2", [])
    beta = server.get("ec2nodeclasses.v1beta1.karpenter.k8s.aws", "default")["spec"]
    assert beta["amiFamily"] == "Ubuntu"


@pytest.mark.parametrize(
    "good",
    [
        pool({"expireAfter": "Never", "terminationGracePeriod": "1h30m"}, limits={"cpu": 16, "nvidia.com/gpu": "2", "nodes": "3"}),
        pool(replicas=3, limits={"nodes": 5}),
        pool(replicas=0, limits={}),
        pool(metadata={"labels": {"team": "a", "karpenter.k8s.aws/instance-family": "m5", "node-restriction.kubernetes.io/x": ""}}),
        pool({"taints": [{"key": "example.com/a", "value": "", "effect": "NoExecute"}]}),
        pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "0", "schedule": "@daily", "duration": "10h5m", "reasons": ["Unhealthy"]}, {"nodes": "5", "schedule": "0 9 * * 1-5", "duration": "8h"}]}),
        requiring("karpenter.k8s.aws/instance-cpu", "Gt", "3"),
        requiring("node.kubernetes.io/instance-type", "In", *(f"m{number}.large" for number in range(900)), minValues=50),
        requiring("team", "NotIn"),
        requiring("team", "Exists"),
        beta_pool(consolidationPolicy="WhenEmpty", consolidateAfter="30s"),
        beta_pool(consolidationPolicy="WhenUnderutilized", consolidateAfter="Never"),
        node_class(amiFamily="Custom", amiSelectorTerms=[{"alias": "al2023@v20260501"}]),
        node_class(amiFamily="AL2", amiSelectorTerms=[{"id": "ami-1"}, {"name": "x", "owner": "self"}, {"ssmParameter": "/a"}]),
        node_class(kubelet={"maxPods": 20, "anything": {"else": [1]}}),
        node_class(blockDeviceMappings=[{"deviceName": "/dev/xvda", "rootVolume": True, "ebs": {"volumeSize": "59000Gi", "volumeType": "gp3"}}]),
        node_class(networkInterfaces=[{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}, {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"}]),
        node_class(capacityReservationSelectorTerms=[{"tags": {"a": "*"}, "ownerID": "123456789012"}], enclaveOptions={"enabled": True}, cpuOptions={"nestedVirtualization": "enabled"}, connectionTracking={"udpTimeout": 30}, placementGroupSelector={"name": "a"}),
        node_class("v1beta1", amiFamily="Bottlerocket", amiSelectorTerms=None),
        overlay(price="0.5", weight=10),
        overlay(priceAdjustment="-12.5%", capacity={"example.com/fuse": 1}),
    ],
)  # fmt: skip
def test_good_objects_are_taken(server: ApiServer, good: Json) -> None:
    server.kubectl("create", "-f", "-", stdin=yaml.safe_dump(good))


# --- Refused, with the field named ---


AT = "spec.template.spec"


@pytest.mark.parametrize(
    ("bad", "field", "message"),
    [
        (pool(weight=101), "spec.weight", "should be less than or equal to 100"),
        (pool(weight=0), "spec.weight", "should be greater than or equal to 1"),
        (pool({"expireAfter": "30d"}), f"{AT}.expireAfter", "should match"),
        (pool({"terminationGracePeriod": "Never"}), f"{AT}.terminationGracePeriod", "should match"),
        (pool({"requirements": None}), f"{AT}.requirements", "Required value"),
        (pool({"nodeClassRef": {"group": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "name": "a"}}), f"{AT}.nodeClassRef.group", "should match"),
        (pool({"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": ""}}), f"{AT}.nodeClassRef.name", "at least 1 chars"),
        (pool({"taints": [{"key": "a", "effect": "Sometimes"}]}), f"{AT}.taints[0].effect", "Unsupported value"),
        (pool({"startupTaints": [{"key": "a b", "effect": "NoSchedule"}]}), f"{AT}.startupTaints[0].key", "should match"),
        (pool(disruption={"consolidationPolicy": "WhenUnderutilized"}), "spec.disruption.consolidationPolicy", "Unsupported value"),
        (pool(disruption={"consolidateAfter": "1d"}), "spec.disruption.consolidateAfter", "should match"),
        (pool(disruption={"budgets": [{"nodes": "101%"}]}), "spec.disruption.budgets[0].nodes", "should match"),
        (pool(disruption={"budgets": [{"nodes": "-5"}]}), "spec.disruption.budgets[0].nodes", "should match"),
        (pool(disruption={"budgets": [{"nodes": "1", "schedule": "@daily"}]}), "spec.disruption.budgets[0]", "'schedule' must be set with 'duration'"),
        (pool(disruption={"budgets": [{"nodes": "1", "duration": "1h"}]}), "spec.disruption.budgets[0]", "'schedule' must be set with 'duration'"),
        (pool(disruption={"budgets": [{"nodes": "1", "schedule": "* * * *", "duration": "1h"}]}), "spec.disruption.budgets[0].schedule", "should match"),
        (pool(disruption={"budgets": [{"nodes": "1", "schedule": "@daily", "duration": "30s"}]}), "spec.disruption.budgets[0].duration", "should match"),
        (pool(disruption={"budgets": [{"nodes": "1", "reasons": ["Bored"]}]}), "spec.disruption.budgets[0].reasons[0]", "Unsupported value"),
        (pool(disruption={"budgets": [{"nodes": "1"}] * 51}), "spec.disruption.budgets", "must have at most 50 items"),
        (pool(limits={"cpu": "lots"}), "spec.limits.cpu", "should match"),
        (pool(replicas=1, weight=5), "spec.weight", "not supported on a NodePool with replicas"),
        (pool(replicas=1, limits={"cpu": 5}), "spec.limits", "only 'limits.nodes' is supported"),
        (pool(metadata={"labels": {"karpenter.sh/custom": "a"}}), "spec.template.metadata.labels", 'label domain "karpenter.sh" is restricted'),
        (pool(metadata={"labels": {"sub.karpenter.sh/custom": "a"}}), "spec.template.metadata.labels", 'label domain "karpenter.sh" is restricted'),
        (pool(metadata={"labels": {"karpenter.sh/nodepool": "a"}}), "spec.template.metadata.labels", 'label "karpenter.sh/nodepool" is restricted'),
        (pool(metadata={"labels": {"kubernetes.io/hostname": "a"}}), "spec.template.metadata.labels", 'label "kubernetes.io/hostname" is restricted'),
        (pool(metadata={"labels": {"karpenter.k8s.aws/nitro-sandbox": "a"}}), "spec.template.metadata.labels", 'label domain "karpenter.k8s.aws" is restricted'),
        (pool(metadata={"labels": {"team": "a b"}}), "spec.template.metadata.labels.team", "should match"),
        (requiring("karpenter.sh/custom", "Exists"), f"{AT}.requirements[0].key", 'label domain "karpenter.sh" is restricted'),
        (requiring("karpenter.sh/nodepool", "Exists"), f"{AT}.requirements", 'label "karpenter.sh/nodepool" is restricted'),
        (requiring("kubernetes.io/hostname", "Exists"), f"{AT}.requirements[0].key", "is restricted"),
        (requiring("karpenter.k8s.aws/speed", "Exists"), f"{AT}.requirements[0].key", 'label domain "karpenter.k8s.aws" is restricted'),
        (requiring("Example.com/a", "Exists"), f"{AT}.requirements[0].key", "should match"),
        (requiring("team", "Between"), f"{AT}.requirements[0].operator", "Unsupported value"),
        (requiring("team", "In"), f"{AT}.requirements[0]", "operator 'In' must have a value defined"),
        (requiring("team", "Gt", "1", "2"), f"{AT}.requirements[0]", "must have a single positive integer value"),
        (requiring("team", "Gte", "-1"), f"{AT}.requirements[0]", "must have a single positive integer value"),
        (requiring("team", "Lt", "a"), f"{AT}.requirements[0]", "must have a single positive integer value"),
        (requiring("team", "In", "a", minValues=2), f"{AT}.requirements[0]", "'minValues' must have at least that many"),
        (requiring("team", "Exists", minValues=51), f"{AT}.requirements[0].minValues", "less than or equal to 50"),
        (requiring("team", "In", "a b"), f"{AT}.requirements[0].values[0]", "should match"),
        (beta_pool(consolidationPolicy="WhenEmpty"), "spec.disruption.consolidateAfter", "must be specified with consolidationPolicy=WhenEmpty"),
        (beta_pool(consolidationPolicy="WhenEmptyOrUnderutilized"), "spec.disruption.consolidationPolicy", "Unsupported value"),
        (node_class(subnetSelectorTerms=[]), "spec.subnetSelectorTerms", "at least 1 items"),
        (node_class(subnetSelectorTerms=[{}]), "spec.subnetSelectorTerms[0]", "expected at least one, got none"),
        (node_class(subnetSelectorTerms=[{"id": "vpc-1"}]), "spec.subnetSelectorTerms[0].id", "should match"),
        (node_class(subnetSelectorTerms=[{"id": "subnet-1", "tags": {"a": "b"}}]), "spec.subnetSelectorTerms[0]", "'id' is mutually exclusive"),
        (node_class(securityGroupSelectorTerms=[{"name": "a", "tags": {"a": "b"}}]), "spec.securityGroupSelectorTerms[0]", "'name' is mutually exclusive"),
        (node_class(securityGroupSelectorTerms=[{"tags": {"a": ""}}]), "spec.securityGroupSelectorTerms[0].tags", "empty tag keys or values"),
        (node_class(amiSelectorTerms=None), "spec.amiSelectorTerms", "Required value"),
        (node_class(amiSelectorTerms=[{"id": "ami-1"}]), "spec.amiSelectorTerms", "must specify amiFamily"),
        (node_class(amiSelectorTerms=[{"owner": "self"}], amiFamily="AL2"), "spec.amiSelectorTerms[0]", "expected at least one, got none"),
        (node_class(amiSelectorTerms=[{"alias": "al2023"}]), "spec.amiSelectorTerms[0].alias", "must match the format 'family@version'"),
        (node_class(amiSelectorTerms=[{"alias": "ubuntu@latest"}]), "spec.amiSelectorTerms[0].alias", "family is not supported"),
        (node_class(amiSelectorTerms=[{"alias": "windows2022@1"}]), "spec.amiSelectorTerms[0].alias", "may only specify version 'latest'"),
        (node_class(amiSelectorTerms=[{"alias": "al2@latest", "name": "x"}]), "spec.amiSelectorTerms[0]", "'alias' is mutually exclusive"),
        (node_class(amiSelectorTerms=[{"alias": "al2@latest"}, {"id": "ami-1"}]), "spec.amiSelectorTerms", "cannot be set with other terms"),
        (node_class(amiFamily="Bottlerocket"), "spec.amiFamily", "must match the family of the alias"),
        (node_class(amiFamily="Ubuntu"), "spec.amiFamily", "Unsupported value"),
        (node_class(instanceProfile="a"), "spec.role", "exactly one of ['role', 'instanceProfile']"),
        (node_class(role=None), "spec.role", "exactly one of ['role', 'instanceProfile']"),
        (node_class(tags={"karpenter.sh/nodepool": "a"}), "spec.tags", "restricted tag matching karpenter.sh/nodepool"),
        (node_class(tags={"kubernetes.io/cluster/demo": "owned"}), "spec.tags", "restricted tag matching kubernetes.io/cluster/"),
        (node_class(tags={"eks:eks-cluster-name": "a"}), "spec.tags", "restricted tag matching eks:eks-cluster-name"),
        (node_class(tags={"": "a"}), "spec.tags", "empty tag keys"),
        (node_class(blockDeviceMappings=[{"rootVolume": True}, {"rootVolume": True}]), "spec.blockDeviceMappings", "only one blockDeviceMappings with rootVolume"),
        (node_class(blockDeviceMappings=[{"ebs": {"encrypted": True}}]), "spec.blockDeviceMappings[0].ebs", "snapshotID or volumeSize must be defined"),
        (node_class(blockDeviceMappings=[{"ebs": {"volumeSize": "59001Gi"}}]), "spec.blockDeviceMappings[0].ebs.volumeSize", "should match"),
        (node_class(blockDeviceMappings=[{"ebs": {"volumeSize": "1Gi", "volumeInitializationRate": 100}}]), "spec.blockDeviceMappings[0].ebs", "snapshotID must be set"),
        (node_class(metadataOptions={"httpPutResponseHopLimit": 65}), "spec.metadataOptions.httpPutResponseHopLimit", "less than or equal to 64"),
        (node_class(networkInterfaces=[{"networkCardIndex": 1, "deviceIndex": 0, "interfaceType": "interface"}]), "spec.networkInterfaces", "must contain the primary interface"),
        (node_class(networkInterfaces=[{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}] * 2), "spec.networkInterfaces[1]", "Duplicate value"),
        (node_class(networkInterfaces=[{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}, *({"networkCardIndex": 1, "deviceIndex": index, "interfaceType": "efa-only"} for index in (1, 2))]), "spec.networkInterfaces", "only one 'efa-only' interface"),
        (node_class(connectionTracking={}), "spec.connectionTracking", "at least 1 properties"),
        (node_class(placementGroupSelector={"name": "a", "id": "pg-1"}), "spec.placementGroupSelector", "exactly one of ['name', 'id']"),
        (node_class(capacityReservationSelectorTerms=[{"ownerID": "123456789012"}]), "spec.capacityReservationSelectorTerms[0]", "expected at least one, got none"),
        (node_class("v1beta1", amiFamily="Custom", amiSelectorTerms=None), "spec.amiFamily", "amiSelectorTerms is required"),
        (overlay(price="1", priceAdjustment="+1"), "spec.price", "cannot set both"),
        (overlay(priceAdjustment="10%"), "spec.priceAdjustment", "should match"),
        (overlay(capacity={"cpu": 1}), "spec.capacity", "invalid resource"),
        (overlay(requirements=[{"key": "karpenter.k8s.aws/instance-tenancy", "operator": "Exists"}]), "spec.requirements[0].key", "is restricted"),
        (overlay(requirements=[{"key": "team", "operator": "NotIn"}]), "spec.requirements[0]", "must have a value defined"),
    ],
)  # fmt: skip
def test_a_bad_field_is_refused_by_name(
    server: ApiServer, bad: Json, field: str, message: str
) -> None:
    refusal = server.refusal(bad)

    assert f"{field}: " in refusal
    assert message in refusal


@pytest.mark.parametrize(
    ("before", "patch", "message"),
    [
        (pool(), '{"spec": {"template": {"spec": {"nodeClassRef": {"kind": "Other"}}}}}', "nodeClassRef.kind is immutable"),
        (pool(), '{"spec": {"template": {"spec": {"nodeClassRef": {"group": "example.com"}}}}}', "nodeClassRef.group is immutable"),
        (pool(), '{"spec": {"replicas": 1}}', "cannot change between static"),
        (pool(replicas=1), '{"spec": {"replicas": null}}', "cannot change between static"),
    ],
)  # fmt: skip
def test_what_may_not_change_is_refused(
    server: ApiServer, before: Json, patch: str, message: str
) -> None:
    server.apply(before)

    text = server.kubectl("patch", "nodepool", "general", "--type=merge", "-p", patch, check=False)

    assert message in text


def test_a_node_claim_cannot_be_changed_in_any_version(server: ApiServer) -> None:
    claim = {**pool(), "kind": "NodeClaim", "metadata": {"name": "a"}}
    claim["spec"] = claim["spec"]["template"]["spec"]
    server.apply(claim)

    for version in ("v1", "v1beta1"):
        text = server.kubectl(
            "patch", f"nodeclaims.{version}.karpenter.sh", "a", "--type=merge",
            "-p", '{"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}', check=False,
        )  # fmt: skip
        assert "spec is immutable" in text


def test_an_unknown_field_is_named_when_strict(server: ApiServer) -> None:
    body = pool(disruption={"consolidateafter": "30s"})

    text = server.kubectl("create", "-f", "-", stdin=yaml.safe_dump(body), check=False)

    assert 'unknown field "spec.disruption.consolidateafter"' in text


# --- What people see ---


def test_explain_reads_like_sentences(server: ApiServer) -> None:
    text = " ".join(server.kubectl("explain", "nodepool.spec").split())

    assert "Which nodes this pool may launch, how many, and when they may be disrupted." in text
    assert "Pools with a higher weight are tried first" in text
    assert "-required-" in text
    policy = server.kubectl("explain", "nodepool.spec.disruption.consolidationPolicy")
    assert "ENUM: Balanced WhenEmpty WhenEmptyOrUnderutilized" in " ".join(policy.split())
    old = server.kubectl(
        "explain", "nodepool.spec.disruption", "--api-version=karpenter.sh/v1beta1"
    )
    assert "WhenUnderutilized" in old


def test_get_shows_the_columns(server: ApiServer) -> None:
    server.kubectl("apply", "-f", "-", stdin=manifest("walkthrough-nodepool.yaml"))
    server.kubectl("apply", "-f", "-", stdin=manifest("walkthrough-ec2nodeclass.yaml"))

    pools = server.kubectl("get", "nodepools").splitlines()
    wide = server.kubectl("get", "nodepools.v1beta1.karpenter.sh", "-o", "wide")
    assert pools[0].split() == ["NAME", "NODECLASS", "NODES", "READY", "AGE"]
    assert pools[1].split()[:2] == ["hello-world", "default"]
    assert wide.split("\n")[0].split()[-3:] == ["WEIGHT", "CPU", "MEMORY"]
    assert "default" in server.kubectl("get", "ec2nc")
    everything = server.kubectl("get", "karpenter")
    assert "nodepool.karpenter.sh/hello-world" in everything
    assert "ec2nodeclass.karpenter.k8s.aws/default" in everything


def test_a_static_pool_can_be_scaled(server: ApiServer) -> None:
    server.apply(pool(replicas=1))

    server.kubectl("scale", "nodepool", "general", "--replicas=4")

    assert server.get("nodepools.v1.karpenter.sh", "general")["spec"]["replicas"] == 4
