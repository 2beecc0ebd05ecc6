"""Valid arguments for each component, to vary in tests."""

from typing import Any, cast

from nodewright.autoscaler import AutoscalerArgs
from nodewright.cluster import ClusterArgs
from nodewright.controller import ControllerArgs
from nodewright.controller_role import ControllerRoleArgs
from nodewright.ec2_node_class import EC2NodeClassArgs
from nodewright.network import NetworkArgs
from nodewright.node_pool import NodePoolArgs

DISCOVERY = {"karpenter.sh/discovery": "demo"}


def network(**more: Any) -> NetworkArgs:
    return cast(NetworkArgs, {"cluster_name": "demo", **more})


def cluster(**more: Any) -> ClusterArgs:
    return cast(
        ClusterArgs,
        {
            "cluster_name": "demo",
            "vpc_id": "vpc-1",
            "private_subnet_ids": ["subnet-a", "subnet-b"],
            **more,
        },
    )


def controller_role(**more: Any) -> ControllerRoleArgs:
    return cast(
        ControllerRoleArgs,
        {
            "cluster_name": "demo",
            "node_role_arn": "arn:aws:iam::123456789012:role/KarpenterNodeRole-demo",
            "queue_arn": "arn:aws:sqs:us-west-2:123456789012:demo",
            **more,
        },
    )


def controller(**more: Any) -> ControllerArgs:
    return cast(
        ControllerArgs, {"cluster_name": "demo", "image": "registry.example/controller:1", **more}
    )


def node_class(**more: Any) -> EC2NodeClassArgs:
    return cast(
        EC2NodeClassArgs,
        {
            "name": "default",
            "role": "KarpenterNodeRole-demo",
            "ami_selector_terms": [{"alias": "al2023@latest"}],
            "subnet_selector_terms": [{"tags": DISCOVERY}],
            "security_group_selector_terms": [{"tags": DISCOVERY}],
            **more,
        },
    )


def node_pool(**more: Any) -> NodePoolArgs:
    return cast(
        NodePoolArgs,
        {
            "name": "general",
            "template": {
                "spec": {
                    "node_class_ref": {"name": "default"},
                    "requirements": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
                    ],
                }
            },
            **more,
        },
    )


def pool_with(**spec: Any) -> NodePoolArgs:
    """Return a pool whose node template has these fields."""
    return node_pool(template={"spec": {"node_class_ref": {"name": "default"}, **spec}})


def autoscaler(**more: Any) -> AutoscalerArgs:
    return cast(
        AutoscalerArgs,
        {
            "cluster_name": "demo",
            "cluster_endpoint": "https://api.eks.example",
            "certificate_authority": "Q0E=",
            "image": "registry.example/controller:1",
            **more,
        },
    )
