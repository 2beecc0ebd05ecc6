"""What a person reads with kubectl, and what the API server refuses."""

import re
import subprocess

import pytest
import yaml

from tests.e2e.stage import ALLOWANCE_S, Stage, node_class, node_pool
from tests.local.running import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(ALLOWANCE_S)]


def refusal(stage: Stage, manifest: str) -> str:
    """Return what kubectl says when the API server refuses a manifest."""
    answer = subprocess.run(
        [stage.state.binaries["kubectl"], "apply", "-f", "-"],
        env=dict(stage.cluster.environ),
        input=manifest,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode != 0, f"it was accepted: {answer.stdout}"
    return answer.stderr


def test_explain_tells_what_the_fields_of_a_node_pool_are(stage: Stage) -> None:
    answer = stage.cluster.kubectl("explain", "nodepool.spec")
    assert re.search(r"GROUP:\s+karpenter\.sh", answer)
    assert re.search(r"VERSION:\s+v1\b", answer)
    for field in ("disruption", "limits", "template", "weight"):
        # A field's name, its type, and below it a sentence on what it is.
        assert re.search(rf"^  {field}\t.*\n    \w", answer, re.MULTILINE), answer


def test_tables_show_class_nodes_and_readiness(stage: Stage) -> None:
    stage.apply(node_class(stage), node_pool("web", category=["t"]))
    stage.run_pod("web")
    stage.wait_for_pod("web")

    def tables() -> str:
        answer = stage.cluster.kubectl("get", "nodepools,nodeclaims,ec2nodeclasses")
        counted = re.search(r"nodepool\.karpenter\.sh/web\s+default\s+1\s+True", answer)
        return answer if counted else ""

    answer = eventually(tables, within_s=30, what="the NodePool counts its node")
    assert re.search(r"NAME\s+NODECLASS\s+NODES\s+READY\s+AGE", answer), answer
    assert re.search(r"NAME\s+TYPE\s+CAPACITY\s+ZONE\s+NODE\s+READY\s+AGE", answer), answer
    assert re.search(
        r"nodeclaim\.karpenter\.sh/web-\w+\s+t3a\.nano\s+on-demand\s+us-west-2", answer
    )
    assert re.search(r"ec2nodeclass\.karpenter\.k8s\.aws/default\s+True", answer), answer


def test_a_node_pool_reads_in_the_old_version_as_it_was_written(stage: Stage) -> None:
    stage.apply(
        stage.manifest("walkthrough-ec2nodeclass.yaml"), stage.manifest("walkthrough-nodepool.yaml")
    )
    old = yaml.safe_load(
        stage.cluster.kubectl("get", "nodepool.v1beta1.karpenter.sh", "hello-world", "-o", "yaml")
    )
    assert old["apiVersion"] == "karpenter.sh/v1beta1"
    assert old["spec"]["disruption"]["consolidationPolicy"] == "WhenUnderutilized"
    assert old["spec"]["disruption"]["consolidateAfter"] == "30s"
    assert old["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "default"
    new = yaml.safe_load(stage.cluster.kubectl("get", "nodepool", "hello-world", "-o", "yaml"))
    assert new["apiVersion"] == "karpenter.sh/v1"
    assert new["spec"]["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    assert new["spec"]["template"]["spec"]["nodeClassRef"] == {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": "default",
    }


def test_short_names_work(stage: Stage) -> None:
    stage.apply(node_class(stage))
    assert stage.cluster.kubectl("get", "ec2nc", "-o", "name").strip().endswith("/default")


def test_a_misspelt_field_is_refused_by_its_name(stage: Stage) -> None:
    wrong = yaml.safe_load(node_pool("wrong"))
    wrong["spec"]["template"]["spec"]["requirments"] = []
    said = refusal(stage, yaml.safe_dump(wrong))
    assert "spec.template.spec.requirments" in said


def test_a_bad_value_is_refused_with_its_field(stage: Stage) -> None:
    wrong = yaml.safe_load(node_pool("wrong"))
    wrong["spec"]["template"]["spec"]["requirements"][0]["operator"] = "Is"
    wrong["spec"]["disruption"]["consolidateAfter"] = "soon"
    said = refusal(stage, yaml.safe_dump(wrong))
    assert "spec.template.spec.requirements[0].operator" in said
    assert "spec.disruption.consolidateAfter" in said


def test_a_node_class_without_a_role_is_refused(stage: Stage) -> None:
    wrong = yaml.safe_load(node_class(stage))
    del wrong["spec"]["role"]
    assert "role" in refusal(stage, yaml.safe_dump(wrong))
