"""The SDK's edge: threads, errors and an AWS that accepts a connection and then says nothing."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws
from nodewright_controller.aws import clients
from nodewright_controller.aws.clients import Workers, connect, pricing_region
from nodewright_controller.aws.eks import resolve_cluster
from nodewright_controller.aws.error_codes import UNREACHABLE, AwsError, launch_failure_reason
from nodewright_controller.aws.options import AwsOptions

from tests.aws.world import World


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A port that takes connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(16)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


async def test_workers_return_results_and_errors() -> None:
    workers = Workers(limit=2)

    def fail() -> None:
        raise ValueError("no")

    assert await workers.run(lambda: 1 + 1) == 2
    with pytest.raises(ValueError, match="no"):
        await workers.run(fail)


async def test_workers_run_side_by_side_up_to_their_limit() -> None:
    workers = Workers(limit=3)
    meeting = threading.Barrier(3, timeout=5)

    await asyncio.gather(*(workers.run(meeting.wait) for _ in range(3)))

    assert not meeting.broken


async def test_a_cancelled_call_leaves_the_worker_usable() -> None:
    workers = Workers(limit=1)
    release = threading.Event()
    waiting = asyncio.create_task(workers.run(lambda: release.wait(5)))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    release.set()

    assert await workers.run(lambda: "still here") == "still here"


@pytest.mark.usefixtures("credentials")
async def test_a_silent_aws_is_an_unclear_error_and_not_a_hang(
    silent_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "READ_TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(clients, "ATTEMPTS", 1)
    aws = connect("us-west-2", endpoint_url=silent_server)

    with pytest.raises(AwsError, match=r"timeout|timed out") as caught:
        await aws.call(aws.ec2.describe_subnets)

    assert caught.value.code == UNREACHABLE
    assert caught.value.unclear


@pytest.mark.usefixtures("credentials")
async def test_answers_and_refusals_of_the_real_sdk() -> None:
    with mock_aws():
        vpc = boto3.client("ec2", region_name="us-west-2").create_vpc(CidrBlock="10.0.0.0/16")
        aws = connect("us-west-2")

        pages = await aws.pages(aws.ec2.describe_subnets)
        with pytest.raises(AwsError) as caught:
            await aws.call(aws.iam.get_instance_profile, InstanceProfileName="none")

    assert vpc["Vpc"]["VpcId"] not in {raw["VpcId"] for raw in pages[0]["Subnets"]}
    assert caught.value.code == "NoSuchEntity"
    assert caught.value.not_found
    assert not caught.value.unclear


async def test_pages_follow_the_token() -> None:
    world = World()
    aws = world.aws.clients()

    pages = await aws.pages(aws.ec2.describe_instance_types, MaxResults=5)

    assert [len(page["InstanceTypes"]) for page in pages] == [5, 5, 2]


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ("us-west-2", "us-east-1"),
        ("eu-west-1", "eu-central-1"),
        ("ap-southeast-2", "ap-south-1"),
        ("cn-north-1", "cn-northwest-1"),
    ],
)
def test_prices_are_asked_where_they_are_served(region: str, expected: str) -> None:
    assert pricing_region(region) == expected


async def test_eks_fills_what_the_options_leave_open() -> None:
    world = World()
    aws = world.aws.clients()

    found = await resolve_cluster(aws, AwsOptions(cluster_name="demo"), "10.100.0.10")
    kept = await resolve_cluster(
        aws, AwsOptions(cluster_name="demo", cluster_endpoint="https://mine")
    )

    assert found.cluster_endpoint == "https://demo.eks"
    assert found.cluster_ca_bundle == "Q0E="
    assert found.service_cidr == "10.100.0.0/16"
    assert found.kubernetes_version == "1.36"
    assert found.region == "us-west-2"
    assert found.dns_ip == "10.100.0.10"
    assert kept.cluster_endpoint == "https://mine"
    with pytest.raises(AwsError, match="other"):
        await resolve_cluster(aws, AwsOptions(cluster_name="other"))


async def test_an_upgraded_cluster_is_noticed() -> None:
    world = World()
    world.aws.eks.cluster["version"] = "1.37"

    await world.provider.version.refresh()

    assert world.provider.version.current == "1.37"


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        ("UnauthorizedOperation", "", "Unauthorized"),
        (
            "InvalidParameterValue",
            "Invalid IAM Instance Profile name",
            "InstanceProfileNameInvalid",
        ),
        ("InvalidParameterValue", "User data is limited to 16384", "UserDataSizeLimitExceeded"),
        (
            "InvalidParameter",
            "Security group sg-1 and subnet subnet-1 belong to different networks.",
            "SecurityGroupSubnetVPCMismatch",
        ),
        ("VcpuLimitExceeded", "", "VCPULimitExceeded"),
        ("SomethingElse", "", "LaunchFailed"),
    ],
)
def test_launch_errors_have_reasons(code: str, message: str, reason: str) -> None:
    assert launch_failure_reason(code, message) == reason
