"""A stand-in per test module, on a port of its own, with the clock turned up."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from nodewright_local.aws import moto_access
from nodewright_local.aws.server import AwsServer
from nodewright_local.aws.settings import AwsSettings, Delays

from tests.local.aws.account import Account

HERE = Path(__file__).parent
SERVER_TEST_SECONDS = 90
"""These tests start a server per module; on a busy machine its start alone may take ten seconds."""

QUICK = Delays(
    pending=0.15, shutting_down=0.15, terminated_visible=5.0, cluster=0.1, nodegroup=0.05
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder more time than the pure ones have."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SERVER_TEST_SECONDS))


@pytest.fixture(scope="module")
def server() -> Iterator[AwsServer]:
    """Start the stand-in; moto's state is the process's, so it is forgotten at the end."""
    kept = dict(os.environ)
    settings = AwsSettings(
        api_server_url="https://127.0.0.1:6443",
        ca_pem="-----BEGIN CERTIFICATE-----\nlaptop\n-----END CERTIFICATE-----\n",
        delays=QUICK,
    )
    running = AwsServer(settings)
    moto_access.reset()
    running.start()
    yield running
    running.close()
    moto_access.reset()
    os.environ.clear()
    os.environ.update(kept)


@pytest.fixture(scope="module")
def account(server: AwsServer) -> Account:
    """An account with a network, a node role and a launch template."""
    return Account(server)


@pytest.fixture(autouse=True)
def full_capacity(server: AwsServer) -> Iterator[None]:
    """Every test begins and ends with nothing drained."""
    server.world.capacity.replace([])
    yield
    server.world.capacity.replace([])
