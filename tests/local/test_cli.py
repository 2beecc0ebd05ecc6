from importlib import metadata
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from nodewright.cli import COMMANDS, main
from nodewright_local.cli import duration
from nodewright_local.lifecycle import prepare
from nodewright_local.runtime import (
    Phase,
    ProcessIdentity,
    ProcessStatus,
    Runtime,
    identify,
)
from nodewright_local.state import ClusterState
from nodewright_local.toolbox import Binary

GONE = ProcessIdentity(pid=1, started="an earlier boot:1")


@pytest.fixture
def state(
    tmp_path: Path, binaries: dict[str, Binary], monkeypatch: pytest.MonkeyPatch
) -> ClusterState:
    monkeypatch.setenv("NODEWRIGHT_LOCAL_DIR", str(tmp_path))
    return prepare(tmp_path, binaries, None)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["local", *arguments])
    return result.exit_code, result.output


def test_the_group_is_found_through_its_entry_point() -> None:
    with click.Context(main) as context:
        assert "local" in main.list_commands(context)
        assert main.get_command(context, "no-such-command") is None


def test_an_entry_point_that_is_no_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    point = metadata.EntryPoint(name="odd", value="os:sep", group=COMMANDS)

    def entry_points(**_: str) -> metadata.EntryPoints:
        return metadata.EntryPoints([point])

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    result = CliRunner().invoke(main, ["odd"])
    assert result.exit_code == 1
    assert "nodewright.commands:odd (os:sep) is not a command" in result.output


def test_the_kubeconfig_is_printed_or_named(state: ClusterState) -> None:
    assert run("kubeconfig") == (0, state.admin_kubeconfig.read_text())
    assert run("kubeconfig", "--path") == (0, f"{state.admin_kubeconfig}\n")


@pytest.mark.parametrize("command", ["status", "kubeconfig", "env"])
def test_without_a_cluster_a_command_says_how_to_start_one(command: str, tmp_path: Path) -> None:
    code, output = run(command, "--dir", str(tmp_path))
    assert code == 1
    assert "nodewright local up" in output
    assert "Traceback" not in output


def test_status_shows_each_process_with_its_log(state: ClusterState, quiet_process: object) -> None:
    pid = quiet_process.pid  # type: ignore[attr-defined]
    alive = identify(pid)
    assert alive
    rows = (
        ProcessStatus(
            name="etcd",
            phase=Phase.READY,
            version="3.6.16",
            log_file=str(state.log_file("etcd")),
            identity=alive,
            started_at=0.0,
            restarts=2,
        ),
        ProcessStatus(
            name="kwok", phase=Phase.READY, version="0.8.0", log_file="/x", identity=GONE
        ),
    )
    Runtime(supervisor=alive, processes=rows).save(state.state_dir)
    code, output = run("status")
    assert code == 0
    etcd, kwok = (line for line in output.splitlines() if line.startswith(("etcd", "kwok")))
    assert str(pid) in etcd
    assert str(state.log_file("etcd")) in etcd
    assert "dead" in kwok
    assert state.api_server_url in output


def test_status_tells_that_the_supervisor_is_gone(state: ClusterState) -> None:
    Runtime(supervisor=GONE).save(state.state_dir)
    code, output = run("status")
    assert code == 1
    assert "supervisor is gone" in output


def test_an_unknown_process_is_refused_by_name(tmp_path: Path) -> None:
    code, output = run("up", "--dir", str(tmp_path), "--only", "etcd,coredns")
    assert code == 2
    assert "coredns" in output


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (185, "3m05s"), (7620, "2h07m")]
)
def test_spans_read_as_people_write_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
