"""What the cluster itself would have made whole, or refused: ids, claim status, quantities.

A small world leaves out what nobody cares about; decisions need it all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from nodewright_controller.api.labels import INSTANCE_TYPE
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.node import Node
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.pod import Pod
from nodewright_controller.api.workloads import DaemonSet
from nodewright_controller.cluster.pods import pod_requests
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scenario.values import CatalogType, World


def repaired(world: World, warnings: tuple[str, ...]) -> World:
    """Return the world with missing ids and amounts filled in, and these warnings."""
    catalog = {found.name: found for found in world.catalog}
    node_of = {claim.status.node_name: claim for claim in world.node_claims}
    nodes = tuple(_identified(node, node_of.get(node.name)) for node in world.nodes)
    ids = {node.name: node.spec.provider_id for node in nodes}
    claims = tuple(_completed(claim, ids, catalog) for claim in world.node_claims)
    return replace(world, nodes=nodes, node_claims=claims, warnings=warnings)


def unusable(found: KubeObject) -> str:
    """Return why the API server would never have stored such an object, or an empty text.

    A pod that waits is left to the solver, which says of it what is wrong.
    """
    try:
        match found:
            case Node():
                Resources.parse(found.status.capacity)
                Resources.parse(found.status.allocatable)
            case NodeClaim():
                Resources.parse(found.status.capacity)
                Resources.parse(found.status.allocatable)
                Resources.parse(found.spec.resources.requests)
            case Pod() if found.spec.node_name:
                pod_requests(found)
            case DaemonSet():
                pod_requests(Pod(metadata=found.metadata, spec=found.spec.template.spec))
            case _:
                pass
    except ValueError as error:
        return str(error)
    return ""


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
