import json
import socket
from pathlib import Path

import pytest
from nodewright_local.state import (
    PORT_RANGE,
    ClusterState,
    StateError,
    cache_directory,
    choose_ports,
    plan_state,
    previous_ports,
    state_directory,
    write_whole,
)


def plan(directory: Path, previous: ClusterState | None = None) -> ClusterState:
    return plan_state(
        directory,
        versions={"etcd": "3.6.16"},
        binaries={"etcd": "/tools/etcd"},
        previous=previous,
        environ={},
    )


def test_a_saved_state_reads_back_the_same(tmp_path: Path) -> None:
    state = plan(tmp_path).with_pids({"etcd": 42})
    state.save()
    assert ClusterState.load(tmp_path) == state


def test_the_state_names_every_key_that_other_parts_read(tmp_path: Path) -> None:
    plan(tmp_path).save()
    document = json.loads((tmp_path / "cluster.json").read_text())
    assert document.keys() >= {
        "api_server_url",
        "ca_file",
        "ca_key_file",
        "admin_kubeconfig",
        "aws_url",
        "kubelet_port",
        "webhook_port",
        "pki_dir",
        "logs_dir",
        "pods_dir",
        "account_id",
        "region",
        "service_account_issuer",
        "versions",
        "pids",
    }
    assert document["account_id"] == "123456789012"
    assert document["region"] == "us-west-2"


def test_the_state_file_is_for_its_owner_only(tmp_path: Path) -> None:
    plan(tmp_path).save()
    assert (tmp_path / "cluster.json").stat().st_mode & 0o077 == 0


def test_a_missing_state_says_how_to_start_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="nodewright local up"):
        ClusterState.load(tmp_path)


def test_a_state_of_another_version_names_the_field_it_lacks(tmp_path: Path) -> None:
    plan(tmp_path).save()
    path = tmp_path / "cluster.json"
    document = json.loads(path.read_text())
    del document["webhook_port"]
    path.write_text(json.dumps(document))
    with pytest.raises(StateError, match="webhook_port"):
        ClusterState.load(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_broken_state_file_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(StateError, match=r"cluster\.json"):
        ClusterState.load(tmp_path)


def test_ports_are_free_different_and_below_the_ephemeral_range() -> None:
    ports = choose_ports(("a", "b", "c"), {})
    assert len(set(ports.values())) == 3
    assert all(port in PORT_RANGE for port in ports.values())


def test_a_kept_cluster_gets_its_ports_again(tmp_path: Path) -> None:
    first = plan(tmp_path)
    assert previous_ports(plan(tmp_path, first)) == previous_ports(first)


def test_a_port_that_was_taken_meanwhile_is_replaced() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert choose_ports(("a",), {"a": taken})["a"] != taken


def test_the_directories_follow_the_environment() -> None:
    assert state_directory({"NODEWRIGHT_LOCAL_DIR": "/x/y"}) == Path("/x/y")
    assert state_directory({"XDG_STATE_HOME": "/s"}) == Path("/s/nodewright/local")
    assert cache_directory({"NODEWRIGHT_CACHE": "/c"}) == Path("/c")
    assert cache_directory({"XDG_CACHE_HOME": "/c"}) == Path("/c/nodewright")


def test_the_region_can_be_chosen(tmp_path: Path) -> None:
    environ = {"NODEWRIGHT_LOCAL_REGION": "eu-west-1"}
    assert plan_state(tmp_path, versions={}, binaries={}, environ=environ).region == "eu-west-1"


def test_writing_whole_leaves_no_scratch_file(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "one")
    write_whole(tmp_path / "a", "two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "two\n"
