"""The provider protocol, spoken over a real channel."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct
from nodewright_local.pulumi_aws.main import start
from nodewright_local.pulumi_aws.service import AwsProvider, type_of_urn
from nodewright_local.pulumi_aws.values import UNKNOWN, decode, encode
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

QUEUE = "aws:sqs/queue:Queue"
PARENT = "nodewright:components:InterruptionQueue"


@pytest.fixture(scope="module")
def provider(aws_url: str) -> Iterator[provider_pb2_grpc.ResourceProviderStub]:
    """A configured provider in a server of its own."""
    server, port = start(AwsProvider("7.0.0"))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        args = encode(
            {
                "region": "us-west-2",
                "accessKey": "AKIATEST",
                "secretKey": "secret",
                "defaultTags": '{"tags": {"team": "a"}}',
            }
        )
        stub.Configure(provider_pb2.ConfigureRequest(args=args, acceptSecrets=True))
        yield stub
    server.stop(grace=None).wait()


def urn(token: str, name: str = "thing") -> str:
    return f"urn:pulumi:dev::demo::{PARENT}${token}::{name}"


def create(provider: Any, token: str, inputs: Struct, *, preview: bool = False) -> Any:
    return provider.Create(
        provider_pb2.CreateRequest(urn=urn(token), properties=inputs, preview=preview)
    )


def check(provider: Any, token: str, inputs: dict[str, Any], **extra: Any) -> Any:
    return provider.Check(
        provider_pb2.CheckRequest(
            urn=urn(token), news=encode(inputs), olds=Struct(), randomSeed=b"seed", **extra
        )
    )


def test_the_type_is_the_last_one_in_the_urn() -> None:
    assert type_of_urn(urn(QUEUE)) == QUEUE
    assert type_of_urn("urn:pulumi:dev::demo::aws:sqs/queue:Queue::a::b") == QUEUE


def test_the_version_is_told(provider: Any) -> None:
    assert provider.GetPluginInfo(Struct()).version == "7.0.0"


def test_the_schema_lists_the_supported_types(provider: Any) -> None:
    assert QUEUE in provider.GetSchema(provider_pb2.GetSchemaRequest()).schema


def test_a_queue_is_checked_created_compared_and_deleted(provider: Any) -> None:
    inputs = check(provider, QUEUE, {"tags": {"a": "1"}}).inputs
    made = create(provider, QUEUE, inputs)
    state = decode(made.properties).values

    unchanged = provider.Diff(
        provider_pb2.DiffRequest(id=made.id, urn=urn(QUEUE), olds=made.properties, news=inputs)
    )
    provider.Delete(
        provider_pb2.DeleteRequest(id=made.id, urn=urn(QUEUE), properties=made.properties)
    )
    gone = provider.Read(
        provider_pb2.ReadRequest(id=made.id, urn=urn(QUEUE), properties=made.properties)
    )

    assert state["name"].startswith("thing-")
    assert state["tagsAll"] == {"a": "1", "team": "a"}
    assert unchanged.changes == provider_pb2.DiffResponse.DIFF_NONE
    assert gone.id == ""


def test_a_secret_input_stays_secret_in_the_outputs(provider: Any) -> None:
    inputs = encode({"name": "hidden-tags", "tags": {"a": "1"}}, secrets={"tags"})

    made = create(provider, QUEUE, inputs)

    assert decode(made.properties).secrets == {"tags"}


def test_a_preview_makes_nothing_and_leaves_outputs_unknown(provider: Any) -> None:
    planned = create(provider, QUEUE, encode({"name": "never-made"}), preview=True)

    values = decode(planned.properties).values
    assert planned.id == ""
    assert values["name"] == "never-made"
    assert values["url"] is UNKNOWN
    read = provider.Read(
        provider_pb2.ReadRequest(
            id="https://sqs.us-west-2.amazonaws.com/123456789012/never-made", urn=urn(QUEUE)
        )
    )
    assert read.id == ""


def test_a_diff_says_property_by_property_what_replaces(provider: Any) -> None:
    answer = provider.Diff(
        provider_pb2.DiffRequest(
            id="x",
            urn=urn(QUEUE),
            olds=encode({"name": "a", "tags": {"x/y": "1"}, "tagsAll": {"x/y": "1", "team": "a"}}),
            news=encode({"name": "b", "tags": {}}),
        )
    )

    kinds = {path: item.kind for path, item in answer.detailedDiff.items()}
    assert list(answer.replaces) == ["name"]
    assert answer.deleteBeforeReplace is False
    assert kinds["name"] == provider_pb2.PropertyDiff.UPDATE_REPLACE
    assert kinds['tags["x/y"]'] == provider_pb2.PropertyDiff.DELETE


def test_ignored_changes_are_left_out(provider: Any) -> None:
    answer = provider.Diff(
        provider_pb2.DiffRequest(
            id="x",
            urn=urn(QUEUE),
            olds=encode({"name": "a", "tagsAll": {"team": "a"}}),
            news=encode({"name": "b"}),
            ignoreChanges=["name"],
        )
    )

    assert answer.changes == provider_pb2.DiffResponse.DIFF_NONE


def test_an_unsupported_type_is_named_with_the_supported_ones(provider: Any) -> None:
    with pytest.raises(grpc.RpcError, match=r"'aws:s3/bucket:Bucket' is not supported.*sqs/queue"):
        check(provider, "aws:s3/bucket:Bucket", {})


def test_an_unsupported_function_is_named(provider: Any) -> None:
    request = provider_pb2.InvokeRequest(tok="aws:s3/getBucket:getBucket", args=Struct())

    with pytest.raises(grpc.RpcError, match=r"'aws:s3/getBucket:getBucket' is not supported"):
        provider.Invoke(request)


def test_an_unsupported_property_is_a_failure_of_that_property(provider: Any) -> None:
    failures = check(provider, QUEUE, {"shape": "round"}).failures

    assert [failure.property for failure in failures] == ["shape"]


def test_an_unsupported_provider_setting_is_a_failure_that_names_it(provider: Any) -> None:
    answer = provider.CheckConfig(
        provider_pb2.CheckRequest(news=encode({"region": "us-west-2", "assumeRoles": "[]"}))
    )

    assert [failure.property for failure in answer.failures] == ["assumeRoles"]


def test_another_region_replaces_the_provider(provider: Any) -> None:
    answer = provider.DiffConfig(
        provider_pb2.DiffRequest(
            olds=encode({"region": "us-west-2"}),
            news=encode({"region": "eu-west-1", "maxRetries": "3"}),
        )
    )

    assert list(answer.diffs) == ["region"]
    assert list(answer.replaces) == ["region"]


def test_a_proposed_name_is_taken(provider: Any) -> None:
    options = provider_pb2.CheckRequest.AutonamingOptions(proposed_name="demo-q")

    inputs = check(provider, QUEUE, {}, autonaming=options).inputs

    assert decode(inputs).values["name"] == "demo-q"


def test_an_error_of_aws_names_the_resource_and_the_code(provider: Any) -> None:
    with pytest.raises(grpc.RpcError, match=r"aws:ec2/vpc:Vpc 'thing': ec2 CreateVpc: Invalid"):
        create(provider, "aws:ec2/vpc:Vpc", encode({"cidrBlock": "10.0.0.0/99"}))


def test_a_half_made_resource_reaches_the_engine_with_its_id(provider: Any) -> None:
    token = "aws:ec2/internetGateway:InternetGateway"

    with pytest.raises(grpc.RpcError) as caught:
        create(provider, token, encode({"vpcId": "vpc-00000000"}))

    call: Any = caught.value
    trailing: dict[str, bytes] = dict(call.trailing_metadata())
    status = status_pb2.Status.FromString(trailing["grpc-status-details-bin"])
    detail = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(detail)
    assert detail.id.startswith("igw-")
    assert decode(detail.inputs).values == {"vpcId": "vpc-00000000"}
    assert "InvalidVpcID.NotFound" in detail.reasons[0]


def test_a_value_that_is_still_unknown_is_never_sent_to_aws(provider: Any) -> None:
    with pytest.raises(grpc.RpcError, match="still unknown at deployment: cidrBlock"):
        create(provider, "aws:ec2/vpc:Vpc", encode({"cidrBlock": UNKNOWN}))


def test_a_secret_result_of_a_function_is_marked(provider: Any) -> None:
    request = provider_pb2.InvokeRequest(
        tok="aws:eks/getClusterAuth:getClusterAuth", args=encode({"name": "demo"})
    )

    bag = decode(getattr(provider.Invoke(request), "return"))

    assert bag.secrets == {"token"}
    assert bag.values["token"].startswith("k8s-aws-v1.")


def test_a_missing_argument_of_a_function_is_a_failure(provider: Any) -> None:
    request = provider_pb2.InvokeRequest(tok="aws:eks/getClusterAuth:getClusterAuth", args=Struct())

    assert [failure.property for failure in provider.Invoke(request).failures] == ["name"]
