"""InterruptionQueue: how AWS tells the controller that an instance is about to go."""

import json
from collections.abc import Sequence
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from nodewright.iam_documents import render
from nodewright.interruption_events import (
    MESSAGE_RETENTION_SECONDS,
    RULES,
    TARGET_ID,
    InterruptionRule,
    queue_policy,
)
from nodewright.ordering import after
from nodewright.validation import Check, check_cluster_name


class InterruptionQueueArgs(TypedDict):
    """Arguments of InterruptionQueue."""

    cluster_name: pulumi.Input[str]
    """Name of the EKS cluster; the queue gets the same name."""
    kms_key_id: NotRequired[pulumi.Input[str]]
    """KMS key that encrypts messages; it must let `events.amazonaws.com` use it. Default: a key
    that SQS manages."""


class InterruptionQueue(pulumi.ComponentResource):
    """An SQS queue, and the five EventBridge rules that fill it."""

    queue_name: pulumi.Output[str]
    """Name of the queue, the controller's `INTERRUPTION_QUEUE`."""
    queue_arn: pulumi.Output[str]
    """ARN of the queue."""
    queue_url: pulumi.Output[str]
    """URL of the queue."""
    rule_arns: pulumi.Output[Sequence[str]]
    """ARNs of the EventBridge rules."""

    def __init__(
        self, name: str, args: InterruptionQueueArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check = Check("InterruptionQueue", name)
        check.known_fields(args, InterruptionQueueArgs)
        check.required(args, ["cluster_name"])
        check_cluster_name(check, args["cluster_name"])
        super().__init__("nodewright:index:InterruptionQueue", name, None, opts)
        self._name = name
        self._child = pulumi.ResourceOptions(parent=self)
        key = args.get("kms_key_id")
        queue = aws.sqs.Queue(
            f"{name}-queue",
            name=args["cluster_name"],
            message_retention_seconds=MESSAGE_RETENTION_SECONDS,
            sqs_managed_sse_enabled=True if key is None else None,
            kms_master_key_id=key,
            opts=self._child,
        )
        policy = aws.sqs.QueuePolicy(
            f"{name}-policy",
            queue_url=queue.url,
            policy=queue.arn.apply(lambda arn: render(queue_policy(arn))),
            opts=self._child,
        )
        rules = [self._rule(rule, queue, policy) for rule in RULES]
        waits = [policy, *(target for _, target in rules)]
        self.queue_name = after(queue.name, waits)
        self.queue_arn = queue.arn
        self.queue_url = queue.url
        self.rule_arns = pulumi.Output.all(*(rule.arn for rule, _ in rules))
        self.register_outputs(
            {
                "queueName": self.queue_name,
                "queueArn": self.queue_arn,
                "queueUrl": self.queue_url,
                "ruleArns": self.rule_arns,
            }
        )

    def _rule(
        self, rule: InterruptionRule, queue: aws.sqs.Queue, policy: aws.sqs.QueuePolicy
    ) -> tuple[aws.cloudwatch.EventRule, aws.cloudwatch.EventTarget]:
        event_rule = aws.cloudwatch.EventRule(
            f"{self._name}-{rule.name}",
            description=rule.description,
            event_pattern=json.dumps(rule.pattern),
            opts=self._child,
        )
        target = aws.cloudwatch.EventTarget(
            f"{self._name}-{rule.name}",
            rule=event_rule.name,
            arn=queue.arn,
            target_id=TARGET_ID,
            # Events sent before the policy stands would be lost.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )
        return event_rule, target
