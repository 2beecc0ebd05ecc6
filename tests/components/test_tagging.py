"""Stack-wide tags and protection."""

import pulumi
import pytest
from nodewright import protection, tagging

from tests.components.conftest import Build
from tests.components.recorder import Recorder, value


@pytest.mark.parametrize(
    "token",
    [
        "aws:ec2/vpc:Vpc",
        "aws:ec2/subnet:Subnet",
        "aws:eks/cluster:Cluster",
        "aws:eks/nodeGroup:NodeGroup",
        "aws:iam/role:Role",
        "aws:iam/policy:Policy",
        "aws:sqs/queue:Queue",
        "aws:cloudwatch/eventRule:EventRule",
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    ],
)
def test_resources_that_take_tags_are_known(token: str) -> None:
    assert tagging.is_taggable(token)


@pytest.mark.parametrize(
    "token",
    [
        "aws:ec2/route:Route",
        "aws:ec2/tag:Tag",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        "aws:sqs/queuePolicy:QueuePolicy",
        "aws:nowhere/thing:Thing",
        "kubernetes:core/v1:Service",
        "nodewright:index:Network",
        "pulumi:pulumi:Stack",
    ],
)
def test_all_others_are_left_alone(token: str) -> None:
    assert not tagging.is_taggable(token)
    assert tagging.with_tags(token, {"a": 1}, {"team": "x"}) == {"a": 1}


def test_a_resources_own_tags_win() -> None:
    props = {"tags": {"Name": "own", "team": "own"}}
    tagged = tagging.with_tags("aws:ec2/vpc:Vpc", props, {"team": "stack", "cost": "7"})

    assert tagged["tags"] == {"Name": "own", "team": "own", "cost": "7"}


def test_tags_that_are_not_known_yet_are_merged_later(build: Build) -> None:
    def program() -> pulumi.Output[dict[str, str]]:
        props = {"tags": pulumi.Output.from_input({"Name": "own"})}
        merged: pulumi.Output[dict[str, str]] = tagging.with_tags(
            "aws:ec2/vpc:Vpc", props, {"cost": "7"}
        )["tags"]
        return merged

    assert value(build(program)) == {"Name": "own", "cost": "7"}


@pytest.mark.parametrize(
    "key", ["karpenter.sh/discovery", "kubernetes.io/cluster/demo", "aws:x", "eks:y", ""]
)
def test_tags_that_select_resources_are_refused(key: str) -> None:
    with pytest.raises(tagging.ReservedTagError, match="can't be put on every resource"):
        tagging.register({key: "demo"})


def test_too_many_tags_are_refused() -> None:
    with pytest.raises(
        tagging.ReservedTagError, match="41 stack tags are too many; use at most 40"
    ):
        tagging.check_tags({f"key{number}": "" for number in range(41)})


def test_only_what_cannot_be_made_again_is_protected() -> None:
    def outcome(token: str) -> bool:
        args = pulumi.ResourceTransformArgs(
            custom=True, type_=token, name="x", props={}, opts=pulumi.ResourceOptions()
        )
        result = protection.protect(args)
        return result is not None and bool(result.opts.protect)

    assert outcome("aws:ec2/vpc:Vpc")
    assert outcome("aws:eks/cluster:Cluster")
    assert outcome("aws:kms/key:Key")
    assert not outcome("aws:eks/nodeGroup:NodeGroup")


def test_without_tags_no_transform_is_registered(engine: Recorder, build: Build) -> None:
    build(lambda: tagging.register({}))

    assert engine.transforms == []
