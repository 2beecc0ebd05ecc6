"""The stack itself: what Pulumi sees after `up`, and what a changed setting changes."""

import subprocess

import pytest

from tests.e2e.stage import ALLOWANCE_S, Stage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(ALLOWANCE_S)]


def test_a_preview_after_up_shows_no_change(stage: Stage) -> None:
    outcome = stage.stack.engine.preview()
    assert [f"{step.operation} {step.name} {step.properties}" for step in outcome.steps] == []
    assert outcome.changes["same"] > 100


def test_a_preview_that_reads_every_resource_again_shows_no_change(stage: Stage) -> None:
    outcome = stage.stack.engine.preview(refresh=True)
    changes = [f"{step.operation} {step.name} {step.properties}" for step in outcome.steps]
    assert [change for change in changes if not change.startswith("refresh")] == []
    assert not outcome.changed


def test_a_changed_setting_changes_only_the_deployment(stage: Stage) -> None:
    engine = stage.stack.engine
    try:
        engine.set_config({"nodewright:logLevel": "debug"})
        outcome = engine.up()
        assert [step.name for step in outcome.steps] == ["autoscaler-controller-deployment"]
        assert {step.operation for step in outcome.steps} == {"update"}
        assert not engine.preview().changed
    finally:
        engine.set_config({"nodewright:logLevel": "info"})
        engine.up()


def test_the_exported_kubeconfig_serves_kubectl(stage: Stage) -> None:
    answer = subprocess.run(
        [stage.state.binaries["kubectl"], "auth", "whoami", "-o", "name"],
        env={**stage.cluster.environ, "KUBECONFIG": str(stage.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr


def test_the_controller_runs_in_two_replicas_of_which_one_leads(stage: Stage) -> None:
    pods = stage.api.list("pods", namespace="karpenter")
    assert len(pods) == 2
    [lease] = [
        item
        for item in stage.api.list("leases", namespace="karpenter")
        if item["metadata"]["name"] == "karpenter-leader-election"
    ]
    names = [pod["metadata"]["name"] for pod in pods]
    assert lease["spec"]["holderIdentity"].split("_")[0] in names
