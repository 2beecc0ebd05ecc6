"""ClientToken: the same request with the same token is carried out once and answered twice."""

from collections.abc import Mapping
from typing import Any

from nodewright_local.aws.errors import AwsError


class ClientTokens:
    """Answers by operation and token, kept as long as the process lives."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, str], tuple[dict[str, Any], Any]] = {}

    def recall(self, operation: str, region: str, params: Mapping[str, Any]) -> Any:
        """Return the earlier answer to this request, None if it is new.

        Raises IdempotentParameterMismatch when the token came with other parameters before.
        """
        key = _key(operation, region, params)
        known = self._answers.get(key) if key else None
        if known is None:
            return None
        request, answer = known
        if request != dict(params):
            raise AwsError(
                "IdempotentParameterMismatch",
                "The client token you have provided is associated with a resource that was "
                "created with different parameters. Use a different client token.",
            )
        return answer

    def remember(self, operation: str, region: str, params: Mapping[str, Any], answer: Any) -> None:
        """Keep an answer for the token of its request, if it has one."""
        key = _key(operation, region, params)
        if key:
            self._answers[key] = (dict(params), answer)


def _key(operation: str, region: str, params: Mapping[str, Any]) -> tuple[str, str, str] | None:
    token = params.get("ClientToken")
    return (operation, region, str(token)) if token else None
