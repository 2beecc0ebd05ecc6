"""Small worlds, one for each reason of a pod; what the product says in them is in the reference.

The pod is always the same one, so that only the reason differs. What only a running cluster sees is
put together in `reason_moments`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from nodewright_controller.api.pod import (
    LabelSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodResourceClaim,
)
from nodewright_controller.cluster.snapshot import StateNode
from nodewright_controller.cluster.volumes import EBS_DRIVER, VolumeCatalog
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.scheduling.guard import Finding, Miss, Misses, judge_node
from nodewright_controller.scheduling.problem import PoolOffer, Problem, SolverOptions
from nodewright_controller.scheduling.reasons import Reason

from tests.builders import (
    NOW,
    catalog,
    claim,
    daemon,
    instance_type,
    near,
    node,
    node_claim,
    nodepool,
    offering,
    pod,
    spread,
    storage_class,
    volume,
    world,
)

NAME: Final = "cart-7d9x2"
SHOP: Final = "shop"
A, B, C = "eu-west-1a", "eu-west-1b", "eu-west-1c"
CART = {"app": "cart"}


def cart(**fields: Any) -> Pod:
    """Return the pod that all of this is about."""
    return pod(NAME, namespace=SHOP, **fields)


def other(name: str, **fields: Any) -> Pod:
    """Return another pod of the same namespace."""
    return pod(name, namespace=SHOP, **fields)


def small(name: str = "m7g.large", zones: Iterable[str] = (A, B, C), **fields: Any) -> InstanceType:
    """Return an instance type of 2 cpu and 8 GiB."""
    if "offerings" not in fields:
        fields["zones"] = dict.fromkeys(zones, 0.08)
    return instance_type(name, **fields)


def data(*parts: Any, **fields: Any) -> VolumeCatalog:
    """Return a catalogue with the claim `data` of the pod."""
    return catalog(claim("data", namespace=SHOP, **fields), *parts)


# The pod's own shape.


def conflict() -> Problem:
    """The NodePool has another zone."""
    return world(nodepool(requires=f"zone in {A},{B}"), small(), cart(requires=f"zone in {C}"))


def unknown_label() -> Problem:
    """The label is misspelt."""
    batch = nodepool("batch", labels={"node-group": "web"})
    return world(batch, small(), cart(select={"nodegroup": "web"}))


def tainted() -> Problem:
    """The NodePool is for others."""
    return world(nodepool("ml", taints=["dedicated=ml:NoSchedule"]), small(), cart())


def too_large() -> Problem:
    """More memory than any type has beside the daemon."""
    return world(
        nodepool(), small(), daemon("agent", cpu="100m", memory="512Mi"), cart(memory="8Gi")
    )


def no_type() -> Problem:
    """No type has a GPU."""
    return world(nodepool(), small(), cart(requests={"nvidia.com/gpu": 1}))


def no_offering() -> Problem:
    """Spot is sold, and the zone is there, but not both together."""
    only = small(zones=(A,), spot={B: 0.03})
    return world(nodepool(), only, cart(requires=f"zone in {A}; capacity in spot"))


def host_port() -> Problem:
    """A DaemonSet has the port already."""
    return world(nodepool(), small(), daemon("exporter", ports=[9100]), cart(ports=[9100]))


def contradiction() -> Problem:
    """Two rules about one label."""
    return world(nodepool(), small(), cart(select={"zone": A}, requires=f"zone in {B}"))


def invalid() -> Problem:
    """A quantity that is none."""
    return world(nodepool(), small(), cart(cpu="lots"))


def resource_claims() -> Problem:
    """A device by dynamic allocation."""
    one = cart()
    one.spec.resource_claims = [PodResourceClaim(name="gpu")]
    return world(nodepool(), small(), one)


def no_pool_wanted() -> Problem:
    """The pod is for nodes without a NodePool."""
    return world(nodepool(), small(), cart(requires="pool absent"))


def restricted_label() -> Problem:
    """A label of one's own in Karpenter's domain."""
    return world(nodepool(), small(), cart(select={"karpenter.sh/team": "blue"}))


def closed_value() -> Problem:
    """A capacity type that does not exist."""
    return world(nodepool(), small(), cart(requires="capacity in ondemand"))


def by_field() -> Problem:
    """One node by its name."""
    one = cart(requires=f"zone in {A}")
    named = LabelSelectorRequirement(key="metadata.name", operator="In", values=["ip-10-0-3-7"])
    assert one.spec.affinity is not None
    assert one.spec.affinity.node_affinity is not None
    assert one.spec.affinity.node_affinity.required is not None
    one.spec.affinity.node_affinity.required.node_selector_terms = [
        NodeSelectorTerm(match_fields=[named])
    ]
    return world(nodepool(), small(), one)


def host_wanted() -> Problem:
    """One host by its label."""
    return world(nodepool(), small(), cart(select={"host": "ip-10-0-3-7"}))


# The place.


def claim_not_found() -> Problem:
    """The claim is not there yet."""
    return world(nodepool(), small(), cart(claims=["data"]))


def claim_immediate() -> Problem:
    """The class binds at once and has not yet."""
    volumes = data(storage_class("eager", mode="Immediate"), storage_class="eager")
    return world(nodepool(), small(), cart(claims=["data"]), volumes=volumes)


def volume_place() -> Problem:
    """The volume is in a zone that the NodePool leaves out."""
    pool = nodepool(requires=f"zone in {A},{B}")
    volumes = data(volume("pv-1", C), volume="pv-1")
    return world(pool, small(), cart(claims=["data"]), volumes=volumes)


def spread_out() -> Problem:
    """The next one belongs into a zone that the NodePool leaves out."""
    full = [node(f"ip-{zone}", zone=zone, cpu=1) for zone in (A, B)]
    return world(
        nodepool(requires=f"zone in {A}"),
        small(),
        *full,
        other("old", cpu=1, node=f"ip-{A}", labels=CART),
        other("loner", cpu=1, node=f"ip-{B}"),
        cart(labels=CART, spreads=[spread("zone", CART)]),
    )


def anti_affinity() -> Problem:
    """Every zone has one already."""
    return world(
        nodepool(),
        small(zones=(A, B)),
        *(node(f"ip-{zone}", zone=zone, cpu=1) for zone in (A, B)),
        *(other(f"cart-{zone}", cpu=1, node=f"ip-{zone}", labels=CART) for zone in (A, B)),
        cart(labels=CART, anti=[near(CART)]),
    )


def affinity() -> Problem:
    """The cache does not run."""
    return world(nodepool(), small(), cart(affinity=[near({"app": "cache"})]))


def attach_limit() -> Problem:
    """Two volumes, and a type that attaches one."""
    volumes = catalog(
        *(claim(f"data-{n}", namespace=SHOP, volume=f"pv-{n}") for n in range(2)),
        *(volume(f"pv-{n}", A) for n in range(2)),
    )
    only = small(volume_limits={EBS_DRIVER: 1})
    return world(nodepool(), only, cart(claims=["data-0", "data-1"]), volumes=volumes)


def claim_unusable() -> Problem:
    """The class is misspelt."""
    volumes = data(storage_class="gp33")
    return world(nodepool(), small(), cart(claims=["data"]), volumes=volumes)


# The pool.


def full(pool: str = "general") -> tuple[Any, ...]:
    """Return a node of the pool, and the pod that fills it."""
    return node("ip-10-0-3-7", pool=pool, zone=A), other("busy", cpu=2, node="ip-10-0-3-7")


def limit() -> Problem:
    """The one node takes most of the limit."""
    return world(nodepool(limits={"cpu": 3}), small(), *full(), cart())


def node_limit() -> Problem:
    """The one node is all that is allowed."""
    return world(nodepool(limits={"nodes": 1}), small(), *full(), cart())


def min_values() -> Problem:
    """One of the two types is too small."""
    pool = nodepool(requires="type in m7g.large,m7g.2xlarge", min_values={"type": 2})
    return world(pool, small(), small("m7g.2xlarge", cpu=8, memory="32Gi"), cart(cpu=4))


def not_ready() -> Problem:
    """The node class has no subnets."""
    pool = nodepool()
    refused = "subnetSelectorTerms select no subnet"
    return world(PoolOffer(node_pool=pool, instance_types=(small(),), unready=refused), cart())


def no_types() -> Problem:
    """The NodePool's own rules leave nothing."""
    return world(nodepool(), cart())


def no_pools() -> Problem:
    """Nobody has made a NodePool."""
    return world(cart())


# The cloud.


def out_of_stock() -> Problem:
    """EC2 has just refused it."""
    return world(nodepool(), small(offerings=[offering(A, available=False)]), cart())


def reserved_only() -> Problem:
    """The reservation is full, and nothing else may be used."""
    sold = [offering(A, "reserved", 0.0, reservation="cr-0f3a", reserved=0)]
    return world(
        nodepool(requires="capacity in reserved"),
        small(offerings=sold),
        cart(),
        options=SolverOptions(reserved_strict=False),
    )


def no_image() -> Problem:
    """Only images for x86."""
    arm = small(arch="arm64")
    offer = PoolOffer(node_pool=nodepool(), instance_types=(small("m7i.large"),), imageless=(arm,))
    return world(offer, cart(requires="arch in arm64"))


# The round.


def reservation_pending() -> Problem:
    """An equal pod, which comes first by name, gets the reservation's one place."""
    sold = [
        offering(A, "reserved", 0.0, reservation="cr-0f3a", reserved=1),
        offering(A, "on-demand", 0.08),
    ]
    first = other("basket-0", cpu="1500m")
    return world(nodepool(), small(offerings=sold), first, cart(cpu="1500m"))


def out_of_time() -> Problem:
    """The round is over before it has begun."""
    return world(nodepool(), small(), cart(), options=SolverOptions(stop=lambda: True))


def missed(finding: Finding, times: int) -> Problem:
    """Return a world in which that has been found so often about what was bought for the pod."""
    misses = Misses()
    for _ in range(times):
        misses.record(f"{SHOP}/{NAME}", "general", "m7g.large", finding, NOW)
    return replace(world(nodepool(), small(), cart()), barred=misses.bars(NOW))


def not_taken() -> Problem:
    """The node has a taint that nobody declared."""
    joined = node("ip-10-0-3-7", pool="general", taints=["agent.example.com/not-ready:NoSchedule"])
    return missed(judge_node(StateNode(node=joined, node_claim=node_claim(node=joined)), cart()), 1)


def never_joined() -> Problem:
    """Two claims ended before their node was ready."""
    return missed(Finding(Miss.DIED), 2)


def planned() -> Problem:
    """Nothing is in the way."""
    return world(nodepool(), small(zones=[A]), cart(), other("basket-0"))


def room() -> Problem:
    """A node has room."""
    return world(nodepool(), small(), node("ip-10-0-3-7", pool="general", zone=A), cart())


WORLDS: Final[Mapping[Reason, Callable[[], Problem]]] = {
    Reason.CONFLICT: conflict,
    Reason.UNKNOWN_LABEL: unknown_label,
    Reason.TAINT: tainted,
    Reason.TOO_LARGE: too_large,
    Reason.NO_TYPE: no_type,
    Reason.NO_OFFERING: no_offering,
    Reason.HOST_PORT: host_port,
    Reason.CONTRADICTION: contradiction,
    Reason.INVALID: invalid,
    Reason.RESOURCE_CLAIMS: resource_claims,
    Reason.NO_POOL_WANTED: no_pool_wanted,
    Reason.RESTRICTED_LABEL: restricted_label,
    Reason.CLOSED_VALUE: closed_value,
    Reason.BY_FIELD: by_field,
    Reason.HOST_WANTED: host_wanted,
    Reason.CLAIM_NOT_FOUND: claim_not_found,
    Reason.CLAIM_IMMEDIATE: claim_immediate,
    Reason.VOLUME_PLACE: volume_place,
    Reason.SPREAD: spread_out,
    Reason.ANTI_AFFINITY: anti_affinity,
    Reason.AFFINITY: affinity,
    Reason.ATTACH_LIMIT: attach_limit,
    Reason.CLAIM_UNUSABLE: claim_unusable,
    Reason.LIMIT: limit,
    Reason.NODE_LIMIT: node_limit,
    Reason.MIN_VALUES: min_values,
    Reason.NOT_READY: not_ready,
    Reason.NO_TYPES: no_types,
    Reason.NO_POOLS: no_pools,
    Reason.OUT_OF_STOCK: out_of_stock,
    Reason.RESERVED_ONLY: reserved_only,
    Reason.NO_IMAGE: no_image,
    Reason.RESERVATION_PENDING: reservation_pending,
    Reason.OUT_OF_TIME: out_of_time,
    Reason.NOT_TAKEN: not_taken,
    Reason.NEVER_JOINED: never_joined,
    Reason.PLANNED: planned,
    Reason.ROOM: room,
}
