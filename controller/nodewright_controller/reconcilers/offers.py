"""What every dynamic NodePool can buy right now, or why it cannot buy anything."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.ports.cloud import CloudProvider
from nodewright_controller.ports.errors import CloudError
from nodewright_controller.scheduling.problem import PoolOffer, not_ready

log = structlog.get_logger()


async def offers_of(cloud: CloudProvider, node_pools: Iterable[NodePool]) -> tuple[PoolOffer, ...]:
    """Return the offers of the dynamic pools; one that cannot be priced never stops the others."""
    return tuple([await _offer(cloud, pool) for pool in node_pools if pool.spec.replicas is None])


async def _offer(cloud: CloudProvider, pool: NodePool) -> PoolOffer:
    unready = not_ready(pool)
    if unready:
        return PoolOffer(node_pool=pool, unready=unready)
    try:
        instance_types = await cloud.instance_types(pool)
    except CloudError as error:
        log.error("nodepool cannot be priced", nodepool=pool.name, error=str(error))
        return PoolOffer(node_pool=pool, unready=str(error))
    return PoolOffer(
        node_pool=pool,
        instance_types=tuple(found for found in instance_types if found.boots),
        imageless=tuple(found for found in instance_types if not found.boots),
    )
