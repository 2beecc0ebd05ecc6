"""Tags: what belongs to this cluster is found by them, so they are spelled here once.

Upstream: pkg/utils (GetTags), pkg/apis/v1/labels.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.labels import EC2_NODE_CLASS, NODEPOOL, REGION
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.selectors import Filter

CLUSTER_NAME: Final = "eks:eks-cluster-name"
NODE_CLAIM: Final = "karpenter.sh/nodeclaim"
NAME: Final = "Name"
OWNED: Final = "owned"
_RESERVED: Final = (CLUSTER_NAME, NODEPOOL, NODE_CLAIM, EC2_NODE_CLASS)
_RESERVED_PREFIX: Final = "kubernetes.io/cluster"


def cluster_tag(cluster_name: str) -> str:
    """Return the key that marks a resource as owned by a cluster."""
    return f"kubernetes.io/cluster/{cluster_name}"


def owned_tags(node_class: EC2NodeClass, options: AwsOptions) -> dict[str, str]:
    """Return the tags of everything made for a node class; ours win over the user's."""
    return {
        **(node_class.spec.tags or {}),
        cluster_tag(options.cluster_name): OWNED,
        CLUSTER_NAME: options.cluster_name,
        EC2_NODE_CLASS: node_class.name,
    }


def launch_tags(
    node_class: EC2NodeClass, node_claim: NodeClaim, options: AwsOptions
) -> dict[str, str]:
    """Return the tags of an instance and what comes with it.

    The NodeClaim's name is among them from the first moment, so that an instance whose launch was
    never answered can still be found and adopted.
    """
    return {
        **owned_tags(node_class, options),
        NODEPOOL: node_claim.labels.get(NODEPOOL, ""),
        NODE_CLAIM: node_claim.name,
    }


def template_tags(
    node_class: EC2NodeClass, node_claim: NodeClaim, options: AwsOptions
) -> dict[str, str]:
    """Return the tags of a launch template: nothing that differs from claim to claim."""
    return {
        **owned_tags(node_class, options),
        NODEPOOL: node_claim.labels.get(NODEPOOL, ""),
    }


def profile_tags(node_class: EC2NodeClass, options: AwsOptions) -> dict[str, str]:
    """Return the tags of an instance profile."""
    return {**owned_tags(node_class, options), REGION: options.region}


def forbidden_tag(tags: Mapping[str, str] | None) -> str | None:
    """Return the first user tag that is ours to set, or None."""
    return next(
        (
            key
            for key in sorted(tags or {})
            if key in _RESERVED or key.startswith(_RESERVED_PREFIX) or not key
        ),
        None,
    )


def as_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags in AWS's list form, sorted by key."""
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]


def from_list(tags: Any) -> dict[str, str]:
    """Read AWS's list form."""
    return {tag["Key"]: tag["Value"] for tag in tags or ()}


def instance_filters(options: AwsOptions) -> list[Filter]:
    """Return the filters that find every instance of this cluster which is not terminated."""
    return [
        {"Name": "tag-key", "Values": [NODEPOOL]},
        {"Name": "tag-key", "Values": [EC2_NODE_CLASS]},
        {"Name": f"tag:{CLUSTER_NAME}", "Values": [options.cluster_name]},
        LIVE_STATES_FILTER,
    ]


LIVE_STATES: Final = ("pending", "running", "stopping", "stopped", "shutting-down")
LIVE_STATES_FILTER: Final[Filter] = {"Name": "instance-state-name", "Values": list(LIVE_STATES)}
