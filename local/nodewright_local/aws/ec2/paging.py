"""NextToken paging: the token is the position of the next item, opaque to clients."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from nodewright_local.aws.errors import AwsError

Item = TypeVar("Item")


def page(
    items: Sequence[Item],
    params: Mapping[str, Any],
    *,
    limit: int,
    size_key: str = "MaxResults",
    token_key: str = "NextToken",
) -> tuple[Sequence[Item], str | None]:
    """Cut one page out of `items`; the token is None on the last page."""
    start = _position(params.get(token_key))
    size = min(int(params.get(size_key) or limit), limit)
    end = start + size
    return items[start:end], _token(end) if end < len(items) else None


def _token(position: int) -> str:
    return base64.urlsafe_b64encode(f"page:{position}".encode()).decode()


def _position(token: str | None) -> int:
    if not token:
        return 0
    try:
        marker, position = base64.urlsafe_b64decode(token.encode()).decode().split(":")
        if marker == "page":
            return int(position)
    except (ValueError, binascii.Error):
        pass
    raise AwsError("InvalidParameterValue", f"The pagination token {token!r} is not valid")
