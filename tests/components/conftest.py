"""The fixture that gives component tests an engine."""

import asyncio
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pulumi
import pytest
from pulumi.runtime.settings import SETTINGS
from pulumi.runtime.stack import run_pulumi_func

from tests.components.recorder import Recorder, RecordingMonitor

# Some of the AWS package's modules warn about their own deprecated classes while they load.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("nodewright.provider")

Build = Callable[[Callable[[], Any]], Any]


@pytest.fixture
def engine() -> Iterator[Recorder]:
    """A Pulumi engine that records every resource instead of creating it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    recorder = Recorder()
    pulumi.runtime.set_mocks(
        recorder,
        project="nodewright",
        stack="test",
        preview=False,
        monitor=RecordingMonitor(recorder),
    )
    yield recorder
    # A program that was refused leaves outputs behind that nobody resolves; the next test's engine
    # would wait for them on this test's loop.
    SETTINGS.rpc_manager.clear()
    SETTINGS.outputs.clear()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.close()
    asyncio.set_event_loop(None)


@pytest.fixture
def build(engine: Recorder) -> Build:
    """Run a program to its end and return what it returned."""

    def run(program: Callable[[], Any]) -> Any:
        made: list[Any] = []

        async def main() -> None:
            await run_pulumi_func(lambda: made.append(program()))

        asyncio.get_event_loop().run_until_complete(main())
        return made[0]

    return run
