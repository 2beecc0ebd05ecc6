"""Patterns and CEL fragments that several API models share.

Facts of the Kubernetes and Karpenter APIs in one place: what a label looks like, what a duration
looks like, which label domains belong to Karpenter. Every pattern is anchored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nodewright_controller.api.labels import (
    AWS_GROUP,
    AWS_LABELS,
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_TYPE,
    GROUP,
    INSTANCE_TENANCY,
    NODEPOOL,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
)

_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"

QUALIFIED_NAME: Final = rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*/)?{_NAME}$"
"""A label key or taint key: an optional lower-case DNS prefix and a name."""
LABEL_VALUE: Final = rf"^({_NAME})?$"
"""A label value; may be empty."""
QUANTITY: Final = (
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+(\.[0-9]*)?)?$"
)
"""An amount of a resource: 500m, 2, 4Gi."""

DURATION: Final = r"^([0-9]+(s|m|h))+$"
DURATION_OR_NEVER: Final = r"^(([0-9]+(s|m|h))+|Never)$"
BUDGET_DURATION: Final = r"^([0-9]+m|[0-9]+h([0-9]+m)?)(0s)?$"
"""Hours and minutes; a budget cannot be timed to the second."""
BUDGET_SCHEDULE: Final = (
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly)|[^\s@]\S*(\s+\S+){4})$"
)
BUDGET_NODES: Final = r"^((100|[0-9]{1,2})%|[0-9]+)$"

LABEL_VALUE_SCHEMA: Final = {"maxLength": 63, "pattern": LABEL_VALUE}

CORE_LABELS: Final = (CAPACITY_TYPE, NODEPOOL)
"""The keys of the karpenter.sh domain that users may name."""
OVERLAY_LABELS: Final = AWS_LABELS - {
    INSTANCE_TENANCY,
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_TYPE,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
}
"""The keys of the karpenter.k8s.aws domain that a NodeOverlay may name."""


def in_domain(variable: str, domain: str, allowed: Iterable[str]) -> str:
    """Return CEL that is true if `variable` lies in `domain`, or below it, and is not allowed."""
    keys = ", ".join(f"'{key}'" for key in sorted(allowed))
    pattern = domain.replace(".", "[.]")
    return f"({variable}.matches('^([^/]+[.])?{pattern}/') && !({variable} in [{keys}]))"


def restricted_core(variable: str) -> str:
    """Return CEL: the key belongs to Karpenter itself."""
    return in_domain(variable, GROUP, CORE_LABELS)


def restricted_aws(variable: str, allowed: Iterable[str] = AWS_LABELS) -> str:
    """Return CEL: the key claims to describe an instance type, but no such label exists."""
    return in_domain(variable, AWS_GROUP, allowed)
