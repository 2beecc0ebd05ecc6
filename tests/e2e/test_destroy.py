"""The end of the stack. Runs after all other end-to-end tests (see conftest.py)."""

import pytest
from nodewright_local.demo.inventory import take_inventory

from tests.e2e.stage import ALLOWANCE_S, Stage
from tests.local.running import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(ALLOWANCE_S)]


def test_destroy_leaves_nothing(whole_stage: Stage) -> None:
    stage = whole_stage
    made = take_inventory(stage.clients).beyond(stage.before)
    assert {"VPCs", "EKS clusters", "queues", "roles", "event rules"} <= set(made)

    outcome = stage.stack.engine.destroy(remove=True)

    assert outcome.changes["delete"] == stage.came_up.changes["create"]
    eventually(
        lambda: not take_inventory(stage.clients).beyond(stage.before),
        within_s=20,
        what="nothing is left in AWS",
    )
    assert stage.cluster.get("namespace", "karpenter") is None
    definitions = stage.cluster.kubectl("get", "crds", "-o", "name")
    assert "karpenter" not in definitions
