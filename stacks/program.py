"""The one program of all environments: a network, a cluster in it, and its autoscaler.

Composes components by the stack's settings; decides nothing itself. `pulumi up` and the Automation
API run this same function.
"""

import pulumi
from nodewright import protection, tagging
from nodewright.autoscaler import Autoscaler, AutoscalerArgs
from nodewright.cluster import Cluster, ClusterArgs
from nodewright.controller_settings import ControllerSettingsArgs
from nodewright.ec2_node_class import EC2NodeClassArgs
from nodewright.network import DISCOVERY_TAG, Network, NetworkArgs
from nodewright.node_pool import NodePoolArgs
from pulumi.runtime import config as runtime_config

from stacks.config import StackConfig, load

CORE_NODE_SELECTOR = {"karpenter.sh/controller": "true"}


def program() -> None:
    """Declare the stack that is selected."""
    config = load(pulumi.Config().get, runtime_config.CONFIG.get())
    tagging.register(config.tags)
    if config.protect:
        protection.register()
    network = Network("network", network_args(config))
    cluster = Cluster("cluster", cluster_args(config, network))
    autoscaler = Autoscaler("autoscaler", autoscaler_args(config, cluster))
    export(network, cluster, autoscaler)


def network_args(config: StackConfig) -> NetworkArgs:
    """Return the network's arguments."""
    args: NetworkArgs = {
        "cluster_name": config.cluster_name,
        "cidr_block": config.vpc_cidr,
        "nat": config.nat,
        "vpc_endpoints": config.vpc_endpoints,
    }
    if config.zones:
        args["zones"] = config.zones
    else:
        args["zone_count"] = config.zone_count
    return args


def cluster_args(config: StackConfig, network: Network) -> ClusterArgs:
    """Return the cluster's arguments."""
    args: ClusterArgs = {
        "cluster_name": config.cluster_name,
        "vpc_id": network.vpc_id,
        "private_subnet_ids": network.private_subnet_ids,
        "kubernetes_version": config.kubernetes_version,
        "endpoint_public_access": config.public_access,
        "public_access_cidrs": config.public_access_cidrs if config.public_access else (),
        "log_types": config.log_types,
        "log_retention_days": config.log_retention_days,
        "encrypt_secrets": config.encrypt_secrets,
        "admins": config.admins,
        "compute": config.compute,
    }
    if config.compute != "fargate":
        args["core_nodes"] = {
            "instance_types": [config.core_instance_type],
            "count": config.core_node_count,
        }
    return args


def autoscaler_args(config: StackConfig, cluster: Cluster) -> AutoscalerArgs:
    """Return the autoscaler's arguments."""
    args: AutoscalerArgs = {
        "cluster_name": cluster.cluster_name,
        "cluster_endpoint": cluster.endpoint,
        "kubeconfig": cluster.kubeconfig,
        "image": config.controller_image,
        "replicas": config.replicas,
        "settings": controller_settings(config),
        "webhook_hosts": config.webhook_hosts,
        "retain_crds": config.retain_crds,
    }
    if config.webhook_url is not None:
        args["webhook_url"] = config.webhook_url
    if config.compute == "fargate":
        args["identity"] = "irsa"
        args["oidc_issuer"] = cluster.oidc_issuer
        if cluster.oidc_provider_arn is not None:
            args["oidc_provider_arn"] = cluster.oidc_provider_arn
    else:
        args["node_selector"] = CORE_NODE_SELECTOR
    if config.default_node_pool:
        args["node_classes"] = [default_node_class(config)]
        args["node_pools"] = [default_node_pool(config)]
    return args


def controller_settings(config: StackConfig) -> ControllerSettingsArgs:
    """Return the controller's settings."""
    settings: ControllerSettingsArgs = {"log_level": config.log_level}
    if config.scheduler_config is not None:
        settings["scheduler_config"] = config.scheduler_config
    return settings


def default_node_class(config: StackConfig) -> EC2NodeClassArgs:
    """Return a NodeClass for Amazon Linux nodes in the stack's own subnets."""
    tags = {DISCOVERY_TAG: config.cluster_name}
    return {
        "name": "default",
        "ami_selector_terms": [{"alias": "al2023@latest"}],
        "subnet_selector_terms": [{"tags": tags}],
        "security_group_selector_terms": [{"tags": tags}],
        "tags": config.tags,
    }


def default_node_pool(config: StackConfig) -> NodePoolArgs:
    """Return a NodePool for general work: current types, Spot where it's to be had."""
    return {
        "name": "default",
        "template": {
            "spec": {
                "node_class_ref": {"name": "default"},
                "requirements": [
                    {
                        "key": "karpenter.k8s.aws/instance-category",
                        "operator": "In",
                        "values": ["c", "m", "r"],
                    },
                    {
                        "key": "karpenter.k8s.aws/instance-generation",
                        "operator": "Gt",
                        "values": ["4"],
                    },
                    {
                        "key": "karpenter.sh/capacity-type",
                        "operator": "In",
                        "values": ["spot", "on-demand"],
                    },
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                ],
            }
        },
        "limits": {"cpu": config.node_pool_cpu_limit},
        "disruption": {
            "consolidation_policy": "WhenEmptyOrUnderutilized",
            "consolidate_after": "1m",
        },
    }


def export(network: Network, cluster: Cluster, autoscaler: Autoscaler) -> None:
    """Give out what people and other stacks need."""
    outputs: dict[str, pulumi.Output[object]] = {
        "vpcId": network.vpc_id,
        "privateSubnetIds": network.private_subnet_ids,
        "publicSubnetIds": network.public_subnet_ids,
        "clusterName": cluster.cluster_name,
        "clusterArn": cluster.cluster_arn,
        "clusterEndpoint": cluster.endpoint,
        "kubeconfig": cluster.kubeconfig,
        "nodeSecurityGroupId": cluster.node_security_group_id,
        "nodeRoleName": autoscaler.node_role_name,
        "controllerRoleName": autoscaler.controller_role_name,
        "queueName": autoscaler.queue_name,
        "discoveryTag": autoscaler.discovery_tag,
        "namespace": autoscaler.namespace,
        "serviceAccount": autoscaler.service_account,
    }
    for name, output in outputs.items():
        pulumi.export(name, output)
