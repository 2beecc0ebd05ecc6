"""Small things that all EKS resources share: times, names, tags, updates, tokens."""

import secrets
import uuid
from datetime import UTC, datetime
from typing import Any

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2.paging import page
from nodewright_local.aws.eks.state import Cluster, Document, not_found
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World

PER_PAGE = 100


def now() -> datetime:
    """The time as EKS stamps it."""
    return datetime.now(UTC).replace(microsecond=0)


def arn(region: str, kind: str, *path: str) -> str:
    """An EKS ARN: `arn:aws:eks:us-west-2:123456789012:cluster/name`."""
    return f"arn:aws:eks:{region}:{moto_access.account()}:{kind}/{'/'.join(path)}"


def unique() -> str:
    """A fresh UUID for ARNs and ids."""
    return str(uuid.uuid4())


def short_id(length: int = 17) -> str:
    """A fresh lower-case id."""
    return secrets.token_hex(length)[:length]


def cluster_of(world: World, call: Call) -> Cluster:
    """The cluster that a call names; ResourceNotFoundException if there is none."""
    name = call.params.get("clusterName") or call.params.get("name")
    return world.eks.get(call.region, str(name))


def list_page(call: Call, names: list[Any], key: str) -> Document:
    """Answer a List call: `{key: […], nextToken}`."""
    chosen, token = page(
        names, call.params, limit=PER_PAGE, size_key="maxResults", token_key="nextToken"
    )
    return {key: list(chosen), "nextToken": token}


def make_update(cluster: Cluster, kind: str, **params: str) -> Document:
    """Record an update of the cluster or of something below it; it is InProgress."""
    update: Document = {
        "id": unique(),
        "status": "InProgress",
        "type": kind,
        "params": [{"type": name, "value": value} for name, value in params.items()],
        "createdAt": now(),
        "errors": [],
    }
    cluster.updates[update["id"]] = update
    return update


def describe_update(world: World, call: Call) -> Document:
    """Answer DescribeUpdate."""
    cluster = cluster_of(world, call)
    update = cluster.updates.get(call.params["updateId"])
    if update is None:
        raise not_found(f"No update found for ID: {call.params['updateId']}")
    return {"update": update}


def list_updates(world: World, call: Call) -> Document:
    """Answer ListUpdates."""
    cluster = cluster_of(world, call)
    return list_page(call, list(cluster.updates), "updateIds")


def tagged_document(world: World, call: Call) -> Document:
    """The resource that a tagging call names by ARN."""
    wanted = call.params["resourceArn"]
    for cluster in world.eks.clusters(call.region):
        for document, key in (
            (cluster.document, "arn"),
            *((entry, "accessEntryArn") for entry in cluster.access_entries.values()),
            *((item, "associationArn") for item in cluster.pod_identities.values()),
            *((item, "addonArn") for item in cluster.addons.values()),
            *((item, "nodegroupArn") for item in cluster.nodegroups.values()),
            *((item, "fargateProfileArn") for item in cluster.fargate_profiles.values()),
        ):
            if document.get(key) == wanted:
                return document
    raise not_found(f"Resource was not found: {wanted}")


def tag_resource(world: World, call: Call) -> Document:
    """Answer TagResource."""
    document = tagged_document(world, call)
    document["tags"] = {**(document.get("tags") or {}), **call.params["tags"]}
    return {}


def untag_resource(world: World, call: Call) -> Document:
    """Answer UntagResource."""
    document = tagged_document(world, call)
    gone = set(call.params["tagKeys"])
    kept = {key: value for key, value in (document.get("tags") or {}).items() if key not in gone}
    document["tags"] = kept
    return {}


def list_tags(world: World, call: Call) -> Document:
    """Answer ListTagsForResource."""
    return {"tags": dict(tagged_document(world, call).get("tags") or {})}
