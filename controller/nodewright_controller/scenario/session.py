"""One run of a scenario: the world as it changes from step to step.

Holds what the controller holds (cluster state, unavailable offerings, the clock) and what the
steps have done so far. The steps themselves are functions in modules of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.labels import NODEPOOL
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.aws.ami import image_for
from nodewright_controller.aws.provider import with_kubelet_of
from nodewright_controller.aws.shape import shape_of
from nodewright_controller.aws.unavailable import UnavailableOfferings
from nodewright_controller.cluster.cluster import Cluster
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.overlay import (
    Overlay,
    PoolTypes,
    overlay_types,
    read_overlay,
)
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.reconcilers.loop_guard import LoopGuard, Missed
from nodewright_controller.scenario.canned import unreadable
from nodewright_controller.scenario.machines import machine, without_reservations
from nodewright_controller.scenario.outcome import Outcome
from nodewright_controller.scenario.readiness import pool_problem
from nodewright_controller.scenario.settings import Options, options_of
from nodewright_controller.scenario.values import World
from nodewright_controller.scheduling.claims import template_labels
from nodewright_controller.scheduling.problem import PoolOffer


@dataclass(slots=True)
class SteppedClock:
    """A clock that the steps move."""

    at: datetime

    def now(self) -> datetime:
        """Return the instant of the current step."""
        return self.at

    def advance(self, span: timedelta) -> None:
        """Let time pass."""
        self.at += span


@dataclass(slots=True, kw_only=True)
class Session:
    """The state of a run."""

    world: World
    options: Options
    clock: SteppedClock
    cluster: Cluster
    shortages: UnavailableOfferings
    outcome: Outcome
    overlays: tuple[Overlay, ...] = ()
    """Those that can be read and do not conflict."""
    unlaunched: dict[str, NodeClaim] = field(default_factory=dict)
    """Claims that were asked for and have no instance yet, by name."""
    tried: set[str] = field(default_factory=set)
    """Those of them that a launch step has tried."""
    reserved: dict[str, int] = field(default_factory=dict)
    """Capacity reservation to the instances that this run has taken from it."""
    addresses: dict[str, int] = field(default_factory=dict)
    """Subnet to the addresses that this run's launches took of it."""
    guard: LoopGuard
    """What was bought for whom, and missed."""
    made: int = 0
    """Claims and instances made so far; numbers their names."""

    @property
    def node_pools(self) -> dict[str, NodePool]:
        """The pools by name."""
        return {pool.name: pool for pool in self.world.node_pools}

    @property
    def node_classes(self) -> dict[str, EC2NodeClass]:
        """The node classes by name."""
        return {found.name: found for found in self.world.node_classes}

    def node_class_of(self, claim_or_pool: NodeClaim | NodePool) -> EC2NodeClass | None:
        """Return the node class, with the kubelet settings that a v1beta1 object brought along."""
        if isinstance(claim_or_pool, NodePool):
            reference = claim_or_pool.spec.template.spec.node_class_ref
        else:
            reference = claim_or_pool.spec.node_class_ref
        found = self.node_classes.get(reference.name)
        return None if found is None else with_kubelet_of(found, claim_or_pool)

    def machines(self, node_class: EC2NodeClass) -> tuple[InstanceType, ...]:
        """Return every type as a node of the class, by name.

        Raises:
            ValueError: the class names no known image family.

        """
        shape = shape_of(node_class, self.options.aws)
        taken = self.reserved
        reserved = self.options.gates["ReservedCapacity"]
        catalog = self.world.catalog if reserved else map(without_reservations, self.world.catalog)
        return tuple(machine(entry, shape, self.shortages, taken) for entry in catalog)

    def types_of(self, owner: NodeClaim | NodePool) -> tuple[InstanceType, ...]:
        """Return every type that the pool, or the claim's pool, can be made of; overlays included.

        Raises:
            ValueError: there is no node class, or it names no known image family.

        """
        node_class = self.node_class_of(owner)
        if node_class is None:
            raise ValueError("its EC2NodeClass does not exist")
        types = self.machines(node_class)
        name = owner.name if isinstance(owner, NodePool) else owner.labels.get(NODEPOOL, "")
        pool = self.node_pools.get(name)
        if pool is None or not self.overlays:
            return types
        found = PoolTypes(labels=Requirements.of_labels(template_labels(pool)), types=types)
        return overlay_types(self.overlays, {name: found}).types[name]

    def offers(self) -> tuple[PoolOffer, ...]:
        """Return what every dynamic pool can buy right now."""
        return tuple(
            self._offer(pool) for pool in self.world.node_pools if pool.spec.replicas is None
        )

    def _offer(self, pool: NodePool) -> PoolOffer:
        unready = pool_problem(pool, self.node_classes)
        node_class = self.node_class_of(pool)
        if unready or node_class is None:
            return PoolOffer(node_pool=pool, unready=unready or "it has no EC2NodeClass")
        types = self.types_of(pool)
        amis = node_class.status.amis
        if amis is None:  # a world that says nothing of images has one for everything
            return PoolOffer(node_pool=pool, instance_types=types)
        bootable = tuple(found for found in types if image_for(found, amis) is not None)
        imageless = tuple(found for found in types if image_for(found, amis) is None)
        return PoolOffer(node_pool=pool, instance_types=bootable, imageless=imageless)


def open_session(world: World) -> Session:
    """Return a session at the beginning of the world's scenario."""
    options = options_of(world)
    clock = SteppedClock(world.scenario.now)
    outcome = Outcome(name=world.scenario.name)
    outcome.warnings.extend((*world.warnings, *options.warnings))
    outcome.warnings.extend(f"Scenario {text}" for text in unreadable(world.scenario.aws))
    session = Session(
        world=world,
        options=options,
        clock=clock,
        cluster=_cluster(world),
        shortages=UnavailableOfferings(clock),
        outcome=outcome,
        guard=LoopGuard(lambda missed: outcome.warnings.append(_missed_text(missed))),
        unlaunched={
            claim.name: claim
            for claim in world.node_claims
            if not claim.status.provider_id and not claim.deleting
        },
    )
    if options.gates["NodeOverlay"]:
        session.overlays = _overlays(session)
    else:
        outcome.warnings.extend(
            f"NodeOverlay {found.name}: changes nothing, since feature gate NodeOverlay is off"
            for found in world.node_overlays
        )
    return session


def _missed_text(missed: Missed) -> str:
    how = missed.bar.miss.name.lower().replace("_", " ")
    return f"NodeClaim {missed.node_claim} did not help pod {missed.pod}: {how}"


def _overlays(session: Session) -> tuple[Overlay, ...]:
    """Return the overlays that apply; those that conflict in any pool are left out of all."""
    readable = []
    for overlay in session.world.node_overlays:
        try:
            readable.append(read_overlay(overlay))
        except ValueError as error:
            session.outcome.warnings.append(f"NodeOverlay {overlay.name}: {error}")
    pools = {}
    for pool in session.world.node_pools:
        try:
            types = session.types_of(pool)
        except ValueError:
            continue  # a pool that cannot buy anything; its own problem says why
        labels = Requirements.of_labels(template_labels(pool))
        pools[pool.name] = PoolTypes(labels=labels, types=types)
    conflicts = overlay_types(readable, pools).conflicts
    session.outcome.warnings.extend(
        f"NodeOverlay {name}: conflict with another overlay" for name in conflicts
    )
    return tuple(found for found in readable if found.name not in conflicts)


def _cluster(world: World) -> Cluster:
    cluster = Cluster()
    for node in world.nodes:
        cluster.apply_node(node)
    for claim in world.node_claims:
        cluster.apply_node_claim(claim)
    later = world.scenario.created_later()
    for pod in world.pods:
        if pod.name not in later and pod.key not in later:
            cluster.apply_pod(pod)
    for pool in world.node_pools:
        cluster.apply_node_pool(pool)
    for daemon_set in world.daemon_sets:
        cluster.apply_daemon_set(daemon_set)
    for limit_range in world.limit_ranges:
        cluster.apply_limit_range(limit_range)
    for namespace in world.namespaces:
        cluster.apply_namespace(namespace)
    _learn_of_volumes_and_owners(cluster, world)
    return cluster


def _learn_of_volumes_and_owners(cluster: Cluster, world: World) -> None:
    for stored in (*world.storage, *world.volume_attachments):
        cluster.apply_storage(stored)
    for selecting in world.selecting:
        cluster.apply_selecting(selecting)
