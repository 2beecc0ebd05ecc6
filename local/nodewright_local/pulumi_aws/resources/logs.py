"""CloudWatch log groups. The id is the name."""

from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws
from nodewright_local.pulumi_aws.schema import (
    AutoName,
    Resource,
    flag,
    number,
    output,
    regional,
    tagged,
    text,
)
from nodewright_local.pulumi_aws.values import Values


class LogGroup(Resource):
    """`aws.cloudwatch.LogGroup`."""

    token = "aws:cloudwatch/logGroup:LogGroup"
    identity = ("name",)
    autoname = AutoName(max_length=512)
    properties = regional(
        tagged(
            {
                "name": text(replaces=True, computed=True),
                "namePrefix": text(replaces=True, write_only=True),
                "retentionInDays": number(default=0),
                "kmsKeyId": text(),
                "logGroupClass": text(replaces=True, computed=True),
                "skipDestroy": flag(write_only=True),
                "arn": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the group."""
        aws.call(
            "logs",
            "create_log_group",
            logGroupName=inputs["name"],
            kmsKeyId=inputs.get("kmsKeyId"),
            logGroupClass=inputs.get("logGroupClass"),
            tags=inputs.get("tags") or None,
        )
        return str(inputs["name"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Set the retention."""
        if inputs.get("retentionInDays"):
            self._retain(aws, ident, inputs["retentionInDays"])

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the group."""
        group = _find(aws, ident)
        if group is None:
            return None
        arn = str(group["arn"]).removesuffix(":*")
        return {
            "name": ident,
            "retentionInDays": group.get("retentionInDays", 0),
            "kmsKeyId": group.get("kmsKeyId"),
            "logGroupClass": group.get("logGroupClass", "STANDARD"),
            "tagsAll": aws.call("logs", "list_tags_for_resource", resourceArn=arn).get("tags"),
            "arn": arn,
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Change retention and key."""
        if "retentionInDays" in changed:
            self._retain(aws, ident, new["retentionInDays"])
        if "kmsKeyId" in changed:
            if new.get("kmsKeyId"):
                key = new["kmsKeyId"]
                aws.call("logs", "associate_kms_key", logGroupName=ident, kmsKeyId=key)
            else:
                aws.call("logs", "disassociate_kms_key", logGroupName=ident)

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete the group, unless the program wants it kept."""
        if not state.get("skipDestroy"):
            aws.call("logs", "delete_log_group", logGroupName=ident)

    @override
    def retag(
        self, aws: Aws, ident: str, state: Values, put: dict[str, str], drop: list[str]
    ) -> None:
        """Set and remove tags."""
        if drop:
            aws.call("logs", "untag_resource", resourceArn=state["arn"], tagKeys=drop)
        if put:
            aws.call("logs", "tag_resource", resourceArn=state["arn"], tags=put)

    def _retain(self, aws: Aws, ident: str, days: int) -> None:
        if days:
            aws.call("logs", "put_retention_policy", logGroupName=ident, retentionInDays=days)
        else:
            aws.call("logs", "delete_retention_policy", logGroupName=ident)


def _find(aws: Aws, name: str) -> dict[str, Any] | None:
    groups = aws.pages("logs", "describe_log_groups", "logGroups", logGroupNamePrefix=name)
    return next((dict(group) for group in groups if group["logGroupName"] == name), None)


RESOURCES: tuple[Resource, ...] = (LogGroup(),)
