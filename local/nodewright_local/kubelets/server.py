"""The kubelet's HTTPS server: logs of containers, health, and the pods that run here.

Every node reports the same address and port, so one server stands for all kubelets. Only clients
with a certificate of the cluster CA are let in; the API server is the one that has such a need.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from typing_extensions import override

from nodewright_local.kubelets.logs import (
    LogRequest,
    container_log,
    is_since,
    limit,
    parse_log_request,
    present,
    select,
)
from nodewright_local.kubelets.pods.process import previous_log
from nodewright_local.kubelets.pods.runner import PodRunner
from nodewright_local.kubelets.pods.status import Running
from nodewright_local.state import ClusterState

FOLLOW_SECONDS = 0.3
SIMULATED = b"(this container is simulated by kwok: no process runs, so there is no output)\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletApi:
    """The routes, over the pod runner's knowledge and the log files."""

    runner: PodRunner
    logs_dir: Path

    def application(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(
            routes=[
                Route("/healthz", self._healthz),
                Route("/pods", self._pods),
                Route("/containerLogs/{namespace}/{pod}/{container}", self._logs),
                Route("/{rest:path}", self._unsupported, methods=["GET", "POST"]),
            ]
        )

    async def _healthz(self, _request: Request) -> Response:
        return PlainTextResponse("ok")

    async def _pods(self, _request: Request) -> Response:
        items = self.runner.pods()
        return JSONResponse({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items})

    async def _unsupported(self, request: Request) -> Response:
        return PlainTextResponse(
            f"the laptop cluster's kubelet serves container logs only, not {request.url.path}\n",
            status_code=501,
        )

    async def _logs(self, request: Request) -> Response:
        names = request.path_params
        namespace, pod, container = names["namespace"], names["pod"], names["container"]
        try:
            wanted = parse_log_request(request.query_params, datetime.now(UTC))
        except ValueError as error:
            return PlainTextResponse(f"{error}\n", status_code=400)
        path = container_log(self.logs_dir, namespace, pod, container)
        run = self.runner.find(namespace, pod)
        if run is None and not path.exists():
            return PlainTextResponse(SIMULATED)
        if wanted.previous:
            path = previous_log(path)
        if not path.exists():
            kind = "previous terminated container" if wanted.previous else "container"
            message = f'{kind} "{container}" in pod "{pod}" has no log yet\n'
            return PlainTextResponse(message, status_code=400)
        if wanted.follow and not wanted.previous:
            body = self._follow(path, wanted, namespace, pod, container)
            return StreamingResponse(body, media_type="text/plain")
        return StreamingResponse(_finished(path, wanted), media_type="text/plain")

    def _is_running(self, namespace: str, pod: str, container: str) -> bool:
        run = self.runner.find(namespace, pod)
        return run is not None and any(
            item.spec["name"] == container and isinstance(item.report.state, Running)
            for item in run.containers
        )

    async def _follow(
        self, path: Path, wanted: LogRequest, namespace: str, pod: str, container: str
    ) -> AsyncIterator[bytes]:
        """Yield what is there, then what comes, until the container's run ends."""
        left = wanted.limit_bytes
        with path.open("rb") as stream:  # held open, so a later run's file is not mixed in
            pending = list(select(stream.readlines(), wanted))
            while True:
                running = self._is_running(namespace, pod, container)
                for chunk in limit(pending, left):
                    yield chunk
                if left is not None:
                    left -= sum(map(len, pending))
                    if left <= 0:
                        return
                lines = [line for line in stream.readlines() if is_since(line, wanted.since)]
                pending = [present(line, timestamps=wanted.timestamps) for line in lines]
                if pending:
                    continue
                if not running:
                    return
                await asyncio.sleep(FOLLOW_SECONDS)


def _finished(path: Path, wanted: LogRequest) -> Iterator[bytes]:
    with path.open("rb") as stream:
        yield from limit(select(stream, wanted), wanted.limit_bytes)


class _Server(uvicorn.Server):
    """uvicorn without signal handlers: the process has its own."""

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(api: KubeletApi, cluster: ClusterState) -> None:
    """Serve until cancelled."""
    server = _Server(
        uvicorn.Config(
            api.application(),
            host="127.0.0.1",
            port=cluster.kubelet_port,
            ssl_certfile=str(cluster.pki_dir / "kubelet.crt"),
            ssl_keyfile=str(cluster.pki_dir / "kubelet.key"),
            ssl_ca_certs=str(cluster.ca_file),
            ssl_cert_reqs=ssl.CERT_REQUIRED,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
    )
    await server.serve()
