"""The process: settings, logs, signals, exit code. What runs is wired in `main.wiring`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys

import structlog

from nodewright_controller.kube.leader import LostLeadership
from nodewright_controller.main.wiring import run
from nodewright_controller.runtime.logs import configure_logs
from nodewright_controller.settings import Settings, SettingsError


def main() -> None:
    """Run the controller until a signal ends it; exit 2 for bad settings, 1 when leadership is lost."""
    try:
        settings = Settings.load(sys.argv[1:], os.environ)
    except SettingsError as error:
        sys.stderr.write(f"nodewright-controller: {error}\n")
        raise SystemExit(2) from None
    configure_logs(settings.log_level)
    log = structlog.get_logger()
    try:
        asyncio.run(_until_signal(settings))
    except* LostLeadership as group:
        # Whoever leads now must not find us at work: the process ends, and starts anew.
        log.error("leadership lost", error=str(group.exceptions[0]))
        raise SystemExit(1) from None


async def _until_signal(settings: Settings) -> None:
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        if task is not None:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    with contextlib.suppress(asyncio.CancelledError):
        await run(settings)
    if stopped:
        structlog.get_logger().info("stopped")
