"""EKS clusters that exist already: their description, and a token to enter them."""

import base64
from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, AwsError
from nodewright_local.pulumi_aws.functions.base import Function, Result
from nodewright_local.pulumi_aws.resources.eks_cluster import (
    enabled_log_types,
    find_cluster,
    vpc_config,
)
from nodewright_local.pulumi_aws.resources.iam_roles import iso
from nodewright_local.pulumi_aws.schema import Property, mapping, text
from nodewright_local.pulumi_aws.values import Values

_TOKEN_PREFIX = "k8s-aws-v1."
_TOKEN_SECONDS = 60
_CLUSTER_HEADER = "x-k8s-aws-id"


class GetCluster(Function):
    """`aws.eks.get_cluster`."""

    token = "aws:eks/getCluster:getCluster"
    inputs: ClassVar[Mapping[str, Property]] = {
        "name": text(required=True),
        "region": text(),
        "tags": mapping(),
    }

    @override
    def call(self, aws: Aws, args: Values) -> Result:
        """Describe a cluster."""
        cluster = find_cluster(aws, args["name"])
        if cluster is None:
            raise AwsError(
                operation=self.token,
                code="ResourceNotFoundException",
                message=f"no cluster named {args['name']!r} in {aws.region}",
            )
        issuer = ((cluster.get("identity") or {}).get("oidc") or {}).get("issuer")
        authority = (cluster.get("certificateAuthority") or {}).get("data")
        return Result(
            values={
                "id": cluster["name"],
                "name": cluster["name"],
                "region": aws.region,
                "arn": cluster["arn"],
                "accessConfigs": _one(cluster.get("accessConfig")),
                "certificateAuthorities": _one({"data": authority}),
                "clusterId": cluster.get("id") or "",
                "computeConfigs": [],
                "createdAt": iso(cluster.get("createdAt")) or "",
                "deletionProtection": bool(cluster.get("deletionProtection")),
                "enabledClusterLogTypes": enabled_log_types(cluster),
                "endpoint": cluster.get("endpoint") or "",
                "identities": [{"oidcs": [{"issuer": issuer}]}] if issuer else [],
                "kubernetesNetworkConfigs": _one(cluster.get("kubernetesNetworkConfig")),
                "outpostConfigs": [],
                "platformVersion": cluster.get("platformVersion") or "",
                "remoteNetworkConfigs": [],
                "roleArn": cluster["roleArn"],
                "status": cluster.get("status"),
                "storageConfigs": [],
                "tags": cluster.get("tags") or {},
                "upgradePolicies": _one(cluster.get("upgradePolicy")),
                "version": cluster.get("version"),
                "vpcConfig": vpc_config(cluster),
                "zonalShiftConfigs": _one(cluster.get("zonalShiftConfig")),
            }
        )


class GetClusterAuth(Function):
    """`aws.eks.get_cluster_auth`: a bearer token, which is a presigned STS call."""

    token = "aws:eks/getClusterAuth:getClusterAuth"
    inputs: ClassVar[Mapping[str, Property]] = {"name": text(required=True), "region": text()}

    @override
    def call(self, aws: Aws, args: Values) -> Result:
        """Sign a GetCallerIdentity that carries the cluster's name in a signed header."""
        client = aws.client("sts")
        events = client.meta.events
        name = args["name"]

        def add_header(request: Any, **_: Any) -> None:
            request.headers[_CLUSTER_HEADER] = name

        unique = f"nodewright-cluster-header-{name}"
        events.register_first("before-sign.sts.GetCallerIdentity", add_header, unique_id=unique)
        try:
            url = client.generate_presigned_url(
                "get_caller_identity", Params={}, ExpiresIn=_TOKEN_SECONDS, HttpMethod="GET"
            )
        finally:
            events.unregister("before-sign.sts.GetCallerIdentity", unique_id=unique)
        encoded = base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
        return Result(
            values={
                "id": name,
                "name": name,
                "region": aws.region,
                "token": _TOKEN_PREFIX + encoded,
            },
            secrets=frozenset({"token"}),
        )


def _one(value: Values | None) -> list[Values]:
    return [value] if value else []


FUNCTIONS: tuple[Function, ...] = (GetCluster(), GetClusterAuth())
