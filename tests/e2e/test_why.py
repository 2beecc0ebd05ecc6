"""`nodewright why` on the running cluster, asked with the kubeconfig that the stack exports."""

import json
from typing import Any

import pytest
from nodewright_local.demo.emulator import Pool

from tests.e2e.stage import ALLOWANCE_S, Stage, node_class, node_pool
from tests.local.running import eventually, nodewright

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(ALLOWANCE_S)]


def why(stage: Stage, *words: str) -> str:
    """Run the command as a user does; it must succeed and have nothing to complain of."""
    environ = {**stage.stack.environ, "KUBECONFIG": str(stage.kubeconfig)}
    answer = nodewright("why", *words, environ=environ)
    assert (answer.returncode, answer.stderr) == (0, ""), answer
    return answer.stdout


def why_type(stage: Stage, claim: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(why(stage, "type", claim, "-o", "json"))
    return found


def test_a_pod_without_a_node_is_explained_by_the_line_of_its_event_and_a_tree(
    stage: Stage,
) -> None:
    stage.apply(node_class(stage), node_pool("web", category=["t"]))
    stage.run_pod("arm-only", nodeSelector={"kubernetes.io/arch": "arm64"})

    def told() -> list[str]:
        return [text for text in stage.events("arm-only", "FailedScheduling") if "[P101]" in text]

    eventually(told, within_s=60, what="the controller says why")
    line, *tree = why(stage, "pod", "default/arm-only").splitlines()

    assert told()[-1] == f"Failed to schedule pod, {line}"
    assert tree[0].startswith("blocked for ")
    assert "pools   0 of 1 can build one" in tree
    assert any(row.endswith("(proven)") for row in tree)
    found = json.loads(why(stage, "pod", "default/arm-only", "-o", "json"))
    assert (found["verdict"], found["code"], found["line"]) == ("blocked", "P101", line)
    assert found["evaluated"] >= 1


def test_a_placed_pod_and_the_type_of_its_claim_are_explained(stage: Stage) -> None:
    # What is drained counts as out of stock for three minutes: no other test may count on it.
    stage.emulator.set_capacity([Pool(instance_type="m5a.large", capacity_type="on-demand")])
    stage.apply(node_class(stage), node_pool("web", family=["m5", "m5a"], cpu=["2"]))
    stage.run_pod("web")
    node = stage.wait_for_pod("web")

    assert why(stage, "pod", "default/web", "-o", "line").startswith(
        f"pod/default/web placed: it is on node/{node}"
    )
    claim = next(iter(stage.claims()))
    found = why_type(stage, claim)
    assert (found["verdict"], found["code"]) == ("fallback", "T105"), found
    assert "m5a.large on-demand was out of stock" in found["line"]
    assert found["moreUsdPerHour"] > 0
    assert found["instanceType"] == stage.instance_of(node).instance_type
    assert found["line"].endswith(f"[{found['code']}]")
    assert not found["replayed"]
