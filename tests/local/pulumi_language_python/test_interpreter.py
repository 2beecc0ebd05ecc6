"""Which Python runs a project."""

import sys
from pathlib import Path

import pytest
from nodewright_local.pulumi_language_python.interpreter import InterpreterError, python_of


def environment(folder: Path) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    return python


def test_without_any_choice_it_is_our_own(tmp_path: Path) -> None:
    assert python_of(tmp_path, {}, {}) == Path(sys.executable)


def test_the_projects_virtualenv_comes_first(tmp_path: Path) -> None:
    python = environment(tmp_path / "venv")
    environment(tmp_path / "active")

    found = python_of(tmp_path, {"virtualenv": "venv"}, {"VIRTUAL_ENV": str(tmp_path / "active")})

    assert found == python


def test_a_virtualenv_that_is_not_there_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match=r"python -m venv .*or run `pulumi install`"):
        python_of(tmp_path, {"virtualenv": "venv"}, {})


def test_uv_projects_have_theirs_beside_them(tmp_path: Path) -> None:
    python = environment(tmp_path / ".venv")

    assert python_of(tmp_path, {"toolchain": "uv"}, {}) == python
    assert python_of(tmp_path, {"toolchain": "pip"}, {}) == Path(sys.executable)


def test_an_active_environment_counts(tmp_path: Path) -> None:
    python = environment(tmp_path / "active")

    assert python_of(tmp_path, {}, {"VIRTUAL_ENV": str(tmp_path / "active")}) == python


def test_an_unknown_toolchain_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match="'conda', expected one of pip, uv, poetry"):
        python_of(tmp_path, {"toolchain": "conda"}, {})
