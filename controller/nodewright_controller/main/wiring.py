"""Wiring only: clients, stores, servers, leader election. Every replica serves; one leads."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import structlog

from nodewright_controller.kube.client import KubeClient
from nodewright_controller.kube.leader import LeaderElection, LeaseOptions
from nodewright_controller.kube.recorder import EventRecorder
from nodewright_controller.main.aws_side import aws_loops, open_aws
from nodewright_controller.main.leading import Ports, leader_loops
from nodewright_controller.main.stores import Stores, open_stores
from nodewright_controller.main.unmet import tell_unmet
from nodewright_controller.runtime import metrics
from nodewright_controller.runtime.memory import MemoryWatch
from nodewright_controller.runtime.metered_cloud import MeteredCloud
from nodewright_controller.runtime.supervise import Loop, run_all
from nodewright_controller.settings import Settings
from nodewright_controller.web.certificates import CertificateManager, WebhookIdentity
from nodewright_controller.web.conversion import conversion_app
from nodewright_controller.web.servers import health_app, metrics_app, serve, serve_tls
from nodewright_controller.web.why import WhyDesk, why_route

log = structlog.get_logger()

_POLL_SECONDS: Final = 0.2


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the current instant."""
        return datetime.now(UTC)


async def run(settings: Settings) -> None:
    """Run the controller until cancelled.

    Raises:
        ExceptionGroup: with LostLeadership in it when the lease was lost.
    """
    release = version("nodewright-controller")
    metrics.BUILD_INFO.labels(release, "", "", "").set(1)
    log.info("starting controller", version=release, cluster=settings.cluster_name)
    tell_unmet(settings)
    async with KubeClient.from_environment() as kube:
        clock = SystemClock()
        recorder = EventRecorder(kube, clock, time.monotonic)
        stores = open_stores(kube, settings.feature_gates, selecting=bool(settings.default_spreads))
        desk = WhyDesk()
        with tempfile.TemporaryDirectory(prefix="nodewright-webhook-") as folder:
            certificates = _certificates(settings, kube, clock, Path(folder))
            loops = {
                **stores.loops,
                "event recorder": recorder.run,
                "memory": MemoryWatch(settings.memory_limit_bytes).run,
                **_servers(settings, stores, certificates, desk),
            }
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(run_all(loops), name="replica")
                leading = _lead(settings, kube, stores, recorder, clock, desk)
                tasks.create_task(leading, name="leader")


def _certificates(
    settings: Settings, kube: KubeClient, clock: SystemClock, folder: Path
) -> CertificateManager:
    identity = WebhookIdentity(
        namespace=settings.system_namespace,
        secret=settings.webhook_secret,
        hosts=settings.webhook_hosts or _service_hosts(settings),
        directory=folder,
    )
    return CertificateManager(kube, clock, identity)


def _service_hosts(settings: Settings) -> tuple[str, ...]:
    service = f"{settings.karpenter_service or 'karpenter'}.{settings.system_namespace}.svc"
    return (service, f"{service}.cluster.local")


def _servers(
    settings: Settings, stores: Stores, certificates: CertificateManager, desk: WhyDesk
) -> Mapping[str, Loop]:
    host = settings.bind_address

    def not_ready() -> str:
        missing = stores.missing()
        return missing or ("" if certificates.ready else "waiting for the webhook's certificate")

    async def webhook() -> None:
        while not certificates.ready:  # noqa: ASYNC110 - the manager tells by its state alone
            await asyncio.sleep(_POLL_SECONDS)
        await serve_tls(conversion_app(), host, settings.webhook_port, certificates.files)

    async def health() -> None:
        await serve(health_app(not_ready), host, settings.health_probe_port)

    async def metrics_server() -> None:
        await serve(metrics_app(why_route(desk)), host, settings.metrics_port)

    return {
        "webhook certificate": certificates.run,
        "webhook server": webhook,
        "health server": health,
        "metrics server": metrics_server,
    }


async def _lead(
    settings: Settings,
    kube: KubeClient,
    stores: Stores,
    recorder: EventRecorder,
    clock: SystemClock,
    desk: WhyDesk,
) -> None:
    async def work() -> None:
        metrics.LEADER.set(1)
        while missing := stores.missing():
            log.debug("leader waits", missing=missing)
            await asyncio.sleep(_POLL_SECONDS)
        provider = await open_aws(settings, kube, stores.world, clock)
        cloud = MeteredCloud(provider, "aws")
        ports = Ports(kube=kube, cloud=cloud, recorder=recorder, clock=clock, world=stores.world)
        loops = {**leader_loops(settings, ports, desk), **aws_loops(settings, provider, ports)}
        await run_all(loops)

    if settings.disable_leader_election:
        await work()
        return
    options = LeaseOptions(
        name=settings.leader_election_name,
        namespace=settings.lease_namespace,
        identity=settings.identity,
    )
    election = LeaderElection(kube, options)
    desk.leader = lambda: election.leader
    await election.lead(work)
