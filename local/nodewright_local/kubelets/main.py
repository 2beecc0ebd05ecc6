"""Wiring of the kubelets process: one task per part, ended together by SIGTERM or SIGINT."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from nodewright_local.kubelets.api import ApiClient, access_of_kubeconfig
from nodewright_local.kubelets.aws_api import AwsApi, InstanceList
from nodewright_local.kubelets.forwarder import WebhookForwarder
from nodewright_local.kubelets.joiner import Joiner
from nodewright_local.kubelets.pods.pod import Platform, entrypoint_in
from nodewright_local.kubelets.pods.runner import PodRunner
from nodewright_local.kubelets.records import Records
from nodewright_local.kubelets.server import KubeletApi, serve
from nodewright_local.kubelets.volumes.controller import VolumeController
from nodewright_local.state import ClusterState, StateError

log = logging.getLogger(__name__)

RECORDS_FILE = "kubelets.json"
RESTART_SECONDS = 2.0
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


def main() -> int:
    """Run until told to stop; return the exit code."""
    logging.basicConfig(
        level=os.environ.get("NODEWRIGHT_LOCAL_LOG_LEVEL", "INFO").upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it tells every request
    try:
        cluster = ClusterState.load()
    except StateError as error:
        log.error("%s", error)  # the message says it all
        return 1
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_run_until_signal(cluster))
    return 0


async def _run_until_signal(cluster: ClusterState) -> None:
    running = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        if running is not None:
            loop.add_signal_handler(number, running.cancel)
    await run(cluster)


async def run(cluster: ClusterState) -> None:
    """Run joiner, pod runner, volumes, kubelet server and webhook forwarder until cancelled."""
    records = Records(cluster.state_dir / RECORDS_FILE)
    aws = AwsApi(cluster.aws_url, cluster.region)
    instances = InstanceList(cluster.aws_url, cluster.region)
    programs = Path(sys.prefix) / "bin"
    async with ApiClient(access_of_kubeconfig(cluster.admin_kubeconfig)) as api:
        joiner = Joiner(
            api=api,
            aws=aws,
            instances=instances,
            records=records,
            kubelet_port=cluster.kubelet_port,
        )
        platform = Platform(
            cluster=cluster,
            api=api,
            aws=aws,
            entrypoint=entrypoint_in(programs),
            path=f"{programs}:{SYSTEM_PATH}",
        )
        runner = PodRunner(platform=platform, records=records)
        forwarder = WebhookForwarder(
            port=cluster.webhook_port, ready_addresses=runner.ready_addresses
        )
        volumes = VolumeController(api=api, ebs=aws.ebs())
        server = KubeletApi(runner=runner, logs_dir=cluster.logs_dir)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_keep("joiner", joiner.run))
                group.create_task(_keep("pod runner", runner.run))
                group.create_task(_keep("webhook forwarder", forwarder.run))
                group.create_task(_keep("volumes", volumes.run))
                group.create_task(_keep("kubelet server", lambda: serve(server, cluster)))
        finally:
            await instances.close()


async def _keep(name: str, part: Callable[[], Awaitable[None]]) -> None:
    """Run a part; an error in it is logged and the part begins anew: a kubelet never gives up."""
    while True:
        try:
            await part()
        except Exception:
            log.exception("%s failed, starting it again", name)
        except SystemExit as error:  # uvicorn exits so when its port is taken
            log.error("%s gave up (%s), starting it again", name, error)
        await asyncio.sleep(RESTART_SECONDS)
