"""The language protocol, spoken over a real channel."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct
from nodewright_local.pulumi_language_python.main import serve
from nodewright_local.pulumi_language_python.service import program_environment
from pulumi.runtime.proto import language_pb2, language_pb2_grpc


@pytest.fixture
def host() -> Iterator[Any]:
    """A language host in a server of its own."""
    server, port = serve("127.0.0.1:1")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield language_pb2_grpc.LanguageRuntimeStub(channel)
    server.stop(grace=None).wait()


def info(folder: Path, **options: str) -> language_pb2.ProgramInfo:
    given = Struct()
    given.update(options)
    return language_pb2.ProgramInfo(
        root_directory=str(folder),
        program_directory=str(folder),
        entry_point="__main__.py",
        options=given,
    )


def test_the_plugins_of_installed_packages_are_required(host: Any, tmp_path: Path) -> None:
    request = language_pb2.GetRequiredPackagesRequest(info=info(tmp_path))

    packages = {item.name: item for item in host.GetRequiredPackages(request).packages}

    assert {"aws", "kubernetes"} <= set(packages)
    assert packages["aws"].kind == "resource"
    assert packages["aws"].version.startswith("v7.")


def test_installed_packages_are_the_programs_dependencies(host: Any, tmp_path: Path) -> None:
    request = language_pb2.GetProgramDependenciesRequest(info=info(tmp_path))

    names = {item.name.lower() for item in host.GetProgramDependencies(request).dependencies}

    assert {"pulumi", "grpcio"} <= names


def test_it_tells_which_python_runs_programs(host: Any, tmp_path: Path) -> None:
    about = host.About(language_pb2.AboutRequest(info=info(tmp_path)))

    assert about.version == ".".join(map(str, sys.version_info[:3]))


def test_a_project_without_requirements_has_nothing_to_install(host: Any, tmp_path: Path) -> None:
    request = language_pb2.InstallDependenciesRequest(info=info(tmp_path))

    assert list(host.InstallDependencies(request)) == []


def test_an_environment_that_is_missing_is_the_programs_error(host: Any, tmp_path: Path) -> None:
    request = language_pb2.RunRequest(info=info(tmp_path, virtualenv="venv"), pwd=str(tmp_path))

    assert "holds no bin/python" in host.Run(request).error


def test_a_plugin_in_python_runs_with_its_output_and_exit_code(host: Any, tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text(
        "import os, sys\nprint(sys.argv[1], os.environ['COLOUR'])\nsys.exit(3)\n"
    )
    request = language_pb2.RunPluginRequest(
        info=info(tmp_path), pwd=str(tmp_path), args=["127.0.0.1:5"], env=["COLOUR=blue"]
    )

    answers = list(host.RunPlugin(request))

    assert [answer.stdout for answer in answers[:-1]] == [b"127.0.0.1:5 blue\n"]
    assert answers[-1].exitcode == 3


def test_cancelling_ends_what_runs(host: Any, tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text(
        "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"
    )
    request = language_pb2.RunPluginRequest(info=info(tmp_path), pwd=str(tmp_path))

    answers = host.RunPlugin(request)
    first = next(answers)
    host.Cancel(Empty())
    last = list(answers)[-1]

    assert first.stdout == b"ready\n"
    assert last.exitcode == -15


def test_a_program_learns_where_it_runs_from_its_environment(tmp_path: Path) -> None:
    request = language_pb2.RunRequest(
        project="demo",
        stack="dev",
        organization="me",
        pwd=str(tmp_path),
        dryRun=True,
        parallel=2**31 - 1,
        monitor_address="127.0.0.1:2",
        config={"demo:size": "small", "demo:key": "secret"},
        configSecretKeys=["demo:key"],
        info=info(tmp_path),
    )

    environment = program_environment(request, "127.0.0.1:1")

    assert environment["PULUMI_ENGINE"] == "127.0.0.1:1"
    assert environment["PULUMI_MONITOR"] == "127.0.0.1:2"
    assert environment["PULUMI_DRY_RUN"] == "true"
    assert environment["PULUMI_PARALLEL"] == "1024"
    assert json.loads(environment["PULUMI_CONFIG"]) == {"demo:size": "small", "demo:key": "secret"}
    assert environment["PULUMI_CONFIG_SECRET_KEYS"] == '["demo:key"]'
