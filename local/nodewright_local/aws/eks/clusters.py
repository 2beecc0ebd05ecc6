"""EKS clusters. Each is the laptop's API server: its endpoint and its CA are handed out."""

from typing import Any

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2.lookups import find_subnet
from nodewright_local.aws.eks.access import admit_creator
from nodewright_local.aws.eks.common import (
    arn,
    cluster_of,
    list_page,
    make_update,
    now,
    short_id,
)
from nodewright_local.aws.eks.state import Cluster, Document, in_use, invalid
from nodewright_local.aws.errors import AwsError
from nodewright_local.aws.identity import find_role, principal_of
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World

_LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
FIRST_MINOR, LAST_MINOR = 26, 37


def create_cluster(world: World, call: Call) -> Document:
    """Answer CreateCluster; the cluster is CREATING for a moment, then ACTIVE."""
    params = call.params
    name = params["name"]
    if world.eks.find(call.region, name) is not None:
        raise in_use(f"Cluster already exists with name: {name}", clusterName=name)
    if find_role(params["roleArn"]) is None:
        raise invalid(
            f"Role with arn: {params['roleArn']}, could not be assumed because it does not exist "
            "or the trusted entity is not correct"
        )
    version = _version(params.get("version") or world.settings.kubernetes_version)
    vpc = _vpc_config(call.region, name, params["resourcesVpcConfig"])
    creator = principal_of(call.access_key)
    cluster = Cluster(
        document=_document(world, call, version, vpc),
        region=call.region,
        creator_arn=creator.principal_arn,
    )
    access = cluster.document["accessConfig"]
    if access["bootstrapClusterCreatorAdminPermissions"]:
        admit_creator(cluster, creator.principal_arn)
    world.eks.add(cluster)
    world.timeline.after(world.settings.delays.cluster, lambda: _activate(cluster))
    return {"cluster": cluster.document}


def _activate(cluster: Cluster) -> None:
    if cluster.document["status"] == "CREATING":
        cluster.document["status"] = "ACTIVE"


def _version(version: str) -> str:
    major, _, minor = version.partition(".")
    if major != "1" or not minor.isdigit() or not FIRST_MINOR <= int(minor) <= LAST_MINOR:
        raise invalid(f"unsupported Kubernetes version: {version}")
    return version


def _document(world: World, call: Call, version: str, vpc: Document) -> Document:
    params = call.params
    settings = world.settings
    network = params.get("kubernetesNetworkConfig") or {}
    access = params.get("accessConfig") or {}
    bootstrap = access.get("bootstrapClusterCreatorAdminPermissions")
    issuer = f"https://oidc.eks.{call.region}.amazonaws.com/id/{short_id(32).upper()}"
    document: dict[str, Any] = {
        "name": params["name"],
        "arn": arn(call.region, "cluster", params["name"]),
        "createdAt": now(),
        "version": version,
        "endpoint": settings.api_server_url,
        "roleArn": params["roleArn"],
        "resourcesVpcConfig": vpc,
        # The service range is the running API server's, whatever was asked for.
        "kubernetesNetworkConfig": {
            "serviceIpv4Cidr": settings.service_cidr,
            "ipFamily": network.get("ipFamily") or "ipv4",
            "elasticLoadBalancing": network.get("elasticLoadBalancing") or {"enabled": False},
        },
        "logging": _logging(params.get("logging")),
        "identity": {"oidc": {"issuer": issuer}},
        "status": "CREATING",
        "certificateAuthority": {"data": settings.ca_base64},
        "clientRequestToken": params.get("clientRequestToken"),
        "platformVersion": "eks.1",
        "tags": dict(params.get("tags") or {}),
        "encryptionConfig": params.get("encryptionConfig") or [],
        "health": {"issues": []},
        "accessConfig": {
            "bootstrapClusterCreatorAdminPermissions": bootstrap is not False,
            "authenticationMode": access.get("authenticationMode") or "CONFIG_MAP",
        },
        "upgradePolicy": params.get("upgradePolicy") or {"supportType": "EXTENDED"},
        "zonalShiftConfig": params.get("zonalShiftConfig") or {"enabled": False},
        "computeConfig": params.get("computeConfig") or {"enabled": False},
        "storageConfig": params.get("storageConfig") or {"blockStorage": {"enabled": False}},
        "deletionProtection": bool(params.get("deletionProtection")),
    }
    return document


def _vpc_config(region: str, name: str, wanted: Document) -> Document:
    subnet_ids = wanted.get("subnetIds") or []
    try:
        subnets = [find_subnet(region, subnet_id) for subnet_id in subnet_ids]
    except AwsError as error:
        raise invalid(str(error.message)) from error
    if len({subnet.availability_zone for subnet in subnets}) < 2:
        raise invalid("Subnets specified must be in at least two different AZs")
    vpc_id = subnets[0].vpc_id
    return {
        "subnetIds": list(subnet_ids),
        "securityGroupIds": list(wanted.get("securityGroupIds") or []),
        "clusterSecurityGroupId": _cluster_security_group(region, name, vpc_id),
        "vpcId": vpc_id,
        "endpointPublicAccess": wanted.get("endpointPublicAccess") is not False,
        "endpointPrivateAccess": bool(wanted.get("endpointPrivateAccess")),
        "publicAccessCidrs": list(wanted.get("publicAccessCidrs") or ["0.0.0.0/0"]),
    }


def _cluster_security_group(region: str, name: str, vpc_id: str) -> str:
    group = moto_access.ec2(region).create_security_group(
        name=f"eks-cluster-sg-{name}-{short_id(9)}",
        description="EKS created security group applied to ENI that is attached to EKS Control "
        "Plane master nodes, as well as any managed workloads.",
        vpc_id=vpc_id,
        tags={
            f"kubernetes.io/cluster/{name}": "owned",
            "aws:eks:cluster-name": name,
            "Name": f"eks-cluster-sg-{name}",
        },
    )
    return str(group.id)


def _logging(wanted: Document | None) -> Document:
    on = {
        kind
        for setup in (wanted or {}).get("clusterLogging") or ()
        if setup.get("enabled")
        for kind in setup.get("types") or ()
    }
    groups = (
        ([t for t in _LOG_TYPES if t in on], True),
        ([t for t in _LOG_TYPES if t not in on], False),
    )
    return {
        "clusterLogging": [{"types": types, "enabled": state} for types, state in groups if types]
    }


def describe_cluster(world: World, call: Call) -> Document:
    """Answer DescribeCluster."""
    return {"cluster": cluster_of(world, call).document}


def list_clusters(world: World, call: Call) -> Document:
    """Answer ListClusters."""
    names = [cluster.name for cluster in world.eks.clusters(call.region)]
    return list_page(call, names, "clusters")


def delete_cluster(world: World, call: Call) -> Document:
    """Answer DeleteCluster; what still runs below it stands in the way."""
    cluster = cluster_of(world, call)
    if cluster.nodegroups:
        raise in_use("Cluster has nodegroups attached", clusterName=cluster.name)
    if cluster.fargate_profiles:
        raise in_use("Cluster has Fargate profiles attached", clusterName=cluster.name)
    if cluster.document["deletionProtection"]:
        raise AwsError("InvalidRequestException", "Cluster has deletion protection enabled")
    cluster.document["status"] = "DELETING"
    world.timeline.after(world.settings.delays.cluster, lambda: _forget(world, cluster))
    return {"cluster": cluster.document}


def _forget(world: World, cluster: Cluster) -> None:
    world.eks.remove(cluster)
    group_id = cluster.document["resourcesVpcConfig"]["clusterSecurityGroupId"]
    backend = moto_access.ec2(cluster.region)
    if backend.get_security_group_from_id(group_id) is not None:
        backend.delete_security_group(group_id=group_id)


def _begin(world: World, cluster: Cluster, kind: str, **params: str) -> Document:
    """Start an update; the cluster is UPDATING until it is done."""
    if cluster.document["status"] != "ACTIVE":
        raise in_use(
            f"Cluster {cluster.name} is {cluster.document['status']}", clusterName=cluster.name
        )
    update = make_update(cluster, kind, **params)
    cluster.document["status"] = "UPDATING"

    def finish() -> None:
        update["status"] = "Successful"
        if cluster.document["status"] == "UPDATING":
            cluster.document["status"] = "ACTIVE"

    world.timeline.after(world.settings.delays.cluster, finish)
    return {"update": update}


_ACCESS_ORDER = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")


def update_cluster_config(world: World, call: Call) -> Document:
    """Answer UpdateClusterConfig: endpoint access, logging, access mode, and what is stored as is."""
    cluster = cluster_of(world, call)
    params = call.params
    document = cluster.document
    vpc = params.get("resourcesVpcConfig")
    mode = (params.get("accessConfig") or {}).get("authenticationMode")
    if mode and _ACCESS_ORDER.index(mode) < _ACCESS_ORDER.index(cluster.auth_mode):
        raise invalid(f"Unsupported authentication mode update from {cluster.auth_mode} to {mode}")
    kind = "AccessConfigUpdate" if mode else "EndpointAccessUpdate"
    if params.get("logging"):
        kind = "LoggingUpdate"
    answer = _begin(world, cluster, kind)
    if vpc:
        changed = {key: value for key, value in vpc.items() if value is not None}
        document["resourcesVpcConfig"] = {**document["resourcesVpcConfig"], **changed}
    if params.get("logging"):
        document["logging"] = _logging(params["logging"])
    if mode:
        document["accessConfig"]["authenticationMode"] = mode
    for key in ("upgradePolicy", "zonalShiftConfig", "computeConfig", "storageConfig"):
        if params.get(key):
            document[key] = params[key]
    if params.get("deletionProtection") is not None:
        document["deletionProtection"] = params["deletionProtection"]
    return answer


def update_cluster_version(world: World, call: Call) -> Document:
    """Answer UpdateClusterVersion: one minor up at a time.

    The number changes; the API server behind it is the laptop's and stays what it is.
    """
    cluster = cluster_of(world, call)
    version = _version(call.params["version"])
    current = int(cluster.document["version"].split(".")[1])
    if int(version.split(".")[1]) - current != 1:
        raise invalid(
            f"Unsupported Kubernetes minor version update from {cluster.document['version']} "
            f"to {version}"
        )
    answer = _begin(world, cluster, "VersionUpdate", Version=version, PlatformVersion="eks.1")
    cluster.document["version"] = version
    return answer


def associate_encryption_config(world: World, call: Call) -> Document:
    """Answer AssociateEncryptionConfig."""
    cluster = cluster_of(world, call)
    answer = _begin(world, cluster, "AssociateEncryptionConfig")
    cluster.document["encryptionConfig"] = call.params["encryptionConfig"]
    return answer


def describe_cluster_versions(_world: World, call: Call) -> Document:
    """Answer DescribeClusterVersions: the minors that have images, newest first."""
    wanted = call.params.get("clusterVersions")
    versions = [f"1.{minor}" for minor in range(LAST_MINOR, FIRST_MINOR - 1, -1)]
    return {
        "clusterVersions": [
            {
                "clusterVersion": version,
                "clusterType": "eks",
                "defaultPlatformVersion": "eks.1",
                "defaultVersion": version == "1.36",
                "status": "standard-support",
                "versionStatus": "STANDARD_SUPPORT",
            }
            for version in versions
            if not wanted or version in wanted
        ]
    }
