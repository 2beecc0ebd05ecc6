"""Adds the autoscaler to an EKS cluster that exists already."""

import pulumi
import pulumi_aws as aws
from nodewright import Autoscaler

config = pulumi.Config()
cluster = aws.eks.get_cluster_output(name=config.require("clusterName"))
tags = {"karpenter.sh/discovery": cluster.name}

autoscaler = Autoscaler(
    "autoscaler",
    {
        "cluster_name": cluster.name,
        "cluster_endpoint": cluster.endpoint,
        "certificate_authority": cluster.certificate_authorities[0].data,
        "image": config.require("controllerImage"),
        "node_classes": [
            {
                "name": "default",
                "ami_selector_terms": [{"alias": "al2023@latest"}],
                "subnet_selector_terms": [{"tags": tags}],
                "security_group_selector_terms": [{"tags": tags}],
            }
        ],
        "node_pools": [
            {
                "name": "default",
                "template": {
                    "spec": {
                        "node_class_ref": {"name": "default"},
                        "requirements": [
                            {
                                "key": "karpenter.sh/capacity-type",
                                "operator": "In",
                                "values": ["spot", "on-demand"],
                            },
                        ],
                    }
                },
                "limits": {"cpu": "100"},
            }
        ],
    },
)
pulumi.export("nodeRole", autoscaler.node_role_name)
