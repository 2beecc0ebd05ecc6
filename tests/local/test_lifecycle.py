import subprocess
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nodewright_local import lifecycle
from nodewright_local.lifecycle import LifecycleError, UpOptions, down, prepare, tail, up
from nodewright_local.progress import Progress, Silence
from nodewright_local.runtime import (
    Phase,
    ProcessIdentity,
    ProcessStatus,
    Runtime,
    identify,
    load_runtime,
)
from nodewright_local.state import ClusterState
from nodewright_local.toolbox import Binary
from typing_extensions import override

GONE = ProcessIdentity(pid=1, started="an earlier boot:1")


@pytest.fixture
def offline(binaries: dict[str, Binary], monkeypatch: pytest.MonkeyPatch) -> list[ClusterState]:
    """Make `up` end where processes would be started; return the states it would start."""
    started: list[ClusterState] = []

    def find(_tools: Sequence[object], _progress: Progress) -> Mapping[str, Binary]:
        return binaries

    def start(state: ClusterState, _options: UpOptions, _progress: Progress) -> None:
        started.append(state)

    monkeypatch.setattr(lifecycle, "ensure", find)
    monkeypatch.setattr(lifecycle, "_start_in_background", start)
    return started


class Notes(Silence):
    def __init__(self) -> None:
        self.lines: list[str] = []

    @override
    def note(self, text: str) -> None:
        self.lines.append(text)

    @override
    @contextmanager
    def step(self, title: str) -> Any:
        self.lines.append(title)
        yield


def table(directory: Path, supervisor: ProcessIdentity, etcd: ProcessIdentity | None) -> None:
    row = ProcessStatus(name="etcd", phase=Phase.READY, version="3.6", log_file="/x", identity=etcd)
    Runtime(supervisor=supervisor, processes=(row,)).save(directory)


def test_a_directory_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(LifecycleError, match=r"not empty.*NODEWRIGHT_LOCAL_DIR"):
        up(tmp_path, Silence())
    assert not down(tmp_path, Silence()).removed_data
    assert (tmp_path / "thesis.tex").exists()


def test_up_prepares_everything_before_anything_starts(
    tmp_path: Path, offline: list[ClusterState]
) -> None:
    result = up(tmp_path / "new", Silence())
    assert offline == [result.state]
    assert ClusterState.load(tmp_path / "new") == result.state
    assert result.state.ca_file.exists()
    assert result.state.admin_kubeconfig.exists()
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


def test_up_beside_a_running_cluster_changes_nothing(
    tmp_path: Path, offline: list[ClusterState], quiet_process: "subprocess.Popen[bytes]"
) -> None:
    first = up(tmp_path, Silence())
    supervisor = identify(quiet_process.pid)
    assert supervisor
    table(tmp_path, supervisor, None)
    second = up(tmp_path, Silence())
    assert second.was_running
    assert second.state == first.state
    assert len(offline) == 1


def test_what_a_crash_left_does_not_block_a_new_cluster(
    tmp_path: Path, offline: list[ClusterState], quiet_process: "subprocess.Popen[bytes]"
) -> None:
    first = up(tmp_path, Silence()).state
    (first.data_dir / "member").mkdir(parents=True)
    orphan = identify(quiet_process.pid)
    table(tmp_path, GONE, orphan)
    notes = Notes()
    second = up(tmp_path, notes)
    assert not second.was_running
    assert quiet_process.wait() == -15
    assert not first.data_dir.exists()
    assert any("lost supervisor left: etcd" in line for line in notes.lines)


def test_kept_data_is_continued_with_the_same_ports_and_ca(
    tmp_path: Path, offline: list[ClusterState]
) -> None:
    first = up(tmp_path, Silence()).state
    (first.data_dir / "member").mkdir(parents=True)
    authority = first.ca_file.read_bytes()
    down(tmp_path, Silence(), keep_data=True)
    second = up(tmp_path, Silence()).state
    assert second.api_server_url == first.api_server_url
    assert second.ca_file.read_bytes() == authority
    assert (second.data_dir / "member").exists()


def test_down_ends_the_recorded_processes_and_leaves_only_the_logs(
    tmp_path: Path, offline: list[ClusterState], quiet_process: "subprocess.Popen[bytes]"
) -> None:
    state = up(tmp_path, Silence()).state
    state.log_file("etcd").write_text("hello\n")
    table(tmp_path, GONE, identify(quiet_process.pid))
    result = down(tmp_path, Silence())
    assert result.ended == ("etcd",)
    assert result.removed_data
    assert quiet_process.wait() == -15
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"logs", "lock", lifecycle.MARKER}
    assert state.log_file("etcd").read_text() == "hello\n"


def test_down_never_ends_a_process_that_got_a_recorded_pid_later(
    tmp_path: Path, offline: list[ClusterState], quiet_process: "subprocess.Popen[bytes]"
) -> None:
    up(tmp_path, Silence())
    table(tmp_path, GONE, ProcessIdentity(pid=quiet_process.pid, started="an earlier boot:7"))
    assert down(tmp_path, Silence()).ended == ()
    assert quiet_process.poll() is None


def test_down_removes_nothing_that_is_not_the_clusters_own(
    tmp_path: Path, offline: list[ClusterState]
) -> None:
    up(tmp_path, Silence())
    (tmp_path / "notes.txt").touch()
    down(tmp_path, Silence())
    assert (tmp_path / "notes.txt").exists()
    assert load_runtime(tmp_path) is None


def test_the_logs_of_the_last_run_stay_beside_the_new_ones(
    tmp_path: Path, binaries: dict[str, Binary]
) -> None:
    state = prepare(tmp_path, binaries, None)
    state.log_file("etcd").write_text("old\n")
    prepare(tmp_path, binaries, state)
    assert not state.log_file("etcd").exists()
    assert state.log_file("etcd").with_suffix(".log.1").read_text() == "old\n"


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("".join(f"{number}\n" for number in range(20_000)))
    assert tail(log, 2) == "19998\n19999"
    assert tail(tmp_path / "absent.log") == "(no log)"
