"""The Autoscaler as a whole: parts, wiring, and the order of creation and removal."""

import json
from typing import Any

import pytest
from nodewright.autoscaler import Autoscaler
from nodewright.controller_role import ControllerRole
from nodewright.interruption_queue import InterruptionQueue
from nodewright.node_role import NodeRole
from nodewright.validation import InvalidArgumentError

from tests.components import arguments
from tests.components.conftest import Build
from tests.components.recorder import Recorder, value

ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
POOL = "kubernetes:karpenter.sh/v1:NodePool"
CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"


def whole(**more: Any) -> Any:
    node_class = arguments.node_class()
    del node_class["role"]
    return arguments.autoscaler(
        node_classes=[node_class], node_pools=[arguments.node_pool()], **more
    )


def test_pools_go_before_the_controller_and_the_controller_before_the_rest(
    engine: Recorder, build: Build
) -> None:
    build(lambda: Autoscaler("auto", whole()))

    pool, node_class = engine.only(POOL), engine.only(CLASS)
    deployment = engine.only(DEPLOYMENT)
    assert engine.comes_after(pool, node_class)
    assert engine.comes_after(node_class, deployment)
    for earlier in (
        *engine.of_type(CRD),
        *engine.of_type(ATTACHMENT),
        engine.only("aws:eks/podIdentityAssociation:PodIdentityAssociation"),
        engine.only("aws:eks/accessEntry:AccessEntry"),
        engine.only("aws:sqs/queuePolicy:QueuePolicy"),
        *engine.of_type("aws:cloudwatch/eventTarget:EventTarget"),
    ):
        assert engine.comes_after(deployment, earlier)
        assert not engine.comes_after(earlier, deployment)


def test_permissions_of_the_controller_outlive_it_and_its_nodes(
    engine: Recorder, build: Build
) -> None:
    build(lambda: Autoscaler("auto", whole()))

    bindings = engine.of_type("kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding")
    assert all(engine.comes_after(engine.only(POOL), binding) for binding in bindings)


def test_everything_in_kubernetes_uses_the_provider_of_this_cluster(
    engine: Recorder, build: Build
) -> None:
    build(lambda: Autoscaler("auto", whole()))

    provider = engine.only("pulumi:providers:kubernetes")
    config = json.loads(provider.inputs["kubeconfig"])
    objects = [r for r in engine.resources if r.type.startswith("kubernetes:")]
    assert config["clusters"][0]["cluster"]["server"] == "https://api.eks.example"
    assert provider.inputs["enableServerSideApply"] == "true"
    assert {provider.urn} == {r.provider.rpartition("::")[0] for r in objects}


def test_a_given_kubeconfig_is_used_as_it_is(engine: Recorder, build: Build) -> None:
    build(lambda: Autoscaler("auto", arguments.autoscaler(kubeconfig="{}")))

    assert engine.only("pulumi:providers:kubernetes").inputs["kubeconfig"] == "{}"


def test_a_class_without_identity_gets_the_node_role(engine: Recorder, build: Build) -> None:
    build(lambda: Autoscaler("auto", whole()))

    assert engine.only(CLASS).inputs["spec"]["role"] == "KarpenterNodeRole-demo"


def test_the_controller_learns_cluster_and_queue(engine: Recorder, build: Build) -> None:
    build(lambda: Autoscaler("auto", whole()))

    container = engine.only(DEPLOYMENT).inputs["spec"]["template"]["spec"]["containers"][0]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert variables["CLUSTER_NAME"] == "demo"
    assert variables["CLUSTER_ENDPOINT"] == "https://api.eks.example"
    assert variables["INTERRUPTION_QUEUE"] == "demo"


def test_the_outputs_are_what_node_classes_and_people_need(build: Build) -> None:
    auto = build(lambda: Autoscaler("auto", whole()))

    assert value(auto.node_role_name) == "KarpenterNodeRole-demo"
    assert value(auto.discovery_tag) == {"karpenter.sh/discovery": "demo"}
    assert value(auto.namespace) == "karpenter"
    assert value(auto.node_pool_names) == ["general"]


def test_definitions_owned_by_someone_else_are_left_alone(engine: Recorder, build: Build) -> None:
    build(lambda: Autoscaler("auto", whole(install_crds=False)))

    assert engine.of_type(CRD) == []


def test_with_irsa_the_role_trusts_the_service_account(engine: Recorder, build: Build) -> None:
    build(
        lambda: Autoscaler(
            "auto",
            whole(identity="irsa", oidc_provider_arn="arn:p", oidc_issuer="https://oidc.example"),
        )
    )

    role = engine.named("aws:iam/role:Role", "auto-controller-role")
    trust = json.loads(role.inputs["assumeRolePolicy"])["Statement"][0]
    account = engine.only("kubernetes:core/v1:ServiceAccount").inputs["metadata"]
    assert trust["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert (
        trust["Condition"]["StringEquals"]["oidc.example:sub"]
        == "system:serviceaccount:karpenter:karpenter"
    )
    assert engine.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation") == []
    assert "arn:aws:iam::123456789012:role/demo-karpenter" in account["annotations"].values()


def test_the_node_role_may_join_pull_and_be_reached(engine: Recorder, build: Build) -> None:
    build(lambda: NodeRole("nodes", {"cluster_name": "demo"}))

    role = engine.only("aws:iam/role:Role")
    assert role.inputs["name"] == "KarpenterNodeRole-demo"
    assert {
        "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
        "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy",
        "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly",
        "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore",
    } == {attachment.inputs["policyArn"] for attachment in engine.of_type(ATTACHMENT)}
    assert engine.only("aws:eks/accessEntry:AccessEntry").inputs["type"] == "EC2_LINUX"


def test_the_queue_forgets_after_five_minutes_and_encrypts(engine: Recorder, build: Build) -> None:
    build(lambda: InterruptionQueue("queue", {"cluster_name": "demo"}))

    assert engine.only("aws:sqs/queue:Queue").inputs == {
        "name": "demo",
        "messageRetentionSeconds": 300,
        "sqsManagedSseEnabled": True,
    }
    targets = engine.of_type("aws:cloudwatch/eventTarget:EventTarget")
    assert [t.inputs["targetId"] for t in targets] == ["KarpenterInterruptionQueueTarget"] * 5


def test_each_policy_of_the_controller_is_attached(engine: Recorder, build: Build) -> None:
    extra = {"Effect": "Allow", "Action": "kms:Decrypt", "Resource": "arn:aws:kms:::key/1"}
    build(lambda: ControllerRole("ctl", arguments.controller_role(extra_statements=[extra])))

    policies = engine.of_type("aws:iam/policy:Policy")
    assert len(policies) == 7
    assert len(engine.of_type(ATTACHMENT)) == 7
    last = engine.named("aws:iam/policy:Policy", "ctl-extra")
    assert [extra] == json.loads(last.inputs["policy"])["Statement"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"cluster_name": "c" * 47}, "Autoscaler 'auto': cluster_name"),
        ({"certificate_authority": None}, "'auto': certificate_authority is missing; give it, or"),
        ({"identity": "key"}, "identity is 'key'; use one of: pod-identity, irsa"),
        ({"identity": "irsa"}, "oidc_provider_arn is missing; identity `irsa` needs it"),
        ({"replicas": 99}, "replicas is 99"),
        ({"webhook_url": "127.0.0.1"}, "webhook_url is '127.0.0.1'"),
        ({"node_pools": [{"template": {}}]}, r"node_pools\[0\].name is missing; give each"),
        (
            {"node_pools": [arguments.node_pool(), arguments.node_pool()]},
            "node_pools names 'general' twice",
        ),
        ({"node_pools": [arguments.node_pool(weight=0)]}, "NodePool 'general': weight is 0"),
        (
            {"node_classes": [arguments.node_class(subnet_selector_terms=[])]},
            "EC2NodeClass 'default': subnet_selector_terms is empty",
        ),
        ({"extra_statements": [{"Effect": "Allow"}]}, r"extra_statements\[0\] lacks"),
    ],
)
def test_a_mistake_in_any_part_is_refused_before_anything_is_made(
    engine: Recorder, build: Build, args: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        build(lambda: Autoscaler("auto", arguments.autoscaler(**args)))
    assert engine.resources == []
