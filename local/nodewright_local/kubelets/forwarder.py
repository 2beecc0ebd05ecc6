"""Lead the API server's webhook calls to a Ready controller pod, as a Service would.

A TCP listener on 127.0.0.1 with one fixed port; TLS passes through untouched.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

log = logging.getLogger(__name__)

WEBHOOK_PORT = 8443
CONNECT_SECONDS = 2.0
_CHUNK_BYTES = 1 << 16


def rotate(addresses: Sequence[str], turn: int) -> list[str]:
    """Return the addresses beginning with the one whose turn it is."""
    if not addresses:
        return []
    start = turn % len(addresses)
    return [*addresses[start:], *addresses[:start]]


@dataclass(slots=True, kw_only=True)
class WebhookForwarder:
    """The listener; ``ready_addresses`` is asked at each connection."""

    port: int
    ready_addresses: Callable[[], Sequence[str]]
    target_port: int = WEBHOOK_PORT
    _turn: int = 0

    async def run(self) -> None:
        """Listen until cancelled."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await self._connect()
            if upstream is None:
                return
            pod_reader, pod_writer = upstream
            try:
                await asyncio.gather(_copy(reader, pod_writer), _copy(pod_reader, writer))
            finally:
                await _close(pod_writer)
        finally:
            await _close(writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect to the next Ready pod that answers; None if there is none."""
        addresses = rotate(self.ready_addresses(), self._turn)
        self._turn += 1
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(address, self.target_port)
            except (OSError, TimeoutError) as error:
                log.warning("pod at %s does not take webhook connections: %s", address, error)
        log.warning("webhook connection closed: no controller pod is ready")
        return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction until its end, and pass the end on."""
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()


async def _close(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.close()
        await writer.wait_closed()
