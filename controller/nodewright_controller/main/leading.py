"""What the leader runs: every reconciler over the shared world, and what wakes each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from nodewright_controller.api import labels
from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.pod import Pod
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.cloud import CloudProvider
from nodewright_controller.ports.events import Recorder
from nodewright_controller.ports.kube import Kube
from nodewright_controller.reconcilers.answers import LeaderAnswers
from nodewright_controller.reconcilers.disruption import DisruptionLoop
from nodewright_controller.reconcilers.eviction import EvictionQueue
from nodewright_controller.reconcilers.expiration import ExpirationReconciler, NodeClaimGarbage
from nodewright_controller.reconcilers.faults import FaultWatch
from nodewright_controller.reconcilers.node_termination import NodeTerminationReconciler
from nodewright_controller.reconcilers.nodeclaim import NodeClaimReconciler
from nodewright_controller.reconcilers.nodeclaim_disruption import (
    NodeClaimDisruptionReconciler,
    PodEventReconciler,
    is_pod_event,
)
from nodewright_controller.reconcilers.nodepool import (
    NodePoolReconciler,
    pool_of_claim,
    pools_of_class,
)
from nodewright_controller.reconcilers.nominations import Nominations
from nodewright_controller.reconcilers.provisioning import Provisioner
from nodewright_controller.reconcilers.volumes import Volumes
from nodewright_controller.reconcilers.world import World, feed
from nodewright_controller.reconcilers.writes import Writes
from nodewright_controller.runtime.batch_window import BatchWindow
from nodewright_controller.runtime.reconciler import Controller, Singleton, workers
from nodewright_controller.runtime.supervise import Loop
from nodewright_controller.scheduling.problem import (
    MinValuesPolicy,
    PreferencePolicy,
    SolverOptions,
)
from nodewright_controller.settings import Settings
from nodewright_controller.web.why import WhyDesk

_SHORTEST_NOMINATION: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What reconcilers act through."""

    kube: Kube
    cloud: CloudProvider
    recorder: Recorder
    clock: Clock
    world: World


def leader_loops(settings: Settings, ports: Ports, desk: WhyDesk) -> Mapping[str, Loop]:
    """Make all reconcilers, subscribe them, and return what must be kept running.

    From now on questions that come in at the desk are answered.
    """
    FaultWatch(ports.recorder).follow(ports.world)
    cpu = settings.cpu_requests_millicores
    writes = Writes(ports.kube, ports.world, ports.clock)
    nominations = Nominations()
    provisioner = _provisioner(settings, ports, writes, nominations)
    desk.answers = LeaderAnswers(
        world=ports.world,
        cloud=ports.cloud,
        clock=ports.clock,
        provisioner=provisioner,
        nominations=nominations,
    )
    evictions = EvictionQueue(
        world=ports.world,
        kube=ports.kube,
        recorder=ports.recorder,
        clock=ports.clock,
        concurrency=workers(cpu, 20, 100),
    )
    controllers = (
        _lifecycle(ports, writes, nominations, workers(cpu, 100, 500)),
        _termination(ports, writes, evictions, provisioner, workers(cpu, 50, 250)),
        evictions.controller,
        _consolidatable(ports, writes),
        _pod_events(ports, writes),
        _expiration(ports, writes),
        _node_pools(ports, writes),
    )
    disruption = DisruptionLoop(
        world=ports.world,
        writes=writes,
        cloud=ports.cloud,
        recorder=ports.recorder,
        clock=ports.clock,
    )
    garbage = NodeClaimGarbage(world=ports.world, writes=writes, cloud=ports.cloud)
    disrupting = Singleton("disruption", disruption.step)

    def claim_changed(_: NodeClaim | None, new: NodeClaim | None) -> None:
        if new is None:
            disrupting.wake()  # a node that is gone gives its share of the budget back

    ports.world.node_claims.on_change(claim_changed)
    singletons = (
        disrupting,
        Singleton("nodeclaim.garbagecollection", garbage.step),
    )
    loops: dict[str, Loop] = {c.name: c.run for c in (*controllers, *singletons)}
    loops["provisioner"] = provisioner.run
    loops["provisioner.trigger.pod"] = provisioner.retrigger
    return loops


def _provisioner(
    settings: Settings, ports: Ports, writes: Writes, nominations: Nominations
) -> Provisioner:
    provisioner = Provisioner(
        world=ports.world,
        writes=writes,
        cloud=ports.cloud,
        recorder=ports.recorder,
        clock=ports.clock,
        nominations=nominations,
        window=BatchWindow(
            idle_seconds=settings.batch_idle_duration.total_seconds(),
            max_seconds=settings.batch_max_duration.total_seconds(),
        ),
        options=SolverOptions(
            preference_policy=PreferencePolicy(settings.preference_policy),
            min_values_policy=MinValuesPolicy(settings.min_values_policy),
            default_spreads=settings.default_spreads,
        ),
        nomination=max(2 * settings.batch_max_duration, _SHORTEST_NOMINATION),
    )
    ports.world.pods.on_change(provisioner.pod_changed)
    ports.world.node_claims.on_change(provisioner.claim_changed)
    if ports.world.node_overlays is not None:
        ports.world.node_overlays.on_change(provisioner.overlay_changed)
    return provisioner


def _lifecycle(
    ports: Ports, writes: Writes, nominations: Nominations, concurrency: int
) -> Controller:
    world = ports.world
    reconciler = NodeClaimReconciler(
        world=world,
        writes=writes,
        cloud=ports.cloud,
        recorder=ports.recorder,
        clock=ports.clock,
        nominations=nominations,
    )
    controller = Controller("nodeclaim.lifecycle", reconciler.reconcile, concurrency=concurrency)

    def node_changed(old: Node | None, new: Node | None) -> None:
        node = new or old
        claim = world.claim_of(node) if node is not None else None
        if claim is not None:
            controller.enqueue(claim.name)

    feed(world.node_claims, lambda claim: controller.enqueue(claim.name), nominations.forget)
    world.nodes.on_change(node_changed)
    return controller


def _termination(
    ports: Ports,
    writes: Writes,
    evictions: EvictionQueue,
    provisioner: Provisioner,
    concurrency: int,
) -> Controller:
    world = ports.world
    reconciler = NodeTerminationReconciler(
        world=world,
        writes=writes,
        cloud=ports.cloud,
        recorder=ports.recorder,
        clock=ports.clock,
        evictions=evictions,
        volumes=Volumes(world.volume_claims),
    )
    controller = Controller("node.termination", reconciler.reconcile, concurrency=concurrency)

    def node_changed(_: Node | None, new: Node | None) -> None:
        if new is None:
            return
        if new.deleting:
            controller.enqueue(new.name)
        if any(taint.key == labels.DISRUPTED_TAINT for taint in new.spec.taints or ()):
            # Its pods need capacity elsewhere before they are evicted.
            provisioner.trigger(f"node/{new.name}")

    def pod_changed(old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        node = world.nodes.get(pod.spec.node_name) if pod is not None else None
        if node is not None and node.deleting:
            controller.enqueue(node.name)

    world.nodes.on_change(node_changed)
    world.pods.on_change(pod_changed)
    return controller


def _consolidatable(ports: Ports, writes: Writes) -> Controller:
    world = ports.world
    reconciler = NodeClaimDisruptionReconciler(world=world, writes=writes, clock=ports.clock)
    controller = Controller("nodeclaim.disruption", reconciler.reconcile)

    def pool_changed(old: NodePool | None, new: NodePool | None) -> None:
        if new is None or (old is not None and old.metadata.generation == new.metadata.generation):
            return
        for claim in world.claims_of_pool(new.name):
            controller.enqueue(claim.name)

    feed(world.node_claims, lambda claim: controller.enqueue(claim.name))
    world.node_pools.on_change(pool_changed)
    return controller


def _pod_events(ports: Ports, writes: Writes) -> Controller:
    world = ports.world
    reconciler = PodEventReconciler(world=world, writes=writes, clock=ports.clock)
    controller = Controller("nodeclaim.podevents", reconciler.reconcile)

    def pod_changed(old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None and is_pod_event(old, new):
            name = reconciler.pod_event(pod.spec.node_name)
            if name is not None:
                controller.enqueue(name)

    world.pods.on_change(pod_changed)
    return controller


def _expiration(ports: Ports, writes: Writes) -> Controller:
    reconciler = ExpirationReconciler(world=ports.world, writes=writes, clock=ports.clock)
    controller = Controller("nodeclaim.expiration", reconciler.reconcile)

    def claim_changed(old: NodeClaim | None, new: NodeClaim | None) -> None:
        if new is not None and old is None:
            controller.enqueue(new.name)

    ports.world.node_claims.on_change(claim_changed)
    return controller


def _node_pools(ports: Ports, writes: Writes) -> Controller:
    world = ports.world
    reconciler = NodePoolReconciler(world=world, writes=writes, clock=ports.clock)
    controller = Controller("nodepool", reconciler.reconcile)

    def class_changed(old: EC2NodeClass | None, new: EC2NodeClass | None) -> None:
        node_class = new or old
        if node_class is not None:
            for name in pools_of_class(world, node_class.name):
                controller.enqueue(name)

    def claim_changed(old: NodeClaim | None, new: NodeClaim | None) -> None:
        claim = new or old
        if claim is not None and (name := pool_of_claim(claim)):
            controller.enqueue(name)

    feed(world.node_pools, lambda pool: controller.enqueue(pool.name))
    world.node_classes.on_change(class_changed)
    world.node_claims.on_change(claim_changed)
    return controller
