"""The process that a Python program runs in. Started by file path with the project's own Python.

Takes where to connect from the environment (PULUMI_MONITOR, PULUMI_ENGINE, …) and the program from
the command line. Needs nothing but the Pulumi SDK, since the project's environment has no more.
"""

import asyncio
import json
import logging
import os
import runpy
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pulumi
from pulumi.runtime import reset_options, run_in_stack, set_all_config

ALREADY_REPORTED = 32
"""Exit code after a failure that the user has been told of."""


def main(program: str) -> int:
    """Run a program file or a folder with `__main__.py`; returns the exit code."""
    _connect()
    # A task that fails is reported by the SDK through the resource it belongs to.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    workers = 4 * max(1, int(os.environ.get("PULUMI_PARALLEL") or 1))
    loop.set_default_executor(ThreadPoolExecutor(max_workers=min(workers, 256)))
    try:
        loop.run_until_complete(run_in_stack(lambda: _execute(program)))
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.UNAVAILABLE:  # unavailable: the engine is ending us
            pulumi.log.error(f"RPC error: {error.details()}")
    except Exception as error:
        pulumi.log.error(f"Program failed with an unhandled exception:\n{_explain(error)}")
    else:
        return 0
    finally:
        _wind_up(loop)
    return ALREADY_REPORTED


def _connect() -> None:
    environ = os.environ
    reset_options(
        project=environ["PULUMI_PROJECT"],
        stack=environ["PULUMI_STACK"],
        root_directory=environ.get("PULUMI_ROOT_DIRECTORY"),
        parallel=int(environ.get("PULUMI_PARALLEL") or 1),
        engine_address=environ["PULUMI_ENGINE"],
        monitor_address=environ["PULUMI_MONITOR"],
        preview=environ.get("PULUMI_DRY_RUN") == "true",
        organization=environ.get("PULUMI_ORGANIZATION") or "organization",
    )
    config = json.loads(environ.get("PULUMI_CONFIG") or "{}")
    secret_keys = json.loads(environ.get("PULUMI_CONFIG_SECRET_KEYS") or "[]")
    set_all_config(config, secret_keys)


def _execute(program: str) -> None:
    path = Path(program)
    sys.path.insert(0, str(path if path.is_dir() else path.parent))
    sys.argv = [program, *sys.argv[2:]]
    runpy.run_path(program, run_name="__main__")


def _explain(error: Exception) -> str:
    """Return the traceback from the program's first own frame on; ours tell a user nothing."""
    trace = error.__traceback__
    while trace is not None and "runpy" not in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    while trace is not None and "runpy" in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    return "".join(
        traceback.format_exception(type(error), error, trace or error.__traceback__)
    ).rstrip()


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left, so that closing the loop complains of nothing."""
    pending = asyncio.all_tasks(loop)
    for task in pending:
        task.cancel()
    if pending:
        loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
    loop.close()
    sys.stdout.flush()
    sys.stderr.flush()


if __name__ == "__main__":
    sys.path.pop(0)  # our own folder, whose modules must not hide the program's
    sys.exit(main(sys.argv[1]))
