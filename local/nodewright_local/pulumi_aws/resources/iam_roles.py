"""IAM roles and instance profiles. Their id is their name."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, tag_list, tag_map
from nodewright_local.pulumi_aws.schema import (
    AutoName,
    Resource,
    flag,
    number,
    output,
    policy,
    records,
    tagged,
    text,
    texts,
)
from nodewright_local.pulumi_aws.values import Values


class Role(Resource):
    """`aws.iam.Role`."""

    token = "aws:iam/role:Role"
    identity = ("name",)
    autoname = AutoName(max_length=64)
    properties = tagged(
        {
            "assumeRolePolicy": policy(required=True),
            "name": text(replaces=True, computed=True),
            "namePrefix": text(replaces=True, write_only=True),
            "path": text(replaces=True, default="/"),
            "description": text(),
            "maxSessionDuration": number(default=3600),
            "permissionsBoundary": text(),
            "forceDetachPolicies": flag(write_only=True),
            "managedPolicyArns": texts(computed=True),
            "inlinePolicies": records({"name": text(), "policy": policy()}, computed=True),
            "arn": output(),
            "createDate": output(),
            "uniqueId": output(),
        }
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the role."""
        answer = aws.call(
            "iam",
            "create_role",
            RoleName=inputs["name"],
            AssumeRolePolicyDocument=inputs["assumeRolePolicy"],
            Path=inputs["path"],
            Description=inputs.get("description"),
            MaxSessionDuration=inputs["maxSessionDuration"],
            PermissionsBoundary=inputs.get("permissionsBoundary"),
            Tags=tag_list(inputs.get("tags")),
        )
        return str(answer["Role"]["RoleName"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Attach the policies that are listed in the role itself."""
        self._set_managed(aws, ident, [], inputs.get("managedPolicyArns") or [])
        self._set_inline(aws, ident, [], inputs.get("inlinePolicies") or [])

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the role, its tags and its policies."""
        answer = aws.find("iam", "get_role", RoleName=ident)
        if answer is None:
            return None
        role = answer["Role"]
        return {
            "assumeRolePolicy": policy_text(role["AssumeRolePolicyDocument"]),
            "name": role["RoleName"],
            "path": role.get("Path", "/"),
            "description": role.get("Description"),
            "maxSessionDuration": role.get("MaxSessionDuration", 3600),
            "permissionsBoundary": (role.get("PermissionsBoundary") or {}).get(
                "PermissionsBoundaryArn"
            ),
            "managedPolicyArns": _attached(aws, ident),
            "inlinePolicies": [
                {"name": name, "policy": _inline(aws, ident, name)}
                for name in aws.pages("iam", "list_role_policies", "PolicyNames", RoleName=ident)
            ],
            "tagsAll": tag_map(aws.pages("iam", "list_role_tags", "Tags", RoleName=ident)),
            "arn": role["Arn"],
            "createDate": iso(role.get("CreateDate")),
            "uniqueId": role["RoleId"],
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Apply the changed parts, one call for each kind."""
        if "assumeRolePolicy" in changed:
            aws.call(
                "iam",
                "update_assume_role_policy",
                RoleName=ident,
                PolicyDocument=new["assumeRolePolicy"],
            )
        if changed & {"description", "maxSessionDuration"}:
            aws.call(
                "iam",
                "update_role",
                RoleName=ident,
                Description=new.get("description") or "",
                MaxSessionDuration=new["maxSessionDuration"],
            )
        if "permissionsBoundary" in changed:
            self._set_boundary(aws, ident, new.get("permissionsBoundary"))
        if "managedPolicyArns" in changed:
            self._set_managed(
                aws, ident, old.get("managedPolicyArns") or [], new.get("managedPolicyArns") or []
            )
        if "inlinePolicies" in changed:
            self._set_inline(
                aws, ident, old.get("inlinePolicies") or [], new.get("inlinePolicies") or []
            )

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Take it out of instance profiles, detach what was forced or listed, delete it."""
        for profile in aws.pages(
            "iam", "list_instance_profiles_for_role", "InstanceProfiles", RoleName=ident
        ):
            aws.find(
                "iam",
                "remove_role_from_instance_profile",
                InstanceProfileName=profile["InstanceProfileName"],
                RoleName=ident,
            )
        listed = state.get("managedPolicyArns") or []
        force = bool(state.get("forceDetachPolicies"))
        self._set_managed(aws, ident, _attached(aws, ident) if force else listed, [])
        names = aws.pages("iam", "list_role_policies", "PolicyNames", RoleName=ident)
        inline = state.get("inlinePolicies") or []
        self._set_inline(aws, ident, [{"name": name} for name in names] if force else inline, [])
        aws.persist(
            ("DeleteConflict",),
            lambda: aws.call("iam", "delete_role", RoleName=ident),
            timeout_seconds=30,
        )

    @override
    def retag(
        self, aws: Aws, ident: str, state: Values, put: dict[str, str], drop: list[str]
    ) -> None:
        """Set and remove tags."""
        retag(aws, "role", {"RoleName": ident}, put, drop)

    def _set_boundary(self, aws: Aws, ident: str, arn: str | None) -> None:
        if arn:
            aws.call(
                "iam", "put_role_permissions_boundary", RoleName=ident, PermissionsBoundary=arn
            )
        else:
            aws.call("iam", "delete_role_permissions_boundary", RoleName=ident)

    def _set_managed(self, aws: Aws, ident: str, old: list[str], new: list[str]) -> None:
        for arn in sorted(set(old) - set(new)):
            aws.find("iam", "detach_role_policy", RoleName=ident, PolicyArn=arn)
        for arn in sorted(set(new) - set(old)):
            aws.call("iam", "attach_role_policy", RoleName=ident, PolicyArn=arn)

    def _set_inline(self, aws: Aws, ident: str, old: list[Values], new: list[Values]) -> None:
        kept = {item["name"] for item in new}
        for item in old:
            if item["name"] not in kept:
                aws.find("iam", "delete_role_policy", RoleName=ident, PolicyName=item["name"])
        for item in new:
            aws.call(
                "iam",
                "put_role_policy",
                RoleName=ident,
                PolicyName=item["name"],
                PolicyDocument=item["policy"],
            )


class InstanceProfile(Resource):
    """`aws.iam.InstanceProfile`."""

    token = "aws:iam/instanceProfile:InstanceProfile"
    identity = ("name",)
    autoname = AutoName(max_length=128)
    properties = tagged(
        {
            "name": text(replaces=True, computed=True),
            "namePrefix": text(replaces=True, write_only=True),
            "path": text(replaces=True, default="/"),
            "role": text(),
            "arn": output(),
            "createDate": output(),
            "uniqueId": output(),
        }
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the profile."""
        answer = aws.call(
            "iam",
            "create_instance_profile",
            InstanceProfileName=inputs["name"],
            Path=inputs["path"],
            Tags=tag_list(inputs.get("tags")),
        )
        return str(answer["InstanceProfile"]["InstanceProfileName"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Put its role in."""
        if inputs.get("role"):
            self._move(aws, "add_role_to_instance_profile", ident, inputs["role"])

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the profile."""
        answer = aws.find("iam", "get_instance_profile", InstanceProfileName=ident)
        if answer is None:
            return None
        profile = answer["InstanceProfile"]
        roles = [role["RoleName"] for role in profile.get("Roles") or []]
        return {
            "name": profile["InstanceProfileName"],
            "path": profile.get("Path", "/"),
            "role": roles[0] if roles else None,
            "tagsAll": tag_map(profile.get("Tags")),
            "arn": profile["Arn"],
            "createDate": iso(profile.get("CreateDate")),
            "uniqueId": profile["InstanceProfileId"],
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Exchange the role."""
        if old.get("role"):
            self._move(aws, "remove_role_from_instance_profile", ident, old["role"])
        self.settle(aws, ident, new)

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Take the role out and delete it."""
        if state.get("role"):
            aws.find(
                "iam",
                "remove_role_from_instance_profile",
                InstanceProfileName=ident,
                RoleName=state["role"],
            )
        aws.call("iam", "delete_instance_profile", InstanceProfileName=ident)

    @override
    def retag(
        self, aws: Aws, ident: str, state: Values, put: dict[str, str], drop: list[str]
    ) -> None:
        """Set and remove tags."""
        retag(aws, "instance_profile", {"InstanceProfileName": ident}, put, drop)

    def _move(self, aws: Aws, operation: str, ident: str, role: str) -> None:
        aws.call("iam", operation, InstanceProfileName=ident, RoleName=role)


def retag(
    aws: Aws, noun: str, subject: Mapping[str, str], put: dict[str, str], drop: list[str]
) -> None:
    """Set and remove the tags of a thing of IAM, such as a `role` with its `RoleName`."""
    if drop:
        aws.call("iam", f"untag_{noun}", **subject, TagKeys=drop)
    if put:
        aws.call("iam", f"tag_{noun}", **subject, Tags=tag_list(put))


def policy_text(document: Any) -> str:
    """Return a policy as text; botocore decodes some documents and leaves others quoted."""
    if isinstance(document, str):
        return unquote(document) if document.startswith("%7B") else document
    return json.dumps(document)


def iso(moment: Any) -> str | None:
    """Return a time of an AWS answer as text."""
    return None if moment is None else str(getattr(moment, "isoformat", lambda: moment)())


def _attached(aws: Aws, role: str) -> list[str]:
    found = aws.pages("iam", "list_attached_role_policies", "AttachedPolicies", RoleName=role)
    return sorted(item["PolicyArn"] for item in found)


def _inline(aws: Aws, role: str, name: str) -> str:
    answer = aws.call("iam", "get_role_policy", RoleName=role, PolicyName=name)
    return policy_text(answer["PolicyDocument"])


RESOURCES: tuple[Resource, ...] = (Role(), InstanceProfile())
