"""The AWS side of the leader: the provider, and the loops that only concern AWS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Final

import structlog

from nodewright_controller.api import labels
from nodewright_controller.api.conditions import READY
from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.meta import KubeObject, is_true
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.service import Service
from nodewright_controller.aws import clients
from nodewright_controller.aws.eks import resolve_cluster
from nodewright_controller.aws.error_codes import AwsError
from nodewright_controller.aws.garbage import InstanceGarbage, ProfileGarbage
from nodewright_controller.aws.interruption import InterruptionQueue
from nodewright_controller.aws.nodeclass import NodeClassReconciler
from nodewright_controller.aws.observed_memory import observe_memory
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.provider import EC2Provider
from nodewright_controller.aws.reservation_upkeep import ReservationUpkeep
from nodewright_controller.aws.tagging import TaggingReconciler
from nodewright_controller.main.leading import Ports
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.errors import NotFound
from nodewright_controller.ports.kube import Kube
from nodewright_controller.reconcilers.node_overlay import NodeOverlayReconciler, OverlaysInForce
from nodewright_controller.reconcilers.world import World, feed
from nodewright_controller.runtime.reconciler import Controller, Result, Singleton
from nodewright_controller.runtime.supervise import Loop
from nodewright_controller.settings import Settings

log = structlog.get_logger()

_TWELVE_HOURS: Final = timedelta(hours=12).total_seconds()
_RETRY_SECONDS: Final = 5.0


async def open_aws(settings: Settings, kube: Kube, world: World, clock: Clock) -> EC2Provider:
    """Return the provider, once EKS has said what nodes must know; waits while AWS is away."""
    connection = clients.connect()
    options = AwsOptions(
        cluster_name=settings.cluster_name,
        cluster_endpoint=settings.cluster_endpoint,
        cluster_ca_bundle=settings.cluster_ca_bundle,
        isolated_vpc=settings.isolated_vpc,
        eks_control_plane=settings.eks_control_plane,
        vm_memory_overhead_percent=settings.vm_memory_overhead_percent,
        reserved_enis=settings.reserved_enis,
        interruption_queue=settings.interruption_queue,
        reserved_capacity=settings.feature_gates["ReservedCapacity"],
        disable_dry_run=settings.disable_dry_run,
        ami_refresh=settings.ami_refresh_interval,
        subnet_refresh=settings.subnet_refresh_interval,
        security_group_refresh=settings.security_group_refresh_interval,
    )
    dns_ip = await _dns_ip(kube)
    while True:
        try:
            options = await resolve_cluster(connection, options, dns_ip)
            break
        except AwsError as error:
            log.error("cannot describe the cluster", cluster=options.cluster_name, error=str(error))
            await asyncio.sleep(_RETRY_SECONDS)
    provider = EC2Provider(connection, options, world.node_classes.get, clock)
    log.info(
        "connected to AWS",
        region=options.region,
        cluster=options.cluster_name,
        kubernetes=options.kubernetes_version,
    )
    return provider


async def _dns_ip(kube: Kube) -> str:
    """Return the address of cluster DNS, empty when there is no kube-dns service."""
    try:
        service = await kube.get(Service, "kube-dns", "kube-system")
    except NotFound:
        return ""
    return service.spec.cluster_ip


def aws_loops(settings: Settings, provider: EC2Provider, ports: Ports) -> Mapping[str, Loop]:
    """Make the AWS-only reconcilers, subscribe them, and return what must be kept running."""
    world = ports.world
    controllers = (_node_classes(provider, ports), _tagging(provider, ports))
    overlays = _overlays(provider, ports)
    _watch_memory(provider, world)
    instances = InstanceGarbage(provider, ports.kube, ports.clock)
    profiles = ProfileGarbage(
        provider, node_classes=world.node_classes, node_claims=world.node_claims
    )
    singletons = [
        Singleton("instance.garbagecollection", instances.step),
        Singleton("providers.pricing", _every(_TWELVE_HOURS, provider.pricing.refresh)),
        Singleton("providers.instancetype", _every(_TWELVE_HOURS, provider.catalog.refresh)),
        Singleton("providers.version", _every(300.0, provider.version.refresh)),
        Singleton("providers.ssm.invalidation", _every(1800.0, provider.images.forget_deprecated)),
        Singleton("launchtemplate.garbagecollection", _templates(provider)),
    ]
    if overlays is not None:
        singletons.append(overlays)
    if settings.feature_gates["ReservedCapacity"]:
        singletons.extend(_reservations(provider, ports))
    if not settings.isolated_vpc:
        singletons.append(Singleton("instanceprofile.garbagecollection", profiles.step))
    if settings.interruption_queue:
        queue = InterruptionQueue(
            provider,
            ports.kube,
            ports.recorder,
            node_claims=world.node_claims,
            nodes=world.nodes,
        )
        singletons.append(Singleton("interruption", queue.step))
    loops: dict[str, Loop] = {controller.name: controller.run for controller in controllers}
    return {**loops, **{singleton.name: singleton.run for singleton in singletons}}


def _every(seconds: float, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[Result]]:
    async def step() -> Result:
        await work()
        return Result(seconds)

    return step


def _templates(provider: EC2Provider) -> Callable[[], Awaitable[Result]]:
    """Find the launch templates of a former leader once, then delete those out of use."""
    known = False

    async def step() -> Result:
        nonlocal known
        if not known:
            await provider.templates.hydrate()
            known = True
        await provider.templates.delete_unused()
        return Result(10.0)

    return step


def _node_classes(provider: EC2Provider, ports: Ports) -> Controller:
    world = ports.world
    reconciler = NodeClassReconciler(
        provider,
        ports.kube,
        ports.recorder,
        ports.clock,
        node_classes=world.node_classes,
        node_claims=world.node_claims,
    )
    controller = Controller("nodeclass", reconciler.reconcile)

    def claim_changed(old: NodeClaim | None, new: NodeClaim | None) -> None:
        if new is None and old is not None:
            controller.enqueue(old.spec.node_class_ref.name)

    feed(world.node_classes, lambda node_class: controller.enqueue(node_class.name))
    world.node_claims.on_change(claim_changed)
    return controller


def _reservations(provider: EC2Provider, ports: Ports) -> tuple[Singleton, Singleton]:
    upkeep = ReservationUpkeep(
        provider,
        ports.kube,
        ports.clock,
        node_claims=ports.world.node_claims,
        node_classes=ports.world.node_classes,
        nodes_of=ports.world.nodes_of,
    )
    return (
        Singleton("capacityreservation.expiration", upkeep.expire),
        Singleton("capacityreservation.capacitytype", upkeep.relabel),
    )


def _overlays(provider: EC2Provider, ports: Ports) -> Singleton | None:
    """Let NodeOverlays change what the provider answers, if their feature gate is on."""
    world = ports.world
    if world.node_overlays is None:
        return None
    in_force = OverlaysInForce()
    provider.adjust = in_force.applied
    reconciler = NodeOverlayReconciler(
        ports.kube,
        ports.clock,
        overlays=world.node_overlays,
        node_pools=world.node_pools,
        listed=provider.listed_types,
        in_force=in_force,
        price_unlisted=provider.pricing.price_unlisted,
    )
    singleton = Singleton("nodeoverlay", reconciler.step)

    def changed(old: KubeObject | None, new: KubeObject | None) -> None:
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            singleton.wake()

    def class_changed(old: EC2NodeClass | None, new: EC2NodeClass | None) -> None:
        changed(old, new)
        if old is not None and new is not None and _became_ready(old, new):
            singleton.wake()

    world.node_overlays.on_change(changed)
    world.node_pools.on_change(changed)
    world.node_classes.on_change(class_changed)
    return singleton


def _became_ready(old: EC2NodeClass, new: EC2NodeClass) -> bool:
    before, after = (is_true(found.status.conditions, READY) for found in (old, new))
    return after and not before


def _tagging(provider: EC2Provider, ports: Ports) -> Controller:
    world = ports.world
    reconciler = TaggingReconciler(provider, ports.kube, world.node_claims)
    controller = Controller("nodeclaim.tagging", reconciler.reconcile, concurrency=1)

    def claim_changed(_: NodeClaim | None, new: NodeClaim | None) -> None:
        if new is not None and new.status.node_name:
            controller.enqueue(new.name)

    world.node_claims.on_change(claim_changed)
    return controller


def _watch_memory(provider: EC2Provider, world: World) -> None:
    """Learn from every node of ours what memory its type really has."""

    def node_changed(old: Node | None, new: Node | None) -> None:
        if new is None or (old is not None and _is_same_machine(old, new)):
            return
        claim = world.claim_of(new)
        if claim is None:
            return
        node_class = world.node_classes.get(claim.spec.node_class_ref.name)
        if node_class is not None:
            observe_memory(provider.catalog, new, claim, node_class)

    world.nodes.on_change(node_changed)


def _is_same_machine(old: Node, new: Node) -> bool:
    """Whether a change of a node tells nothing new about its memory."""
    registered = labels.REGISTERED
    return old.status.capacity == new.status.capacity and old.labels.get(
        registered
    ) == new.labels.get(registered)
