"""The conversion webhook: what the API server asks when an object is wanted in another version.

Decides nothing about objects (that is `api.conversion`); it reads ConversionReviews and answers
them. Every replica serves it, leader or not: without it nobody could read a v1beta1 object. The
protocol knows success or failure of a whole review only, so one broken object fails the review that
it is in, with a message that names each broken object and field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from nodewright_controller.api.conversion import ConversionError, convert

PATH: Final = "/convert"


class NotAReview(ValueError):
    """The request is no ConversionReview; the message says what is missing."""


def review(body: bytes) -> bytes:
    """Answer one ConversionReview, JSON to JSON; objects come back in the order they came in.

    Raises:
        NotAReview: the body is no ConversionReview with a request.

    """
    request = _request(body)
    converted: list[dict[str, Any]] = []
    refusals: list[str] = []
    for position, item in enumerate(request.get("objects") or ()):
        try:
            if not isinstance(item, Mapping):
                raise ConversionError(f"objects[{position}]: expected an object")
            converted.append(convert(item, str(request.get("desiredAPIVersion"))))
        except ConversionError as error:
            refusals.append(str(error))
    response: dict[str, Any] = {"uid": request.get("uid", "")}
    if refusals:
        response["result"] = {"status": "Failure", "message": "; ".join(refusals)}
        response["convertedObjects"] = []
    else:
        response["result"] = {"status": "Success"}
        response["convertedObjects"] = converted
    return msgspec.json.encode(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "response": response,
        }
    )


def _request(body: bytes) -> Mapping[str, Any]:
    try:
        parsed = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise NotAReview(f"the body is no JSON: {error}") from error
    if not isinstance(parsed, Mapping) or parsed.get("kind") != "ConversionReview":
        raise NotAReview("the body is no ConversionReview (kind: ConversionReview)")
    request = parsed.get("request")
    if not isinstance(request, Mapping) or not isinstance(request.get("objects") or [], list):
        raise NotAReview("the ConversionReview has no request with a list of objects")
    return request


async def _convert(request: Request) -> Response:
    body = await request.body()
    try:  # a list of thousands takes a while: the loop also renews the lease
        answer = await run_in_threadpool(review, body)
    except NotAReview as error:
        return PlainTextResponse(f"{error}\n", status_code=400)
    return Response(answer, media_type="application/json")


def conversion_route() -> Route:
    """Return the route of the webhook, for an app that serves more than this."""
    return Route(PATH, _convert, methods=["POST"])


def conversion_app() -> Starlette:
    """Return an app that serves nothing but the webhook."""
    return Starlette(routes=[conversion_route()])
