import json
from pathlib import Path

import pytest
import yaml
from nodewright_local.control_plane import (
    PROCESS_NAMES,
    base_environment,
    process_specs,
    write_configuration,
)
from nodewright_local.kwok import stage_files
from nodewright_local.state import ClusterState, plan_state
from nodewright_local.toolbox import Binary


@pytest.fixture
def state(tmp_path: Path, binaries: dict[str, Binary]) -> ClusterState:
    return plan_state(
        tmp_path,
        versions={name: binary.version for name, binary in binaries.items()},
        binaries={name: str(binary.path) for name, binary in binaries.items()},
        environ={},
    )


def flags(state: ClusterState, process: str) -> dict[str, str]:
    spec = next(spec for spec in process_specs(state) if spec.name == process)
    return dict(flag.removeprefix("--").split("=", 1) for flag in spec.command[1:])


def test_the_processes_are_those_that_are_promised(state: ClusterState) -> None:
    assert tuple(spec.name for spec in process_specs(state)) == PROCESS_NAMES


def test_a_process_needs_only_processes_that_come_before_it(state: ClusterState) -> None:
    seen: set[str] = set()
    for spec in process_specs(state):
        assert set(spec.after) <= seen, spec.name
        seen.add(spec.name)


def test_every_server_listens_on_loopback_only(state: ClusterState) -> None:
    for process in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert flags(state, process)["bind-address"] == "127.0.0.1"
    assert flags(state, "etcd")["listen-client-urls"].startswith("https://127.0.0.1:")
    assert flags(state, "kwok")["server-address"].startswith("127.0.0.1:")


def test_the_api_server_asks_eks_who_a_token_belongs_to(state: ClusterState) -> None:
    write_configuration(state)
    path = flags(state, "kube-apiserver")["authentication-token-webhook-config-file"]
    document = json.loads(Path(path).read_text())
    server = document["clusters"][0]["cluster"]["server"]
    assert server == f"{state.aws_url}/_nodewright/authenticate"


def test_the_api_server_trusts_nodes_no_more_than_eks_does(state: ClusterState) -> None:
    found = flags(state, "kube-apiserver")
    assert found["authorization-mode"] == "Node,RBAC"
    assert "NodeRestriction" in found["enable-admission-plugins"]


def test_a_users_own_accounts_do_not_reach_the_processes() -> None:
    environ = {"AWS_PROFILE": "x", "KUBECONFIG": "y", "PULUMI_HOME": "z", "HOME": "/h"}
    assert base_environment(environ).keys() & {*environ} == {"HOME"}


@pytest.mark.parametrize("path", stage_files(), ids=lambda path: path.stem)
def test_a_stage_file_is_one_stage_that_bears_its_name(path: Path) -> None:
    stage = yaml.safe_load(path.read_text())
    assert (stage["apiVersion"], stage["kind"]) == ("kwok.x-k8s.io/v1alpha1", "Stage")
    assert stage["metadata"]["name"] == path.stem


@pytest.mark.parametrize(
    "path", [p for p in stage_files() if p.stem.startswith("pod-")], ids=lambda path: path.stem
)
def test_no_stage_touches_the_controllers_own_pods(path: Path) -> None:
    stage = yaml.safe_load(path.read_text())
    excluding = [
        expression
        for expression in stage["spec"]["selector"]["matchExpressions"]
        if expression["operator"] == "NotIn" and expression["values"] == ["karpenter/karpenter"]
    ]
    assert excluding or stage["metadata"]["name"] == "pod-complete"  # a Job's pods only


@pytest.mark.parametrize("field", ["capacity", "allocatable", "addresses", "daemonEndpoints"])
def test_no_stage_sets_what_the_joiner_sets(field: str) -> None:
    for path in stage_files():
        stage = yaml.safe_load(path.read_text())
        for patch in stage["spec"]["next"].get("patches", ()):
            assert f"{field}:" not in patch["template"], path.name
