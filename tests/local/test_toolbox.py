import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from nodewright_local import toolbox
from nodewright_local.progress import Silence
from nodewright_local.toolbox import (
    ETCD,
    KUBECTL,
    KUBERNETES,
    Source,
    Tool,
    ToolError,
    all_tools,
    ensure,
    find,
    parse_version,
    search_path,
)

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    def write(folder: str, name: str, says: str, *, status: int = 0) -> Path:
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    folders = [str(tmp_path / "bin"), "/usr/bin", "/bin"]
    return {
        "PATH": os.pathsep.join(folders),
        "NODEWRIGHT_CACHE": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
    }


def tool(**changes: object) -> Tool:
    plain = replace(ETCD, name="thing", binaries=("thing-x",), version="3.6.16")
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_a_binary_on_the_path_is_taken(install: Install, environ: dict[str, str]) -> None:
    path = install("bin", "thing-x", "thing version 3.5.9")
    found = ensure([tool()], Silence(), environ=environ)["thing-x"]
    assert (found.path, found.version, found.source) == (path, "3.5.9", Source.PATH)


def test_kubebuilder_assets_come_before_the_path(
    install: Install, environ: dict[str, str], tmp_path: Path
) -> None:
    install("bin", "thing-x", "3.5.9")
    path = install("assets", "thing-x", "3.5.1")
    environ["KUBEBUILDER_ASSETS"] = str(tmp_path / "assets")
    assert find([tool()], environ=environ)["thing-x"].path == path


@pytest.mark.parametrize(
    ("says", "status"), [("3.4.9", 0), ("3.6.0", 1), ("no number", 0)], ids=["old", "fails", "mute"]
)
def test_a_binary_that_is_old_or_broken_is_passed_over(
    install: Install, environ: dict[str, str], says: str, status: int
) -> None:
    install("bin", "thing-x", says, status=status)
    cached = install("cache/tools/thing-3.6.16", "thing-x", "unused")
    found = ensure([tool()], Silence(), environ=environ)["thing-x"]
    assert (found.path, found.version, found.source) == (cached, "3.6.16", Source.CACHE)


def test_a_sane_binary_behind_a_broken_one_is_found(
    install: Install, environ: dict[str, str], tmp_path: Path
) -> None:
    install("bin", "thing-x", "wrapper", status=3)
    sane = install("other", "thing-x", "3.6.0")
    environ["PATH"] += f"{os.pathsep}{tmp_path / 'other'}"
    assert find([tool()], environ=environ)["thing-x"].path == sane


def test_servers_on_the_path_are_taken_together_when_they_share_a_minor(
    install: Install, environ: dict[str, str]
) -> None:
    for name in KUBERNETES.binaries:
        install("bin", name, "Kubernetes v1.33.2")
    found = find([KUBERNETES], environ=environ)
    assert {binary.version for binary in found.values()} == {"1.33.2"}


def test_one_server_of_another_minor_is_not_mixed_with_ours(
    install: Install, environ: dict[str, str]
) -> None:
    install("bin", "kube-apiserver", "Kubernetes v1.33.2")
    for name in KUBERNETES.binaries:
        install(f"cache/tools/{KUBERNETES.directory}", name, "unused")
    found = ensure([KUBERNETES], Silence(), environ=environ)
    assert {binary.source for binary in found.values()} == {Source.CACHE}


def test_one_server_of_our_minor_is_used_beside_ours(
    install: Install, environ: dict[str, str]
) -> None:
    install("bin", "kube-apiserver", "Kubernetes v1.36.1")
    for name in KUBERNETES.binaries:
        install(f"cache/tools/{KUBERNETES.directory}", name, "unused")
    found = ensure([KUBERNETES], Silence(), environ=environ)
    assert found["kube-apiserver"].source is Source.PATH
    assert found["kube-scheduler"].source is Source.CACHE


def test_without_go_the_error_names_what_to_install(environ: dict[str, str]) -> None:
    environ["PATH"] = "/nonexistent"
    with pytest.raises(ToolError, match=r"thing-x must be built.*install Go 1\.26.*thing-x.*PATH"):
        ensure([tool()], Silence(), environ=environ)


def test_an_old_go_is_an_error_that_says_so(install: Install, environ: dict[str, str]) -> None:
    install("bin", "go", "go1.19.1")
    with pytest.raises(ToolError, match=r"too old for thing \(go1\.19\.1\).*install Go"):
        ensure([tool()], Silence(), environ=environ)


GO = """#!/bin/sh
case "$1" in
  env) echo go1.99.0 ;;
  build)
    echo build >> "$BUILDS"
    while [ "$1" != -o ]; do shift; done
    printf '#!/bin/sh\\necho built\\n' > "$2" && chmod +x "$2"
    sleep 0.3 ;;
esac
"""


@pytest.fixture
def go(tmp_path: Path, environ: dict[str, str]) -> Path:
    """Install a `go` that writes its output and counts its builds."""
    path = tmp_path / "bin" / "go"
    path.parent.mkdir(exist_ok=True)
    path.write_text(GO)
    path.chmod(0o755)
    environ["BUILDS"] = str(tmp_path / "builds")
    return tmp_path / "builds"


def test_a_missing_binary_is_built_once(go: Path, environ: dict[str, str]) -> None:
    first = ensure([tool()], Silence(), environ=environ)["thing-x"]
    second = ensure([tool()], Silence(), environ=environ)["thing-x"]
    assert (first.source, second.source) == (Source.BUILT, Source.CACHE)
    assert os.access(first.path, os.X_OK)
    assert go.read_text().split() == ["build"]
    assert [path.name for path in first.path.parent.iterdir()] == ["thing-x"]


def test_two_builders_do_not_build_the_same_twice(go: Path, environ: dict[str, str]) -> None:
    threads = [
        threading.Thread(target=ensure, args=([tool()], Silence()), kwargs={"environ": environ})
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert go.read_text().split() == ["build"]


def test_a_failed_build_leaves_nothing_and_shows_the_end_of_the_output(
    install: Install, environ: dict[str, str], tmp_path: Path
) -> None:
    go = install("bin", "go", "")
    go.write_text(
        '#!/bin/sh\n[ "$1" = env ] && echo go1.99 && exit\necho "no space left" >&2\nexit 1\n'
    )
    with pytest.raises(ToolError, match="no space left"):
        ensure([tool()], Silence(), environ=environ)
    assert list((tmp_path / "cache/tools/thing-3.6.16").iterdir()) == []


def test_every_tool_has_a_module_with_checksums() -> None:
    for each in all_tools():
        assert (toolbox.TOOLCHAIN / each.module / "go.mod").exists(), each.name
        assert (toolbox.TOOLCHAIN / each.module / "go.sum").exists(), each.name
        assert len(each.packages) == len(each.binaries)


def test_pinned_versions_are_those_of_the_go_modules() -> None:
    modules = {
        "etcd": "go.etcd.io/etcd/server/v3",
        "kubernetes": "k8s.io/kubernetes",
        "kwok": "sigs.k8s.io/kwok",
        "pulumi": "github.com/pulumi/pulumi/pkg/v3",
    }
    for each in all_tools():
        if each.name in modules:
            text = (toolbox.TOOLCHAIN / each.module / "go.mod").read_text()
            assert f"{modules[each.name]} v{each.version}\n" in text


def test_kubectl_shares_the_servers_folder_in_the_cache() -> None:
    assert KUBECTL.directory == KUBERNETES.directory


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Kubernetes v1.36.3", (1, 36, 3)),
        ("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0", (1, 32, 4)),
        ("kwok version v0.8.0 go1.26.8 (linux/amd64)", (0, 8, 0)),
        ("v3.274.1", (3, 274, 1)),
        ("1.26", (1, 26, 0)),
        ("none", None),
    ],
)
def test_versions_are_read_as_programs_print_them(
    text: str, version: tuple[int, int, int] | None
) -> None:
    assert parse_version(text) == version


def test_the_search_path_begins_with_what_must_win_and_repeats_nothing() -> None:
    path = search_path({"a": "/x/a", "b": "/opt/b"}, first=(Path("/v"),), rest="/x:/v:/y")
    assert path == "/v:/x:/y:/opt"
