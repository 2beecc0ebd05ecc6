"""One laptop cluster with the stack on it, for all end-to-end tests.

The stack comes up once. Each test finds it without NodePools and pods, and leaves it so; the test
that destroys it comes last.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from nodewright_local.environment import clean_environment
from nodewright_local.lifecycle import tail
from nodewright_local.state import ClusterState

from tests.e2e.stage import Stage, open_stage
from tests.local.running import LaptopCluster, nodewright

HERE = Path(__file__).parent
TURNS = {"test_demo.py": 1, "test_destroy.py": 3}
SHOWN_LINES = 30


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the end-to-end tests after the quick ones: the demo, the stack's, and its end."""

    def turn(item: pytest.Item) -> int:
        return TURNS.get(item.path.name, 2) if item.path.parent == HERE else 0

    items.sort(key=turn)  # stable: the random order stays within each group


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the logs that tell why a test failed; the cluster is gone afterwards."""
    report = yield
    stage = getattr(item, "funcargs", {}).get("stage")
    if report.failed and isinstance(stage, Stage):
        logs = stage.cluster.state.logs_dir
        for log in [*sorted(logs.glob("pods/*.log")), logs / "kubelets.log", logs / "aws.log"]:
            report.sections.append((log.name, tail(log, SHOWN_LINES)))
    return report


@pytest.fixture(scope="session")
def whole_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Start a cluster, bring the stack up through the engine, and take all down at the end."""
    directory = tmp_path_factory.mktemp("e2e") / "state"
    environ = {**os.environ, "NODEWRIGHT_LOCAL_DIR": str(directory)}
    answer = nodewright("local", "up", environ=environ)
    if answer.returncode != 0:
        pytest.fail(f"the laptop cluster did not come up:\n{answer.stderr}")
    try:
        state = ClusterState.load(directory)
        cluster = LaptopCluster(state=state, environ=clean_environment(state, environ))
        with open_stage(cluster) as stage:
            yield stage
    finally:
        nodewright("local", "down", environ=environ)


@pytest.fixture
def stage(whole_stage: Stage) -> Iterator[Stage]:
    """Give the stack without pods, NodePools and nodes of them, and clear up afterwards."""
    yield whole_stage
    whole_stage.clear()
