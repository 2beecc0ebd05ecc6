"""A planned node as the NodeClaim that asks for it."""

from __future__ import annotations

from nodewright_controller.api import labels as names
from nodewright_controller.api.nodepool_hash import node_pool_hash
from nodewright_controller.scheduling.claims import node_claim_from, static_node_claim
from nodewright_controller.scheduling.solver import solve

from tests.builders import daemon, instance_type, nodepool, pod, world


def test_a_node_claim_carries_pool_requirements_requests_and_hash() -> None:
    pool = nodepool(
        "general",
        requires="team in x,y; zone in a,b",
        labels={"tier": "front"},
        taints=["t:NoSchedule"],
    )
    web = pod("web", cpu="1500m", memory="1Gi", tolerates=["t"], requires="zone in a")
    planned = solve(
        world(
            pool,
            instance_type("small", zones={"a": 0.2}),
            instance_type("large", cpu=4, zones={"a": 0.1}, spot={"a": 0.05}),
            daemon("agent", cpu="100m", tolerates=["*"]),
            web,
        )
    ).new_node("web")

    claim = node_claim_from(planned, pool)

    entries = {r.key: (r.operator, r.values) for r in claim.spec.requirements}
    assert claim.metadata.generate_name == "general-"
    assert entries[names.ZONE] == ("In", ["a"])
    assert entries[names.INSTANCE_TYPE] == ("In", ["large", "small"])
    assert entries[names.CAPACITY_TYPE] == ("In", ["on-demand", "spot"])
    assert names.HOSTNAME not in entries
    assert names.REGISTERED not in entries
    assert claim.spec.resources.requests == {"cpu": "1600m", "memory": "1Gi", "pods": "2"}
    assert claim.labels["tier"] == "front"
    assert claim.labels["team"] == "x"
    assert claim.labels[names.EC2_NODE_CLASS] == "default"
    assert claim.annotations[names.NODEPOOL_HASH] == node_pool_hash(pool)
    assert claim.annotations[names.NODEPOOL_HASH_VERSION] == "v3"
    assert claim.annotations[names.MIN_VALUES_RELAXED] == "false"
    assert [(t.key, t.effect) for t in claim.spec.taints or ()] == [("t", "NoSchedule")]
    assert claim.spec.expire_after == "720h"
    owner = claim.owners[0]
    assert (owner.kind, owner.name, owner.block_owner_deletion) == ("NodePool", "general", True)


def test_a_static_claim_is_the_template_without_types() -> None:
    pool = nodepool("fixed", requires="arch in amd64", replicas=3)

    claim = static_node_claim(pool)

    assert names.INSTANCE_TYPE not in {r.key for r in claim.spec.requirements}
    assert claim.spec.resources.requests is None
