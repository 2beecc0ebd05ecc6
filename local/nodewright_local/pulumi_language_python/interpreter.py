"""Which Python runs a project: what its Pulumi.yaml says, else what this host itself runs with."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TOOLCHAINS = ("pip", "uv", "poetry")


class InterpreterError(Exception):
    """The project names an environment that cannot be used; the message says what to do."""


def python_of(
    root: Path, options: Mapping[str, Any], environ: Mapping[str, str] = os.environ
) -> Path:
    """Return the interpreter of the project in `root` with these runtime options.

    A `virtualenv` option must exist. With toolchain uv the project's `.venv` is taken when it is
    there. Then an active environment (`VIRTUAL_ENV`) counts, and at last our own interpreter.
    """
    toolchain = str(options.get("toolchain") or "pip").lower()
    if toolchain not in _TOOLCHAINS:
        raise InterpreterError(
            f"{root}: runtime option toolchain is {toolchain!r}, expected one of "
            f"{', '.join(_TOOLCHAINS)}"
        )
    if named := options.get("virtualenv"):
        return _inside(root / str(named), "runtime option virtualenv")
    candidates = [environ.get("VIRTUAL_ENV")]
    if toolchain == "uv":
        candidates.insert(0, str(root / environ.get("UV_PROJECT_ENVIRONMENT", ".venv")))
    for candidate in filter(None, candidates):
        if Path(candidate).is_dir():
            return _inside(Path(candidate), "the active environment")
    return Path(sys.executable)


def _inside(folder: Path, origin: str) -> Path:
    python = folder / "bin" / "python"
    if not python.is_file():
        raise InterpreterError(
            f"{origin} names {folder}, which holds no bin/python: create it with "
            f"`python -m venv {folder}` and install the project's dependencies, or run "
            "`pulumi install`"
        )
    return python
