"""Where the demo finds the program, and what of it changes."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nodewright_local.demo.inventory import Inventory
from nodewright_local.demo.main import demo_directory
from nodewright_local.demo.resource_steps import InHand, is_grouping, kind, resource_line
from nodewright_local.demo.screen import Waiting
from nodewright_local.demo.stack import find_checkout, output
from nodewright_local.demo.walkthrough import CLASS_FILE, POOL_FILE, manifest
from nodewright_local.engine import EngineError, Phase, ResourceStep

ROOT = Path(__file__).parents[3]


def step(operation: str, phase: Phase, name: str = "vpc", **more: Any) -> ResourceStep:
    type_token = "aws:ec2/vpc:Vpc"
    return ResourceStep(
        urn=f"urn::{name}", type=type_token, name=name, operation=operation, phase=phase, **more
    )


@pytest.mark.parametrize("name", [CLASS_FILE, POOL_FILE])
def test_the_demo_brings_the_very_manifests_that_the_tests_use(name: str) -> None:
    shipped = ROOT / "local" / "nodewright_local" / "demo" / "manifests" / name
    assert shipped.read_bytes() == (ROOT / "tests" / "data" / "manifests" / name).read_bytes()


def test_only_the_clusters_name_is_filled_in() -> None:
    filled = manifest(CLASS_FILE, "blue")
    original = (ROOT / "tests" / "data" / "manifests" / CLASS_FILE).read_text("utf-8")
    assert filled == original.replace("${CLUSTER_NAME}", "blue")
    assert 'role: "KarpenterNodeRole-blue"' in filled


def test_the_checkout_is_the_one_the_package_was_installed_from() -> None:
    assert find_checkout() == ROOT


def test_a_folder_without_the_program_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="--project-dir"):
        find_checkout(tmp_path)


def test_a_missing_output_is_named_together_with_those_there_are() -> None:
    with pytest.raises(EngineError, match=r"no output 'kubeconfig'; it has clusterName, vpcId"):
        output({"vpcId": "vpc-1", "clusterName": "x"}, "kubeconfig")


def test_the_demo_lives_beside_the_laptop_cluster(tmp_path: Path) -> None:
    assert demo_directory({"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "nodewright" / "demo"


def test_leftovers_are_what_was_not_there_before() -> None:
    before = Inventory(ids={"VPCs": frozenset({"vpc-default"}), "roles": frozenset()})
    after = Inventory(ids={"VPCs": frozenset({"vpc-default", "vpc-1"}), "roles": frozenset()})
    assert after.beyond(before) == {"VPCs": {"vpc-1"}}
    assert before.beyond(after) == {}


@pytest.mark.parametrize(
    ("token", "short"),
    [
        ("aws:ec2/vpc:Vpc", "aws.ec2.Vpc"),
        ("kubernetes:rbac.authorization.k8s.io/v1:Role", "kubernetes.rbac.Role"),
        ("kubernetes:core/v1:Namespace", "kubernetes.core.Namespace"),
    ],
)
def test_resource_types_have_short_names(token: str, short: str) -> None:
    assert kind(token) == short


def test_components_and_providers_are_groupings() -> None:
    assert is_grouping("nodewright:index:Network")
    assert is_grouping("pulumi:providers:kubernetes")
    assert not is_grouping("aws:ec2/vpc:Vpc")


def test_a_finished_step_is_one_line() -> None:
    line = resource_line(step("create", Phase.DONE, seconds=1.25))
    assert line.split() == ["+", "aws.ec2.Vpc", "vpc", "(1.2", "s)"]
    assert resource_line(step("delete", Phase.FAILED)).endswith("FAILED")


def test_what_is_in_hand_is_what_was_started_and_has_not_ended() -> None:
    waiting = Waiting("")
    in_hand = InHand("Pulumi works", waiting)
    in_hand.see(step("create", Phase.STARTED, "a"))
    in_hand.see(step("create", Phase.STARTED, "b"))
    assert waiting.text == "Pulumi works: aws.ec2.Vpc a and 1 more"
    in_hand.see(step("create", Phase.DONE, "a"))
    assert waiting.text == "Pulumi works: aws.ec2.Vpc b"
    in_hand.see(step("create", Phase.DONE, "b"))
    assert waiting.text == "Pulumi works"


def test_the_command_lists_the_demo() -> None:
    program = shutil.which("nodewright", path=str(ROOT / ".venv" / "bin"))
    if program is None:
        pytest.skip("the nodewright command is not in .venv/bin")
    answer = subprocess.run([program, "local", "demo", "--help"], capture_output=True, text=True)
    assert answer.returncode == 0
    assert "--keep" in answer.stdout
