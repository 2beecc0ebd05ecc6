"""The HTTP endpoint: one WSGI application on 127.0.0.1 for every AWS service.

A request is the control API's (`/_nodewright/`), ours (see `answers`), or moto's. All calls but
SQS's long polls run one at a time under the world's lock.
"""

import io
import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.request import Request
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from typing_extensions import override
from werkzeug.serving import BaseWSGIServer, make_server
from werkzeug.test import run_wsgi_app

from nodewright_local.aws import control
from nodewright_local.aws.answers import ANSWERS
from nodewright_local.aws.errors import AwsError
from nodewright_local.aws.recorder import summarise
from nodewright_local.aws.settings import AwsSettings
from nodewright_local.aws.wire import (
    Answer,
    Call,
    error_code_in,
    read_call,
    scope_of,
    write_answer,
)
from nodewright_local.aws.world import World

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
CONTROL_PREFIX = "/_nodewright/"
_UNLOCKED = {("sqs", "ReceiveMessage")}
"""Waits for messages inside moto; holding the lock would stop the world."""
_WITHOUT_MOTO = ("eks", "arc-zonal-shift")
"""Services of which moto's part, if it has one, is not used."""
_UNRECORDED = {("sqs", "ReceiveMessage")}

StartResponse = Callable[..., Any]
Environ = dict[str, Any]


class AwsApplication:
    """The WSGI application."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one HTTP request."""
        body = _take_body(environ)
        if environ["PATH_INFO"].startswith(CONTROL_PREFIX):
            response = control.respond(self.world, Request(environ))
            return response(environ, start_response)
        request = Request(dict(environ, **{"wsgi.input": io.BytesIO(body)}))
        answer = self._answer(request, environ, body)
        headers = [(name, value) for name, value in answer.headers.items()]
        start_response(f"{answer.status} {_reason(answer.status)}", headers)
        return [answer.body]

    def _answer(self, request: Request, environ: Environ, body: bytes) -> Answer:
        scope = scope_of(request)
        call = read_call(request, scope) if scope else None
        if call is None:
            with self.world.lock:
                return self._ask_moto_unparsed(environ, body)
        started = time.time()
        key = (call.service, call.operation)
        guard = nullcontext() if key in _UNLOCKED else self.world.lock
        with guard:
            answer, result = self._carry_out(call, request, environ, body)
        if key not in _UNRECORDED:
            self._record(call, answer, result, started)
        return answer

    def _carry_out(
        self, call: Call, request: Request, environ: Environ, body: bytes
    ) -> tuple[Answer, Any]:
        handler = ANSWERS.get((call.service, call.operation))
        try:
            result = handler(self.world, call) if handler else None
            if result is None:
                if call.service in _WITHOUT_MOTO:
                    raise not_there(call)
                return self._ask_moto(environ, body), None
        except ServiceException as error:
            return write_answer(call, request, error), None
        except NotImplementedError:
            return write_answer(call, request, not_there(call)), None
        except Exception as error:
            log.exception("%s:%s failed", call.service, call.operation)
            failure = AwsError("InternalFailure", f"the laptop's AWS failed: {error!r}")
            return replace(write_answer(call, request, failure), status=500), None
        if isinstance(result, Answer):
            return result, None
        return write_answer(call, request, result), result

    def _ask_moto_unparsed(self, environ: Environ, body: bytes) -> Answer:
        """Pass on what could not be read as an AWS call; a failure in moto is a plain 501."""
        try:
            return self._ask_moto(environ, body)
        except Exception as error:
            log.exception("moto failed on %s %s", environ["REQUEST_METHOD"], environ["PATH_INFO"])
            text = f"this request is not there on the laptop: {error!r}\n"
            headers = {"Content-Type": "text/plain"}
            return Answer(status=501, headers=headers, body=text.encode())

    def _ask_moto(self, environ: Environ, body: bytes) -> Answer:
        inner = dict(environ, **{"wsgi.input": io.BytesIO(body)})
        chunks, status, headers = run_wsgi_app(self._moto, inner, buffered=True)
        code = int(status.split()[0])
        plain = {name: value for name, value in headers.items() if name.lower() != "connection"}
        content = b"".join(chunks)
        return Answer(
            status=code,
            headers=plain,
            body=content,
            error_code=error_code_in(code, plain, content),
        )

    def _record(self, call: Call, answer: Answer, result: Any, started: float) -> None:
        self.world.recorder.add(
            {
                "time": started,
                "seconds": round(time.time() - started, 4),
                "service": call.service,
                "action": call.operation,
                "region": call.region,
                "access_key": call.access_key,
                "request": call.params,
                "response": {
                    "status": answer.status,
                    "error_code": answer.error_code,
                    "result": summarise(result) if answer.error_code is None else None,
                    "bytes": len(answer.body),
                },
            }
        )


def not_there(call: Call) -> AwsError:
    """The answer to a call that neither this package nor moto knows."""
    code = "InvalidRequestException" if call.service == "eks" else "InvalidAction"
    return AwsError(code, f"{call.service}:{call.operation} is not there on the laptop")


def _take_body(environ: Environ) -> bytes:
    """Read the request's body so that it can be read again by moto."""
    length = environ.get("CONTENT_LENGTH")
    stream = environ["wsgi.input"]
    if length:
        body: bytes = stream.read(int(length))
    elif environ.get("wsgi.input_terminated"):
        body = stream.read()
        environ["CONTENT_LENGTH"] = str(len(body))
        environ.pop("HTTP_TRANSFER_ENCODING", None)
    else:
        body = b""
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _reason(status: int) -> str:
    return "OK" if status < 400 else "Error"


class _QuietHandler(MotoRequestHandler):
    """Keep connections open between calls, and keep the log free of one line per call."""

    protocol_version = "HTTP/1.1"

    @override
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing; the recorder keeps the calls."""
        log.debug("%s %s %s", self.command, self.path, code)


class AwsServer:
    """A running endpoint; `url` is what AWS_ENDPOINT_URL must say."""

    def __init__(self, settings: AwsSettings) -> None:
        self.world = World(settings)
        self._server: BaseWSGIServer = make_server(
            HOST,
            settings.port,
            AwsApplication(self.world),
            threaded=True,
            request_handler=_QuietHandler,
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="aws-http", daemon=True
        )

    @property
    def url(self) -> str:
        """The endpoint's URL."""
        return f"http://{HOST}:{self._server.server_port}"

    def start(self) -> None:
        """Serve in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Stop serving and stop the clock."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.world.close()
