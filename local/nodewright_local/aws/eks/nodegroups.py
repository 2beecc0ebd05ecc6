"""Managed node groups: EKS launches the instances and writes their user data.

A group is brought to its desired size step by step, as an auto scaling group would: missing
instances are launched over its subnets, surplus and lost ones are replaced or taken away.
"""

from collections.abc import Iterator
from typing import Any

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2.images import parameters
from nodewright_local.aws.ec2.instances import InstanceRecord, Origin
from nodewright_local.aws.ec2.launch_spec import LaunchSpec, overlay, resolve, template_of
from nodewright_local.aws.ec2.launching import hourly_price, launch_one
from nodewright_local.aws.eks.access import admit_nodes
from nodewright_local.aws.eks.common import (
    arn,
    cluster_of,
    list_page,
    make_update,
    now,
    unique,
)
from nodewright_local.aws.eks.node_user_data import NodeSettings, node_user_data
from nodewright_local.aws.eks.state import Cluster, Document, in_use, invalid, not_found
from nodewright_local.aws.errors import AwsError
from nodewright_local.aws.identity import find_role
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World

_DEFAULT_AMI_TYPE = "AL2023_x86_64_STANDARD"
_AL2023 = "/aws/service/eks/optimized-ami/{}/amazon-linux-2023"
_PARAMETERS = {
    "AL2023_x86_64_STANDARD": f"{_AL2023}/x86_64/standard/recommended/image_id",
    "AL2023_ARM_64_STANDARD": f"{_AL2023}/arm64/standard/recommended/image_id",
    "AL2023_x86_64_NVIDIA": f"{_AL2023}/x86_64/nvidia/recommended/image_id",
    "AL2023_x86_64_NEURON": f"{_AL2023}/x86_64/neuron/recommended/image_id",
    "AL2023_ARM_64_NVIDIA": f"{_AL2023}/arm64/nvidia/recommended/image_id",
    "BOTTLEROCKET_x86_64": "/aws/service/bottlerocket/aws-k8s-{}/x86_64/latest/image_id",
    "BOTTLEROCKET_ARM_64": "/aws/service/bottlerocket/aws-k8s-{}/arm64/latest/image_id",
}
_DEFAULT_TYPES = {"x86_64": "t3.medium", "arm64": "t4g.medium"}


def create_nodegroup(world: World, call: Call) -> Document:
    """Answer CreateNodegroup; ACTIVE once the desired instances run."""
    cluster = cluster_of(world, call)
    params = call.params
    name = params["nodegroupName"]
    if name in cluster.nodegroups:
        raise in_use(
            f"NodeGroup already exists with name {name} and cluster name {cluster.name}",
            clusterName=cluster.name,
            nodegroupName=name,
        )
    if find_role(params["nodeRole"]) is None:
        raise invalid(f"Role {params['nodeRole']} does not exist")
    group = _document(cluster, call)
    _create_profile(group)
    try:
        _spec(world, cluster, group, *next(_places(group)))
    except AwsError as error:
        _delete_profile(group)
        raise invalid(f"{error.code}: {error.message}") from error
    cluster.nodegroups[name] = group
    cluster.node_instances[name] = []
    admit_nodes(cluster, params["nodeRole"])
    _reconcile(world, cluster, group)
    return {"nodegroup": group}


def _profile_name(group: Document) -> str:
    """The instance profile that EKS makes for a group, and removes with it."""
    return "eks-" + str(group["nodegroupArn"]).rsplit("/", 1)[-1]


def _create_profile(group: Document) -> None:
    role = find_role(group["nodeRole"])
    moto_access.iam().create_instance_profile(
        name=_profile_name(group), path="/", role_names=[role.name]
    )


def _delete_profile(group: Document) -> None:
    name = _profile_name(group)
    for profile in list(moto_access.iam().instance_profiles.values()):
        if profile.name == name:
            profile.roles.clear()
            moto_access.iam().delete_instance_profile(name)


def _places(group: Document) -> Iterator[tuple[str | None, str]]:
    """Instance types and subnets in the order they are tried: every type before the next subnet."""
    for subnet_id in group["subnets"]:
        for instance_type in group["instanceTypes"] or [None]:
            yield instance_type, subnet_id


def _document(cluster: Cluster, call: Call) -> Document:
    params = call.params
    scaling = params.get("scalingConfig") or {}
    sizes = {
        "minSize": scaling.get("minSize", 1),
        "maxSize": scaling.get("maxSize", 2),
        "desiredSize": scaling.get("desiredSize", 2),
    }
    _check_sizes(sizes)
    ami_type = params.get("amiType") or _DEFAULT_AMI_TYPE
    arch = "arm64" if "ARM_64" in ami_type else "x86_64"
    group_id = unique()
    name = params["nodegroupName"]
    group: Document = {
        "nodegroupName": name,
        "nodegroupArn": arn(call.region, "nodegroup", cluster.name, name, group_id),
        "clusterName": cluster.name,
        "version": params.get("version") or cluster.document["version"],
        "releaseVersion": params.get("releaseVersion"),
        "createdAt": now(),
        "modifiedAt": now(),
        "status": "CREATING",
        "capacityType": params.get("capacityType") or "ON_DEMAND",
        "scalingConfig": sizes,
        "instanceTypes": list(params.get("instanceTypes") or []),
        "subnets": list(params["subnets"]),
        "amiType": ami_type,
        "nodeRole": params["nodeRole"],
        "labels": dict(params.get("labels") or {}),
        "taints": list(params.get("taints") or []),
        "updateConfig": params.get("updateConfig") or {"maxUnavailable": 1},
        "resources": {"autoScalingGroups": [{"name": f"eks-{name}-{group_id}"}]},
        "health": {"issues": []},
        "tags": dict(params.get("tags") or {}),
        "launchTemplate": params.get("launchTemplate"),
        "diskSize": params.get("diskSize") or (None if params.get("launchTemplate") else 20),
    }
    if not group["instanceTypes"] and not params.get("launchTemplate"):
        group["instanceTypes"] = [_DEFAULT_TYPES[arch]]
    return {key: value for key, value in group.items() if value is not None}


def _check_sizes(sizes: dict[str, int]) -> None:
    if sizes["minSize"] > sizes["desiredSize"]:
        raise invalid(
            "Minimum capacity {minSize} can't be greater than desired size {desiredSize}".format(
                **sizes
            )
        )
    if sizes["desiredSize"] > sizes["maxSize"]:
        raise invalid(
            "desired capacity {desiredSize} can't be greater than max size {maxSize}".format(
                **sizes
            )
        )


def _spec(
    world: World, cluster: Cluster, group: Document, instance_type: str | None, subnet_id: str
) -> LaunchSpec:
    """What the next instance of a group will be, for one of its types in one of its subnets."""
    template = template_of(cluster.region, _template_reference(group))
    data: dict[str, Any] = dict(template[1].data) if template else {}
    request: dict[str, Any] = {
        "InstanceType": instance_type or data.get("InstanceType"),
        "SubnetId": subnet_id,
        "IamInstanceProfile": {"Name": _profile_name(group)},
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": _tags(cluster, group)} for kind in ("instance", "volume")
        ],
    }
    if not data.get("ImageId"):
        request |= _image_settings(world, cluster, group, request["InstanceType"], data)
    if not data.get("SecurityGroupIds") and not data.get("NetworkInterfaces"):
        vpc = cluster.document["resourcesVpcConfig"]
        request["SecurityGroupIds"] = [vpc["clusterSecurityGroupId"]]
    if group["capacityType"] == "SPOT":
        request["InstanceMarketOptions"] = {"MarketType": "spot"}
    return resolve(cluster.region, overlay(data, request), template=template)


def _image_settings(
    world: World, cluster: Cluster, group: Document, instance_type: str, data: dict[str, Any]
) -> dict[str, Any]:
    """Image, user data and disk that EKS chooses when the launch template names no image."""
    parameter = _PARAMETERS.get(group["amiType"])
    if parameter is None:
        raise invalid(f"The laptop's EKS has no images of amiType {group['amiType']}")
    image = parameters(cluster.region).get(parameter.format(group["version"]))
    if image is None:
        raise invalid(f"There is no image of {group['amiType']} for {group['version']}")
    chosen: dict[str, Any] = {
        "ImageId": image.image_id,
        "UserData": node_user_data(
            NodeSettings(
                cluster=cluster.document,
                group=group,
                image=image,
                instance_type=instance_type,
            ),
            own=str(data.get("UserData") or ""),
        ),
    }
    if group.get("diskSize"):
        ebs = {"VolumeSize": group["diskSize"], "VolumeType": "gp3", "DeleteOnTermination": True}
        chosen["BlockDeviceMappings"] = [{"DeviceName": image.devices[-1].name, "Ebs": ebs}]
    return chosen


def _template_reference(group: Document) -> Document | None:
    reference = group.get("launchTemplate")
    if not reference:
        return None
    return {
        "LaunchTemplateId": reference.get("id"),
        "LaunchTemplateName": reference.get("name"),
        "Version": reference.get("version"),
    }


def _tags(cluster: Cluster, group: Document) -> list[dict[str, str]]:
    name = group["nodegroupName"]
    tags = {
        **group["tags"],
        f"kubernetes.io/cluster/{cluster.name}": "owned",
        f"k8s.io/cluster-autoscaler/{cluster.name}": "owned",
        "k8s.io/cluster-autoscaler/enabled": "true",
        "eks:cluster-name": cluster.name,
        "eks:nodegroup-name": name,
        "aws:autoscaling:groupName": group["resources"]["autoScalingGroups"][0]["name"],
    }
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _live(world: World, cluster: Cluster, group: Document) -> list[InstanceRecord]:
    ids = cluster.node_instances.get(group["nodegroupName"], [])
    found = (world.instances.find(instance_id) for instance_id in ids)
    return [record for record in found if record is not None and record.live]


def _reconcile(world: World, cluster: Cluster, group: Document) -> None:
    """Bring a group one step nearer to its desired size, and look again later while it exists."""
    name = group["nodegroupName"]
    if cluster.nodegroups.get(name) is not group:
        return
    live = _live(world, cluster, group)
    if group["status"] == "DELETING":
        _drain(world, cluster, group, live)
        return
    desired = group["scalingConfig"]["desiredSize"]
    for record in live[desired:]:
        world.instances.terminate(record)
    try:
        _grow(world, cluster, group, live, desired)
        group["health"] = {"issues": []}
    except AwsError as error:
        group["health"] = {
            "issues": [
                {
                    "code": "AsgInstanceLaunchFailures",
                    "message": f"{error.code}: {error.message}",
                    "resourceIds": [group["resources"]["autoScalingGroups"][0]["name"]],
                }
            ]
        }
    live = _live(world, cluster, group)
    settled = len(live) == desired and all(record.state == "running" for record in live)
    if settled and group["status"] in ("CREATING", "UPDATING"):
        group["status"] = "ACTIVE"
    cluster.node_instances[name] = [record.instance_id for record in live]
    world.timeline.after(world.settings.delays.nodegroup, lambda: _reconcile(world, cluster, group))


def _grow(
    world: World, cluster: Cluster, group: Document, live: list[InstanceRecord], desired: int
) -> None:
    """Launch what is missing, over the subnets in turn; the last error if a place is not found."""
    used = [record.spec.subnet.id for record in live]
    for _ in range(desired - len(live)):
        places = sorted(_places(group), key=lambda place: used.count(place[1]))
        record = _launch_somewhere(world, cluster, group, places)
        used.append(record.spec.subnet.id)
        cluster.node_instances[group["nodegroupName"]].append(record.instance_id)


def _launch_somewhere(
    world: World, cluster: Cluster, group: Document, places: list[tuple[str | None, str]]
) -> InstanceRecord:
    failure: AwsError | None = None
    for instance_type, subnet_id in places:
        try:
            spec = _spec(world, cluster, group, instance_type, subnet_id)
            price = hourly_price(spec.region, spec.zone, spec.instance_type, spec.capacity_type)
            origin = Origin(
                launched_by="nodegroup",
                price=price,
                considered_types=max(len(group["instanceTypes"]), 1),
            )
            return launch_one(world, spec, origin)
        except AwsError as error:
            failure = error
    raise failure or invalid("the node group has no subnets")


def _drain(world: World, cluster: Cluster, group: Document, live: list[InstanceRecord]) -> None:
    name = group["nodegroupName"]
    for record in live:
        world.instances.terminate(record)
    left = [world.instances.find(item) for item in cluster.node_instances.get(name, [])]
    if any(record is not None and record.state != "terminated" for record in left):
        world.timeline.after(
            world.settings.delays.nodegroup, lambda: _reconcile(world, cluster, group)
        )
        return
    _delete_profile(group)
    del cluster.nodegroups[name]
    cluster.node_instances.pop(name, None)


def _get(world: World, call: Call) -> tuple[Cluster, Document]:
    cluster = cluster_of(world, call)
    name = call.params["nodegroupName"]
    group = cluster.nodegroups.get(name)
    if group is None:
        raise not_found(
            f"No node group found for name: {name}.",
            clusterName=cluster.name,
            nodegroupName=name,
        )
    return cluster, group


def describe_nodegroup(world: World, call: Call) -> Document:
    """Answer DescribeNodegroup."""
    return {"nodegroup": _get(world, call)[1]}


def list_nodegroups(world: World, call: Call) -> Document:
    """Answer ListNodegroups."""
    return list_page(call, sorted(cluster_of(world, call).nodegroups), "nodegroups")


def delete_nodegroup(world: World, call: Call) -> Document:
    """Answer DeleteNodegroup; the group goes when its last instance is gone."""
    cluster, group = _get(world, call)
    group["status"] = "DELETING"
    for record in _live(world, cluster, group):
        world.instances.terminate(record)
    return {"nodegroup": group}


def update_nodegroup_config(world: World, call: Call) -> Document:
    """Answer UpdateNodegroupConfig: sizes, labels, taints. Running nodes keep what they have."""
    cluster, group = _get(world, call)
    params = call.params
    scaling = params.get("scalingConfig")
    if scaling:
        given = {key: value for key, value in scaling.items() if value is not None}
        sizes = {**group["scalingConfig"], **given}
        _check_sizes(sizes)
        group["scalingConfig"] = sizes
    _update_labels(group, params.get("labels") or {})
    _update_taints(group, params.get("taints") or {})
    if params.get("updateConfig"):
        group["updateConfig"] = params["updateConfig"]
    return _updating(world, cluster, group, "ConfigUpdate")


def _update_labels(group: Document, change: Document) -> None:
    removed = set(change.get("removeLabels") or ())
    kept = {key: value for key, value in group["labels"].items() if key not in removed}
    group["labels"] = {**kept, **(change.get("addOrUpdateLabels") or {})}


def _update_taints(group: Document, change: Document) -> None:
    def identity(taint: Document) -> tuple[str, str]:
        return taint["key"], taint["effect"]

    changed = change.get("addOrUpdateTaints") or []
    gone = {identity(taint) for taint in (*changed, *(change.get("removeTaints") or ()))}
    group["taints"] = [t for t in group["taints"] if identity(t) not in gone] + list(changed)


def update_nodegroup_version(world: World, call: Call) -> Document:
    """Answer UpdateNodegroupVersion: every instance is replaced by one of the new version."""
    cluster, group = _get(world, call)
    params = call.params
    group["version"] = params.get("version") or cluster.document["version"]
    if params.get("launchTemplate"):
        group["launchTemplate"] = params["launchTemplate"]
    for record in _live(world, cluster, group):
        world.instances.terminate(record)
    return _updating(world, cluster, group, "VersionUpdate")


def _updating(world: World, cluster: Cluster, group: Document, kind: str) -> Document:
    update = make_update(cluster, kind)
    group["status"] = "UPDATING"
    group["modifiedAt"] = now()

    def finish() -> None:
        if (
            group["status"] == "UPDATING"
            and cluster.nodegroups.get(group["nodegroupName"]) is group
        ):
            world.timeline.after(world.settings.delays.nodegroup, finish)
        else:
            update["status"] = "Successful"

    world.timeline.after(world.settings.delays.nodegroup, finish)
    return {"update": update}
