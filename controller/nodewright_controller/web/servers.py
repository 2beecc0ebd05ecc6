"""The HTTP servers of the controller: /metrics, /healthz and /readyz, and whatever app a caller brings.

Upstream: controller-runtime's metrics and health-probe servers, on the same ports and paths.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Iterator

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from typing_extensions import override

from nodewright_controller.runtime.metrics import REGISTRY


class _Server(uvicorn.Server):
    """A uvicorn server that leaves the process's signals to the process."""

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(app: ASGIApp, host: str, port: int, tls: tuple[str, str] | None = None) -> None:
    """Serve an app until cancelled; `tls` is the path of a certificate chain and of its key."""
    await _Server(server_config(app, host, port, tls)).serve()


def server_config(
    app: ASGIApp, host: str, port: int, tls: tuple[str, str] | None = None
) -> uvicorn.Config:
    """Return the configuration of a quiet server."""
    certificate, key = tls or (None, None)
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        lifespan="off",
        log_config=None,
        access_log=False,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_graceful_shutdown=3,
    )


async def serve_tls(
    app: ASGIApp, host: str, port: int, tls: tuple[str, str], reload_every_seconds: float = 30.0
) -> None:
    """Serve over TLS; new connections see a certificate that was replaced on disk."""
    config = server_config(app, host, port, tls)
    config.load()

    async def reload() -> None:
        while True:
            await asyncio.sleep(reload_every_seconds)
            if config.ssl is not None:
                with contextlib.suppress(OSError, ssl.SSLError):
                    config.ssl.load_cert_chain(*tls)

    reloading = asyncio.create_task(reload(), name="certificate-reload")
    try:
        await _Server(config).serve()
    finally:
        reloading.cancel()


def metrics_app(*further: Route) -> Starlette:
    """Return the app of the metrics port, with what else is served there."""

    async def metrics(_: Request) -> Response:
        # Thousands of series take a while to render: not on the event loop.
        text = await asyncio.to_thread(generate_latest, REGISTRY)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[Route("/metrics", metrics), *further])


def health_app(not_ready: Callable[[], str]) -> Starlette:
    """Return the app of the health port; `not_ready` says what is missing, or nothing."""

    async def alive(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def ready(_: Request) -> Response:
        missing = not_ready()
        return PlainTextResponse(missing, 503) if missing else PlainTextResponse("ok")

    return Starlette(routes=[Route("/healthz", alive), Route("/readyz", ready)])
