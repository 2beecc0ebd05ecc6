"""Every resource type and function that this provider knows, by token."""

from collections.abc import Iterable, Mapping
from functools import cache

from nodewright_local.pulumi_aws.functions import account, clusters, parameters, policy_document
from nodewright_local.pulumi_aws.functions.base import Function
from nodewright_local.pulumi_aws.resources import (
    ec2_addresses,
    ec2_endpoints,
    ec2_network,
    ec2_routing,
    ec2_rules,
    ec2_security_group,
    eks_access,
    eks_addons,
    eks_capacity,
    eks_cluster,
    events,
    iam_policies,
    iam_roles,
    kms,
    logs,
    sqs,
)
from nodewright_local.pulumi_aws.schema import Resource

_RESOURCE_MODULES = (
    ec2_network,
    ec2_routing,
    ec2_addresses,
    ec2_security_group,
    ec2_rules,
    ec2_endpoints,
    iam_roles,
    iam_policies,
    eks_cluster,
    eks_access,
    eks_capacity,
    eks_addons,
    sqs,
    events,
    logs,
    kms,
)
_FUNCTION_MODULES = (account, clusters, parameters, policy_document)


class UnsupportedTokenError(LookupError):
    """A resource type or function that this provider does not implement."""

    def __init__(self, kind: str, token: str, known: Iterable[str]) -> None:
        super().__init__(
            f"{kind} {token!r} is not supported by this AWS provider of the laptop cluster; "
            f"supported here: {', '.join(sorted(known))}"
        )


@cache
def resources() -> Mapping[str, Resource]:
    """Return the handlers by type token."""
    return {item.token: item for module in _RESOURCE_MODULES for item in module.RESOURCES}


@cache
def functions() -> Mapping[str, Function]:
    """Return the functions by token."""
    return {item.token: item for module in _FUNCTION_MODULES for item in module.FUNCTIONS}


def resource(token: str) -> Resource:
    """Return the handler of a type; `UnsupportedTokenError` names an unknown one."""
    try:
        return resources()[token]
    except KeyError:
        raise UnsupportedTokenError("resource type", token, resources()) from None


def function(token: str) -> Function:
    """Return a function; `UnsupportedTokenError` names an unknown one."""
    try:
        return functions()[token]
    except KeyError:
        raise UnsupportedTokenError("function", token, functions()) from None
