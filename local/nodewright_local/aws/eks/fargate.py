"""Fargate profiles. They are remembered; pods do not run on Fargate on the laptop."""

from nodewright_local.aws.eks.access import make_entry
from nodewright_local.aws.eks.common import arn, cluster_of, list_page, now, unique
from nodewright_local.aws.eks.state import Cluster, Document, in_use, invalid, not_found
from nodewright_local.aws.identity import find_role
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World


def create_fargate_profile(world: World, call: Call) -> Document:
    """Answer CreateFargateProfile; ACTIVE a moment later."""
    cluster = cluster_of(world, call)
    params = call.params
    name = params["fargateProfileName"]
    if name in cluster.fargate_profiles:
        raise in_use(f"A Fargate Profile already exists with this name {name}.")
    if not params.get("selectors"):
        raise invalid("Fargate Profile must have at least one selector.")
    role = params["podExecutionRoleArn"]
    if find_role(role) is None:
        raise invalid(f"Role {role} does not exist")
    if cluster.auth_mode != "CONFIG_MAP" and role not in cluster.access_entries:
        make_entry(cluster, role, "FARGATE_LINUX")
    profile: Document = {
        "fargateProfileName": name,
        "fargateProfileArn": arn(call.region, "fargateprofile", cluster.name, name, unique()),
        "clusterName": cluster.name,
        "createdAt": now(),
        "podExecutionRoleArn": role,
        "subnets": list(params.get("subnets") or []),
        "selectors": list(params["selectors"]),
        "status": "CREATING",
        "tags": dict(params.get("tags") or {}),
        "health": {"issues": []},
    }
    cluster.fargate_profiles[name] = profile

    def settle() -> None:
        if profile["status"] == "CREATING":
            profile["status"] = "ACTIVE"

    world.timeline.after(world.settings.delays.cluster, settle)
    return {"fargateProfile": profile}


def _get(world: World, call: Call) -> tuple[Cluster, Document]:
    cluster = cluster_of(world, call)
    name = call.params["fargateProfileName"]
    profile = cluster.fargate_profiles.get(name)
    if profile is None:
        raise not_found(f"No Fargate Profile found with name: {name}.")
    return cluster, profile


def describe_fargate_profile(world: World, call: Call) -> Document:
    """Answer DescribeFargateProfile."""
    return {"fargateProfile": _get(world, call)[1]}


def list_fargate_profiles(world: World, call: Call) -> Document:
    """Answer ListFargateProfiles."""
    return list_page(call, sorted(cluster_of(world, call).fargate_profiles), "fargateProfileNames")


def delete_fargate_profile(world: World, call: Call) -> Document:
    """Answer DeleteFargateProfile; gone a moment later."""
    cluster, profile = _get(world, call)
    profile["status"] = "DELETING"

    def forget() -> None:
        cluster.fargate_profiles.pop(profile["fargateProfileName"], None)

    world.timeline.after(world.settings.delays.cluster, forget)
    return {"fargateProfile": profile}
