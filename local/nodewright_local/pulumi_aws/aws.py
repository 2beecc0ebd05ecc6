"""The one way to AWS: calls, their errors, and waiting.

Every handler goes through `Aws.call`, so that clients are made once per service and region, absent
parameters are left out, and an error carries the operation, AWS's code and AWS's message.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

_ABSENT_CODES = frozenset(
    {
        "NoSuchEntity",
        "NoSuchEntityException",
        "NotFoundException",
        "ResourceNotFoundException",
        "NatGatewayNotFound",
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        "InvalidNetworkInterfaceID.NotFound",
    }
)
_POLL_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_MAX_ATTEMPTS = 8  # with botocore's back-off this rides out about a minute of silence


class AwsError(Exception):
    """AWS refused an operation, or could not be reached."""

    def __init__(self, *, operation: str, code: str, message: str) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.operation = operation
        self.code = code
        self.message = message

    @property
    def is_absent(self) -> bool:
        """Say whether AWS means that the thing does not exist."""
        return self.code in _ABSENT_CODES or self.code.endswith(".NotFound")


class CancelledError(AwsError):
    """The engine asked to stop while we waited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """The provider's configuration, decoded."""

    region: str
    default_tags: Mapping[str, str] = field(default_factory=dict)
    access_key: str | None = None
    secret_key: str | None = None
    session_token: str | None = None
    profile: str | None = None
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Service name to URL, ahead of AWS_ENDPOINT_URL."""


class Aws:
    """Calls to AWS in one region, with one account's credentials."""

    def __init__(self, settings: ProviderSettings, cancelled: threading.Event) -> None:
        self.settings = settings
        self.region = settings.region
        self._cancelled = cancelled
        self._session = boto3.Session(
            aws_access_key_id=settings.access_key,
            aws_secret_access_key=settings.secret_key,
            aws_session_token=settings.session_token,
            profile_name=settings.profile,
            region_name=settings.region,
        )
        self._clients: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()
        self._account_id: str | None = None

    def in_region(self, region: str | None) -> "Aws":
        """Return this connection, aimed at another region when one is given."""
        if region is None or region == self.region:
            return self
        twin = object.__new__(Aws)
        twin.__dict__.update(self.__dict__)
        twin.region = region
        return twin

    @property
    def partition(self) -> str:
        """The partition of the region: aws, aws-cn, aws-us-gov."""
        return self._session.get_partition_for_region(self.region)

    @property
    def account_id(self) -> str:
        """The account of the credentials, asked once."""
        if self._account_id is None:
            self._account_id = str(self.call("sts", "get_caller_identity")["Account"])
        return self._account_id

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource in this region and account."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account_id}:{resource}"

    def client(self, service: str) -> Any:
        """Return the boto3 client of a service; one per service and region."""
        key = (service, self.region)
        with self._lock:  # creating clients is not thread-safe in botocore
            if key not in self._clients:
                self._clients[key] = self._session.client(
                    service,  # type: ignore[call-overload]
                    region_name=self.region,
                    endpoint_url=self.settings.endpoints.get(service),
                    config=Config(
                        connect_timeout=5,
                        read_timeout=60,
                        max_pool_connections=32,
                        retries={"mode": "standard", "total_max_attempts": _MAX_ATTEMPTS},
                    ),
                )
            return self._clients[key]

    def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """Call one operation (boto3's snake_case name); parameters that are None are left out.

        Raises `AwsError`.
        """
        given = {name: value for name, value in parameters.items() if value is not None}
        try:
            answer = getattr(self.client(service), operation)(**given)
        except ClientError as error:
            detail = error.response.get("Error", {})
            raise AwsError(
                operation=f"{service} {error.operation_name}",
                code=str(detail.get("Code", "Unknown")),
                message=str(detail.get("Message", error)),
            ) from error
        except BotoCoreError as error:
            raise AwsError(
                operation=f"{service} {operation}", code=type(error).__name__, message=str(error)
            ) from error
        return dict(answer) if isinstance(answer, Mapping) else {}

    def find(self, service: str, operation: str, **parameters: Any) -> dict[str, Any] | None:
        """Like `call`, but None when AWS says that the thing does not exist."""
        try:
            return self.call(service, operation, **parameters)
        except AwsError as error:
            if error.is_absent:
                return None
            raise

    def pages(self, service: str, operation: str, key: str, **parameters: Any) -> list[Any]:
        """Return the items under `key` of all pages."""
        given = {name: value for name, value in parameters.items() if value is not None}
        client = self.client(service)
        if not client.can_paginate(operation):
            return list(self.call(service, operation, **given).get(key) or [])
        try:
            return [
                item
                for page in client.get_paginator(operation).paginate(**given)
                for item in page.get(key) or []
            ]
        except ClientError as error:
            detail = error.response.get("Error", {})
            raise AwsError(
                operation=f"{service} {error.operation_name}",
                code=str(detail.get("Code", "Unknown")),
                message=str(detail.get("Message", error)),
            ) from error

    def wait(self, what: str, done: Callable[[], bool], *, timeout_seconds: float = 900) -> None:
        """Ask `done` until it says yes, ever less often; `AwsError` Timeout names `what`."""
        deadline = time.monotonic() + timeout_seconds
        for attempt in range(1_000_000):
            if done():
                return
            if time.monotonic() > deadline:
                raise AwsError(
                    operation="wait",
                    code="Timeout",
                    message=f"{what} did not happen within {timeout_seconds:.0f} s",
                )
            self._pause(attempt, what)

    def persist(
        self,
        codes: Iterable[str],
        operation: Callable[[], object],
        *,
        timeout_seconds: float = 300,
    ) -> None:
        """Repeat an operation while AWS refuses it with one of `codes` (not yet released, …)."""
        patience = frozenset(codes)
        deadline = time.monotonic() + timeout_seconds
        for attempt in range(1_000_000):
            try:
                operation()
            except AwsError as error:
                if error.code not in patience or time.monotonic() > deadline:
                    raise
                self._pause(attempt, str(error))
            else:
                return

    def _pause(self, attempt: int, what: str) -> None:
        seconds = _POLL_SECONDS[min(attempt // 2, len(_POLL_SECONDS) - 1)]
        if self._cancelled.wait(seconds):
            raise CancelledError(
                operation="wait", code="Cancelled", message=f"stopped while waiting: {what}"
            )


def tag_list(tags: Mapping[str, str] | None) -> list[dict[str, str]] | None:
    """Return tags as AWS's list of Key and Value, None when there are none."""
    return [{"Key": key, "Value": value} for key, value in sorted((tags or {}).items())] or None


def tag_map(tags: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """Return AWS's list of Key and Value as a map."""
    return {tag["Key"]: tag.get("Value", "") for tag in tags or ()}
