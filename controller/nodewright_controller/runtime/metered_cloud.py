"""A cloud whose calls are counted and timed, by Karpenter's names; it changes nothing else.

Upstream: pkg/cloudprovider/metrics, which wraps the provider in the same way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from nodewright_controller.api.labels import NODEPOOL
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.ports.cloud import CloudInstance, CloudProvider, Launched
from nodewright_controller.ports.errors import (
    InsufficientCapacity,
    NodeClaimNotFound,
    NodeClassNotReady,
    OverlaysPending,
)
from nodewright_controller.runtime import metrics
from nodewright_controller.runtime.controller_name import CONTROLLER

_ERRORS: Final = (
    (NodeClaimNotFound, "NodeClaimNotFoundError"),
    (NodeClassNotReady, "NodeClassNotReadyError"),
    (InsufficientCapacity, "InsufficientCapacityError"),
)
_OTHER_ERROR: Final = "unknown"


class MeteredCloud:
    """Implements `ports.cloud.CloudProvider` by another one."""

    def __init__(self, cloud: CloudProvider, provider: str) -> None:
        """Pass every call on to `cloud`; `provider` is the label that says which one it is."""
        self._cloud = cloud
        self._provider = provider

    async def create(self, node_claim: NodeClaim) -> Launched:
        """Launch one instance for the claim; see `CloudProvider.create`."""
        with self._measured("Create", _pool_of(node_claim)):
            return await self._cloud.create(node_claim)

    async def delete(self, node_claim: NodeClaim) -> None:
        """Ask for termination; see `CloudProvider.delete`."""
        with self._measured("Delete", _pool_of(node_claim)):
            await self._cloud.delete(node_claim)

    async def get(self, provider_id: str) -> CloudInstance:
        """Return one instance; see `CloudProvider.get`."""
        with self._measured("Get"):
            return await self._cloud.get(provider_id)

    async def list(self) -> tuple[CloudInstance, ...]:
        """Return all instances of this cluster; see `CloudProvider.list`."""
        with self._measured("List"):
            return await self._cloud.list()

    async def instance_types(self, node_pool: NodePool) -> tuple[InstanceType, ...]:
        """Return every instance type for the pool; see `CloudProvider.instance_types`."""
        with self._measured("GetInstanceTypes", node_pool.name):
            return await self._cloud.instance_types(node_pool)

    async def is_drifted(self, node_claim: NodeClaim) -> str:
        """Return why the instance has drifted; see `CloudProvider.is_drifted`."""
        with self._measured("IsDrifted", _pool_of(node_claim)):
            return await self._cloud.is_drifted(node_claim)

    @contextlib.contextmanager
    def _measured(self, method: str, node_pool: str = "") -> Iterator[None]:
        who = (CONTROLLER.get(), method, self._provider)
        try:
            with metrics.CLOUD_SECONDS.labels(*who).time():
                yield
        except OverlaysPending:
            raise  # it is we who are not ready, not the cloud
        except Exception as error:
            metrics.CLOUD_ERRORS.labels(*who, _error_label(error), node_pool).inc()
            raise


def _pool_of(node_claim: NodeClaim) -> str:
    return node_claim.labels.get(NODEPOOL, "")


def _error_label(error: Exception) -> str:
    return next((label for kind, label in _ERRORS if isinstance(error, kind)), _OTHER_ERROR)
