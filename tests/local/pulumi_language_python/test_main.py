"""Stepping aside for the real language host."""

import os
from pathlib import Path

from nodewright_local.pulumi_language_python.main import NAME, real_host


def executable(path: Path, content: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


def path_of(*folders: Path) -> dict[str, str]:
    return {"PATH": os.pathsep.join(map(str, folders))}


def test_a_host_that_is_not_ours_is_the_real_one(tmp_path: Path) -> None:
    own = executable(tmp_path / "venv" / NAME, "from nodewright_local import x\n")
    real = executable(tmp_path / "pulumi" / NAME)

    assert real_host(path_of(own.parent, real.parent), own) == real


def test_a_host_beside_the_engine_counts_when_path_holds_only_a_link(tmp_path: Path) -> None:
    engine = executable(tmp_path / "opt" / "pulumi")
    real = executable(tmp_path / "opt" / NAME)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pulumi").symlink_to(engine)

    assert real_host(path_of(tmp_path / "bin"), tmp_path / "own") == real


def test_another_of_ours_is_not_the_real_one(tmp_path: Path) -> None:
    own = executable(tmp_path / "a" / NAME, "from nodewright_local import x\n")
    other = executable(tmp_path / "b" / NAME, "from nodewright_local import x\n")

    assert real_host(path_of(own.parent, other.parent), own) is None


def test_a_file_that_cannot_be_run_is_no_host(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("text")

    assert real_host(path_of(tmp_path), tmp_path / "own") is None
