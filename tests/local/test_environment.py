import subprocess
from pathlib import Path

import pytest
from nodewright_local.environment import (
    FOREIGN,
    clean_environment,
    cluster_environment,
    prepare_environment,
    render_exports,
)
from nodewright_local.state import ClusterState, plan_state


@pytest.fixture
def state(tmp_path: Path) -> ClusterState:
    directory = tmp_path / "it's here"  # a path that needs quoting
    return plan_state(directory, versions={}, binaries={"etcd": "/opt/etcd/etcd"}, environ={})


def test_every_tool_is_led_to_the_cluster(state: ClusterState) -> None:
    found = cluster_environment(state, {"PATH": "/usr/bin"})
    assert found["KUBECONFIG"] == str(state.admin_kubeconfig)
    assert found["AWS_ENDPOINT_URL"] == state.aws_url
    assert found["AWS_REGION"] == found["AWS_DEFAULT_REGION"] == "us-west-2"
    assert found["PULUMI_BACKEND_URL"] == f"file://{state.pulumi_dir}"
    assert found["PULUMI_HOME"] == str(state.pulumi_home)


def test_the_path_holds_our_commands_then_the_users_then_the_binaries(state: ClusterState) -> None:
    folders = cluster_environment(state, {"PATH": "/usr/bin"})["PATH"].split(":")
    assert folders.index("/usr/bin") < folders.index("/opt/etcd")
    assert folders[-1] == "/opt/etcd"


def test_a_users_own_profile_is_dropped(state: ClusterState) -> None:
    found = clean_environment(state, {"AWS_PROFILE": "production", "PATH": "/bin", "LANG": "C"})
    assert not found.keys() & set(FOREIGN)
    assert found["LANG"] == "C"


def test_a_shell_can_evaluate_the_exports(state: ClusterState) -> None:
    script = f'{render_exports(state)}\nprintf "%s\\n" "$KUBECONFIG" "${{AWS_PROFILE-none}}"'
    answer = subprocess.run(
        ["sh", "-c", script],
        env={"AWS_PROFILE": "production"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.splitlines() == [str(state.admin_kubeconfig), "none"]


def test_the_named_files_and_folders_are_made(state: ClusterState) -> None:
    prepare_environment(state)
    found = cluster_environment(state)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "PULUMI_HOME"):
        assert Path(found[name]).exists(), name
    assert state.pulumi_dir.is_dir()
