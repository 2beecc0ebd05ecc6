"""Fixtures of the laptop cluster's tests."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nodewright_local.environment import clean_environment
from nodewright_local.state import ClusterState
from nodewright_local.toolbox import Binary, Source

from tests.local.running import LaptopCluster, nodewright

BINARIES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
)


@pytest.fixture
def binaries(tmp_path: Path) -> dict[str, Binary]:
    """Return binaries that are named but never run."""
    return {
        name: Binary(name=name, path=tmp_path / "bin" / name, version="1.36.3", source=Source.CACHE)
        for name in BINARIES
    }


@pytest.fixture(scope="session")
def laptop_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopCluster]:
    """Start a whole laptop cluster of its own and take it down after the last test.

    Tests that use it carry `@pytest.mark.cluster` and `@pytest.mark.timeout(...)` with an
    allowance for the start: the first one pays for it (and for building binaries, once a machine).
    """
    directory = tmp_path_factory.mktemp("laptop")
    environ = {**os.environ, "NODEWRIGHT_LOCAL_DIR": str(directory / "state")}
    # The supervisor outlives the command, so the command runs in a process of its own.
    answer = nodewright("local", "up", environ=environ)
    if answer.returncode != 0:
        pytest.fail(f"the laptop cluster did not come up:\n{answer.stderr}")
    try:
        state = ClusterState.load(directory / "state")
        yield LaptopCluster(state=state, environ=clean_environment(state, environ))
    finally:
        nodewright("local", "down", environ=environ)


@pytest.fixture
def quiet_process() -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process that does nothing until it is ended."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command, start_new_session=True) as process:
        yield process
        process.kill()
