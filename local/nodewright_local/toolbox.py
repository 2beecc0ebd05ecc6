"""The binaries the laptop cluster runs: found on the machine, or built once from pinned Go modules.

Decides where each binary comes from: KUBEBUILDER_ASSETS, PATH, the tools cache, and at last a
build with the machine's Go into that cache. A found binary counts only when it runs and is new
enough. What the binaries are started with is `control_plane.py`'s matter.
"""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Final

from nodewright_local.progress import Progress
from nodewright_local.state import cache_directory

TOOLCHAIN: Final = Path(__file__).parent / "toolchain"
Version = tuple[int, int, int]

UNKNOWN: Final = "unknown"
"""Version of a binary that runs but does not tell."""
PROBE_SECONDS: Final = 20.0
FAILURE_LINES: Final = 15


class ToolError(Exception):
    """A binary can be neither found nor built; the message says what to install."""


class Source(StrEnum):
    """Where a binary came from."""

    ASSETS = "KUBEBUILDER_ASSETS"
    PATH = "PATH"
    CACHE = "cache"
    BUILT = "built"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One Go module and the binaries that are built from it."""

    name: str
    version: str
    """The pinned version, without a leading v."""
    binaries: tuple[str, ...]
    module: str
    """Folder under `toolchain/` with go.mod and go.sum."""
    packages: tuple[str, ...]
    """Go packages that build `binaries`, in the same order."""
    linker_values: tuple[str, ...] = ()
    """`path.variable=value` settings for the linker."""
    minimum: Version
    """Oldest version accepted from outside the cache."""
    version_arguments: tuple[str, ...] | None = ("--version",)
    """Arguments that make it print its version; None when nothing does."""
    same_minor: bool = False
    """Binaries from outside must share one minor version, with each other and with built ones."""
    embedded: str | None = None
    """Go module whose `cmd/<name>` folder holds JSON files to embed; needs a scratch copy."""
    estimate: str = "1 min"
    """What a build takes on two cores."""

    @property
    def directory(self) -> str:
        """Folder name in the cache."""
        return f"{self.name}-{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """An executable that is ready to run."""

    name: str
    path: Path
    version: str
    source: Source


KUBERNETES_VERSION: Final = "1.36.3"
_COMPONENT_VERSION = "k8s.io/component-base/version"
_KUBERNETES_LINKER_VALUES = (
    f"{_COMPONENT_VERSION}.gitVersion=v{KUBERNETES_VERSION}",
    f"{_COMPONENT_VERSION}.gitMajor=1",
    f"{_COMPONENT_VERSION}.gitMinor=36",
)

ETCD: Final = Tool(
    name="etcd",
    version="3.6.16",
    binaries=("etcd",),
    module="etcd",
    packages=(".",),
    minimum=(3, 5, 0),
    estimate="30 s",
)
KUBERNETES: Final = Tool(
    name="kubernetes",
    version=KUBERNETES_VERSION,
    binaries=("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    module="kubernetes",
    packages=tuple(
        f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    ),
    linker_values=_KUBERNETES_LINKER_VALUES,
    minimum=(1, 30, 0),
    same_minor=True,
    estimate="6 min",
)
KUBECTL: Final = Tool(
    name="kubernetes",
    version=KUBERNETES_VERSION,
    binaries=("kubectl",),
    module="kubernetes",
    packages=("k8s.io/kubernetes/cmd/kubectl",),
    linker_values=_KUBERNETES_LINKER_VALUES,
    minimum=(1, 30, 0),
    version_arguments=("version", "--client"),
)
KWOK: Final = Tool(
    name="kwok",
    version="0.8.0",
    binaries=("kwok",),
    module="kwok",
    packages=("sigs.k8s.io/kwok/cmd/kwok",),
    minimum=(0, 7, 0),
    estimate="2 min",
)
PULUMI: Final = Tool(
    name="pulumi",
    version="3.274.1",
    binaries=("pulumi",),
    module="pulumi",
    packages=("github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",),
    linker_values=("github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v3.274.1",),
    minimum=(3, 200, 0),
    version_arguments=("version",),
    estimate="7 min",
)
CLUSTER_TOOLS: Final = (ETCD, KUBERNETES, KUBECTL, KWOK)


def pulumi_kubernetes_tool() -> Tool:
    """Return the provider that fits the installed `pulumi-kubernetes` SDK.

    Raises ToolError when the SDK is not installed: the provider takes its version from there.
    """
    try:
        version = metadata.version("pulumi-kubernetes")
    except metadata.PackageNotFoundError as error:
        raise ToolError(
            "pulumi-resource-kubernetes takes its version from the Python package "
            "pulumi-kubernetes, which is not installed: install the distribution nodewright"
        ) from error
    package = "github.com/pulumi/pulumi-kubernetes/provider/v4"
    return Tool(
        name="pulumi-resource-kubernetes",
        version=version,
        binaries=("pulumi-resource-kubernetes",),
        module="pulumi-kubernetes",
        packages=(".",),
        linker_values=(f"{package}/pkg/version.Version={version}",),
        minimum=(4, 24, 0),
        version_arguments=None,  # it only tells its version to the engine, over gRPC
        embedded=package,
        estimate="10 min",
    )


def all_tools() -> tuple[Tool, ...]:
    """Return everything the cluster and the stacks on it need."""
    return (*CLUSTER_TOOLS, PULUMI, pulumi_kubernetes_tool())


def ensure(
    tools: Sequence[Tool], progress: Progress, *, environ: Mapping[str, str] = os.environ
) -> dict[str, Binary]:
    """Return every binary of the tools by name, building what the machine does not have.

    Raises ToolError when Go is missing or too old, or when a build fails.
    """
    found: dict[str, Binary] = {}
    for tool in tools:
        present = _outside(tool, environ)
        missing = [name for name in tool.binaries if name not in present]
        if missing:
            present |= _cached(tool, missing, environ)
            missing = [name for name in missing if name not in present]
        if missing:
            present |= _build(tool, missing, progress, environ)
        found |= present
    return found


def find(tools: Sequence[Tool], *, environ: Mapping[str, str] = os.environ) -> dict[str, Binary]:
    """Return the binaries that are there already, building nothing."""
    found: dict[str, Binary] = {}
    for tool in tools:
        present = _outside(tool, environ)
        found |= _cached(tool, tool.binaries, environ) | present
    return found


def parse_version(text: str) -> Version | None:
    """Return the first dotted version number of a text, or None."""
    match = re.search(r"\bv?(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        return None
    return int(match[1]), int(match[2]), int(match[3] or 0)


def _outside(tool: Tool, environ: Mapping[str, str]) -> dict[str, Binary]:
    """Return the usable binaries from KUBEBUILDER_ASSETS and PATH."""
    usable = {}
    for name in tool.binaries:
        if binary := _first_usable(tool, name, environ):
            usable[name] = binary
    if not tool.same_minor:
        return usable
    minors = {_minor(binary.version) for binary in usable.values()}
    if len(usable) == len(tool.binaries) and len(minors) == 1:
        return usable
    pinned = _minor(tool.version)  # the rest is built, and servers must not differ by a minor
    return {name: binary for name, binary in usable.items() if _minor(binary.version) == pinned}


def _minor(version: str) -> tuple[int, int] | None:
    parsed = parse_version(version)
    return parsed[:2] if parsed else None


def _first_usable(tool: Tool, name: str, environ: Mapping[str, str]) -> Binary | None:
    for source, path in _candidates(name, environ):
        if version := _usable_version(tool, path):
            return Binary(name=name, path=path, version=version, source=source)
    return None


def _usable_version(tool: Tool, path: Path) -> str | None:
    """Return the version of a binary that runs and is new enough, else None."""
    if tool.version_arguments is None:
        return UNKNOWN if run_quietly(path, ("--help",)) is not None else None
    version = probe_version(path, tool.version_arguments)
    parsed = parse_version(version) if version else None
    return version if parsed and parsed >= tool.minimum else None


def _candidates(name: str, environ: Mapping[str, str]) -> Iterator[tuple[Source, Path]]:
    if assets := environ.get("KUBEBUILDER_ASSETS"):
        yield Source.ASSETS, Path(assets) / name
    for folder in environ.get("PATH", "").split(os.pathsep):
        if folder:
            yield Source.PATH, Path(folder) / name


def probe_version(path: Path, arguments: Sequence[str]) -> str | None:
    """Return the version a binary reports, without a leading v; None when it does not run."""
    answer = run_quietly(path, arguments)
    parsed = parse_version(answer) if answer else None
    return ".".join(map(str, parsed)) if parsed else None


def run_quietly(path: Path, arguments: Sequence[str]) -> str | None:
    """Return what a binary prints when it succeeds; None when it is missing, fails or hangs."""
    if not (path.is_file() and os.access(path, os.X_OK)):
        return None
    try:
        answer = subprocess.run(
            [path, *arguments],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (answer.stdout or answer.stderr) if answer.returncode == 0 else None


def _tool_directory(tool: Tool, environ: Mapping[str, str]) -> Path:
    return cache_directory(environ) / "tools" / tool.directory


def _cached(tool: Tool, names: Sequence[str], environ: Mapping[str, str]) -> dict[str, Binary]:
    folder = _tool_directory(tool, environ)
    return {
        name: Binary(name=name, path=folder / name, version=tool.version, source=Source.CACHE)
        for name in names
        if os.access(folder / name, os.X_OK)
    }


def _build(
    tool: Tool, names: Sequence[str], progress: Progress, environ: Mapping[str, str]
) -> dict[str, Binary]:
    folder = _tool_directory(tool, environ)
    folder.mkdir(parents=True, exist_ok=True)
    with _only_builder(folder, progress, tool):
        present = _cached(tool, names, environ)  # another builder may have been first
        missing = [name for name in names if name not in present]
        if missing:
            _check_go(tool, missing, environ)
            title = f"building {', '.join(missing)} {tool.version} (about {tool.estimate}, once)"
            with progress.step(title):
                _run_build(tool, missing, folder, environ)
    return present | {
        name: Binary(name=name, path=folder / name, version=tool.version, source=Source.BUILT)
        for name in missing
    }


@contextmanager
def _only_builder(folder: Path, progress: Progress, tool: Tool) -> Iterator[None]:
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.step(f"waiting for another build of {tool.name} {tool.version}"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _check_go(tool: Tool, missing: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise ToolError unless the machine's Go can build the module."""
    module = TOOLCHAIN / tool.module
    line = re.search(r"^go (\S+)$", (module / "go.mod").read_text("utf-8"), re.MULTILINE)
    needed = line[1] if line else "1.26"
    way_out = (
        f"install Go {needed} or newer (https://go.dev/dl), "
        f"or put {', '.join(missing)} {'.'.join(map(str, tool.minimum))} or newer on PATH"
    )
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise ToolError(f"{', '.join(missing)} must be built, and there is no Go: {way_out}")
    answer = subprocess.run(
        [go, "env", "GOVERSION"],
        cwd=module,
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
    )
    present = parse_version(answer.stdout.replace("go", ""))
    if answer.returncode != 0 or present is None or present < (parse_version(needed) or present):
        said = (answer.stderr or answer.stdout).strip().splitlines()[-1:] or ["no version"]
        raise ToolError(f"{go} is too old for {tool.name} ({said[0]}): {way_out}")


def _run_build(tool: Tool, names: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as scratch_name:
        scratch = Path(scratch_name)
        source = _prepare_source(tool, scratch, environ)
        output = scratch / "bin"
        output.mkdir()
        linker = " ".join(["-s", "-w", *(f"-X {value}" for value in tool.linker_values)])
        packages = [tool.packages[tool.binaries.index(name)] for name in names]
        target = output / names[0] if packages == ["."] else f"{output}/"
        _go(
            ["build", "-trimpath", "-ldflags", linker, "-o", str(target), *packages],
            source,
            environ,
        )
        for name in names:
            (output / name).replace(folder / name)


def _prepare_source(tool: Tool, scratch: Path, environ: Mapping[str, str]) -> Path:
    """Return the folder to build in: the module as it is, or a copy with its embedded files."""
    module = TOOLCHAIN / tool.module
    if tool.embedded is None:
        return module
    _go(["mod", "download", tool.embedded], module, environ)
    folder = _go(["list", "-m", "-f", "{{.Dir}}", tool.embedded], module, environ).strip()
    copy = scratch / "source"
    shutil.copytree(module, copy)
    for item in (Path(folder) / "cmd" / tool.name).glob("*.json"):
        shutil.copyfile(item, copy / item.name)  # without the module cache's read-only mode
    return copy


def _go(arguments: Sequence[str], folder: Path, environ: Mapping[str, str]) -> str:
    """Run go and return what it printed; raise ToolError with the end of its output."""
    flags = [*environ.get("GOFLAGS", "").split(), "-buildvcs=false", "-mod=readonly"]
    answer = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env={**environ, "GOFLAGS": " ".join(dict.fromkeys(flags))},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if answer.returncode != 0:
        tail = "\n".join((answer.stderr or answer.stdout).strip().splitlines()[-FAILURE_LINES:])
        raise ToolError(f"go {arguments[0]} failed in {folder}:\n{tail}")
    return answer.stdout


def search_path(binaries: Mapping[str, str], first: Sequence[Path], rest: str) -> str:
    """Return a PATH: the folders in `first`, those of `rest`, then the binaries' own."""
    folders = [str(folder) for folder in first] + rest.split(os.pathsep)
    folders += [str(Path(path).parent) for path in binaries.values()]
    return os.pathsep.join(dict.fromkeys(folder for folder in folders if folder))
