"""EKS add-ons. They are remembered and versioned; what they would run is the laptop's own affair."""

from nodewright_local.aws.eks.common import (
    arn,
    cluster_of,
    list_page,
    make_update,
    now,
    unique,
)
from nodewright_local.aws.eks.state import Cluster, Document, in_use, invalid, not_found
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World

# Names are AWS's; versions are believable ones, the same for every Kubernetes minor.
_VERSIONS: dict[str, tuple[str, ...]] = {
    "vpc-cni": ("v1.21.1-eksbuild.1", "v1.20.4-eksbuild.2"),
    "coredns": ("v1.13.1-eksbuild.1", "v1.12.4-eksbuild.1"),
    "kube-proxy": ("v1.36.1-eksbuild.2", "v1.35.3-eksbuild.2"),
    "eks-pod-identity-agent": ("v1.3.10-eksbuild.1", "v1.3.9-eksbuild.3"),
    "aws-ebs-csi-driver": ("v1.54.0-eksbuild.1", "v1.53.0-eksbuild.1"),
    "aws-efs-csi-driver": ("v2.1.15-eksbuild.1",),
    "snapshot-controller": ("v8.3.0-eksbuild.1",),
    "metrics-server": ("v0.8.0-eksbuild.3",),
    "eks-node-monitoring-agent": ("v1.4.2-eksbuild.1",),
    "amazon-cloudwatch-observability": ("v4.7.0-eksbuild.1",),
}
_TYPES = {"vpc-cni": "networking", "coredns": "networking", "kube-proxy": "networking"}


def describe_addon_versions(_world: World, call: Call) -> Document:
    """Answer DescribeAddonVersions; the newest version of each is the default."""
    wanted = call.params.get("addonName")
    minor = call.params.get("kubernetesVersion") or "1.36"
    addons = [
        {
            "addonName": name,
            "type": _TYPES.get(name, "kubernetes"),
            "publisher": "eks",
            "owner": "aws",
            "addonVersions": [
                {
                    "addonVersion": version,
                    "architecture": ["amd64", "arm64"],
                    "computeTypes": ["ec2", "fargate"],
                    "compatibilities": [
                        {
                            "clusterVersion": minor,
                            "platformVersions": ["*"],
                            "defaultVersion": version == versions[0],
                        }
                    ],
                    "requiresConfiguration": False,
                    "requiresIamPermissions": False,
                }
                for version in versions
            ],
        }
        for name, versions in _VERSIONS.items()
        if wanted in (None, name)
    ]
    return list_page(call, addons, "addons")


def _check(name: str, version: str | None) -> str:
    versions = _VERSIONS.get(name)
    if versions is None:
        raise invalid(f"Addon {name} specified is not supported", addonName=name)
    if version and version not in versions:
        raise invalid(f"Addon version specified is not supported: {name} {version}", addonName=name)
    return version or versions[0]


def create_addon(world: World, call: Call) -> Document:
    """Answer CreateAddon; ACTIVE a moment later."""
    cluster = cluster_of(world, call)
    params = call.params
    name = params["addonName"]
    version = _check(name, params.get("addonVersion"))
    if name in cluster.addons:
        raise in_use("Addon already exists.", clusterName=cluster.name, addonName=name)
    addon: Document = {
        "addonName": name,
        "clusterName": cluster.name,
        "status": "CREATING",
        "addonVersion": version,
        "health": {"issues": []},
        "addonArn": arn(call.region, "addon", cluster.name, name, unique()),
        "createdAt": now(),
        "modifiedAt": now(),
        "tags": dict(params.get("tags") or {}),
        "podIdentityAssociations": [],
    }
    for key in ("serviceAccountRoleArn", "configurationValues"):
        if params.get(key):
            addon[key] = params[key]
    cluster.addons[name] = addon
    _later(world, addon, "ACTIVE")
    return {"addon": addon}


def _later(world: World, addon: Document, status: str) -> None:
    def settle() -> None:
        if addon["status"] in ("CREATING", "UPDATING"):
            addon["status"] = status

    world.timeline.after(world.settings.delays.cluster, settle)


def _get(world: World, call: Call) -> tuple[Cluster, Document]:
    cluster = cluster_of(world, call)
    name = call.params["addonName"]
    addon = cluster.addons.get(name)
    if addon is None:
        raise not_found(
            f"No addon: {name} found in cluster: {cluster.name}",
            clusterName=cluster.name,
            addonName=name,
        )
    return cluster, addon


def describe_addon(world: World, call: Call) -> Document:
    """Answer DescribeAddon."""
    return {"addon": _get(world, call)[1]}


def list_addons(world: World, call: Call) -> Document:
    """Answer ListAddons."""
    return list_page(call, sorted(cluster_of(world, call).addons), "addons")


def update_addon(world: World, call: Call) -> Document:
    """Answer UpdateAddon."""
    cluster, addon = _get(world, call)
    params = call.params
    version = _check(addon["addonName"], params.get("addonVersion") or addon["addonVersion"])
    update = make_update(cluster, "AddonUpdate", AddonVersion=version)
    addon["addonVersion"] = version
    for key in ("serviceAccountRoleArn", "configurationValues"):
        if params.get(key) is not None:
            addon[key] = params[key]
    addon["status"] = "UPDATING"
    addon["modifiedAt"] = now()
    _later(world, addon, "ACTIVE")
    world.timeline.after(world.settings.delays.cluster, lambda: update.update(status="Successful"))
    return {"update": update}


def delete_addon(world: World, call: Call) -> Document:
    """Answer DeleteAddon; gone a moment later."""
    cluster, addon = _get(world, call)
    addon["status"] = "DELETING"
    world.timeline.after(
        world.settings.delays.cluster, lambda: cluster.addons.pop(addon["addonName"], None)
    )
    return {"addon": addon}
