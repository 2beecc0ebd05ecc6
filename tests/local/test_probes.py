import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from nodewright_local.control_plane import ReadyWhen
from nodewright_local.pki import certificate_file, ensure_pki, key_file
from nodewright_local.probes import is_ready
from nodewright_local.state import ClusterState, plan_state
from typing_extensions import override


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def state(tmp_path: Path) -> ClusterState:
    state = plan_state(tmp_path, versions={}, binaries={})
    ensure_pki(state)
    return state


@pytest.fixture
def url(state: ClusterState) -> Iterator[str]:
    """Serve health over TLS, for clients with a certificate of the cluster CA."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(state.ca_file))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificate_file(state, "etcd"), key_file(state, "etcd"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_server_is_ready_when_all_its_addresses_answer(state: ClusterState, url: str) -> None:
    good, bad = f"{url}/healthz", f"{url}/readyz"
    assert is_ready(state, ReadyWhen(urls=(good,), client="admin"))
    assert not is_ready(state, ReadyWhen(urls=(good, bad), client="admin"))


def test_a_server_that_refuses_our_certificate_is_not_ready(state: ClusterState, url: str) -> None:
    assert not is_ready(state, ReadyWhen(urls=(f"{url}/healthz",)))


def test_a_port_is_ready_when_it_accepts(state: ClusterState) -> None:
    check = ReadyWhen(port=state.kubelet_port)
    assert not is_ready(state, check)
    with socket.create_server(("127.0.0.1", state.kubelet_port)):
        assert is_ready(state, check)


def test_a_check_of_nothing_never_passes(state: ClusterState) -> None:
    assert not is_ready(state, ReadyWhen())
