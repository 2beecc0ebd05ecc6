"""EKS Pod Identity's promise: a pod's service account token for the credentials of its role.

On EKS the agent on each node does this. The token is verified by the API server (TokenReview),
the association names the role, and the role's trust policy must admit pods.eks.amazonaws.com.
"""

import base64
import binascii
import json
import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import yaml

from nodewright_local.aws import moto_access
from nodewright_local.aws.eks.pod_identity import find_association
from nodewright_local.aws.eks.state import Cluster
from nodewright_local.aws.identity import find_role
from nodewright_local.aws.world import World

AUDIENCE = "pods.eks.amazonaws.com"
SESSION_SECONDS = 6 * 3600
_SERVICE_ACCOUNT = re.compile(r"system:serviceaccount:([^:]+):([^:]+)")
_REVIEW_TIMEOUT_SECONDS = 10.0


class CredentialsError(Exception):
    """No credentials; `status` is the HTTP status of the refusal."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def issue(world: World, token: str, *, cluster: str | None) -> dict[str, Any]:
    """Return credentials in the container credential format; CredentialsError with the reason."""
    if not token:
        raise CredentialsError(401, "the Authorization header must carry a service account token")
    user = _review(world, token)
    match = _SERVICE_ACCOUNT.fullmatch(str(user.get("username")))
    if match is None:
        raise CredentialsError(403, f"{user.get('username')} is not a service account")
    namespace, account = match.groups()
    with world.lock:
        found = _association(world, cluster, namespace, account)
        return _assume(world, found[0], found[1], user)


def _association(
    world: World, name: str | None, namespace: str, account: str
) -> tuple[Cluster, dict[str, Any]]:
    for cluster in world.eks.clusters():
        if name and cluster.name != name:
            continue
        association = find_association(cluster, namespace, account)
        if association is not None:
            return cluster, association
    raise CredentialsError(
        404,
        f"no pod identity association for service account {namespace}/{account}; create one with "
        "eks:CreatePodIdentityAssociation",
    )


def _assume(
    world: World, cluster: Cluster, association: Mapping[str, Any], user: Mapping[str, Any]
) -> dict[str, Any]:
    role_arn = association["roleArn"]
    role = find_role(role_arn)
    if role is None:
        raise CredentialsError(403, f"the associated role {role_arn} does not exist")
    refusal = _trust_refusal(role.assume_role_policy_document)
    if refusal:
        raise CredentialsError(403, f"role {role_arn}: {refusal}")
    pod = (user.get("extra") or {}).get("authentication.kubernetes.io/pod-name") or ["pod"]
    session = re.sub(r"[^\w+=,.@-]", "-", f"eks-{cluster.name}-{pod[0]}")[:64]
    assumed = moto_access.sts().assume_role(
        region_name=cluster.region,
        role_session_name=session,
        role_arn=role_arn,
        policy=None,
        duration=SESSION_SECONDS,
        external_id=None,
    )
    return {
        "AccessKeyId": assumed.access_key_id,
        "SecretAccessKey": assumed.secret_access_key,
        "Token": assumed.session_token,
        "AccountId": world.settings.account_id,
        "Expiration": assumed.expiration.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _trust_refusal(document: Any) -> str | None:
    """Why a trust policy does not admit EKS Pod Identity; None when it does."""
    policy = json.loads(document) if isinstance(document, str) else (document or {})
    actions: set[str] = set()
    for statement in _as_list(policy.get("Statement")):
        principal = statement.get("Principal")
        services = _as_list(principal.get("Service")) if isinstance(principal, dict) else []
        if statement.get("Effect") == "Allow" and AUDIENCE in services:
            actions.update(_as_list(statement.get("Action")))
    missing = {"sts:AssumeRole", "sts:TagSession"} - actions
    if not missing or actions & {"sts:*", "*"}:
        return None
    return f"its trust policy does not let {AUDIENCE} do {' and '.join(sorted(missing))}"


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _review(world: World, token: str) -> Mapping[str, Any]:
    """Ask the API server whose token this is; CredentialsError unless it is for pod identity."""
    kubeconfig = world.settings.admin_kubeconfig
    if kubeconfig is None:
        raise CredentialsError(
            503, "no admin kubeconfig is set, so service account tokens can not be verified"
        )
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [AUDIENCE]},
    }
    try:
        answer = _post(kubeconfig, "/apis/authentication.k8s.io/v1/tokenreviews", body)
    except (URLError, OSError, KeyError, ValueError) as error:
        raise CredentialsError(503, f"the API server does not review tokens: {error}") from error
    status = answer.get("status") or {}
    if not status.get("authenticated"):
        reason = status.get("error") or f"it is not valid for audience {AUDIENCE}"
        raise CredentialsError(401, f"the service account token is refused: {reason}")
    user: Mapping[str, Any] = status.get("user") or {}
    return user


def _post(kubeconfig: Path, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    user = config["users"][0]["user"]
    headers = {"Content-Type": "application/json"}
    context: ssl.SSLContext | None = None
    if cluster["server"].startswith("https:"):
        context = ssl.create_default_context(cadata=_pem(cluster, "certificate-authority"))
    if user.get("token"):
        headers["Authorization"] = f"Bearer {user['token']}"
    elif context is not None:
        _load_client_certificate(context, user)
    request = Request(
        cluster["server"] + path, data=json.dumps(body).encode(), headers=headers, method="POST"
    )
    with urlopen(request, timeout=_REVIEW_TIMEOUT_SECONDS, context=context) as answer:
        document: dict[str, Any] = json.loads(answer.read())
    return document


def _load_client_certificate(context: ssl.SSLContext, user: Mapping[str, Any]) -> None:
    # ssl loads certificates from files only.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
        pair.write(_pem(user, "client-certificate") + "\n" + _pem(user, "client-key"))
        pair.flush()
        context.load_cert_chain(pair.name)


def _pem(holder: Mapping[str, Any], key: str) -> str:
    """Read `key` (a file) or `key-data` (base64) of a kubeconfig entry."""
    if holder.get(f"{key}-data"):
        try:
            return base64.b64decode(holder[f"{key}-data"]).decode()
        except binascii.Error as error:
            raise ValueError(f"{key}-data is not base64") from error
    return Path(holder[key]).read_text()
