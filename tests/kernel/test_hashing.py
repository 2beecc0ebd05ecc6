"""The NodePool hash equals Karpenter's."""

from __future__ import annotations

from nodewright_controller.api.node import Taint
from nodewright_controller.api.nodepool import (
    NodeClaimTemplate,
    NodeClaimTemplateSpec,
    NodeClassReference,
    NodePool,
    NodePoolSpec,
    NodeSelectorRequirementWithMinValues,
)
from nodewright_controller.api.nodepool_hash import node_pool_hash


def pool() -> NodePool:
    """The pool of both vectors, which were read off a running Karpenter v1.15.0."""
    reference = NodeClassReference(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default")
    template = NodeClaimTemplate(spec=NodeClaimTemplateSpec(node_class_ref=reference))
    return NodePool(spec=NodePoolSpec(template=template))


def test_a_plain_template_hashes_as_karpenter_does() -> None:
    assert node_pool_hash(pool()) == "12745407319442031341"


def test_labels_taints_and_grace_period_hash_as_karpenter_does() -> None:
    full = pool()
    full.spec.template.metadata.labels = {"a": "b"}
    full.spec.template.spec.taints = [Taint(key="k", effect="NoSchedule")]
    full.spec.template.spec.termination_grace_period = "60s"

    assert node_pool_hash(full) == "12145684663078550351"


def test_what_does_not_make_a_node_drift_is_not_hashed() -> None:
    other = pool()
    other.spec.template.spec.requirements = [
        NodeSelectorRequirementWithMinValues(key="a", operator="Exists")
    ]
    other.spec.weight = 7

    assert node_pool_hash(other) == node_pool_hash(pool())


def test_the_order_of_taints_and_labels_does_not_matter_and_never_is_no_lifetime() -> None:
    one, other = pool(), pool()
    taints = [Taint(key="k", effect="NoSchedule"), Taint(key="l", effect="NoExecute")]
    one.spec.template.spec.taints, other.spec.template.spec.taints = taints, taints[::-1]
    one.spec.template.metadata.labels = {"a": "1", "b": "2"}
    other.spec.template.metadata.labels = {"b": "2", "a": "1"}
    assert node_pool_hash(one) == node_pool_hash(other)

    other.spec.template.spec.expire_after = "Never"
    assert node_pool_hash(one) != node_pool_hash(other)
