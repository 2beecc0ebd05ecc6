"""EKS clusters."""

from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws
from nodewright_local.pulumi_aws.resources.eks_base import EksResource, wait_active, wait_gone
from nodewright_local.pulumi_aws.resources.iam_roles import iso
from nodewright_local.pulumi_aws.schema import (
    AutoName,
    Resource,
    Shape,
    flag,
    output,
    record,
    regional,
    tagged,
    text,
    texts,
)
from nodewright_local.pulumi_aws.values import Values

_MINUTES = 60.0
_LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")

_VPC_CONFIG = {
    "subnetIds": texts(required=True),
    "securityGroupIds": texts(),
    "endpointPrivateAccess": flag(),
    "endpointPublicAccess": flag(default=True),
    "publicAccessCidrs": texts(computed=True),
    "clusterSecurityGroupId": output(),
    "vpcId": output(),
}
_ACCESS_CONFIG = {
    "authenticationMode": text(computed=True, choices=("API", "API_AND_CONFIG_MAP", "CONFIG_MAP")),
    "bootstrapClusterCreatorAdminPermissions": flag(computed=True, replaces=True),
}
_NETWORK_CONFIG = {
    "serviceIpv4Cidr": text(computed=True, replaces=True),
    "serviceIpv6Cidr": output(),
    "ipFamily": text(computed=True, replaces=True, choices=("ipv4", "ipv6")),
    "elasticLoadBalancing": record({"enabled": flag()}, computed=True),
}
_ENCRYPTION_CONFIG = {
    "provider": record({"keyArn": text(required=True)}, required=True),
    "resources": texts(required=True),
}


class Cluster(EksResource):
    """`aws.eks.Cluster`; the id is the name."""

    token = "aws:eks/cluster:Cluster"
    identity = ("name",)
    autoname = AutoName(max_length=100)
    properties = regional(
        tagged(
            {
                "name": text(replaces=True, computed=True),
                "roleArn": text(required=True, replaces=True),
                "version": text(computed=True),
                "vpcConfig": record(_VPC_CONFIG, required=True),
                "accessConfig": record(_ACCESS_CONFIG, computed=True),
                "kubernetesNetworkConfig": record(_NETWORK_CONFIG, computed=True),
                "encryptionConfig": record(_ENCRYPTION_CONFIG, replaces=True),
                "enabledClusterLogTypes": texts(),
                "bootstrapSelfManagedAddons": flag(default=True, replaces=True, write_only=True),
                "upgradePolicy": record({"supportType": text(computed=True)}, computed=True),
                "zonalShiftConfig": record({"enabled": flag()}, computed=True),
                "deletionProtection": flag(computed=True),
                "forceUpdateVersion": flag(write_only=True),
                "arn": output(),
                "certificateAuthority": output(Shape.OBJECT),
                "clusterId": output(),
                "createdAt": output(),
                "endpoint": output(),
                "identities": output(Shape.LIST),
                "platformVersion": output(),
                "status": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Ask for the cluster."""
        encryption = inputs.get("encryptionConfig")
        answer = aws.call(
            "eks",
            "create_cluster",
            name=inputs["name"],
            roleArn=inputs["roleArn"],
            version=inputs.get("version"),
            resourcesVpcConfig=inputs["vpcConfig"],
            accessConfig=inputs.get("accessConfig"),
            kubernetesNetworkConfig=inputs.get("kubernetesNetworkConfig"),
            encryptionConfig=[encryption] if encryption else None,
            logging=_logging(inputs.get("enabledClusterLogTypes")),
            bootstrapSelfManagedAddons=inputs["bootstrapSelfManagedAddons"],
            upgradePolicy=inputs.get("upgradePolicy"),
            zonalShiftConfig=inputs.get("zonalShiftConfig"),
            deletionProtection=inputs.get("deletionProtection"),
            tags=inputs.get("tags") or None,
        )
        return str(answer["cluster"]["name"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Wait until the control plane is active."""
        _wait_cluster(aws, ident, timeout_seconds=30 * _MINUTES)

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the cluster."""
        cluster = find_cluster(aws, ident)
        if cluster is None:
            return None
        issuer = ((cluster.get("identity") or {}).get("oidc") or {}).get("issuer")
        return {
            "name": cluster["name"],
            "roleArn": cluster["roleArn"],
            "version": cluster.get("version"),
            "vpcConfig": vpc_config(cluster),
            "accessConfig": cluster.get("accessConfig"),
            "kubernetesNetworkConfig": cluster.get("kubernetesNetworkConfig"),
            "encryptionConfig": next(iter(cluster.get("encryptionConfig") or []), None),
            "enabledClusterLogTypes": enabled_log_types(cluster),
            "upgradePolicy": cluster.get("upgradePolicy"),
            "zonalShiftConfig": cluster.get("zonalShiftConfig"),
            "deletionProtection": bool(cluster.get("deletionProtection")),
            "tagsAll": cluster.get("tags") or {},
            "arn": cluster["arn"],
            "certificateAuthority": {
                "data": (cluster.get("certificateAuthority") or {}).get("data")
            },
            "clusterId": cluster.get("id") or "",
            "createdAt": iso(cluster.get("createdAt")),
            "endpoint": cluster.get("endpoint"),
            "identities": [{"oidcs": [{"issuer": issuer}]}] if issuer else [],
            "platformVersion": cluster.get("platformVersion"),
            "status": cluster.get("status"),
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Apply the changes one by one: EKS accepts one kind of update at a time."""
        if "version" in changed:
            force = new.get("forceUpdateVersion") or None
            aws.call(
                "eks", "update_cluster_version", name=ident, version=new["version"], force=force
            )
            _wait_cluster(aws, ident, timeout_seconds=60 * _MINUTES)
        for request in _config_updates(old, new, changed):
            aws.call("eks", "update_cluster_config", name=ident, **request)
            _wait_cluster(aws, ident, timeout_seconds=60 * _MINUTES)

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete it, patient while node groups and profiles are going, and wait."""
        aws.persist(
            ("ResourceInUseException",),
            lambda: aws.call("eks", "delete_cluster", name=ident),
            timeout_seconds=10 * _MINUTES,
        )
        wait_gone(
            aws,
            f"cluster {ident}",
            lambda: find_cluster(aws, ident),
            timeout_seconds=15 * _MINUTES,
        )


def find_cluster(aws: Aws, name: str) -> dict[str, Any] | None:
    """Return the cluster as EKS describes it, None when there is none."""
    answer = aws.find("eks", "describe_cluster", name=name)
    return None if answer is None else dict(answer["cluster"])


def vpc_config(cluster: dict[str, Any]) -> Values:
    """Return the VPC part of a described cluster in Pulumi's spelling."""
    found = cluster.get("resourcesVpcConfig") or {}
    return {
        "subnetIds": found.get("subnetIds") or [],
        "securityGroupIds": found.get("securityGroupIds") or [],
        "endpointPrivateAccess": bool(found.get("endpointPrivateAccess")),
        "endpointPublicAccess": bool(found.get("endpointPublicAccess", True)),
        "publicAccessCidrs": found.get("publicAccessCidrs") or [],
        "clusterSecurityGroupId": found.get("clusterSecurityGroupId"),
        "vpcId": found.get("vpcId"),
    }


def enabled_log_types(cluster: dict[str, Any]) -> list[str]:
    """Return the kinds of control-plane log that are switched on."""
    setups = (cluster.get("logging") or {}).get("clusterLogging") or []
    return sorted(kind for setup in setups if setup.get("enabled") for kind in setup["types"])


def _wait_cluster(aws: Aws, name: str, *, timeout_seconds: float) -> None:
    wait_active(
        aws, f"cluster {name}", lambda: find_cluster(aws, name), timeout_seconds=timeout_seconds
    )


def _logging(enabled: list[str] | None) -> dict[str, Any] | None:
    if not enabled:
        return None
    return {"clusterLogging": [{"types": sorted(enabled), "enabled": True}]}


def _log_update(enabled: list[str] | None) -> dict[str, Any]:
    on = set(enabled or [])
    setups = [
        {"types": kinds, "enabled": state}
        for state, kinds in ((True, sorted(on)), (False, sorted(set(_LOG_TYPES) - on)))
        if kinds
    ]
    return {"clusterLogging": setups}


def _config_updates(old: Values, new: Values, changed: frozenset[str]) -> list[dict[str, Any]]:
    requests: list[dict[str, Any]] = []
    if "vpcConfig" in changed:
        requests += _vpc_updates(old.get("vpcConfig") or {}, new["vpcConfig"])
    if "enabledClusterLogTypes" in changed:
        requests.append({"logging": _log_update(new.get("enabledClusterLogTypes"))})
    if "accessConfig" in changed:
        mode = new["accessConfig"].get("authenticationMode")
        requests.append({"accessConfig": {"authenticationMode": mode}})
    requests += [
        {name: new[name]}
        for name in ("upgradePolicy", "zonalShiftConfig", "deletionProtection")
        if name in changed
    ]
    if "kubernetesNetworkConfig" in changed:
        balancing = new["kubernetesNetworkConfig"].get("elasticLoadBalancing")
        requests.append({"kubernetesNetworkConfig": {"elasticLoadBalancing": balancing}})
    return requests


def _vpc_updates(old: Values, new: Values) -> list[dict[str, Any]]:
    placement = ("subnetIds", "securityGroupIds")
    access = ("endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs")
    requests = []
    if any(sorted(old.get(name) or []) != sorted(new.get(name) or []) for name in placement):
        requests.append({name: new.get(name) or [] for name in placement})
    if any(_unlike(old.get(name), new.get(name)) for name in access):
        requests.append({name: new[name] for name in access if new.get(name) is not None})
    return [{"resourcesVpcConfig": request} for request in requests]


def _unlike(old: Any, new: Any) -> bool:
    if new is None:
        return False
    return sorted(old or []) != sorted(new) if isinstance(new, list) else old != new


RESOURCES: tuple[Resource, ...] = (Cluster(),)
