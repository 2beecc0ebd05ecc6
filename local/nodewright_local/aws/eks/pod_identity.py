"""Pod identity associations: which role a service account's pods get."""

from nodewright_local.aws import moto_access
from nodewright_local.aws.eks.common import arn, cluster_of, list_page, now, short_id
from nodewright_local.aws.eks.state import Cluster, Document, in_use, invalid, not_found
from nodewright_local.aws.identity import find_role
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World

_SUMMARY = (
    "clusterName",
    "namespace",
    "serviceAccount",
    "associationArn",
    "associationId",
    "ownerArn",
)


def find_association(cluster: Cluster, namespace: str, service_account: str) -> Document | None:
    """The association of a service account, None if there is none."""
    for association in cluster.pod_identities.values():
        if (association["namespace"], association["serviceAccount"]) == (
            namespace,
            service_account,
        ):
            return association
    return None


def create_association(world: World, call: Call) -> Document:
    """Answer CreatePodIdentityAssociation."""
    cluster = cluster_of(world, call)
    params = call.params
    namespace, account = params["namespace"], params["serviceAccount"]
    if find_association(cluster, namespace, account) is not None:
        raise in_use("Association already exists", clusterName=cluster.name)
    _check_role(params["roleArn"])
    association_id = f"a-{short_id()}"
    association: Document = {
        "clusterName": cluster.name,
        "namespace": namespace,
        "serviceAccount": account,
        "roleArn": params["roleArn"],
        "associationArn": arn(call.region, "podidentityassociation", cluster.name, association_id),
        "associationId": association_id,
        "tags": dict(params.get("tags") or {}),
        "createdAt": now(),
        "modifiedAt": now(),
        "disableSessionTags": bool(params.get("disableSessionTags")),
    }
    if params.get("targetRoleArn"):
        association["targetRoleArn"] = params["targetRoleArn"]
        association["externalId"] = f"{call.region}/{moto_access.account()}/{cluster.name}"
    cluster.pod_identities[association_id] = association
    return {"association": association}


def _check_role(role_arn: str) -> None:
    if find_role(role_arn) is None:
        raise invalid(f"Role provided in the request does not exist: {role_arn}")


def _get(world: World, call: Call) -> tuple[Cluster, Document]:
    cluster = cluster_of(world, call)
    association = cluster.pod_identities.get(call.params["associationId"])
    if association is None:
        raise not_found(
            f"The association ID provided in the request does not exist: "
            f"{call.params['associationId']}"
        )
    return cluster, association


def describe_association(world: World, call: Call) -> Document:
    """Answer DescribePodIdentityAssociation."""
    return {"association": _get(world, call)[1]}


def list_associations(world: World, call: Call) -> Document:
    """Answer ListPodIdentityAssociations, optionally of one namespace or service account."""
    cluster = cluster_of(world, call)
    wanted = {
        key: call.params[key] for key in ("namespace", "serviceAccount") if call.params.get(key)
    }
    found = [
        {key: association[key] for key in _SUMMARY if key in association}
        for association in cluster.pod_identities.values()
        if all(association[key] == value for key, value in wanted.items())
    ]
    return list_page(call, found, "associations")


def update_association(world: World, call: Call) -> Document:
    """Answer UpdatePodIdentityAssociation."""
    _, association = _get(world, call)
    for key in ("roleArn", "targetRoleArn", "disableSessionTags"):
        if call.params.get(key) is not None:
            association[key] = call.params[key]
    _check_role(association["roleArn"])
    association["modifiedAt"] = now()
    return {"association": association}


def delete_association(world: World, call: Call) -> Document:
    """Answer DeletePodIdentityAssociation."""
    cluster, association = _get(world, call)
    del cluster.pod_identities[association["associationId"]]
    return {"association": association}
