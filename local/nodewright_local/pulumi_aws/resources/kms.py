"""KMS keys and their aliases."""

from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, AwsError
from nodewright_local.pulumi_aws.schema import (
    AutoName,
    Resource,
    flag,
    number,
    output,
    policy,
    regional,
    tagged,
    text,
)
from nodewright_local.pulumi_aws.values import Values


class Key(Resource):
    """`aws.kms.Key`; the id is the key id. A deleted key waits out its window: it counts as gone."""

    token = "aws:kms/key:Key"
    properties = regional(
        tagged(
            {
                "description": text(computed=True),
                "keyUsage": text(replaces=True, default="ENCRYPT_DECRYPT"),
                "customerMasterKeySpec": text(replaces=True, default="SYMMETRIC_DEFAULT"),
                "policy": policy(computed=True),
                "bypassPolicyLockoutSafetyCheck": flag(write_only=True),
                "deletionWindowInDays": number(write_only=True),
                "isEnabled": flag(default=True),
                "enableKeyRotation": flag(),
                "rotationPeriodInDays": number(computed=True),
                "multiRegion": flag(replaces=True, computed=True),
                "arn": output(),
                "keyId": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the key."""
        tags = [{"TagKey": k, "TagValue": v} for k, v in (inputs.get("tags") or {}).items()]
        answer = aws.call(
            "kms",
            "create_key",
            Description=inputs.get("description"),
            KeyUsage=inputs["keyUsage"],
            KeySpec=inputs["customerMasterKeySpec"],
            Policy=inputs.get("policy"),
            BypassPolicyLockoutSafetyCheck=inputs.get("bypassPolicyLockoutSafetyCheck"),
            MultiRegion=inputs.get("multiRegion"),
            Tags=tags or None,
        )
        return str(answer["KeyMetadata"]["KeyId"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Switch rotation on and the key off, as the program wants."""
        if inputs.get("enableKeyRotation"):
            self._rotate(aws, ident, inputs)
        if not inputs.get("isEnabled", True):
            aws.call("kms", "disable_key", KeyId=ident)

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the key, its policy, rotation and tags."""
        answer = aws.find("kms", "describe_key", KeyId=ident)
        meta = (answer or {}).get("KeyMetadata") or {"KeyState": "PendingDeletion"}
        if meta["KeyState"] == "PendingDeletion":
            return None
        rotation = aws.call("kms", "get_key_rotation_status", KeyId=ident)
        document = aws.call("kms", "get_key_policy", KeyId=ident, PolicyName="default")
        tags = aws.pages("kms", "list_resource_tags", "Tags", KeyId=ident)
        return {
            "description": meta.get("Description"),
            "keyUsage": meta.get("KeyUsage"),
            "customerMasterKeySpec": meta.get("KeySpec") or meta.get("CustomerMasterKeySpec"),
            "policy": document["Policy"],
            "isEnabled": meta["KeyState"] == "Enabled",
            "enableKeyRotation": bool(rotation.get("KeyRotationEnabled")),
            "rotationPeriodInDays": rotation.get("RotationPeriodInDays"),
            "multiRegion": bool(meta.get("MultiRegion")),
            "tagsAll": {tag["TagKey"]: tag["TagValue"] for tag in tags},
            "arn": meta["Arn"],
            "keyId": meta["KeyId"],
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Apply the changed parts; a key must be enabled while the others change."""
        if "isEnabled" in changed and new.get("isEnabled", True):
            aws.call("kms", "enable_key", KeyId=ident)
        if "description" in changed:
            words = new.get("description") or ""
            aws.call("kms", "update_key_description", KeyId=ident, Description=words)
        if "policy" in changed:
            document = new["policy"]
            aws.call("kms", "put_key_policy", KeyId=ident, PolicyName="default", Policy=document)
        if changed & {"enableKeyRotation", "rotationPeriodInDays"}:
            self._rotate(aws, ident, new)
        if "isEnabled" in changed and not new.get("isEnabled", True):
            aws.call("kms", "disable_key", KeyId=ident)

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Schedule the deletion."""
        days = state.get("deletionWindowInDays")
        try:
            aws.call("kms", "schedule_key_deletion", KeyId=ident, PendingWindowInDays=days)
        except AwsError as error:
            if "pending deletion" not in error.message.lower():
                raise

    @override
    def retag(
        self, aws: Aws, ident: str, state: Values, put: dict[str, str], drop: list[str]
    ) -> None:
        """Set and remove tags."""
        if drop:
            aws.call("kms", "untag_resource", KeyId=ident, TagKeys=drop)
        if put:
            tags = [{"TagKey": key, "TagValue": value} for key, value in put.items()]
            aws.call("kms", "tag_resource", KeyId=ident, Tags=tags)

    def _rotate(self, aws: Aws, ident: str, inputs: Values) -> None:
        if inputs.get("enableKeyRotation"):
            days = inputs.get("rotationPeriodInDays")
            aws.call("kms", "enable_key_rotation", KeyId=ident, RotationPeriodInDays=days)
        else:
            aws.call("kms", "disable_key_rotation", KeyId=ident)


class Alias(Resource):
    """`aws.kms.Alias`; the id is the name, which starts with `alias/`."""

    token = "aws:kms/alias:Alias"
    identity = ("name",)
    autoname = AutoName(max_length=256, prefix="alias/")
    properties = regional(
        {
            "name": text(replaces=True, computed=True),
            "namePrefix": text(replaces=True, write_only=True),
            "targetKeyId": text(required=True, canonical=lambda key: str(key).rsplit("/", 1)[-1]),
            "arn": output(),
            "targetKeyArn": output(),
        }
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the alias."""
        aws.call("kms", "create_alias", AliasName=inputs["name"], TargetKeyId=inputs["targetKeyId"])
        return str(inputs["name"])

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the alias."""
        alias = _find_alias(aws, ident)
        if alias is None or not alias.get("TargetKeyId"):
            return None
        key = str(alias["TargetKeyId"])
        return {
            "name": ident,
            "targetKeyId": key,
            "arn": alias["AliasArn"],
            "targetKeyArn": aws.arn("kms", f"key/{key}"),
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Point it at another key."""
        aws.call("kms", "update_alias", AliasName=ident, TargetKeyId=new["targetKeyId"])

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete the alias."""
        aws.call("kms", "delete_alias", AliasName=ident)


def _find_alias(aws: Aws, name: str) -> dict[str, Any] | None:
    aliases = aws.pages("kms", "list_aliases", "Aliases")
    return next((dict(alias) for alias in aliases if alias["AliasName"] == name), None)


RESOURCES: tuple[Resource, ...] = (Key(), Alias())
