"""Karpenter's own scheduler as two programs, built on demand from `tests/parity/karpenter`.

The cache keeps them by the hash of what they are built from, so an edit builds anew and nothing
is ever written into the checkout. What the programs are asked is `wire.py`'s matter.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from nodewright_local.progress import ConsoleProgress, Progress
from nodewright_local.state import cache_directory

VERSION: Final = "1.15.0"
SOURCES: Final = Path(__file__).parent / "karpenter"
_TOOLCHAIN: Final = "go1.27.3"  # Karpenter 1.15 asks for Go 1.26.9 or newer
_SCHEDULING: Final = "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
_FAILURE_LINES: Final = 15


class Program(StrEnum):
    """What can be built."""

    PARITY = "karpenter-parity"
    """Reads worlds, prints Karpenter's decisions."""
    BENCHMARK = "karpenter-benchmark"
    """Karpenter's own scheduling benchmark."""


_BUILD: Final[Mapping[Program, tuple[str, ...]]] = {
    Program.PARITY: ("build", "-trimpath", "-buildvcs=false", "-mod=readonly"),
    Program.BENCHMARK: ("test", "-c", "-trimpath", "-mod=readonly", "-tags=test_performance"),
}
_PACKAGE: Final = {Program.PARITY: ".", Program.BENCHMARK: _SCHEDULING}


class BuildError(Exception):
    """A program cannot be built; the message says why and what to do."""


def binary(
    program: Program,
    progress: Progress | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """Return the program's path, building it first if that has not happened yet.

    Raises:
        BuildError: there is no Go, or the build fails.

    """
    folder = cache_directory(environ) / "tools" / f"karpenter-parity-{VERSION}-{sources_hash()}"
    path = folder / program
    if path.exists():
        return path
    progress = progress or ConsoleProgress()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        title = f"building {program} from sigs.k8s.io/karpenter v{VERSION} (10 min, once)"
        with progress.step(title):
            fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be building the same thing
            if not path.exists():
                _build(program, path, environ)
    return path


def sources_hash() -> str:
    """Return twelve hexadecimal digits that change with any source file."""
    digest = hashlib.sha256(_TOOLCHAIN.encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _build(program: Program, path: Path, environ: Mapping[str, str]) -> None:
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise BuildError(
            f"{program} is built with Go, and there is none on PATH: "
            "install Go 1.26 or newer (https://go.dev/dl)"
        )
    with tempfile.TemporaryDirectory(prefix=".build-", dir=path.parent) as scratch:
        target = Path(scratch) / program
        command = [go, *_BUILD[program], "-p", "2", "-o", str(target), _PACKAGE[program]]
        answer = subprocess.run(
            ["nice", "-n", "10", *command],
            cwd=SOURCES,
            env={"GOTOOLCHAIN": _TOOLCHAIN, **environ},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if answer.returncode != 0 or not target.exists():
            tail = "\n".join((answer.stderr or answer.stdout).splitlines()[-_FAILURE_LINES:])
            raise BuildError(f"{' '.join(command)} failed in {SOURCES}:\n{tail}")
        target.replace(path)
