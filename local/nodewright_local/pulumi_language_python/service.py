"""The language protocol over gRPC: what a project needs, and running it.

A program is run in its own process by `program.py`; its output is ours, which the engine shows.
"""

import json
import os
import platform
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2
from typing_extensions import override

from nodewright_local.pulumi_language_python import program
from nodewright_local.pulumi_language_python.interpreter import InterpreterError, python_of

_LIST_PACKAGES = """
import importlib.metadata, json
print(json.dumps([[d.metadata["Name"], d.version] for d in importlib.metadata.distributions()]))
"""
_LIST_PLUGINS = """
import importlib.metadata, json, pathlib
found = {}
for distribution in importlib.metadata.distributions():
    for path in distribution.files or ():
        if path.name == "pulumi-plugin.json":
            plugin = json.loads(pathlib.Path(path.locate()).read_text())
            if plugin.get("resource"):
                plugin.setdefault("version", distribution.version)
                found[plugin["name"]] = plugin
print(json.dumps(list(found.values())))
"""


class PythonHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Serves one engine."""

    def __init__(self, *, version: str, engine_address: str) -> None:
        self._version = version
        self._engine_address = engine_address
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    @override
    def Handshake(self, request: Any, context: Any) -> language_pb2.LanguageHandshakeResponse:
        """Learn where the engine is."""
        self._engine_address = request.engine_address or self._engine_address
        return language_pb2.LanguageHandshakeResponse()

    @override
    def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        """Tell the version."""
        return plugin_pb2.PluginInfo(version=self._version)

    @override
    def GetRequiredPackages(
        self, request: Any, context: Any
    ) -> language_pb2.GetRequiredPackagesResponse:
        """List the provider plugins that installed packages name."""
        packages = [
            plugin_pb2.PackageDependency(
                name=plugin["name"],
                kind="resource",
                version=_version(plugin.get("version")),
                server=plugin.get("server") or "",
            )
            for plugin in self._ask(request.info, _LIST_PLUGINS, context)
        ]
        return language_pb2.GetRequiredPackagesResponse(packages=packages)

    @override
    def GetRequiredPlugins(
        self, request: Any, context: Any
    ) -> language_pb2.GetRequiredPluginsResponse:
        """Say the same to older engines."""
        plugins = [
            plugin_pb2.PluginDependency(
                name=plugin["name"], kind="resource", version=_version(plugin.get("version"))
            )
            for plugin in self._ask(request.info, _LIST_PLUGINS, context)
        ]
        return language_pb2.GetRequiredPluginsResponse(plugins=plugins)

    @override
    def GetProgramDependencies(
        self, request: Any, context: Any
    ) -> language_pb2.GetProgramDependenciesResponse:
        """List the installed packages."""
        dependencies = [
            language_pb2.DependencyInfo(name=name, version=version)
            for name, version in sorted(self._ask(request.info, _LIST_PACKAGES, context))
        ]
        return language_pb2.GetProgramDependenciesResponse(dependencies=dependencies)

    @override
    def About(self, request: Any, context: Any) -> language_pb2.AboutResponse:
        """Tell which Python runs programs."""
        python = self._python(request.info, context)
        script = "import platform; print(platform.python_version())"
        answer = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
        version = answer.stdout.strip() or platform.python_version()
        return language_pb2.AboutResponse(executable=str(python), version=version)

    @override
    def RuntimeOptionsPrompts(
        self, request: Any, context: Any
    ) -> language_pb2.RuntimeOptionsResponse:
        """Ask nothing at `pulumi new`."""
        return language_pb2.RuntimeOptionsResponse()

    @override
    def Template(self, request: Any, context: Any) -> language_pb2.TemplateResponse:
        """Leave templates as they are."""
        return language_pb2.TemplateResponse()

    @override
    def InstallDependencies(
        self, request: Any, context: Any
    ) -> Iterator[language_pb2.InstallDependenciesResponse]:
        """Install what the project's requirements.txt or pyproject.toml asks for."""
        folder = Path(request.info.program_directory or request.directory)
        python = self._python(request.info, context)
        if (folder / "requirements.txt").is_file():
            wanted = ["-r", "requirements.txt"]
        elif (folder / "pyproject.toml").is_file():
            wanted = ["."]
        else:
            return
        command = [str(python), "-m", "pip", "install", *wanted]
        process = self._start(command, folder, os.environ, pipe=True)
        for line in process.stdout or ():
            yield language_pb2.InstallDependenciesResponse(stdout=line)
        if self._finish(process):
            context.abort(
                grpc.StatusCode.UNKNOWN,
                f"{' '.join(command)} failed in {folder} with exit code {process.returncode}",
            )

    @override
    def Run(self, request: Any, context: Any) -> language_pb2.RunResponse:
        """Run a program to its end."""
        try:
            python = python_of(Path(request.info.root_directory), _options(request.info))
        except InterpreterError as error:
            return language_pb2.RunResponse(error=str(error))
        source = Path(request.info.program_directory) / request.info.entry_point
        command = [str(python), "-u", program.__file__, str(source), *request.args]
        environment = {**os.environ, **program_environment(request, self._engine_address)}
        process = self._start(command, Path(request.pwd), environment)
        code = self._finish(process)
        if code == 0:
            return language_pb2.RunResponse()
        if code == program.ALREADY_REPORTED:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"{source} ended with exit code {code}")

    @override
    def RunPlugin(self, request: Any, context: Any) -> Iterator[language_pb2.RunPluginResponse]:
        """Run a provider that is written in Python, passing its output on."""
        python = self._python(request.info, context)
        folder = Path(request.info.program_directory)
        environment = {**os.environ, **dict(item.split("=", 1) for item in request.env)}
        command = [str(python), "-u", str(folder / request.info.entry_point), *request.args]
        process = self._start(command, Path(request.pwd), environment, pipe=True)
        context.add_callback(process.terminate)
        for line in process.stdout or ():
            yield language_pb2.RunPluginResponse(stdout=line)
        yield language_pb2.RunPluginResponse(exitcode=self._finish(process))

    @override
    def Cancel(self, request: Any, context: Any) -> Empty:
        """Interrupt whatever runs."""
        with self._lock:
            for process in self._running:
                process.terminate()
        return Empty()

    def _python(self, info: Any, context: Any) -> Path:
        try:
            return python_of(Path(info.root_directory), _options(info))
        except InterpreterError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise

    def _ask(self, info: Any, script: str, context: Any) -> list[Any]:
        """Return the JSON list that a small script prints in the project's Python."""
        python = self._python(info, context)
        answer = subprocess.run(
            [python, "-c", script],
            capture_output=True,
            text=True,
            check=False,
            cwd=info.program_directory or None,
        )
        if answer.returncode != 0:
            context.abort(grpc.StatusCode.UNKNOWN, f"{python} failed:\n{answer.stderr}")
        found: list[Any] = json.loads(answer.stdout)
        return found

    def _start(
        self,
        command: list[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        pipe: bool = False,
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if pipe else None,
            stderr=subprocess.STDOUT if pipe else None,
        )
        with self._lock:
            self._running.add(process)
        return process

    def _finish(self, process: subprocess.Popen[bytes]) -> int:
        code = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        with self._lock:
            self._running.discard(process)
        return code


def program_environment(request: Any, engine_address: str) -> dict[str, str]:
    """Return the variables that tell a program where it runs, from a Run request."""
    return {
        "PULUMI_MONITOR": request.monitor_address,
        "PULUMI_ENGINE": engine_address,
        "PULUMI_PROJECT": request.project,
        "PULUMI_STACK": request.stack,
        "PULUMI_ORGANIZATION": request.organization,
        "PULUMI_ROOT_DIRECTORY": request.info.root_directory,
        "PULUMI_PWD": request.pwd,
        "PULUMI_DRY_RUN": "true" if request.dryRun else "false",
        "PULUMI_PARALLEL": str(min(max(request.parallel, 1), 1024)),
        "PULUMI_CONFIG": json.dumps(dict(request.config)),
        "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
    }


def _options(info: Any) -> Mapping[str, Any]:
    return MessageToDict(info.options) if info.HasField("options") else {}


def _version(version: str | None) -> str:
    return f"v{str(version).removeprefix('v')}" if version else ""
