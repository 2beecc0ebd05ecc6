"""Readiness checks of the cluster's processes, one attempt at a time.

Decides whether a process can be used now; how often one asks is `supervisor.py`'s matter.
"""

import http.client
import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

from nodewright_local.control_plane import ReadyWhen
from nodewright_local.pki import certificate_file, key_file
from nodewright_local.state import ClusterState

ATTEMPT_S: Final = 3.0


def is_ready(state: ClusterState, check: ReadyWhen) -> bool:
    """Make one attempt; every refusal, timeout or other answer than 200 counts as not ready."""
    try:
        if check.port is not None:
            with socket.create_connection(("127.0.0.1", check.port), timeout=ATTEMPT_S):
                return True
        return bool(check.urls) and all(_answers(state, url, check.client) for url in check.urls)
    except (OSError, http.client.HTTPException):
        return False


def _answers(state: ClusterState, url: str, client: str | None) -> bool:
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=ATTEMPT_S, context=_context(state, client))
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=ATTEMPT_S)
    )
    try:
        connection.request("GET", parts.path or "/")
        return connection.getresponse().status == http.client.OK
    finally:
        connection.close()


def _context(state: ClusterState, client: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(state.ca_file))
    if client is not None:
        context.load_cert_chain(certificate_file(state, client), key_file(state, client))
    return context
