"""The IAM calls that moto answers too loosely."""

import json
from typing import Any
from urllib.parse import quote

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2.paging import page
from nodewright_local.aws.wire import Call

_PER_PAGE = 100


def list_instance_profiles(call: Call) -> dict[str, Any]:
    """Answer ListInstanceProfiles by path prefix, which moto leaves out of account."""
    prefix = call.params.get("PathPrefix") or "/"
    found = sorted(
        (
            profile
            for profile in moto_access.iam().instance_profiles.values()
            if profile.path.startswith(prefix)
        ),
        key=lambda profile: str(profile.name),
    )
    chosen, marker = page(
        found, call.params, limit=_PER_PAGE, size_key="MaxItems", token_key="Marker"
    )
    return {
        "InstanceProfiles": [_profile(profile) for profile in chosen],
        "IsTruncated": marker is not None,
        "Marker": marker,
    }


def _profile(profile: Any) -> dict[str, Any]:
    return {
        "Path": profile.path,
        "InstanceProfileName": profile.name,
        "InstanceProfileId": profile.id,
        "Arn": profile.arn,
        "CreateDate": profile.create_date,
        "Roles": [
            {
                "Path": role.path,
                "RoleName": role.name,
                "RoleId": role.id,
                "Arn": role.arn,
                "CreateDate": role.create_date,
                "AssumeRolePolicyDocument": _document(role.assume_role_policy_document),
            }
            for role in profile.roles
        ],
    }


def _document(policy: Any) -> str:
    return quote(policy if isinstance(policy, str) else json.dumps(policy))
