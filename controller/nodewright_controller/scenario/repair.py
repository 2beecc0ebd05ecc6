"""What the cluster itself would have made whole: ids, and the status of claims.

A small world leaves out what nobody cares about; decisions need it all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from nodewright_controller.api.labels import INSTANCE_TYPE
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.scenario.values import CatalogType, World


def repaired(world: World, warnings: tuple[str, ...]) -> World:
    """Return the world with missing ids and amounts filled in, and these warnings."""
    catalog = {found.name: found for found in world.catalog}
    node_of = {claim.status.node_name: claim for claim in world.node_claims}
    nodes = tuple(_identified(node, node_of.get(node.name)) for node in world.nodes)
    ids = {node.name: node.spec.provider_id for node in nodes}
    claims = tuple(_completed(claim, ids, catalog) for claim in world.node_claims)
    return replace(world, nodes=nodes, node_claims=claims, warnings=warnings)


def _identified(node: Node, claim: NodeClaim | None) -> Node:
    if node.spec.provider_id or claim is None:
        return node
    found = claim.status.provider_id or f"scenario:///{node.name}"
    return structs.replace(node, spec=structs.replace(node.spec, provider_id=found))


def _completed(
    claim: NodeClaim, ids: Mapping[str, str], catalog: Mapping[str, CatalogType]
) -> NodeClaim:
    status = claim.status
    if not status.provider_id and status.node_name in ids:
        status = structs.replace(status, provider_id=ids[status.node_name])
    known = catalog.get(claim.labels.get(INSTANCE_TYPE, ""))
    if known is not None and status.provider_id:
        if status.capacity is None:
            status = structs.replace(status, capacity={**known.capacity.format()})
        if status.allocatable is None:
            amounts = known.allocatable if known.allocatable is not None else known.capacity
            status = structs.replace(status, allocatable={**amounts.format()})
    return structs.replace(claim, status=status)
