"""The cloud port on EC2: deleting, reading, listing, instance types and drift."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime

import pytest
from nodewright_controller.api.conversion import KUBELET
from nodewright_controller.aws.error_codes import UNREACHABLE, AwsError
from nodewright_controller.aws.nodeclass_hash import HASH_VERSION
from nodewright_controller.ports.errors import CloudError, NodeClaimNotFound, NodeClassNotReady

from tests.aws.world import START, World, node_claim, node_pool


async def launched(world: World, name: str = "claim-1"):  # type: ignore[no-untyped-def]
    claim = node_claim(name)
    answer = await world.provider.create(claim)
    claim.status.provider_id = answer.provider_id
    claim.status.image_id = answer.image_id
    claim.metadata.labels = {**claim.labels, **answer.labels}
    claim.metadata.annotations = dict(answer.annotations)
    return claim


async def test_delete_asks_once_and_then_waits_until_the_instance_is_gone() -> None:
    world = World()
    claim = await launched(world)

    await world.provider.delete(claim)
    await world.provider.delete(claim)
    (instance,) = world.aws.ec2.instances.values()
    instance["State"]["Name"] = "terminated"

    with pytest.raises(NodeClaimNotFound):
        await world.provider.delete(claim)
    assert len(world.aws.ec2.requests("terminate_instances")) == 1


async def test_an_unknown_instance_is_not_found() -> None:
    world = World()
    claim = node_claim()
    claim.status.provider_id = "aws:///us-west-2a/i-0"

    with pytest.raises(NodeClaimNotFound, match="i-0 does not exist"):
        await world.provider.delete(claim)
    with pytest.raises(NodeClaimNotFound, match="no provider ID of AWS"):
        await world.provider.get("kwok://node-1")


async def test_a_claim_without_provider_id_is_found_by_its_tag() -> None:
    world = World()
    await world.provider.create(node_claim("lost"))

    await world.provider.delete(node_claim("lost"))

    assert world.instance_ids() == []
    with pytest.raises(NodeClaimNotFound, match="has no instance"):
        await world.provider.delete(node_claim("lost"))


async def test_reads_of_one_moment_are_one_call() -> None:
    world = World()
    claims = [await launched(world, f"claim-{number}") for number in range(5)]

    found = await asyncio.gather(
        *(world.provider.get(claim.status.provider_id) for claim in claims)
    )

    assert [each.node_claim for each in found] == [claim.name for claim in claims]
    assert len(world.aws.ec2.requests("describe_instances")) == 1


async def test_one_bad_id_does_not_keep_the_others_alive() -> None:
    world = World()
    claims = [await launched(world, f"claim-{number}") for number in range(2)]
    gone = claims[0].status.provider_id.rpartition("/")[2]
    del world.aws.ec2.instances[gone]
    kept = claims[1].status.provider_id.rpartition("/")[2]

    outcomes = await asyncio.gather(
        world.provider.instances.terminate(gone),
        world.provider.instances.terminate(kept),
        return_exceptions=True,
    )

    assert isinstance(outcomes[0], NodeClaimNotFound)
    assert outcomes[1] is None
    assert world.aws.ec2.instances[kept]["State"]["Name"] == "shutting-down"


async def test_list_knows_this_cluster_only() -> None:
    world = World()
    await launched(world)
    await launched(world, "claim-2")
    other = next(iter(world.aws.ec2.instances.values()))
    other["Tags"] = [tag for tag in other["Tags"] if tag["Key"] != "eks:eks-cluster-name"]

    found = await world.provider.list()

    assert [each.node_claim for each in found] == ["claim-2"]
    assert found[0].launch_time == START
    assert found[0].subnet_id.startswith("subnet-")


async def test_aws_that_does_not_answer_is_a_cloud_error() -> None:
    world = World()
    world.aws.ec2.refuse["describe_instances"] = AwsError(UNREACHABLE, "timed out")

    with pytest.raises(CloudError, match="timed out"):
        await world.provider.list()


async def test_instance_types_need_a_ready_node_class() -> None:
    world = World()

    types = await world.provider.instance_types(node_pool())
    world.node_classes["default"].metadata.deletion_timestamp = datetime(2026, 1, 2, tzinfo=UTC)

    assert [each.name for each in types] == sorted(
        each["InstanceType"] for each in world.aws.ec2.types
    )
    with pytest.raises(NodeClassNotReady, match="being deleted"):
        await world.provider.instance_types(node_pool())
    with pytest.raises(NodeClassNotReady, match="other does not exist"):
        await world.provider.instance_types(node_pool("other"))


async def test_a_fresh_instance_has_not_drifted() -> None:
    world = World()
    claim = await launched(world)

    assert await world.provider.is_drifted(claim) == ""


async def test_an_image_that_is_no_longer_selected_is_drift() -> None:
    world = World()
    claim = await launched(world)
    amis = world.node_classes["default"].status.amis or []
    amis[0].id = "ami-newer"

    assert await world.provider.is_drifted(claim) == "AMIDrift"


async def test_security_groups_and_subnets_drift() -> None:
    world = World()
    claim = await launched(world)
    status = world.node_classes["default"].status
    assert status.security_groups
    assert status.subnets

    status.security_groups[0].id = "sg-2"
    assert await world.provider.is_drifted(claim) == "SecurityGroupDrift"
    status.security_groups[0].id = "sg-1"
    for subnet in status.subnets:
        subnet.id += "-new"
    assert await world.provider.is_drifted(claim) == "SubnetDrift"


async def test_a_changed_hash_is_drift_only_within_one_version() -> None:
    world = World()
    claim = await launched(world)
    stamps = {
        "karpenter.k8s.aws/ec2nodeclass-hash": "1",
        "karpenter.k8s.aws/ec2nodeclass-hash-version": HASH_VERSION,
    }
    world.node_classes["default"].metadata.annotations = stamps

    assert await world.provider.is_drifted(claim) == "NodeClassDrift"
    stamps["karpenter.k8s.aws/ec2nodeclass-hash-version"] = "v6"
    assert await world.provider.is_drifted(claim) == ""


async def test_standalone_claims_never_drift() -> None:
    world = World()
    claim = await launched(world)
    claim.metadata.labels = {}
    world.node_classes["default"].status.amis = []

    assert await world.provider.is_drifted(claim) == ""


async def test_kubelet_settings_of_an_old_nodepool_shape_its_types_and_its_nodes() -> None:
    """The annotation that conversion leaves behind takes the place of the class's kubelet."""
    world = World()
    pool, claim = node_pool(), node_claim("claim-1")
    pool.metadata.annotations = {KUBELET: '{"maxPods": 17}'}
    claim.metadata.annotations = {KUBELET: '{"maxPods": 17}'}

    types = await world.provider.instance_types(pool)
    await world.provider.create(claim)

    assert {each.capacity["pods"] for each in types} == {17}
    (request,) = world.aws.ec2.requests("create_launch_template")
    user_data = base64.b64decode(request["LaunchTemplateData"]["UserData"]).decode()
    assert "maxPods: 17" in user_data
