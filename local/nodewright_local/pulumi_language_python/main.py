"""The plugin process: steps aside for the real language host, else serves ours."""

import argparse
import os
import shutil
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from types import FrameType

import grpc
from pulumi.runtime.proto import language_pb2_grpc

from nodewright_local.pulumi_language_python.service import PythonHost

NAME = "pulumi-language-python"
_SEEN = "NODEWRIGHT_LANGUAGE_HOST"  # set before stepping aside, so that two of us never take turns
_OURS = b"nodewright_local"
_WORKERS = 16


def real_host(environ: Mapping[str, str], own: Path) -> Path | None:
    """Return the real host on PATH, or beside a `pulumi` there; None when there is none."""
    path = environ.get("PATH", "")
    folders = [Path(folder) for folder in path.split(os.pathsep) if folder]
    if engine := shutil.which("pulumi", path=path):
        folders.append(Path(engine).resolve().parent)  # PATH may hold only a link to the engine
    for folder in folders:
        candidate = folder / NAME
        if not os.access(candidate, os.X_OK) or not candidate.is_file():
            continue
        if candidate.resolve() != own.resolve() and not _is_ours(candidate):
            return candidate
    return None


def serve(engine_address: str) -> tuple[grpc.Server, int]:
    """Serve on 127.0.0.1; returns the running server and its port."""
    server = grpc.server(ThreadPoolExecutor(max_workers=_WORKERS))
    host = PythonHost(version=version("pulumi"), engine_address=engine_address)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def main(arguments: Sequence[str] | None = None) -> None:
    """Run until the engine ends us."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    real = None if os.environ.get(_SEEN) else real_host(os.environ, Path(sys.argv[0]))
    if real is not None:
        os.execve(real, [str(real), *given], {**os.environ, _SEEN: "1"})
    parser = argparse.ArgumentParser(prog=NAME, allow_abbrev=False)
    parser.add_argument("engine_address", nargs="?", default="")
    known, _ = parser.parse_known_args(given)  # other flags matter to the real host only
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    server, port = serve(known.engine_address)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    stopped.wait()
    server.stop(grace=1).wait()


def _is_ours(candidate: Path) -> bool:
    with candidate.open("rb") as file:
        return _OURS in file.read(4096)


if __name__ == "__main__":
    main()
