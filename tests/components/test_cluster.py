"""What a Cluster consists of, and in which order."""

import json
from typing import Any

import pytest
from nodewright.cluster import Cluster
from nodewright.validation import InvalidArgumentError

from tests.components import arguments
from tests.components.conftest import Build
from tests.components.recorder import Recorder, value

CLUSTER = "aws:eks/cluster:Cluster"
NODES = "aws:eks/nodeGroup:NodeGroup"
ADDON = "aws:eks/addon:Addon"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"


def test_access_is_by_entries_and_the_creator_is_admin(engine: Recorder, build: Build) -> None:
    build(lambda: Cluster("eks", arguments.cluster()))

    assert engine.only(CLUSTER).inputs["accessConfig"] == {
        "authenticationMode": "API",
        "bootstrapClusterCreatorAdminPermissions": True,
    }


def test_by_default_only_the_vpc_reaches_the_api(engine: Recorder, build: Build) -> None:
    build(lambda: Cluster("eks", arguments.cluster()))

    config = engine.only(CLUSTER).inputs["vpcConfig"]
    assert config["endpointPrivateAccess"]
    assert not config["endpointPublicAccess"]


def test_exactly_one_security_group_carries_the_discovery_tag(
    engine: Recorder, build: Build
) -> None:
    build(lambda: Cluster("eks", arguments.cluster()))

    tagged = [
        resource
        for resource in engine.resources
        if "karpenter.sh/discovery" in resource.inputs.get("tags", {})
    ]
    assert [resource.name for resource in tagged] == ["eks-nodes"]
    assert tagged[0].inputs["tags"]["karpenter.sh/discovery"] == "demo"


@pytest.mark.parametrize("port", [443, 8443, 10250])
def test_the_control_plane_reaches_kubelets_and_webhooks(
    engine: Recorder, build: Build, port: int
) -> None:
    build(lambda: Cluster("eks", arguments.cluster(open_core_nodes=False)))

    rules = [
        rule.inputs
        for rule in engine.of_type(INGRESS)
        if rule.inputs["securityGroupId"] == "eks-nodes-id" and rule.inputs.get("toPort") == port
    ]
    assert [rule["referencedSecurityGroupId"] for rule in rules] == ["sg-cluster"]


def test_closed_core_nodes_let_only_dns_and_the_api_in(engine: Recorder, build: Build) -> None:
    build(lambda: Cluster("eks", arguments.cluster(open_core_nodes=False)))

    into_cluster = {
        (rule.inputs["ipProtocol"], rule.inputs.get("fromPort"))
        for rule in engine.of_type(INGRESS)
        if rule.inputs["securityGroupId"] == "sg-cluster"
    }
    assert {("tcp", 443), ("tcp", 53), ("udp", 53)} == into_cluster


def test_the_core_nodes_are_labelled_and_kept_for_the_controller(
    engine: Recorder, build: Build
) -> None:
    build(lambda: Cluster("eks", arguments.cluster()))

    nodes = engine.only(NODES).inputs
    assert nodes["labels"] == {"karpenter.sh/controller": "true"}
    assert nodes["taints"] == [
        {"key": "CriticalAddonsOnly", "value": "true", "effect": "NO_SCHEDULE"}
    ]
    assert nodes["scalingConfig"] == {"desiredSize": 2, "minSize": 2, "maxSize": 3}


def test_nodes_start_after_their_network_and_identity_addons_and_dns_after_them(
    engine: Recorder, build: Build
) -> None:
    build(lambda: Cluster("eks", arguments.cluster()))

    nodes = engine.only(NODES)
    for addon in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent"):
        assert engine.comes_after(nodes, engine.named(ADDON, f"eks-{addon}"))
    assert engine.comes_after(engine.named(ADDON, "eks-coredns"), nodes)


def test_the_cluster_keeps_its_role_until_it_is_gone(engine: Recorder, build: Build) -> None:
    build(lambda: Cluster("eks", arguments.cluster()))

    attachment = engine.named(
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        "eks-control-plane-AmazonEKSClusterPolicy",
    )
    assert engine.comes_after(engine.only(CLUSTER), attachment)


def test_the_kubeconfig_asks_aws_for_a_token_and_holds_none(engine: Recorder, build: Build) -> None:
    cluster = build(lambda: Cluster("eks", arguments.cluster()))

    config = json.loads(value(cluster.kubeconfig))
    assert config["clusters"][0]["cluster"] == {
        "server": "https://api.eks.example",
        "certificate-authority-data": "Q0E=",
    }
    command = config["users"][0]["user"]["exec"]
    assert command["apiVersion"] == "client.authentication.k8s.io/v1beta1"
    assert (
        " ".join([command["command"], *command["args"]])
        == "aws eks get-token --cluster-name demo --region us-west-2 --output json"
    )


def test_logs_go_to_a_group_that_the_stack_owns(engine: Recorder, build: Build) -> None:
    build(lambda: Cluster("eks", arguments.cluster(log_types=["audit"], log_retention_days=7)))

    logs = engine.only("aws:cloudwatch/logGroup:LogGroup")
    assert logs.inputs == {"name": "/aws/eks/demo/cluster", "retentionInDays": 7}
    assert engine.comes_after(engine.only(CLUSTER), logs)


def test_a_cluster_without_logs_makes_no_group(engine: Recorder, build: Build) -> None:
    cluster = build(lambda: Cluster("eks", arguments.cluster(log_types=[])))

    assert cluster.log_group_name is None
    assert engine.of_type("aws:cloudwatch/logGroup:LogGroup") == []


def test_secrets_are_encrypted_with_a_rotating_key_when_asked(
    engine: Recorder, build: Build
) -> None:
    build(lambda: Cluster("eks", arguments.cluster(encrypt_secrets=True)))

    key = engine.only("aws:kms/key:Key")
    assert key.inputs["enableKeyRotation"]
    encryption = engine.only(CLUSTER).inputs["encryptionConfig"]
    assert encryption == {
        "resources": ["secrets"],
        "provider": {"keyArn": "arn:aws:kms:us-west-2:123456789012:eks-secrets"},
    }


def test_further_admins_get_an_entry_and_the_admin_policy(engine: Recorder, build: Build) -> None:
    arn = "arn:aws:iam::123456789012:role/ops"
    build(lambda: Cluster("eks", arguments.cluster(admins={"ops": arn})))

    policy = engine.only("aws:eks/accessPolicyAssociation:AccessPolicyAssociation").inputs
    assert arn == policy["principalArn"]
    assert (
        policy["policyArn"] == "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    )


def test_on_fargate_the_controller_and_dns_run_without_nodes(
    engine: Recorder, build: Build
) -> None:
    cluster = build(lambda: Cluster("eks", arguments.cluster(compute="fargate")))

    profile = engine.only("aws:eks/fargateProfile:FargateProfile")
    assert [s["namespace"] for s in profile.inputs["selectors"]] == ["karpenter", "kube-system"]
    assert engine.of_type(NODES) == []
    assert cluster.oidc_provider_arn is not None
    dns = engine.named(ADDON, "eks-coredns").inputs
    assert json.loads(dns["configurationValues"]) == {"computeType": "Fargate"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"cluster_name": "c" * 50}, "cluster_name .* 46 are allowed"),
        ({"vpc_id": None}, "vpc_id is missing"),
        ({"kubernetes_version": "1.4.2"}, "kubernetes_version is '1.4.2'; write it like 1.36"),
        ({"endpoint_public_access": True}, "public_access_cidrs is empty while .* is on"),
        ({"endpoint_private_access": False}, "endpoint_private_access is off and so is"),
        ({"public_access_cidrs": ["203.0.113.0/24"]}, "public_access_cidrs is given while .* off"),
        (
            {"endpoint_public_access": True, "public_access_cidrs": ["203.0.113.7/24"]},
            "public_access_cidrs holds '203.0.113.7/24'",
        ),
        ({"log_types": ["audits"]}, "log_types is 'audits'; use one of: api"),
        ({"compute": "lambda"}, "compute is 'lambda'; use one of: managed-node-group, fargate"),
        ({"compute": "fargate", "core_nodes": {}}, "core_nodes is given with compute `fargate`"),
        ({"core_nodes": {"count": 0}}, "core_nodes.count is 0"),
        ({"core_nodes": {"count": 4, "max_count": 3}}, "core_nodes.max_count is 3"),
        ({"core_nodes": {"instance_types": []}}, "core_nodes.instance_types is empty"),
        ({"encrypt_secrets": True, "secrets_key_arn": "arn"}, "secrets_key_arn is given beside"),
        (
            {"addons": {"coredns": {"configuration": "{"}}},
            r"addons\[coredns\].configuration is not",
        ),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_made(
    engine: Recorder, build: Build, args: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"Cluster 'eks': {message}"):
        build(lambda: Cluster("eks", arguments.cluster(**args)))
    assert engine.resources == []
