"""EC2 list answers assembled from fragments.

Serialising a long list through the service model costs milliseconds per item; a fragment rendered
once and joined costs nothing.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model

from nodewright_local.aws.wire import Answer

_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


def render_item(operation: str, result: Mapping[str, Any], list_tag: str) -> str:
    """Serialise a result whose list holds one element and return that element, `<item>…</item>`."""
    model = get_service_model("ec2").operation_model(operation)
    serializer = get_serializer_class("ec2", "ec2")(operation_model=model)
    text = str(serializer.serialize(result)["body"])
    start = text.index(f"<{list_tag}>") + len(list_tag) + 2
    return text[start : text.rindex(f"</{list_tag}>")]


def list_items(rows: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Write flat rows as `<item>` elements."""
    for row in rows:
        fields = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in row.items())
        yield f"<item>{fields}</item>"


def list_answer(
    operation: str, list_tag: str, items: Iterable[str], next_token: str | None
) -> Answer:
    """Put fragments into a complete answer."""
    request_id = str(uuid.uuid4())
    token = f"<nextToken>{escape(next_token)}</nextToken>" if next_token else ""
    body = (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<{operation}Response xmlns="{_NAMESPACE}"><requestId>{request_id}</requestId>'
        f"<{list_tag}>{''.join(items)}</{list_tag}>{token}</{operation}Response>"
    )
    headers = {"Content-Type": "text/xml;charset=UTF-8", "x-amzn-RequestId": request_id}
    return Answer(status=200, headers=headers, body=body.encode())
