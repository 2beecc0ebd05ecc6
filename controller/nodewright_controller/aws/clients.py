"""The AWS SDK, in one place: clients built once, calls in daemon threads, errors translated.

boto3 blocks, so each call runs on a small pool of threads of its own. They are daemons: a call
that hangs (a long poll, an AWS that does not answer) never holds up the end of the process.
Everything else in this package sees Protocols of exactly the calls used, and `AwsError`.
"""

from __future__ import annotations

import asyncio
import functools
import os
import queue
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, cast

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import InstanceMetadataRegionFetcher

from nodewright_controller.aws.error_codes import UNREACHABLE, AwsError

T = TypeVar("T")
Response = Mapping[str, Any]
"""What AWS answered, as the SDK parses it; pure modules turn it into values."""
Operation = Callable[..., Any]

CONNECT_TIMEOUT_SECONDS: Final = 5
READ_TIMEOUT_SECONDS: Final = 30
ATTEMPTS: Final = 4
"""Tries per call, with the SDK's own backoff; a silent AWS fails a call after about two minutes."""
LONG_POLL_SECONDS: Final = 20
_THREADS: Final = 16


class Ec2Api(Protocol):
    """EC2 calls."""

    def describe_instance_types(self, **request: Any) -> Response: ...  # noqa: D102
    def describe_instance_type_offerings(self, **request: Any) -> Response: ...  # noqa: D102
    def describe_subnets(self, **request: Any) -> Response: ...  # noqa: D102
    def describe_security_groups(self, **request: Any) -> Response: ...  # noqa: D102
    def describe_images(self, **request: Any) -> Response: ...  # noqa: D102
    def describe_spot_price_history(self, **request: Any) -> Response: ...  # noqa: D102
    def describe_instances(self, **request: Any) -> Response: ...  # noqa: D102
    def describe_capacity_reservations(self, **request: Any) -> Response: ...  # noqa: D102
    def terminate_instances(self, **request: Any) -> Response: ...  # noqa: D102
    def create_fleet(self, **request: Any) -> Response: ...  # noqa: D102
    def run_instances(self, **request: Any) -> Response: ...  # noqa: D102
    def create_tags(self, **request: Any) -> Response: ...  # noqa: D102
    def create_launch_template(self, **request: Any) -> Response: ...  # noqa: D102
    def describe_launch_templates(self, **request: Any) -> Response: ...  # noqa: D102
    def delete_launch_template(self, **request: Any) -> Response: ...  # noqa: D102


class SsmApi(Protocol):
    """SSM calls."""

    def get_parameter(self, **request: Any) -> Response: ...  # noqa: D102


class PricingApi(Protocol):
    """Price list calls."""

    def get_products(self, **request: Any) -> Response: ...  # noqa: D102


class EksApi(Protocol):
    """EKS calls."""

    def describe_cluster(self, **request: Any) -> Response: ...  # noqa: D102


class IamApi(Protocol):
    """IAM calls."""

    def get_instance_profile(self, **request: Any) -> Response: ...  # noqa: D102
    def create_instance_profile(self, **request: Any) -> Response: ...  # noqa: D102
    def add_role_to_instance_profile(self, **request: Any) -> Response: ...  # noqa: D102
    def remove_role_from_instance_profile(self, **request: Any) -> Response: ...  # noqa: D102
    def delete_instance_profile(self, **request: Any) -> Response: ...  # noqa: D102
    def list_instance_profiles(self, **request: Any) -> Response: ...  # noqa: D102


class SqsApi(Protocol):
    """SQS calls."""

    def get_queue_url(self, **request: Any) -> Response: ...  # noqa: D102
    def receive_message(self, **request: Any) -> Response: ...  # noqa: D102
    def delete_message(self, **request: Any) -> Response: ...  # noqa: D102


class Runner(Protocol):
    """Runs a blocking function without blocking the loop."""

    def run(self, function: Callable[[], T]) -> Awaitable[T]:
        """Return what the function returns or raises."""


class Workers:
    """A pool of daemon threads; threads start when there is work for them."""

    def __init__(self, limit: int = _THREADS) -> None:
        self._limit = limit
        self._threads = 0
        self._unfinished = 0
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    async def run(self, function: Callable[[], T]) -> T:
        """Return what `function` returns or raises, computed on one of the threads."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if future.done():  # the waiter was cancelled meanwhile
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(cast("T", result))

        def job() -> None:
            result: T | None = None
            error: BaseException | None = None
            try:
                result = function()
            except BaseException as caught:
                error = caught
            try:
                loop.call_soon_threadsafe(settle, result, error)
            except RuntimeError:
                return  # the loop ended first: nobody waits for this any more

        self._submit(job)
        return await future

    def _submit(self, job: Callable[[], None]) -> None:
        self._work.put(job)
        with self._lock:
            self._unfinished += 1
            if self._unfinished <= self._threads or self._threads >= self._limit:
                return
            self._threads += 1
            name = f"aws-{self._threads}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while True:
            self._work.get()()
            with self._lock:
                self._unfinished -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsClients:
    """Every client the controller uses, and the way to call them."""

    region: str
    ec2: Ec2Api
    ssm: SsmApi
    pricing: PricingApi
    eks: EksApi
    iam: IamApi
    sqs: SqsApi
    workers: Runner = field(default_factory=Workers)

    async def call(self, operation: Operation, **request: Any) -> Response:
        """Call AWS once (with the SDK's retries).

        Raises:
            AwsError: it refused, or did not answer in time.

        """
        name = getattr(operation, "__name__", "call")
        return await self.workers.run(
            functools.partial(_translated, functools.partial(operation, **request), name)
        )

    async def pages(
        self,
        operation: Operation,
        *,
        tokens: tuple[str, str] = ("NextToken", "NextToken"),
        **request: Any,
    ) -> list[Response]:
        """Call AWS until it has no further page; `tokens` name the token in request and answer."""
        ask, answer = tokens
        pages = [await self.call(operation, **request)]
        while pages[-1].get(answer):
            pages.append(await self.call(operation, **request, **{ask: pages[-1][answer]}))
        return pages


def _translated(operation: Callable[[], Any], name: str) -> Response:
    try:
        return cast("Response", operation())
    except ClientError as error:
        details = error.response.get("Error", {})
        code = str(details.get("Code", "Unknown"))
        raise AwsError(code, str(details.get("Message", error)), name) from error
    except BotoCoreError as error:
        raise AwsError(UNREACHABLE, str(error), name) from error


def pricing_region(region: str) -> str:
    """Return the region whose Pricing endpoint answers for `region`."""
    for prefix, endpoint in (
        ("ap-", "ap-south-1"),
        ("cn-", "cn-northwest-1"),
        ("eu-", "eu-central-1"),
    ):
        if region.startswith(prefix):
            return endpoint
    return "us-east-1"


def _region_of_this_instance() -> str:
    """Ask the instance metadata service; empty when there is none."""
    fetcher = InstanceMetadataRegionFetcher(timeout=1, num_attempts=2)
    return fetcher.retrieve_region() or ""


def connect(region: str = "", endpoint_url: str | None = None) -> AwsClients:
    """Build the clients; credentials come from wherever the SDK finds them.

    Raises:
        ValueError: no region was given and none is configured.

    """
    wanted = region or os.environ.get("AWS_REGION", "")
    session = boto3.Session(region_name=wanted or None)
    found = session.region_name or _region_of_this_instance()
    if not found:
        raise ValueError("no AWS region: set AWS_REGION (there is no instance metadata to ask)")

    def client(service: str, where: str = found, read: int = READ_TIMEOUT_SECONDS) -> Any:
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=read,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=_THREADS,
            user_agent_extra="nodewright",
        )
        make = cast("Callable[..., Any]", session.client)
        return make(service, region_name=where, endpoint_url=endpoint_url, config=config)

    return AwsClients(
        region=found,
        ec2=client("ec2"),
        ssm=client("ssm"),
        pricing=client("pricing", pricing_region(found)),
        eks=client("eks"),
        iam=client("iam"),
        sqs=client("sqs", read=LONG_POLL_SECONDS + READ_TIMEOUT_SECONDS),
    )
