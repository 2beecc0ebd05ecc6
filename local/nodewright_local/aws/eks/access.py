"""Access entries and access policies: which IAM principals may use a cluster, and as whom.

EKS evaluates access policies in an authorizer of its own. The laptop's API server has plain RBAC,
so a policy becomes a group here: cluster administrators are `system:masters`; the other policies
name a group that RBAC can bind to the ClusterRole of the same strength.
"""

import re
from typing import Any

from nodewright_local.aws import moto_access
from nodewright_local.aws.eks.common import arn, cluster_of, list_page, now, unique
from nodewright_local.aws.eks.state import Cluster, Document, in_use, invalid, not_found
from nodewright_local.aws.errors import AwsError
from nodewright_local.aws.identity import find_role
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World

_POLICY_PREFIX = "arn:aws:eks::aws:cluster-access-policy/"
CLUSTER_ADMIN = f"{_POLICY_PREFIX}AmazonEKSClusterAdminPolicy"
CLUSTER_ADMIN_POLICIES = ("AmazonEKSClusterAdminPolicy",)
VIEW_GROUPS = {
    "AmazonEKSAdminPolicy": "eks-access:admin",
    "AmazonEKSEditPolicy": "eks-access:edit",
    "AmazonEKSViewPolicy": "eks-access:view",
    "AmazonEKSAdminViewPolicy": "eks-access:admin-view",
}
POLICIES = tuple(
    sorted(
        (
            *CLUSTER_ADMIN_POLICIES,
            *VIEW_GROUPS,
            "AmazonEKSAutoNodePolicy",
            "AmazonEKSBlockStoragePolicy",
            "AmazonEKSComputePolicy",
            "AmazonEKSLoadBalancingPolicy",
            "AmazonEKSNetworkingPolicy",
            "AmazonEKSHybridPolicy",
        )
    )
)
_NODE_GROUPS: dict[str, tuple[str, ...]] = {
    "EC2_LINUX": ("system:bootstrappers", "system:nodes"),
    "EC2_WINDOWS": ("system:bootstrappers", "system:nodes", "eks:kube-proxy-windows"),
    "FARGATE_LINUX": ("system:bootstrappers", "system:nodes", "system:node-proxier"),
    "EC2": ("system:nodes",),
    "HYBRID_LINUX": ("system:nodes",),
}
NODE_USERNAME = "system:node:{{EC2PrivateDNSName}}"
_USERNAMES = {
    "FARGATE_LINUX": "system:node:{{SessionName}}",
    "HYBRID_LINUX": "system:node:{{SessionName}}",
}
_PRINCIPAL = re.compile(r"arn:aws[\w-]*:iam::\d{12}:(role|user)/(.+)")


def make_entry(
    cluster: Cluster,
    principal: str,
    kind: str,
    *,
    groups: tuple[str, ...] = (),
    username: str | None = None,
    tags: dict[str, str] | None = None,
) -> Document:
    """Add an access entry of any type and return it."""
    node_groups = _NODE_GROUPS.get(kind)
    found = _PRINCIPAL.fullmatch(principal)
    sort, name = found.groups() if found else ("user", principal)
    short = name.rsplit("/", 1)[-1]
    account = moto_access.account()
    entry: Document = {
        "clusterName": cluster.name,
        "principalArn": principal,
        "kubernetesGroups": list(groups if node_groups is None else node_groups),
        "accessEntryArn": arn(
            cluster.region, "access-entry", cluster.name, sort, account, short, unique()
        ),
        "createdAt": now(),
        "modifiedAt": now(),
        "tags": tags or {},
        "username": username or _default_username(principal, kind, sort, short),
        "type": kind,
    }
    cluster.access_entries[principal] = entry
    return entry


def _default_username(principal: str, kind: str, sort: str, short: str) -> str:
    if kind in _NODE_GROUPS:
        return _USERNAMES.get(kind, NODE_USERNAME)
    if sort == "role":
        account = moto_access.account()
        return f"arn:aws:sts::{account}:assumed-role/{short}/{{{{SessionName}}}}"
    return principal


def admit_creator(cluster: Cluster, principal: str) -> None:
    """Give the cluster's creator the administrator's policy, as bootstrap permissions say."""
    make_entry(cluster, principal, "STANDARD")
    _associate(cluster, principal, CLUSTER_ADMIN, {"type": "cluster", "namespaces": []})


def admit_nodes(cluster: Cluster, role_arn: str) -> None:
    """Make sure that nodes of a role may join; EKS does this for managed node groups."""
    if cluster.auth_mode != "CONFIG_MAP" and role_arn not in cluster.access_entries:
        make_entry(cluster, role_arn, "EC2_LINUX")


def _require_api_mode(cluster: Cluster) -> None:
    if cluster.auth_mode == "CONFIG_MAP":
        raise AwsError(
            "InvalidRequestException",
            "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] "
            "to perform this operation.",
        )


def _entry(cluster: Cluster, principal: str) -> Document:
    entry = cluster.access_entries.get(principal)
    if entry is None:
        raise not_found(
            f"The specified principalArn could not be found: {principal}",
        )
    return entry


def create_access_entry(world: World, call: Call) -> Document:
    """Answer CreateAccessEntry."""
    cluster = cluster_of(world, call)
    params = call.params
    _require_api_mode(cluster)
    principal = params["principalArn"]
    kind = params.get("type") or "STANDARD"
    groups = tuple(params.get("kubernetesGroups") or ())
    _check_principal(principal)
    if principal in cluster.access_entries:
        raise in_use("The specified access entry resource is already in use on this cluster.")
    if kind in _NODE_GROUPS and (groups or params.get("username")):
        raise invalid(
            f"The type {kind} sets user name and groups itself; kubernetesGroups and username "
            "must be left out."
        )
    if kind not in _NODE_GROUPS and kind != "STANDARD":
        raise invalid(f"The type {kind} is not a type of access entries")
    _check_groups(groups)
    entry = make_entry(
        cluster,
        principal,
        kind,
        groups=groups,
        username=params.get("username"),
        tags=dict(params.get("tags") or {}),
    )
    return {"accessEntry": entry}


def _check_principal(principal: str) -> None:
    match = _PRINCIPAL.fullmatch(principal)
    missing = match is None or (match.group(1) == "role" and find_role(principal) is None)
    if missing:
        raise invalid(f"The specified principalArn is invalid: invalid principal {principal}.")


def _check_groups(groups: tuple[str, ...]) -> None:
    for group in groups:
        if group.startswith(("system:", "eks:", "aws:", "amazon:", "iam:")):
            raise invalid(
                f"The kubernetes group name {group} is invalid, it cannot start with system:"
            )


def describe_access_entry(world: World, call: Call) -> Document:
    """Answer DescribeAccessEntry."""
    cluster = cluster_of(world, call)
    return {"accessEntry": _entry(cluster, call.params["principalArn"])}


def list_access_entries(world: World, call: Call) -> Document:
    """Answer ListAccessEntries, optionally of one policy."""
    cluster = cluster_of(world, call)
    policy = call.params.get("associatedPolicyArn")
    names = [
        principal
        for principal in sorted(cluster.access_entries)
        if not policy or policy in cluster.access_policies.get(principal, {})
    ]
    return list_page(call, names, "accessEntries")


def update_access_entry(world: World, call: Call) -> Document:
    """Answer UpdateAccessEntry."""
    cluster = cluster_of(world, call)
    params = call.params
    entry = _entry(cluster, params["principalArn"])
    if entry["type"] in _NODE_GROUPS:
        raise invalid(f"An access entry of type {entry['type']} can not be updated")
    if params.get("kubernetesGroups") is not None:
        _check_groups(tuple(params["kubernetesGroups"]))
        entry["kubernetesGroups"] = list(params["kubernetesGroups"])
    if params.get("username"):
        entry["username"] = params["username"]
    entry["modifiedAt"] = now()
    return {"accessEntry": entry}


def delete_access_entry(world: World, call: Call) -> Document:
    """Answer DeleteAccessEntry; its policies go with it."""
    cluster = cluster_of(world, call)
    principal = call.params["principalArn"]
    _entry(cluster, principal)
    del cluster.access_entries[principal]
    cluster.access_policies.pop(principal, None)
    return {}


def _associate(cluster: Cluster, principal: str, policy: str, scope: Document) -> Document:
    associated = {
        "policyArn": policy,
        "accessScope": {"type": scope["type"], "namespaces": list(scope.get("namespaces") or [])},
        "associatedAt": now(),
        "modifiedAt": now(),
    }
    cluster.access_policies.setdefault(principal, {})[policy] = associated
    return associated


def associate_access_policy(world: World, call: Call) -> Document:
    """Answer AssociateAccessPolicy."""
    cluster = cluster_of(world, call)
    params = call.params
    principal, policy = params["principalArn"], params["policyArn"]
    entry = _entry(cluster, principal)
    if policy.removeprefix(_POLICY_PREFIX) not in POLICIES:
        raise invalid(f"The policyArn parameter format is not valid: {policy}")
    if entry["type"] not in ("STANDARD", "EC2"):
        raise invalid(f"An access entry of type {entry['type']} takes no access policies")
    associated = _associate(cluster, principal, policy, params["accessScope"])
    return {
        "clusterName": cluster.name,
        "principalArn": principal,
        "associatedAccessPolicy": associated,
    }


def disassociate_access_policy(world: World, call: Call) -> Document:
    """Answer DisassociateAccessPolicy."""
    cluster = cluster_of(world, call)
    principal, policy = call.params["principalArn"], call.params["policyArn"]
    _entry(cluster, principal)
    if cluster.access_policies.get(principal, {}).pop(policy, None) is None:
        raise not_found(f"No associated policy found: {policy}")
    return {}


def list_associated_access_policies(world: World, call: Call) -> Document:
    """Answer ListAssociatedAccessPolicies."""
    cluster = cluster_of(world, call)
    principal = call.params["principalArn"]
    _entry(cluster, principal)
    found: list[Any] = list(cluster.access_policies.get(principal, {}).values())
    answer = list_page(call, found, "associatedAccessPolicies")
    return {"clusterName": cluster.name, "principalArn": principal, **answer}


def list_access_policies(_world: World, call: Call) -> Document:
    """Answer ListAccessPolicies."""
    found = [{"name": name, "arn": _POLICY_PREFIX + name} for name in POLICIES]
    return list_page(call, found, "accessPolicies")
