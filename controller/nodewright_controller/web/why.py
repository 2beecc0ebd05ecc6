"""`GET /api/v1/why?pod=NAMESPACE/NAME` and `?nodeclaim=NAME`: explanations as JSON.

Every replica serves it and only the leader answers; the others name it. Errors are Kubernetes `Status`
objects, so that `kubectl get --raw` prints their message; `details.group` is `nodewright`, which tells
them from those of an API server in between. It stands on the metrics port, read-only: whoever may
scrape that knows the names of pools and nodes already.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nodewright_controller.ports.answers import Answers, NoAnswer, UnknownSubject
from nodewright_controller.scheduling.explanations import Explanation

log = structlog.get_logger()

PATH: Final = "/api/v1/why"
_GROUP: Final = "nodewright"
_REASONS: Final = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}


class WhyDesk:
    """Where questions come in: the leader takes its seat while it leads."""

    def __init__(self) -> None:
        self.answers: Answers | None = None
        self.leader: Callable[[], str] = lambda: ""
        """Names the pod that leads, as far as this replica knows; empty: none."""

    @property
    def absence(self) -> str:
        """Why nobody sits here."""
        leader = self.leader()
        if not leader:
            return "this replica does not lead, and knows of none that does"
        return f"this replica does not lead, or has not begun to; the leader is pod {leader}"


def why_route(desk: WhyDesk) -> Route:
    """Return the route that answers from the desk."""

    async def why(request: Request) -> Response:
        asked = dict(request.query_params)
        if len(asked) != 1 or not asked.keys() <= {"pod", "nodeclaim"}:
            return _error(
                HTTPStatus.BAD_REQUEST, "ask for one of pod=NAMESPACE/NAME and nodeclaim=NAME"
            )
        ((kind, name),) = asked.items()
        if kind == "pod" and not all(name.partition("/")):
            return _error(HTTPStatus.BAD_REQUEST, f"pod={name!r} is not NAMESPACE/NAME")
        answers = desk.answers
        if answers is None:
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, desk.absence, desk.leader())
        try:
            return _answer(await (answers.pod if kind == "pod" else answers.node_claim)(name))
        except UnknownSubject as error:
            return _error(HTTPStatus.NOT_FOUND, str(error))
        except NoAnswer as error:
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except Exception:
            # What went wrong is for those who may read the log, not for everybody who may ask.
            log.exception("question not answered", kind=kind, name=name)
            return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "it failed; the log says why")

    return Route(PATH, why)


def _answer(found: Explanation) -> Response:
    return Response(msgspec.json.encode(found), media_type="application/json")


def _error(code: HTTPStatus, message: str, leader: str = "") -> Response:
    details = {"group": _GROUP, "kind": "why", **({"name": leader} if leader else {})}
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS[code],
        "details": details,
        "code": int(code),
    }
    return Response(msgspec.json.encode(status), int(code), media_type="application/json")
