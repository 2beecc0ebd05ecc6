"""The read-only functions."""

import base64
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from nodewright_local.pulumi_aws import registry
from nodewright_local.pulumi_aws.aws import Aws, AwsError
from nodewright_local.pulumi_aws.documents import canonical_policy

from tests.local.pulumi_aws.lab import Lab


def call(aws: Aws, token: str, **args: Any) -> dict[str, Any]:
    return registry.function(token).call(aws, args).values


def document(aws: Aws, **args: Any) -> dict[str, Any]:
    values = call(aws, "aws:iam/getPolicyDocument:getPolicyDocument", **args)
    parsed: dict[str, Any] = json.loads(values["json"])
    assert json.loads(values["minifiedJson"]) == parsed
    return parsed


def test_the_partition_follows_the_region(aws: Aws) -> None:
    token = "aws:index/getPartition:getPartition"

    assert call(aws, token)["partition"] == "aws"
    assert call(aws.in_region("cn-north-1"), token) == {
        "id": "aws-cn",
        "partition": "aws-cn",
        "dnsSuffix": "amazonaws.com.cn",
        "reverseDnsPrefix": "cn.com.amazonaws",
    }


def test_the_caller_is_told_by_sts(aws: Aws) -> None:
    values = call(aws, "aws:index/getCallerIdentity:getCallerIdentity")

    assert values["accountId"] == "123456789012"
    assert values["arn"].startswith("arn:aws:")


def test_the_region_has_a_description_and_an_endpoint(aws: Aws) -> None:
    values = call(aws, "aws:index/getRegion:getRegion")

    assert values["region"] == "us-west-2"
    assert values["description"] == "US West (Oregon)"
    assert values["endpoint"] == "ec2.us-west-2.amazonaws.com"


def test_an_unknown_region_is_refused(aws: Aws) -> None:
    with pytest.raises(AwsError, match="'nowhere' is no AWS region"):
        call(aws, "aws:index/getRegion:getRegion", region="nowhere")


def test_zones_are_sorted_and_can_be_excluded(aws: Aws) -> None:
    token = "aws:index/getAvailabilityZones:getAvailabilityZones"

    everything = call(aws, token, state="available")
    some = call(aws, token, excludeNames=["us-west-2a"])

    assert everything["names"] == sorted(everything["names"])
    assert everything["names"][0] == "us-west-2a"
    assert len(everything["zoneIds"]) == len(everything["names"])
    assert some["names"] == everything["names"][1:]


def test_a_cluster_is_described(lab: Lab) -> None:
    cluster = lab.cluster()

    values = call(lab.aws, "aws:eks/getCluster:getCluster", name=cluster.ident)

    assert values["endpoint"] == cluster.state["endpoint"]
    assert values["certificateAuthorities"] == [cluster.state["certificateAuthority"]]
    assert values["vpcConfig"]["clusterSecurityGroupId"].startswith("sg-")


def test_a_cluster_that_is_not_there_is_an_error(aws: Aws) -> None:
    with pytest.raises(AwsError, match="no cluster named 'none' in us-west-2"):
        call(aws, "aws:eks/getCluster:getCluster", name="none")


def test_a_token_is_a_presigned_call_with_the_clusters_name_signed(aws: Aws) -> None:
    token = call(aws, "aws:eks/getClusterAuth:getClusterAuth", name="demo")["token"]

    encoded = token.removeprefix("k8s-aws-v1.")
    url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    query = parse_qs(urlsplit(url).query)
    assert query["Action"] == ["GetCallerIdentity"]
    assert query["X-Amz-Expires"] == ["60"]
    assert "x-k8s-aws-id" in query["X-Amz-SignedHeaders"][0].split(";")


def test_a_parameter_is_read(aws: Aws) -> None:
    aws.call("ssm", "put_parameter", Name="/demo/a", Value="1", Type="String")

    result = registry.function("aws:ssm/getParameter:getParameter").call(aws, {"name": "/demo/a"})

    assert result.values["value"] == "1"
    assert result.values["insecureValue"] == "1"
    assert result.secrets == {"value"}


def test_a_parameter_that_is_not_there_is_an_error(aws: Aws) -> None:
    with pytest.raises(AwsError, match="ParameterNotFound"):
        call(aws, "aws:ssm/getParameter:getParameter", name="/demo/none")


def test_a_policy_document_is_written_in_iams_layout(aws: Aws) -> None:
    written = document(
        aws,
        statements=[
            {
                "sid": "Assume",
                "actions": ["sts:AssumeRole"],
                "principals": [{"type": "Service", "identifiers": ["ec2.amazonaws.com"]}],
                "conditions": [
                    {"test": "StringEquals", "variable": "aws:a", "values": ["1"]},
                    {"test": "StringEquals", "variable": "aws:b", "values": ["2", "3"]},
                ],
            },
            {"effect": "Deny", "notActions": ["s3:*"], "resources": ["b", "a"]},
        ],
    )

    wanted = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "Assume",
                "Effect": "Allow",
                "Action": "sts:AssumeRole",
                "Principal": {"Service": "ec2.amazonaws.com"},
                "Condition": {"StringEquals": {"aws:a": "1", "aws:b": ["2", "3"]}},
            },
            {"Effect": "Deny", "NotAction": "s3:*", "Resource": ["a", "b"]},
        ],
    }
    assert canonical_policy(json.dumps(written)) == canonical_policy(json.dumps(wanted))


def test_everybody_is_a_star(aws: Aws) -> None:
    written = document(
        aws, statements=[{"actions": ["a"], "principals": [{"type": "*", "identifiers": ["*"]}]}]
    )

    assert written["Statement"][0]["Principal"] == "*"


def test_later_statements_take_the_place_of_earlier_ones_with_their_sid(aws: Aws) -> None:
    source = document(aws, statements=[{"sid": "A", "actions": ["a"]}, {"actions": ["b"]}])
    override = document(aws, statements=[{"sid": "A", "actions": ["c"]}])

    written = document(
        aws,
        sourcePolicyDocuments=[json.dumps(source)],
        overridePolicyDocuments=[json.dumps(override)],
        statements=[{"sid": "B", "actions": ["d"]}],
    )

    assert [item["Action"] for item in written["Statement"]] == ["c", "b", "d"]


def test_a_source_that_is_no_policy_is_refused(aws: Aws) -> None:
    with pytest.raises(AwsError, match="not a JSON policy"):
        document(aws, sourcePolicyDocuments=["{"])
