"""EventBridge rules and their targets."""

import uuid
from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, AwsError, tag_list, tag_map
from nodewright_local.pulumi_aws.schema import (
    AutoName,
    Resource,
    flag,
    json_text,
    mapping,
    number,
    output,
    record,
    regional,
    tagged,
    text,
)
from nodewright_local.pulumi_aws.values import Values

_STATES = ("ENABLED", "DISABLED", "ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS")


class EventRule(Resource):
    """`aws.cloudwatch.EventRule`; the id is the name, with the bus before it unless default."""

    token = "aws:cloudwatch/eventRule:EventRule"
    identity = ("name", "eventBusName")
    autoname = AutoName(max_length=64)
    properties = regional(
        tagged(
            {
                "name": text(replaces=True, computed=True),
                "namePrefix": text(replaces=True, write_only=True),
                "eventBusName": text(replaces=True, default="default"),
                "eventPattern": json_text(),
                "scheduleExpression": text(),
                "description": text(),
                "roleArn": text(),
                "state": text(default="ENABLED", choices=_STATES),
                "forceDestroy": flag(write_only=True),
                "arn": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the rule."""
        self._put(aws, inputs, tags=tag_list(inputs.get("tags")))
        return _rule_id(inputs["eventBusName"], inputs["name"])

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the rule."""
        bus, name = _rule_parts(ident)
        rule = aws.find("events", "describe_rule", Name=name, EventBusName=bus)
        if rule is None:
            return None
        tags = aws.call("events", "list_tags_for_resource", ResourceARN=rule["Arn"])
        return {
            "name": rule["Name"],
            "eventBusName": rule.get("EventBusName", "default"),
            "eventPattern": rule.get("EventPattern"),
            "scheduleExpression": rule.get("ScheduleExpression"),
            "description": rule.get("Description"),
            "roleArn": rule.get("RoleArn"),
            "state": rule.get("State", "ENABLED"),
            "tagsAll": tag_map(tags.get("Tags")),
            "arn": rule["Arn"],
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Overwrite the rule."""
        self._put(aws, new, tags=None)

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete the rule; its targets go first when the program says `forceDestroy`."""
        bus, name = _rule_parts(ident)
        if state.get("forceDestroy"):
            targets = aws.pages(
                "events", "list_targets_by_rule", "Targets", Rule=name, EventBusName=bus
            )
            if ids := [target["Id"] for target in targets]:
                aws.call("events", "remove_targets", Rule=name, EventBusName=bus, Ids=ids)
        aws.call("events", "delete_rule", Name=name, EventBusName=bus)

    @override
    def retag(
        self, aws: Aws, ident: str, state: Values, put: dict[str, str], drop: list[str]
    ) -> None:
        """Set and remove tags."""
        if drop:
            aws.call("events", "untag_resource", ResourceARN=state["arn"], TagKeys=drop)
        if put:
            aws.call("events", "tag_resource", ResourceARN=state["arn"], Tags=tag_list(put))

    def _put(self, aws: Aws, inputs: Values, *, tags: list[dict[str, str]] | None) -> None:
        aws.call(
            "events",
            "put_rule",
            Name=inputs["name"],
            EventBusName=inputs["eventBusName"],
            EventPattern=inputs.get("eventPattern"),
            ScheduleExpression=inputs.get("scheduleExpression"),
            Description=inputs.get("description"),
            RoleArn=inputs.get("roleArn"),
            State=inputs["state"],
            Tags=tags,
        )


_TARGET_FIELDS = {
    "input": "Input",
    "inputPath": "InputPath",
    "roleArn": "RoleArn",
}


class EventTarget(Resource):
    """`aws.cloudwatch.EventTarget`; the id is `rule-target`, with the bus before it."""

    token = "aws:cloudwatch/eventTarget:EventTarget"
    identity = ("rule", "eventBusName", "targetId")
    properties = regional(
        {
            "rule": text(required=True, replaces=True),
            "eventBusName": text(replaces=True, default="default"),
            "targetId": text(replaces=True, computed=True),
            "arn": text(required=True),
            "input": json_text(),
            "inputPath": text(),
            "roleArn": text(),
            "inputTransformer": record(
                {"inputTemplate": text(required=True), "inputPaths": mapping()}
            ),
            "sqsTarget": record({"messageGroupId": text()}),
            "deadLetterConfig": record({"arn": text()}),
            "retryPolicy": record(
                {"maximumEventAgeInSeconds": number(), "maximumRetryAttempts": number()}
            ),
            "forceDestroy": flag(write_only=True),
        }
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Add the target to the rule; without a target id one is made up."""
        target_id = inputs.get("targetId") or f"pulumi-{uuid.uuid4().hex[:24]}"
        self._put(aws, {**inputs, "targetId": target_id})
        parts: tuple[str, ...] = (inputs["rule"], target_id)
        if inputs["eventBusName"] != "default":
            parts = (inputs["eventBusName"], *parts)
        return "-".join(parts)

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Find the target in its rule."""
        bus, rule = known.get("eventBusName", "default"), known["rule"]
        target_id = known.get("targetId") or _target_id(ident, bus, rule)
        for target in self._targets(aws, bus, rule):
            if target["Id"] == target_id:
                return {
                    "rule": rule,
                    "eventBusName": bus,
                    "targetId": target_id,
                    "arn": target["Arn"],
                    **{name: target.get(key) for name, key in _TARGET_FIELDS.items()},
                    **_optional_parts(target),
                }
        return None

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Overwrite the target."""
        self._put(aws, {**new, "targetId": old["targetId"]})

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Remove the target."""
        answer = aws.call(
            "events",
            "remove_targets",
            Rule=state["rule"],
            EventBusName=state["eventBusName"],
            Ids=[state["targetId"]],
        )
        _raise_failed(answer, "events RemoveTargets")

    @override
    def import_parts(self, aws: Aws, ident: str) -> tuple[str, Values]:
        """Take `RULE/TARGET` or `BUS/RULE/TARGET`."""
        parts = ident.rsplit("/", 2)
        if len(parts) == 1:
            raise AwsError(
                operation=f"import {self.token}",
                code="InvalidId",
                message=f"{ident!r} is not RULE/TARGET or BUS/RULE/TARGET",
            )
        bus = parts[0] if len(parts) > 2 else "default"
        known = {"eventBusName": bus, "rule": parts[-2], "targetId": parts[-1]}
        return "-".join(parts), known

    def _put(self, aws: Aws, inputs: Values) -> None:
        target: dict[str, Any] = {"Id": inputs["targetId"], "Arn": inputs["arn"]}
        for name, key in _TARGET_FIELDS.items():
            if inputs.get(name):
                target[key] = inputs[name]
        if transformer := inputs.get("inputTransformer"):
            target["InputTransformer"] = {
                "InputTemplate": transformer["inputTemplate"],
                "InputPathsMap": transformer.get("inputPaths") or {},
            }
        for name, key in (
            ("sqsTarget", "SqsParameters"),
            ("deadLetterConfig", "DeadLetterConfig"),
            ("retryPolicy", "RetryPolicy"),
        ):
            if inputs.get(name):
                target[key] = {_upper(k): v for k, v in inputs[name].items()}
        answer = aws.call(
            "events",
            "put_targets",
            Rule=inputs["rule"],
            EventBusName=inputs["eventBusName"],
            Targets=[target],
        )
        _raise_failed(answer, "events PutTargets")

    def _targets(self, aws: Aws, bus: str, rule: str) -> list[dict[str, Any]]:
        try:
            return aws.pages(
                "events", "list_targets_by_rule", "Targets", Rule=rule, EventBusName=bus
            )
        except AwsError as error:
            if error.is_absent:
                return []
            raise


def _rule_id(bus: str, name: str) -> str:
    return name if bus == "default" else f"{bus}/{name}"


def _rule_parts(ident: str) -> tuple[str, str]:
    bus, _, name = ident.rpartition("/")
    return bus or "default", name


def _target_id(ident: str, bus: str, rule: str) -> str:
    return ident.removeprefix("" if bus == "default" else f"{bus}-").removeprefix(f"{rule}-")


def _optional_parts(target: dict[str, Any]) -> Values:
    transformer = target.get("InputTransformer")
    return {
        "inputTransformer": transformer
        and {
            "inputTemplate": transformer["InputTemplate"],
            "inputPaths": transformer.get("InputPathsMap") or {},
        },
        **{
            name: {_lower(k): v for k, v in target[key].items()} if target.get(key) else None
            for name, key in (
                ("sqsTarget", "SqsParameters"),
                ("deadLetterConfig", "DeadLetterConfig"),
                ("retryPolicy", "RetryPolicy"),
            )
        },
    }


def _upper(name: str) -> str:
    return name[0].upper() + name[1:]


def _lower(name: str) -> str:
    return name[0].lower() + name[1:]


def _raise_failed(answer: dict[str, Any], operation: str) -> None:
    for failed in answer.get("FailedEntries") or []:
        raise AwsError(
            operation=operation,
            code=str(failed.get("ErrorCode")),
            message=f"{failed.get('TargetId')}: {failed.get('ErrorMessage')}",
        )


RESOURCES: tuple[Resource, ...] = (EventRule(), EventTarget())
