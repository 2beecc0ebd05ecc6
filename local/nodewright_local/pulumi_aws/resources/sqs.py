"""SQS queues and their policies. The id of both is the queue's URL."""

from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws
from nodewright_local.pulumi_aws.schema import (
    AutoName,
    Property,
    Resource,
    Shape,
    flag,
    json_text,
    number,
    output,
    policy,
    regional,
    tagged,
    text,
)
from nodewright_local.pulumi_aws.values import Values

# Defaults of CreateQueue, from the SQS API reference.
_ATTRIBUTES = {
    "delaySeconds": ("DelaySeconds", number(default=0)),
    "maxMessageSize": ("MaximumMessageSize", number(default=262144)),
    "messageRetentionSeconds": ("MessageRetentionPeriod", number(default=345600)),
    "receiveWaitTimeSeconds": ("ReceiveMessageWaitTimeSeconds", number(default=0)),
    "visibilityTimeoutSeconds": ("VisibilityTimeout", number(default=30)),
    "fifoQueue": ("FifoQueue", flag(replaces=True)),
    "contentBasedDeduplication": ("ContentBasedDeduplication", flag()),
    "deduplicationScope": ("DeduplicationScope", text(computed=True)),
    "fifoThroughputLimit": ("FifoThroughputLimit", text(computed=True)),
    "kmsMasterKeyId": ("KmsMasterKeyId", text()),
    "kmsDataKeyReusePeriodSeconds": ("KmsDataKeyReusePeriodSeconds", number(computed=True)),
    "sqsManagedSseEnabled": ("SqsManagedSseEnabled", flag(computed=True)),
    "policy": ("Policy", policy(computed=True)),
    "redrivePolicy": ("RedrivePolicy", json_text(computed=True)),
    "redriveAllowPolicy": ("RedriveAllowPolicy", json_text(computed=True)),
}


class Queue(Resource):
    """`aws.sqs.Queue`."""

    token = "aws:sqs/queue:Queue"
    identity = ("name",)
    autoname = AutoName(
        max_length=80, suffix=lambda inputs: ".fifo" if inputs.get("fifoQueue") else ""
    )
    properties = regional(
        tagged(
            {
                "name": text(replaces=True, computed=True),
                "namePrefix": text(replaces=True, write_only=True),
                **{name: prop for name, (_, prop) in _ATTRIBUTES.items()},
                "arn": output(),
                "url": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the queue, patient while a deleted one of that name holds it (60 s)."""
        attributes = {
            key: _wire(inputs[name])
            for name, (key, _) in _ATTRIBUTES.items()
            if inputs.get(name) is not None and not (key.startswith("Fifo") and not inputs[name])
        }
        if not inputs.get("fifoQueue"):
            attributes.pop("ContentBasedDeduplication", None)
        url: list[str] = []

        def make() -> None:
            answer = aws.call(
                "sqs",
                "create_queue",
                QueueName=inputs["name"],
                Attributes=attributes,
                tags=inputs.get("tags") or None,
            )
            url.append(str(answer["QueueUrl"]))

        aws.persist(
            ("AWS.SimpleQueueService.QueueDeletedRecently", "QueueDeletedRecently"),
            make,
            timeout_seconds=70,
        )
        return url[0]

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the queue's attributes and tags."""
        answer = aws.find("sqs", "get_queue_attributes", QueueUrl=ident, AttributeNames=["All"])
        if answer is None:
            return None
        live = answer.get("Attributes") or {}
        tags = aws.find("sqs", "list_queue_tags", QueueUrl=ident) or {}
        return {
            **{name: _parse(prop, live.get(key)) for name, (key, prop) in _ATTRIBUTES.items()},
            "name": live["QueueArn"].rsplit(":", 1)[1],
            "tagsAll": tags.get("Tags") or {},
            "arn": live["QueueArn"],
            "url": ident,
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Set the changed attributes; an empty text removes one."""
        attributes = {
            _ATTRIBUTES[name][0]: _wire(new.get(name)) for name in changed if name in _ATTRIBUTES
        }
        aws.call("sqs", "set_queue_attributes", QueueUrl=ident, Attributes=attributes)

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete the queue."""
        aws.call("sqs", "delete_queue", QueueUrl=ident)

    @override
    def retag(
        self, aws: Aws, ident: str, state: Values, put: dict[str, str], drop: list[str]
    ) -> None:
        """Set and remove tags."""
        if drop:
            aws.call("sqs", "untag_queue", QueueUrl=ident, TagKeys=drop)
        if put:
            aws.call("sqs", "tag_queue", QueueUrl=ident, Tags=put)


class QueuePolicy(Resource):
    """`aws.sqs.QueuePolicy`."""

    token = "aws:sqs/queuePolicy:QueuePolicy"
    identity = ("queueUrl",)
    properties = regional(
        {"queueUrl": text(required=True, replaces=True), "policy": policy(required=True)}
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Set the policy."""
        self._set(aws, inputs["queueUrl"], inputs["policy"])
        return str(inputs["queueUrl"])

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the policy; a queue without one has none."""
        answer = aws.find("sqs", "get_queue_attributes", QueueUrl=ident, AttributeNames=["Policy"])
        document = ((answer or {}).get("Attributes") or {}).get("Policy")
        return {"queueUrl": ident, "policy": document} if document else None

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Overwrite the policy."""
        self._set(aws, ident, new["policy"])

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Remove the policy."""
        self._set(aws, ident, "")

    def _set(self, aws: Aws, url: str, document: str) -> None:
        aws.call("sqs", "set_queue_attributes", QueueUrl=url, Attributes={"Policy": document})


def _wire(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse(prop: Property, value: str | None) -> Any:
    if value is None:
        return False if prop.shape is Shape.FLAG else None
    if prop.shape is Shape.FLAG:
        return value.lower() == "true"
    return int(value) if prop.shape is Shape.NUMBER else value


RESOURCES: tuple[Resource, ...] = (Queue(), QueuePolicy())
