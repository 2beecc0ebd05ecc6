"""The way into moto's state: one backend per account and region.

moto's backends are used as a library of stateful objects. They are typed loosely, so `Any` lives
here and the callers name what they expect.
"""

import functools
import os
from typing import Any

from moto.backends import get_backend
from moto.core.base_backend import BackendDict


def set_account(account_id: str) -> None:
    """Make every call belong to one account, whatever its access key.

    Must be called before moto is first used. It also keeps moto from loading images of its own,
    which costs seconds and would stand beside the image ids of this package, and has it load the
    policies that AWS manages, since node roles attach them by ARN.
    """
    os.environ["MOTO_ACCOUNT_ID"] = account_id
    os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"


def account() -> str:
    """The account set by `set_account`."""
    return os.environ["MOTO_ACCOUNT_ID"]


@functools.cache
def _backends(service: Any) -> BackendDict[Any]:
    found: BackendDict[Any] = get_backend(service)
    return found


def _regional(service: str, region: str) -> Any:
    return _backends(service)[account()][region]


def ec2(region: str) -> Any:
    """Moto's EC2 of a region."""
    return _regional("ec2", region)


def sqs(region: str) -> Any:
    """Moto's SQS of a region."""
    return _regional("sqs", region)


def events(region: str) -> Any:
    """Moto's EventBridge of a region."""
    return _regional("events", region)


def logs(region: str) -> Any:
    """Moto's CloudWatch Logs of a region."""
    return _regional("logs", region)


def iam() -> Any:
    """Moto's IAM, which is one for all regions."""
    return _regional("iam", "aws")


def sts() -> Any:
    """Moto's STS, which is one for all regions."""
    return _regional("sts", "aws")


def reset() -> None:
    """Forget everything that moto holds (tests)."""
    for service in ("ec2", "sqs", "events", "iam", "sts", "ssm", "s3", "eks"):
        _backends(service).reset()
