"""Who a caller is.

Access keys that moto made (IAM users, assumed roles) belong to their principals; any other key is
the laptop's own administrator, so that `test`/`test` credentials work everywhere.
"""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from nodewright_local.aws import moto_access
from nodewright_local.aws.errors import AwsError
from nodewright_local.aws.wire import Call

ADMIN_USER = "laptop-admin"
ADMIN_USER_ID = "AIDALAPTOPADMIN00000"
URL_LIFETIME = timedelta(minutes=15)


class IdentityError(Exception):
    """A proof of identity that is not accepted; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A caller."""

    arn: str
    """As GetCallerIdentity shows it; an assumed role shows its session here."""
    user_id: str
    principal_arn: str
    """The IAM user or role behind it: what an access entry names."""
    session_name: str | None = None
    """Of an assumed role."""
    secret: str | None = None
    """Secret key when it is known; checks signatures."""
    token: str | None = None
    """Session token of an assumed role."""
    expires: datetime | None = None


def admin_arn() -> str:
    """The administrator every unknown access key stands for."""
    return f"arn:aws:iam::{moto_access.account()}:user/{ADMIN_USER}"


def principal_of(access_key: str) -> Principal:
    """Find the principal of an access key."""
    assumed = moto_access.sts().get_assumed_role_from_access_key(access_key)
    if assumed is not None:
        return Principal(
            arn=assumed.arn,
            user_id=assumed.user_id,
            principal_arn=assumed.role_arn,
            session_name=assumed.session_name,
            secret=assumed.secret_access_key,
            token=assumed.session_token,
            expires=assumed.expiration.replace(tzinfo=UTC),
        )
    user = moto_access.iam().get_user_from_access_key_id(access_key)
    if user is not None:
        key = moto_access.iam().access_keys[access_key]
        return Principal(
            arn=user.arn, user_id=user.id, principal_arn=user.arn, secret=key.secret_access_key
        )
    return Principal(arn=admin_arn(), user_id=ADMIN_USER_ID, principal_arn=admin_arn())


def get_caller_identity(call: Call) -> dict[str, Any]:
    """Answer GetCallerIdentity."""
    caller = principal_of(call.access_key)
    return {"UserId": caller.user_id, "Account": moto_access.account(), "Arn": caller.arn}


def assume_role(call: Call) -> None:
    """Refuse AssumeRole for a role that does not exist; moto carries out the rest."""
    arn = call.params["RoleArn"]
    if find_role(arn) is None:
        raise AwsError(
            "AccessDenied",
            f"User: {principal_of(call.access_key).arn} is not authorized to perform: "
            f"sts:AssumeRole on resource: {arn}",
        )


def find_role(arn: str) -> Any:
    """Moto's Role by ARN, None if there is none."""
    for role in list(moto_access.iam().roles.values()):
        if role.arn == arn:
            return role
    return None


def identify_presigned(url: str, *, cluster: str, now: datetime) -> Principal:
    """Verify a presigned GetCallerIdentity URL, as EKS does with a bearer token.

    Raises IdentityError when it is not such a URL, has expired, was signed for another cluster,
    or bears a signature that a known key did not make.
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if query.get("Action") != "GetCallerIdentity":
        raise IdentityError("the token's URL does not call sts:GetCallerIdentity")
    if "x-k8s-aws-id" not in query.get("X-Amz-SignedHeaders", "").split(";"):
        raise IdentityError("the token's signature does not cover the header x-k8s-aws-id")
    _check_time(query, now)
    credential = query.get("X-Amz-Credential", "").split("/")
    if len(credential) != 5 or credential[3] != "sts":
        raise IdentityError("the token's credential scope is not that of STS")
    principal = principal_of(credential[0])
    if principal.expires is not None and principal.expires < now:
        raise IdentityError("the session that signed the token has expired")
    if principal.token is not None and query.get("X-Amz-Security-Token") != principal.token:
        raise IdentityError("the token carries another session's security token")
    if principal.secret is not None:
        _check_signature(parts.netloc, parts.path, query, principal.secret, cluster)
    return principal


def _check_time(query: dict[str, str], now: datetime) -> None:
    try:
        signed = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except (KeyError, ValueError) as error:
        raise IdentityError("the token's URL has no readable X-Amz-Date") from error
    if not signed - URL_LIFETIME <= now <= signed + URL_LIFETIME:
        raise IdentityError(f"the token was signed at {signed:%H:%M:%S} UTC and has expired")


def _check_signature(
    host: str, path: str, query: dict[str, str], secret: str, cluster: str
) -> None:
    """Recompute SigV4 over the URL, with the cluster's name in the signed header.

    A URL that was signed for another cluster fails here, since the header is not in the URL.
    """
    names = query["X-Amz-SignedHeaders"].split(";")
    known = {"host": host, "x-k8s-aws-id": cluster}
    missing = [name for name in names if name not in known]
    if missing:
        raise IdentityError(f"the token's signature covers unknown headers: {', '.join(missing)}")
    pairs = sorted(
        (quote(key, safe="-_.~"), quote(value, safe="-_.~"))
        for key, value in query.items()
        if key != "X-Amz-Signature"
    )
    canonical = "\n".join(
        [
            "GET",
            path or "/",
            "&".join(f"{key}={value}" for key, value in pairs),
            *(f"{name}:{known[name]}" for name in names),
            "",
            ";".join(names),
            hashlib.sha256(b"").hexdigest(),
        ]
    )
    _, day, region, service, ending = query["X-Amz-Credential"].split("/")
    to_sign = "\n".join(
        [
            "AWS4-HMAC-SHA256",
            query["X-Amz-Date"],
            f"{day}/{region}/{service}/{ending}",
            hashlib.sha256(canonical.encode()).hexdigest(),
        ]
    )
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, ending, to_sign):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    if not hmac.compare_digest(key.hex(), query.get("X-Amz-Signature", "")):
        raise IdentityError(f"the token's signature does not match; is it for cluster {cluster!r}?")
