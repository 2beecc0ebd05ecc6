"""Tags an instance with the name of its Node, once that is known.

Upstream: pkg/controllers/nodeclaim/tagging. EC2 limits CreateTags, so this runs one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from nodewright_controller.api.labels import CLUSTER_NAME_TAGGED, TAGGED
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.provider import EC2Provider
from nodewright_controller.aws.tags import CLUSTER_NAME, NAME, NODE_CLAIM, as_list
from nodewright_controller.ports.errors import NodeClaimNotFound
from nodewright_controller.ports.kube import Kube
from nodewright_controller.ports.store import Store
from nodewright_controller.runtime.reconciler import DONE, Result

log = structlog.get_logger(__name__)

_STAMPS: Final = {TAGGED: "true", CLUSTER_NAME_TAGGED: "true"}


def needs_tags(node_claim: NodeClaim) -> bool:
    """Whether a claim's Node is known and its instance was not tagged with it yet."""
    known = bool(node_claim.status.provider_id and node_claim.status.node_name)
    stamped = all(node_claim.annotations.get(key) == value for key, value in _STAMPS.items())
    return known and not stamped and not node_claim.deleting


def missing_tags(
    node_claim: NodeClaim, present: Mapping[str, str], options: AwsOptions
) -> dict[str, str]:
    """Return the tags to add; one that is there already is never overwritten."""
    wanted = {
        NAME: node_claim.status.node_name,
        NODE_CLAIM: node_claim.name,
        CLUSTER_NAME: options.cluster_name,
    }
    return {key: value for key, value in wanted.items() if key not in present}


class TaggingReconciler:
    """Tags the instance of one NodeClaim."""

    def __init__(self, provider: EC2Provider, kube: Kube, node_claims: Store[NodeClaim]) -> None:
        self._provider = provider
        self._kube = kube
        self._node_claims = node_claims

    async def reconcile(self, name: str) -> Result:
        """Look at one claim. Raises AwsError, KubeError."""
        claim = self._node_claims.get(name)
        if claim is None or not needs_tags(claim):
            return DONE
        try:
            instance = await self._provider.get(claim.status.provider_id)
        except NodeClaimNotFound:
            return DONE
        tags = missing_tags(claim, instance.tags, self._provider.options)
        if tags:
            await self._provider.instances.tag(instance.instance_id, as_list(tags))
        body = {"metadata": {"annotations": _STAMPS}}
        self._node_claims.observe(await self._kube.patch(NodeClaim, claim.name, body))
        return DONE
