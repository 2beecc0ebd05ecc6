"""The API server's question "who bears this token?", answered as EKS's authenticator answers it.

A bearer token is a presigned STS call. The principal that signed it is looked up in the cluster's
access entries; the entry gives user name and groups. No entry, no authentication.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from nodewright_local.aws.eks.access import CLUSTER_ADMIN_POLICIES, VIEW_GROUPS
from nodewright_local.aws.eks.state import Cluster
from nodewright_local.aws.identity import IdentityError, Principal, identify_presigned
from nodewright_local.aws.world import World

TOKEN_PREFIX = "k8s-aws-v1."


def review(world: World, document: Mapping[str, Any], *, cluster: str | None) -> dict[str, Any]:
    """Answer a TokenReview with a TokenReview."""
    token = str((document.get("spec") or {}).get("token") or "")
    answer: dict[str, Any] = {
        "apiVersion": document.get("apiVersion") or "authentication.k8s.io/v1",
        "kind": "TokenReview",
    }
    try:
        user = authenticate(world, token, cluster=cluster)
    except IdentityError as error:
        answer["status"] = {"authenticated": False, "error": str(error)}
    else:
        answer["status"] = {"authenticated": True, "user": user}
    return answer


def authenticate(world: World, token: str, *, cluster: str | None) -> dict[str, Any]:
    """Return the Kubernetes user of a token; raises IdentityError with the reason."""
    found = _cluster(world, cluster)
    principal = identify_presigned(_url(token), cluster=found.name, now=datetime.now(UTC))
    entry = found.access_entries.get(principal.principal_arn)
    if entry is None:
        raise IdentityError(
            f"no access entry of cluster {found.name} names {principal.principal_arn}"
        )
    return {
        "username": _username(world, entry, principal),
        "uid": f"aws-iam-authenticator:{world.settings.account_id}:{principal.user_id}",
        "groups": _groups(found, entry),
        "extra": {
            "arn": [principal.arn],
            "canonicalArn": [principal.principal_arn],
            "sessionName": [principal.session_name or ""],
        },
    }


def _cluster(world: World, name: str | None) -> Cluster:
    clusters = world.eks.clusters()
    named = [cluster for cluster in clusters if not name or cluster.name == name]
    if len(named) == 1:
        return named[0]
    if not named:
        raise IdentityError(f"there is no EKS cluster {name or ''}".rstrip())
    raise IdentityError("there are several EKS clusters; name one with ?cluster=")


def _url(token: str) -> str:
    if not token.startswith(TOKEN_PREFIX):
        raise IdentityError("the token does not begin with k8s-aws-v1.")
    encoded = token.removeprefix(TOKEN_PREFIX)
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, ValueError) as error:
        raise IdentityError("the token is not base64") from error


def _username(world: World, entry: Mapping[str, Any], principal: Principal) -> str:
    template = str(entry["username"])
    session = principal.session_name or ""
    values = {
        "AccountID": world.settings.account_id,
        "SessionName": re.sub(r"[^\w.@+=,:-]", "-", session),
        "SessionNameRaw": session,
        "AccessKeyID": "",
    }
    if "{{EC2PrivateDNSName}}" in template:
        record = world.instances.find(session)
        if record is None:
            raise IdentityError(
                f"session {session!r} of {principal.principal_arn} is not an EC2 instance"
            )
        values["EC2PrivateDNSName"] = record.private_dns_name
    for name, value in values.items():
        template = template.replace("{{" + name + "}}", value)
    return template


def _groups(cluster: Cluster, entry: Mapping[str, Any]) -> list[str]:
    groups = list(entry["kubernetesGroups"])
    for arn in cluster.access_policies.get(entry["principalArn"], {}):
        policy = arn.rsplit("/", 1)[-1]
        if policy in CLUSTER_ADMIN_POLICIES:
            groups.append("system:masters")
        elif policy in VIEW_GROUPS:
            groups.append(VIEW_GROUPS[policy])
    return list(dict.fromkeys(groups))
