"""What a program may write."""

from typing import Any

from nodewright_local.pulumi_aws import registry
from nodewright_local.pulumi_aws.checks import DEFAULTS_KEY, Checked, check
from nodewright_local.pulumi_aws.names import Naming

QUEUE = "aws:sqs/queue:Queue"
CLUSTER = "aws:eks/cluster:Cluster"


def checked(token: str, news: dict[str, Any], olds: dict[str, Any] | None = None) -> Checked:
    return check(registry.resource(token), news, olds or {}, Naming(logical_name="q", seed=b"1"))


def reasons(token: str, news: dict[str, Any]) -> dict[str, str]:
    return {item.property: item.reason for item in checked(token, news).failures}


def test_an_unsupported_property_is_named_with_the_supported_ones() -> None:
    found = reasons(QUEUE, {"shape": "round"})

    assert "'shape' is not supported" in found["shape"]
    assert "visibilityTimeoutSeconds" in found["shape"]


def test_an_unsupported_property_deep_inside_is_named_by_its_path() -> None:
    config = {"subnetIds": ["a"], "controlPlaneEgressMode": "x"}

    assert "vpcConfig.controlPlaneEgressMode" in reasons(
        CLUSTER, {"roleArn": "r", "vpcConfig": config}
    )


def test_a_missing_property_is_named() -> None:
    assert set(reasons(CLUSTER, {"vpcConfig": {}})) == {"roleArn", "vpcConfig.subnetIds"}


def test_what_only_aws_sets_cannot_be_written() -> None:
    assert "set by AWS" in reasons(QUEUE, {"arn": "mine"})["arn"]


def test_a_value_of_the_wrong_kind_is_refused() -> None:
    found = reasons(QUEUE, {"delaySeconds": "ten", "fifoQueue": 1, "tags": []})

    assert set(found) == {"delaySeconds", "fifoQueue", "tags"}
    assert "must be a number, got str" in found["delaySeconds"]


def test_a_value_outside_the_choices_is_refused() -> None:
    config = {"authenticationMode": "NONE"}
    found = reasons(
        CLUSTER, {"roleArn": "r", "vpcConfig": {"subnetIds": ["a"]}, "accessConfig": config}
    )

    assert "expected one of API, API_AND_CONFIG_MAP" in found["accessConfig.authenticationMode"]


def test_a_policy_that_is_not_json_is_refused() -> None:
    assert "is not JSON" in reasons(QUEUE, {"policy": "{"})["policy"]


def test_a_made_up_name_is_kept_from_one_deployment_to_the_next() -> None:
    first = checked(QUEUE, {}).inputs

    later = check(
        registry.resource(QUEUE), {}, first, Naming(logical_name="q", seed=b"another")
    ).inputs

    assert first[DEFAULTS_KEY] == ["name"]
    assert later["name"] == first["name"]


def test_a_name_of_the_program_is_left_alone() -> None:
    inputs = checked(QUEUE, {"name": "mine"}).inputs

    assert inputs == {"name": "mine"}


def test_taking_back_a_name_makes_up_another() -> None:
    inputs = checked(QUEUE, {}, {"name": "mine"}).inputs

    assert inputs["name"] != "mine"
