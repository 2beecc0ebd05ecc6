"""The EKS calls this package answers, by operation. moto's EKS is not used."""

from collections.abc import Callable

from nodewright_local.aws.eks import (
    access,
    addons,
    clusters,
    common,
    fargate,
    nodegroups,
    pod_identity,
)
from nodewright_local.aws.eks.state import Document
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World

ANSWERS: dict[str, Callable[[World, Call], Document]] = {
    "CreateCluster": clusters.create_cluster,
    "DescribeCluster": clusters.describe_cluster,
    "ListClusters": clusters.list_clusters,
    "DeleteCluster": clusters.delete_cluster,
    "UpdateClusterConfig": clusters.update_cluster_config,
    "UpdateClusterVersion": clusters.update_cluster_version,
    "AssociateEncryptionConfig": clusters.associate_encryption_config,
    "DescribeClusterVersions": clusters.describe_cluster_versions,
    "DescribeUpdate": common.describe_update,
    "ListUpdates": common.list_updates,
    "TagResource": common.tag_resource,
    "UntagResource": common.untag_resource,
    "ListTagsForResource": common.list_tags,
    "CreateAccessEntry": access.create_access_entry,
    "DescribeAccessEntry": access.describe_access_entry,
    "ListAccessEntries": access.list_access_entries,
    "UpdateAccessEntry": access.update_access_entry,
    "DeleteAccessEntry": access.delete_access_entry,
    "AssociateAccessPolicy": access.associate_access_policy,
    "DisassociateAccessPolicy": access.disassociate_access_policy,
    "ListAssociatedAccessPolicies": access.list_associated_access_policies,
    "ListAccessPolicies": access.list_access_policies,
    "CreatePodIdentityAssociation": pod_identity.create_association,
    "DescribePodIdentityAssociation": pod_identity.describe_association,
    "ListPodIdentityAssociations": pod_identity.list_associations,
    "UpdatePodIdentityAssociation": pod_identity.update_association,
    "DeletePodIdentityAssociation": pod_identity.delete_association,
    "DescribeAddonVersions": addons.describe_addon_versions,
    "CreateAddon": addons.create_addon,
    "DescribeAddon": addons.describe_addon,
    "ListAddons": addons.list_addons,
    "UpdateAddon": addons.update_addon,
    "DeleteAddon": addons.delete_addon,
    "CreateNodegroup": nodegroups.create_nodegroup,
    "DescribeNodegroup": nodegroups.describe_nodegroup,
    "ListNodegroups": nodegroups.list_nodegroups,
    "UpdateNodegroupConfig": nodegroups.update_nodegroup_config,
    "UpdateNodegroupVersion": nodegroups.update_nodegroup_version,
    "DeleteNodegroup": nodegroups.delete_nodegroup,
    "CreateFargateProfile": fargate.create_fargate_profile,
    "DescribeFargateProfile": fargate.describe_fargate_profile,
    "ListFargateProfiles": fargate.list_fargate_profiles,
    "DeleteFargateProfile": fargate.delete_fargate_profile,
}
