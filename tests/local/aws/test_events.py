"""EC2 events reach SQS queues through the rules that boto3 put there."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.local.aws.account import Account, eventually

STATE_CHANGE = "EC2 Instance State-change Notification"
SPOT = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"


class Queue:
    """A queue behind rules."""

    def __init__(self, account: Account, name: str) -> None:
        self._account = account
        self._events = account.client("events")
        self.name = name
        self.url = account.sqs.create_queue(QueueName=name)["QueueUrl"]
        attributes = account.sqs.get_queue_attributes(
            QueueUrl=self.url, AttributeNames=["QueueArn"]
        )
        self.arn = attributes["Attributes"]["QueueArn"]
        self.rules: list[str] = []

    def rule(self, pattern: dict[str, Any]) -> None:
        """Send what matches `pattern` to the queue."""
        name = f"{self.name}-{len(self.rules)}"
        self._events.put_rule(Name=name, EventPattern=json.dumps(pattern))
        self._events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": self.arn}])
        self.rules.append(name)

    def receive(self, wait: int = 0) -> list[dict[str, Any]]:
        """Take what is there."""
        answer = self._account.sqs.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=10, WaitTimeSeconds=wait
        )
        for message in answer.get("Messages", []):
            self._account.sqs.delete_message(
                QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"]
            )
        return [json.loads(message["Body"]) for message in answer.get("Messages", [])]

    def gather(self, count: int, instance_id: str = "") -> list[dict[str, Any]]:
        """Take messages until there are `count`; other instances than the named one are passed over."""
        seen: list[dict[str, Any]] = []

        def enough() -> bool:
            told = self.receive()
            seen.extend(e for e in told if instance_id in ("", e["detail"].get("instance-id")))
            return len(seen) >= count

        eventually(enough)
        return seen

    def close(self) -> None:
        """Remove rules and queue."""
        for name in self.rules:
            self._events.remove_targets(Rule=name, Ids=["queue"])
            self._events.delete_rule(Name=name)
        self._account.sqs.delete_queue(QueueUrl=self.url)


@pytest.fixture
def queue(account: Account, request: pytest.FixtureRequest) -> Iterator[Queue]:
    made = Queue(account, request.node.name[:70])
    yield made
    made.close()


def test_each_change_of_state_is_told(account: Account, queue: Queue) -> None:
    queue.rule({"source": ["aws.ec2"], "detail-type": [STATE_CHANGE]})
    instance_id = account.launch()
    eventually(lambda: account.state(instance_id) == "running")
    account.ec2.terminate_instances(InstanceIds=[instance_id])

    seen = queue.gather(4, instance_id)

    # A standard queue keeps no order.
    states = {event["detail"]["state"] for event in seen}
    assert states == {"pending", "running", "shutting-down", "terminated"}
    event = seen[0]
    assert (event["version"], event["source"], event["account"]) == (
        "0",
        "aws.ec2",
        "123456789012",
    )
    assert event["resources"] == [f"arn:aws:ec2:us-west-2:123456789012:instance/{instance_id}"]


def test_a_pattern_on_the_detail_is_respected(account: Account, queue: Queue) -> None:
    queue.rule(
        {
            "source": ["aws.ec2"],
            "detail-type": [STATE_CHANGE],
            "detail": {"state": ["terminated"]},
        }
    )
    instance_id = account.launch()
    account.ec2.terminate_instances(InstanceIds=[instance_id])

    (event,) = eventually(queue.receive)

    assert event["detail"]["state"] == "terminated"


def test_a_rule_of_another_source_stays_silent(account: Account, queue: Queue) -> None:
    queue.rule({"source": ["aws.health"], "detail-type": ["AWS Health Event"]})
    instance_id = account.launch()
    eventually(lambda: account.state(instance_id) == "running")

    assert queue.receive() == []


def test_a_spot_interruption_warns_and_then_takes_the_instance(
    account: Account, queue: Queue
) -> None:
    queue.rule({"source": ["aws.ec2"], "detail-type": [SPOT]})
    queue.rule({"source": ["aws.ec2"], "detail-type": [REBALANCE]})
    instance_id = account.launch(capacity_type="spot")
    eventually(lambda: account.state(instance_id) == "running")

    account.control("POST", "spot-interruption", {"instance_id": instance_id, "seconds": 0.3})

    seen = queue.gather(2)
    assert {event["detail-type"] for event in seen} == {SPOT, REBALANCE}
    (warning,) = [event for event in seen if event["detail-type"] == SPOT]
    assert warning["detail"] == {"instance-id": instance_id, "instance-action": "terminate"}
    eventually(lambda: account.state(instance_id) == "terminated")
    reason = account.instance(instance_id)["StateReason"]["Code"]
    assert reason == "Server.SpotInstanceTermination"


def test_an_event_of_another_service_can_be_sent(account: Account, queue: Queue) -> None:
    queue.rule({"source": ["aws.health"], "detail-type": ["AWS Health Event"]})
    detail = {"service": "EC2", "eventTypeCategory": "scheduledChange"}

    sent = account.control(
        "POST",
        "events",
        {"source": "aws.health", "detail_type": "AWS Health Event", "detail": detail},
    )

    (event,) = eventually(queue.receive)
    assert sent["delivered"] == 1
    assert event["detail"] == detail
    refused = account.control_response("POST", "events", {"source": "aws.health"})
    assert refused.json()["error"] == "the event lacks detail_type, detail"


def test_an_on_demand_instance_is_not_interrupted(account: Account) -> None:
    instance_id = account.launch()

    refused = account.control_response("POST", "spot-interruption", {"instance_id": instance_id})

    assert refused.status_code == 409
    assert instance_id in refused.json()["error"]


def test_a_long_poll_ends_when_a_message_comes_and_stops_nobody_else(
    account: Account, queue: Queue
) -> None:
    queue.rule({"source": ["aws.ec2"], "detail-type": [SPOT]})
    instance_id = account.launch(capacity_type="spot")
    started = time.monotonic()

    def later() -> None:
        time.sleep(0.4)
        account.control("POST", "spot-interruption", {"instance_id": instance_id})

    thread = threading.Thread(target=later)
    thread.start()
    received = queue.receive(wait=10)
    thread.join()

    assert [event["detail-type"] for event in received] == [SPOT]
    assert 0.3 < time.monotonic() - started < 5
