"""A planned node as the NodeClaim that asks for it.

Upstream: NodeClaimTemplate.ToNodeClaim in pkg/controllers/provisioning/scheduling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nodewright_controller.api.conversion import KUBELET
from nodewright_controller.api.labels import (
    HOSTNAME,
    INITIALIZED,
    INSTANCE_TYPE,
    MIN_VALUES_RELAXED,
    NODEPOOL,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    REGISTERED,
    WELL_KNOWN,
)
from nodewright_controller.api.meta import ObjectMeta, OwnerReference
from nodewright_controller.api.nodeclaim import NodeClaim, NodeClaimSpec, ResourceRequests
from nodewright_controller.api.nodepool import NodePool, NodeSelectorRequirementWithMinValues
from nodewright_controller.api.nodepool_hash import HASH_VERSION, node_pool_hash
from nodewright_controller.constraints.requirement import Operator, Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.scheduling.decision import PlannedClaim

SIMULATED: Final = (HOSTNAME, REGISTERED, INITIALIZED)
"""Labels that only the solver's picture of a new node has."""


def template_labels(node_pool: NodePool) -> dict[str, str]:
    """Return the labels every node of the pool gets: template, pool, node class."""
    reference = node_pool.spec.template.spec.node_class_ref
    labels = dict(node_pool.spec.template.metadata.labels or {})
    labels[NODEPOOL] = node_pool.name
    if reference.group and reference.kind:
        labels[f"{reference.group}/{reference.kind.lower()}"] = reference.name
    return labels


def template_requirements(node_pool: NodePool) -> Requirements:
    """Return what is true of every node of the pool.

    Raises:
        ValueError: a requirement of the pool is malformed; the message names its key.

    """
    stated = Requirements.of_entries(node_pool.spec.template.spec.requirements)
    return stated.merged(Requirements.of_labels(template_labels(node_pool)))


def node_claim_from(
    planned: PlannedClaim, node_pool: NodePool, *, default_grace_period: str | None = None
) -> NodeClaim:
    """Return the NodeClaim to create; its name is left to the API server.

    `default_grace_period` stands in when the pool has no terminationGracePeriod.
    """
    requirements = planned.requirements.without(*SIMULATED).merged(
        [Requirement.of(INSTANCE_TYPE, Operator.IN, planned.instance_types)]
    )
    return _claim(
        node_pool,
        requirements,
        labels=dict(planned.labels),
        requests=planned.requests.format(),
        annotations={MIN_VALUES_RELAXED: "true" if planned.min_values_relaxed else "false"},
        default_grace_period=default_grace_period,
    )


def static_node_claim(node_pool: NodePool, *, default_grace_period: str | None = None) -> NodeClaim:
    """Return a NodeClaim of a pool with a fixed number of replicas: the template, unnarrowed."""
    return _claim(
        node_pool,
        template_requirements(node_pool),
        labels=template_labels(node_pool),
        requests={},
        annotations={},
        default_grace_period=default_grace_period,
    )


def _claim(
    node_pool: NodePool,
    requirements: Requirements,
    *,
    labels: dict[str, str],
    requests: dict[str, str],
    annotations: dict[str, str],
    default_grace_period: str | None,
) -> NodeClaim:
    template = node_pool.spec.template
    owner = OwnerReference(
        api_version=node_pool.KIND.api_version,
        kind=node_pool.KIND.kind,
        name=node_pool.name,
        uid=node_pool.uid,
        block_owner_deletion=True,
    )
    return NodeClaim(
        metadata=ObjectMeta(
            generate_name=f"{node_pool.name}-",
            labels={**dict(_decided(requirements)), **labels},
            annotations={
                **(template.metadata.annotations or {}),
                **annotations,
                # The kubelet settings of a v1beta1 pool: its nodes are launched with them.
                **_kubelet(node_pool),
                NODEPOOL_HASH: node_pool_hash(node_pool),
                NODEPOOL_HASH_VERSION: HASH_VERSION,
            },
            owner_references=[owner],
        ),
        spec=NodeClaimSpec(
            taints=template.spec.taints,
            startup_taints=template.spec.startup_taints,
            requirements=list(entries(requirements)),
            resources=ResourceRequests(requests=dict(requests) or None),
            node_class_ref=template.spec.node_class_ref,
            termination_grace_period=template.spec.termination_grace_period or default_grace_period,
            expire_after=template.spec.expire_after,
        ),
    )


def _kubelet(node_pool: NodePool) -> dict[str, str]:
    return {key: text for key, text in node_pool.annotations.items() if key == KUBELET}


def _decided(requirements: Requirements) -> Iterator[tuple[str, str]]:
    """Yield a label for every custom requirement: the node must carry some allowed value.

    Well-known labels come from the instance; a claim whose label must be absent gets none.
    """
    for key, requirement in requirements.items():
        if key in WELL_KNOWN or key == HOSTNAME:
            continue
        value = requirement.any_value()
        if value:
            yield key, value


def entries(requirements: Requirements) -> Iterator[NodeSelectorRequirementWithMinValues]:
    """Yield the API form, by key; `minValues` stands on the first entry of its key."""
    for _, requirement in sorted(requirements.items()):
        for position, (key, operator, values) in enumerate(requirement.entries()):
            yield NodeSelectorRequirementWithMinValues(
                key=key,
                operator=str(operator),
                values=list(values) or None,
                min_values=requirement.min_values if position == 0 else None,
            )
