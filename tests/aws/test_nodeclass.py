"""The EC2NodeClass reconciler: what its status says, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
from nodewright_controller.api.ec2nodeclass import (
    AMISelectorTerm,
    EC2NodeClass,
    EC2NodeClassStatus,
    PlacementGroupSelector,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from nodewright_controller.api.labels import EC2_NODE_CLASS_FINALIZER
from nodewright_controller.api.meta import Condition, condition
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.error_codes import UNREACHABLE, AwsError
from nodewright_controller.aws.nodeclass import NodeClassReconciler
from nodewright_controller.aws.nodeclass_hash import HASH_VERSION, node_class_hash

from tests.aws.world import World, node_claim, node_class, options
from tests.fakes.harness import FakeRecorder
from tests.fakes.kube import FakeKube


class Site:
    """A reconciler over a fake API server and fake AWS, with one node class that is not resolved."""

    def __init__(self, made: EC2NodeClass | None = None, **more_options: Any) -> None:
        self.world = World(more_options=more_options)
        self.kube = FakeKube(self.world.clock.now)
        self.recorder = FakeRecorder()
        made = made or node_class()
        made.status = EC2NodeClassStatus()
        self.kube.add(made)
        self.reconciler = NodeClassReconciler(
            self.world.provider,
            self.kube,
            self.recorder,
            self.world.clock,
            node_classes=self.kube.store(EC2NodeClass),
            node_claims=self.kube.store(NodeClaim),
        )

    @property
    def node_class(self) -> EC2NodeClass:
        found = self.kube.store(EC2NodeClass).get("default")
        assert found is not None
        return found

    def condition(self, type_: str) -> Condition:
        found = condition(self.node_class.status.conditions, type_)
        assert found is not None
        return found

    async def look(self) -> float | None:
        return (await self.reconciler.reconcile("default")).requeue_after


async def test_a_node_class_that_finds_everything_is_ready() -> None:
    site = Site()

    requeue = await site.look()

    status = site.node_class.status
    assert {subnet.id for subnet in status.subnets or ()} == {"subnet-a", "subnet-b", "subnet-c"}
    assert [group.id for group in status.security_groups or ()] == ["sg-1"]
    assert {ami.id for ami in status.amis or ()} == {"ami-x86", "ami-arm", "ami-gpu"}
    assert list(site.world.aws.iam.profiles) == [status.instance_profile]
    assert site.condition("Ready").status == "True"
    assert site.condition("Ready").observed_generation == 1
    assert requeue == 60


async def test_a_second_look_writes_nothing() -> None:
    site = Site()
    await site.look()
    version = site.node_class.metadata.resource_version
    site.world.aws.ec2.subnets[0]["AvailableIpAddressCount"] = 500  # only the order changes

    site.world.clock.move(minutes=5)
    await site.look()

    assert site.node_class.metadata.resource_version == version


async def test_the_profile_has_path_role_and_tags() -> None:
    site = Site()

    await site.look()

    (profile,) = site.world.aws.iam.profiles.values()
    uid = site.node_class.uid
    assert profile["Path"] == f"/karpenter/us-west-2/demo/{uid}/"
    assert profile["Roles"] == [{"RoleName": "KarpenterNodeRole-demo"}]
    tags = {tag["Key"]: tag["Value"] for tag in profile["Tags"]}
    assert tags["kubernetes.io/cluster/demo"] == "owned"
    assert tags["topology.kubernetes.io/region"] == "us-west-2"
    assert tags["karpenter.k8s.aws/ec2nodeclass"] == "default"


async def test_finalizer_and_hash_are_stamped() -> None:
    site = Site()

    await site.look()

    assert EC2_NODE_CLASS_FINALIZER in site.node_class.finalizers
    annotations = site.node_class.annotations
    assert annotations["karpenter.k8s.aws/ec2nodeclass-hash-version"] == HASH_VERSION
    assert annotations["karpenter.k8s.aws/ec2nodeclass-hash"] == node_class_hash(
        site.node_class, options()
    )


async def test_claims_of_another_hash_version_are_stamped_anew_instead_of_drifting() -> None:
    site = Site()
    stamps = {
        "karpenter.k8s.aws/ec2nodeclass-hash": "1",
        "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6",
    }
    for name, conditions in (
        ("sound", []),
        ("drifted", [Condition(type="Drifted", status="True")]),
    ):
        claim = node_claim(name)
        claim.metadata.annotations = dict(stamps)
        claim.status.conditions = conditions
        site.kube.add(claim)

    await site.look()

    sound, drifted = (site.kube.store(NodeClaim).get(name) for name in ("sound", "drifted"))
    assert sound is not None
    assert drifted is not None
    now = site.node_class.annotations["karpenter.k8s.aws/ec2nodeclass-hash"]
    assert sound.annotations["karpenter.k8s.aws/ec2nodeclass-hash"] == now
    assert drifted.annotations["karpenter.k8s.aws/ec2nodeclass-hash"] == "1"
    for claim in (sound, drifted):
        version = claim.annotations["karpenter.k8s.aws/ec2nodeclass-hash-version"]
        assert version == HASH_VERSION


@pytest.mark.parametrize(
    ("spec", "type_", "reason"),
    [
        (
            {"subnet_selector_terms": [SubnetSelectorTerm(id="subnet-x")]},
            "SubnetsReady",
            "SubnetsNotFound",
        ),
        (
            {"security_group_selector_terms": [SecurityGroupSelectorTerm(name="none")]},
            "SecurityGroupsReady",
            "SecurityGroupsNotFound",
        ),
        (
            {
                "ami_family": "AL2023",
                "ami_selector_terms": [AMISelectorTerm(id="ami-none")],
            },
            "AMIsReady",
            "AMINotFound",
        ),
        (
            {"ami_selector_terms": [AMISelectorTerm(alias="al2@latest")]},
            "AMIsReady",
            "UnsupportedAlias",
        ),
        (
            {"placement_group_selector": PlacementGroupSelector(name="p")},
            "PlacementGroupReady",
            "PlacementGroupResolutionFailed",
        ),
    ],
)
async def test_what_is_not_found_is_a_condition_and_holds_validation_back(
    spec: dict[str, Any], type_: str, reason: str
) -> None:
    site = Site(node_class(**spec))

    await site.look()

    assert (site.condition(type_).status, site.condition(type_).reason) == ("False", reason)
    assert site.condition("ValidationSucceeded").reason == "DependenciesNotReady"
    assert site.condition("Ready").status == "False"


async def test_a_wrong_kubelet_field_is_told() -> None:
    site = Site(node_class(kubelet={"maxPods": -1}))

    await site.look()

    assert site.condition("ValidationSucceeded").reason == "InvalidKubeletConfiguration"


async def test_a_reserved_tag_is_told() -> None:
    site = Site(node_class(tags={"karpenter.sh/nodepool": "mine"}))

    await site.look()

    assert site.condition("ValidationSucceeded").reason == "TagValidationFailed"


async def test_missing_permissions_show_before_the_first_launch() -> None:
    site = Site()
    site.world.aws.ec2.refuse["run_instances"] = AwsError(
        "UnauthorizedOperation", "no RunInstances"
    )

    await site.look()

    found = site.condition("ValidationSucceeded")
    assert found.reason == "RunInstancesAuthCheckFailed"
    assert "no RunInstances" in found.message


async def test_dry_runs_can_be_switched_off() -> None:
    site = Site(disable_dry_run=True)

    await site.look()

    assert site.condition("Ready").status == "True"
    assert site.world.aws.ec2.requests("create_fleet") == []
    assert site.world.aws.ec2.requests("create_launch_template") == []


async def test_too_much_user_data_is_told() -> None:
    site = Site(node_class(user_data="#!/bin/bash\n" + "#" * 16384))

    await site.look()

    assert site.condition("ValidationSucceeded").reason == "UserDataSizeLimitExceeded"


async def test_an_aws_that_does_not_answer_makes_nothing_unready() -> None:
    site = Site()
    await site.look()
    site.world.clock.move(minutes=20)
    for service in (site.world.aws.ec2, site.world.aws.iam, site.world.aws.ssm):
        for operation in (
            "describe_subnets",
            "describe_security_groups",
            "describe_images",
            "get_instance_profile",
        ):
            service.refuse[operation] = AwsError(UNREACHABLE, "timed out")

    with pytest.raises(AwsError, match="timed out"):
        await site.look()

    assert site.condition("Ready").status == "True"
    assert len(site.node_class.status.subnets or ()) == 3


async def test_a_role_that_does_not_exist_is_told() -> None:
    site = Site()
    site.world.aws.iam.refuse["add_role_to_instance_profile"] = AwsError(
        "NoSuchEntity", "The role cannot be found"
    )

    with pytest.raises(AwsError):
        await site.look()

    found = site.condition("InstanceProfileReady")
    assert found.status == "Unknown"
    assert "role cannot be found" in found.message


async def test_a_given_instance_profile_is_used_as_it_is() -> None:
    site = Site(node_class(role=None, instance_profile="mine"))

    await site.look()

    assert site.node_class.status.instance_profile == "mine"
    assert site.world.aws.iam.calls == []


async def test_deletion_waits_for_node_claims_and_then_leaves_nothing() -> None:
    site = Site()
    await site.look()
    await site.world.provider.create(node_claim())
    site.kube.add(node_claim())
    await site.kube.delete(EC2NodeClass, "default")

    requeue = await site.look()
    assert requeue
    assert site.recorder.reasons() == ["WaitingOnNodeClaimTermination"]
    assert site.world.aws.ec2.templates
    await site.kube.delete(NodeClaim, "claim-1")
    await site.look()

    assert site.kube.store(EC2NodeClass).get("default") is None
    assert site.world.aws.ec2.templates == {}
    assert site.world.aws.iam.profiles == {}


async def test_deletion_can_be_repeated_after_a_lost_answer() -> None:
    site = Site()
    await site.look()
    await site.kube.delete(EC2NodeClass, "default")
    site.world.aws.iam.refuse["delete_instance_profile"] = AwsError(UNREACHABLE, "timed out")
    with pytest.raises(AwsError):
        await site.look()
    del site.world.aws.iam.refuse["delete_instance_profile"]

    await site.look()

    assert site.kube.store(EC2NodeClass).get("default") is None


def test_the_hash_counts_what_makes_a_different_node() -> None:
    base = node_class_hash(node_class(), options())

    def changed(**spec: Any) -> bool:
        return node_class_hash(node_class(**spec), options()) != base

    assert changed(user_data="x")
    assert changed(role="Other")
    assert changed(tags={"a": "b"})
    assert changed(kubelet={"maxPods": 3})
    assert changed(detailed_monitoring=True)
    assert not changed(ami_family="AL2023")
    assert not changed(detailed_monitoring=False, tags={}, kubelet={})
    assert not changed(ip_prefix_count=3)
    assert not changed(subnet_selector_terms=[SubnetSelectorTerm(id="subnet-1")])
    assert node_class_hash(node_class(), options(cluster_ca_bundle="Tkg=")) != base
