"""What a state holds, what a refresh finds, and what happens when things go wrong."""

import threading

import pytest
from nodewright_local.pulumi_aws import lifecycle, registry
from nodewright_local.pulumi_aws.aws import Aws, AwsError, CancelledError, ProviderSettings
from nodewright_local.pulumi_aws.checks import DEFAULTS_KEY
from nodewright_local.pulumi_aws.values import UNKNOWN

from tests.local.pulumi_aws.conftest import connect
from tests.local.pulumi_aws.lab import ASSUME_ROLE, Lab

VPC = "aws:ec2/vpc:Vpc"
QUEUE = "aws:sqs/queue:Queue"
ROLE = "aws:iam/role:Role"
GROUP = "aws:ec2/securityGroup:SecurityGroup"
CLUSTER = "aws:eks/cluster:Cluster"
ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"


def test_default_tags_are_set_and_stay_out_of_the_resources_own(lab: Lab) -> None:
    lab.aws = connect(default_tags={"team": "a"})

    live = lab.vpc(tags={"Name": "net"})

    assert live.state["tags"] == {"Name": "net"}
    assert live.state["tagsAll"] == {"Name": "net", "team": "a"}
    assert lab.changes(VPC, live, {"cidrBlock": "10.1.0.0/16", "tags": {"Name": "net"}}) == ()


def test_a_new_default_tag_changes_a_resource_without_tags_of_its_own(lab: Lab) -> None:
    live = lab.vpc()
    lab.aws = connect(default_tags={"team": "a"})

    changes = lab.changes(VPC, live, {"cidrBlock": "10.1.0.0/16"})
    updated = lab.update(VPC, live, {"cidrBlock": "10.1.0.0/16"})

    assert [change.path for change in changes] == ["tagsAll.team"]
    assert updated.state["tagsAll"] == {"team": "a"}


def test_a_refresh_finds_what_somebody_changed_by_hand(lab: Lab) -> None:
    live = lab.make(QUEUE, {"visibilityTimeoutSeconds": 60, "tags": {"a": "1"}})
    lab.aws.call(
        "sqs",
        "set_queue_attributes",
        QueueUrl=live.ident,
        Attributes={"VisibilityTimeout": "5", "DelaySeconds": "9"},
    )
    lab.aws.call("sqs", "tag_queue", QueueUrl=live.ident, Tags={"b": "2"})

    found = lab.read(QUEUE, live)

    assert found is not None
    assert found.inputs["visibilityTimeoutSeconds"] == 5
    assert found.inputs["delaySeconds"] == 9
    changes = lab.changes(QUEUE, found, {"visibilityTimeoutSeconds": 60, "tags": {"a": "1"}})
    assert {change.path for change in changes} == {
        "delaySeconds",
        "visibilityTimeoutSeconds",
        "tags.b",
        "tagsAll.b",
    }


def test_a_policy_keeps_the_programs_own_words(lab: Lab) -> None:
    words = (
        '{ "Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "sts:AssumeRole",'
        ' "Principal": {"Service": "ec2.amazonaws.com"}} }'
    )

    live = lab.make(ROLE, {"assumeRolePolicy": words})

    assert live.state["assumeRolePolicy"] == words


def test_rules_that_others_add_to_a_group_are_no_change_unless_it_lists_rules(lab: Lab) -> None:
    vpc = lab.vpc()
    live = lab.make(GROUP, {"vpcId": vpc.ident})
    lab.make(
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        {
            "securityGroupId": live.ident,
            "ipProtocol": "tcp",
            "fromPort": 1,
            "toPort": 2,
            "cidrIpv4": "10.0.0.0/8",
        },
    )

    found = lab.read(GROUP, live)

    assert found is not None
    assert lab.changes(GROUP, found, {"vpcId": vpc.ident}) == ()
    changes = lab.changes(GROUP, found, {"vpcId": vpc.ident, "ingress": []})
    assert [change.path for change in changes] == ["ingress"]


def test_a_new_group_lets_nothing_out_by_itself(lab: Lab) -> None:
    live = lab.make(GROUP, {"vpcId": lab.vpc().ident})

    assert live.state["egress"] == []


def test_a_route_table_takes_over_under_the_same_id(lab: Lab) -> None:
    vpc = lab.vpc()
    tables = [
        lab.make("aws:ec2/routeTable:RouteTable", {"vpcId": vpc.ident}).ident for _ in range(3)
    ]
    subnet = lab.subnets(vpc)[0].ident
    live = lab.make(ASSOCIATION, {"routeTableId": tables[0], "subnetId": subnet})

    second = lab.update(ASSOCIATION, live, {"routeTableId": tables[1], "subnetId": subnet})
    third = lab.update(ASSOCIATION, second, {"routeTableId": tables[2], "subnetId": subnet})

    assert third.state["routeTableId"] == tables[2]
    lab.delete(ASSOCIATION, third)
    assert lab.read(ASSOCIATION, third) is None


def test_a_preview_knows_inputs_and_defaults_and_leaves_the_rest_to_aws(aws: Aws) -> None:
    inputs = {"cidrBlock": "10.1.0.0/16", "tags": {"a": UNKNOWN}}

    planned = lifecycle.preview(registry.resource(VPC), aws, inputs)

    assert planned["cidrBlock"] == "10.1.0.0/16"
    assert planned["enableDnsSupport"] is True
    assert planned["arn"] is UNKNOWN
    assert planned["region"] == "us-west-2"
    assert planned["tagsAll"] == {"a": UNKNOWN}


def test_a_preview_leaves_what_aws_adds_to_an_object_unknown(aws: Aws) -> None:
    inputs = {"roleArn": "r", "vpcConfig": {"subnetIds": ["a", "b"]}}

    planned = lifecycle.preview(registry.resource(CLUSTER), aws, inputs)

    assert planned["vpcConfig"]["clusterSecurityGroupId"] is UNKNOWN
    assert planned["vpcConfig"]["endpointPublicAccess"] is True


def test_the_preview_of_an_update_keeps_what_aws_chose(aws: Aws) -> None:
    state = {
        "vpcConfig": {"subnetIds": ["a"], "clusterSecurityGroupId": "sg-1"},
        "endpoint": "https://x",
    }

    planned = lifecycle.preview(
        registry.resource(CLUSTER), aws, {"vpcConfig": {"subnetIds": ["b"]}}, state
    )

    assert planned["vpcConfig"]["clusterSecurityGroupId"] == "sg-1"
    assert planned["endpoint"] == "https://x"


def test_a_made_up_name_lets_old_and_new_live_side_by_side(lab: Lab) -> None:
    resource = registry.resource(ROLE)
    live = lab.role()
    wanted = {"assumeRolePolicy": ASSUME_ROLE, "path": "/x/"}
    checked = lab.checked(ROLE, wanted, live.inputs)
    changes = lab.changes(ROLE, live, wanted)

    assert [change.path for change in changes] == ["path"]
    assert not lifecycle.deletes_first(resource, changes, checked)
    assert lifecycle.deletes_first(resource, changes, {**checked, DEFAULTS_KEY: []})


def test_what_exists_but_does_not_work_is_reported_with_its_id(lab: Lab) -> None:
    inputs = lab.checked("aws:ec2/internetGateway:InternetGateway", {"vpcId": "vpc-00000000"})

    with pytest.raises(lifecycle.CreatedInPartError) as caught:
        lifecycle.create(
            registry.resource("aws:ec2/internetGateway:InternetGateway"), lab.aws, inputs
        )

    error = caught.value
    assert error.ident.startswith("igw-")
    assert error.state["arn"].endswith(error.ident)
    assert "InvalidVpcID.NotFound" in error.reason
    lab.aws.call("ec2", "delete_internet_gateway", InternetGatewayId=error.ident)


def test_a_refusal_of_aws_names_operation_code_and_message(lab: Lab) -> None:
    lab.role(name="same")

    with pytest.raises(AwsError, match=r"iam CreateRole: EntityAlreadyExists: Role with name same"):
        lab.role(name="same")


def test_an_endpoint_that_does_not_answer_is_an_aws_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nodewright_local.pulumi_aws.aws._MAX_ATTEMPTS", 1)
    aws = connect(endpoints={"sqs": "http://127.0.0.1:9"})

    with pytest.raises(AwsError, match="sqs list_queues: EndpointConnectionError"):
        aws.call("sqs", "list_queues")


def test_cancelling_ends_a_wait_at_once() -> None:
    cancelled = threading.Event()
    aws = Aws(ProviderSettings(region="us-west-2"), cancelled)
    cancelled.set()

    with pytest.raises(CancelledError, match="stopped while waiting: the moon"):
        aws.wait("the moon", lambda: False)


def test_a_wait_that_takes_too_long_says_for_what() -> None:
    aws = Aws(ProviderSettings(region="us-west-2"), threading.Event())

    with pytest.raises(AwsError, match="Timeout: the moon did not happen within 0 s"):
        aws.wait("the moon", lambda: False, timeout_seconds=0)
