import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from nodewright_local.runtime import (
    Phase,
    ProcessIdentity,
    ProcessStatus,
    Runtime,
    end_process,
    identify,
    load_runtime,
    wait_until,
)


def own_identity() -> ProcessIdentity:
    identity = identify(os.getpid())
    assert identity
    return identity


def row(**changes: object) -> ProcessStatus:
    plain = ProcessStatus(name="etcd", phase=Phase.READY, version="3.6.16", log_file="/x/etcd.log")
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_the_process_table_reads_back_the_same(tmp_path: Path) -> None:
    runtime = Runtime(
        supervisor=own_identity(),
        processes=(row(identity=own_identity(), started_at=1.5), row(name="aws", detail="gone")),
    )
    runtime.save(tmp_path)
    assert load_runtime(tmp_path) == runtime
    assert runtime.is_supervised()


@pytest.mark.parametrize("text", ["", "{", "{}", '{"supervisor": 3, "processes": []}'])
def test_a_torn_process_table_is_no_process_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "runtime.json").write_text(text)
    assert load_runtime(tmp_path) is None


def test_a_cluster_is_ready_only_when_every_process_is() -> None:
    starting = row(name="aws", phase=Phase.STARTING)
    assert Runtime(supervisor=own_identity(), processes=(row(),)).is_ready()
    assert not Runtime(supervisor=own_identity(), processes=(row(), starting)).is_ready()


def test_a_process_is_known_by_its_start_and_not_by_its_pid_alone(
    quiet_process: "subprocess.Popen[bytes]",
) -> None:
    identity = identify(quiet_process.pid)
    assert identity
    assert identity.is_alive()
    assert not replace(identity, started="another boot:1").is_alive()


def test_a_process_that_got_a_recycled_pid_is_left_alone(
    quiet_process: "subprocess.Popen[bytes]",
) -> None:
    earlier = ProcessIdentity(pid=quiet_process.pid, started="another boot:1")
    assert not end_process(earlier, grace_s=0.1)
    assert quiet_process.poll() is None


def test_a_zombie_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        identity = identify(process.pid)
        assert identity
        assert process.stdin
        process.stdin.close()  # it ends by EOFError, and nobody has waited for it yet
        assert wait_until(lambda: not identity.is_alive(), timeout_s=10)
        assert process.returncode is None


def test_a_process_that_heeds_the_request_ends_without_force(
    quiet_process: "subprocess.Popen[bytes]",
) -> None:
    identity = identify(quiet_process.pid)
    assert identity
    assert not end_process(identity, grace_s=10)
    assert quiet_process.wait() == -15


def test_a_process_that_ignores_the_request_is_killed_with_its_group() -> None:
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout
        child = identify(int(process.stdout.readline()))
        identity = identify(process.pid)
        assert identity
        assert child
        assert end_process(identity, grace_s=0.2)
        assert process.wait() == -9
        assert wait_until(lambda: not child.is_alive(), timeout_s=5)


def test_waiting_gives_up_when_the_time_is_over() -> None:
    assert not wait_until(lambda: False, timeout_s=0.2)
