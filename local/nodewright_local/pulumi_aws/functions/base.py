"""What a function (data source) is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from nodewright_local.pulumi_aws.aws import Aws
from nodewright_local.pulumi_aws.schema import Property
from nodewright_local.pulumi_aws.values import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a function returns."""

    values: Values
    secrets: frozenset[str] = frozenset()
    """Names of the values that must not be shown."""


class Function(ABC):
    """A read-only function; `inputs` are its accepted arguments."""

    token: ClassVar[str]
    inputs: ClassVar[Mapping[str, Property]] = {}

    @abstractmethod
    def call(self, aws: Aws, args: Values) -> Result:
        """Compute the result; raises `AwsError`."""
