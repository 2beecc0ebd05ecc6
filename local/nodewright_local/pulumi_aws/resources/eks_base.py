"""What the EKS handlers share: tags by ARN, times as text, and waiting for a status."""

from collections.abc import Callable
from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, AwsError
from nodewright_local.pulumi_aws.schema import Resource
from nodewright_local.pulumi_aws.values import Values

_FAILED = frozenset({"FAILED", "CREATE_FAILED", "DELETE_FAILED", "UPDATE_FAILED"})


class EksResource(Resource):
    """A resource whose state holds its ARN under `arn_property`."""

    arn_property = "arn"

    @override
    def retag(
        self, aws: Aws, ident: str, state: Values, put: dict[str, str], drop: list[str]
    ) -> None:
        """Set and remove tags."""
        arn = state[self.arn_property]
        if drop:
            aws.call("eks", "untag_resource", resourceArn=arn, tagKeys=drop)
        if put:
            aws.call("eks", "tag_resource", resourceArn=arn, tags=put)


def wait_active(
    aws: Aws, what: str, read: Callable[[], dict[str, Any] | None], *, timeout_seconds: float
) -> None:
    """Wait until the thing's status is ACTIVE; a failed one raises with EKS's health issues."""

    def active() -> bool:
        found = read()
        status = (found or {}).get("status")
        if found is None or status in _FAILED:
            raise AwsError(
                operation=f"eks: {what}", code=str(status or "Vanished"), message=_issues(found)
            )
        return status == "ACTIVE"

    aws.wait(f"{what} is ACTIVE", active, timeout_seconds=timeout_seconds)


def wait_gone(
    aws: Aws, what: str, read: Callable[[], dict[str, Any] | None], *, timeout_seconds: float
) -> None:
    """Wait until EKS does not know the thing any more."""

    def gone() -> bool:
        found = read()
        if found is not None and found.get("status") == "DELETE_FAILED":
            raise AwsError(operation=f"eks: {what}", code="DELETE_FAILED", message=_issues(found))
        return found is None

    aws.wait(f"{what} is gone", gone, timeout_seconds=timeout_seconds)


def _issues(found: dict[str, Any] | None) -> str:
    issues = ((found or {}).get("health") or {}).get("issues") or []
    return "; ".join(f"{item.get('code')}: {item.get('message')}" for item in issues) or (
        "EKS gives no reason"
    )
