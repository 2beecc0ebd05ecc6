"""Puts a stack's tags on every AWS resource that can carry tags.

Called once at the start of a stack; components know nothing of it. A tag that a component sets
itself wins, so the discovery tag stays on the one security group and the subnets that own it.
"""

import functools
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import pulumi

RESERVED_PREFIXES = ("aws:", "eks:", "karpenter.sh/", "karpenter.k8s.aws/", "kubernetes.io/")
"""Tag keys that AWS, EKS, Kubernetes or the controller give a meaning to."""
MOST_TAGS = 40
"""AWS allows 50 per resource; the rest is left for the components and for EKS."""


class ReservedTagError(ValueError):
    """A stack-wide tag would change what the cluster finds by its tags."""


def check_tags(tags: Mapping[str, str]) -> None:
    """Raise `ReservedTagError` for a tag that must not be on every resource."""
    for key in tags:
        if not key or key.startswith(RESERVED_PREFIXES):
            raise ReservedTagError(
                f"tag {key!r} can't be put on every resource: keys that start with "
                f"{', '.join(RESERVED_PREFIXES)} select resources or belong to AWS; "
                "choose another key"
            )
    if len(tags) > MOST_TAGS:
        raise ReservedTagError(f"{len(tags)} stack tags are too many; use at most {MOST_TAGS}")


@functools.cache
def is_taggable(type_token: str) -> bool:
    """Tell from a type token such as `aws:ec2/vpc:Vpc` whether the resource takes `tags`."""
    package, _, rest = type_token.partition(":")
    module, _, class_name = rest.partition(":")
    if package != "aws":
        return False
    try:
        # The Python module of aws:ec2/vpc:Vpc is pulumi_aws.ec2.
        resource = getattr(
            importlib.import_module(f"pulumi_aws.{module.split('/')[0]}"), class_name
        )
        parameters = inspect.signature(resource._internal_init).parameters
    except (ImportError, AttributeError):
        return False
    return "tags" in parameters


def with_tags(type_token: str, props: Mapping[str, Any], tags: Mapping[str, str]) -> dict[str, Any]:
    """Return the resource's inputs with the stack's tags under its own."""
    if not is_taggable(type_token):
        return dict(props)
    own = props.get("tags")
    if isinstance(own, pulumi.Output):
        merged: Any = own.apply(lambda known: {**tags, **(known or {})})
    else:
        merged = {**tags, **(own or {})}
    return {**props, "tags": merged}


def register(tags: Mapping[str, str]) -> None:
    """Tag every taggable AWS resource that this program makes from here on.

    Raises `ReservedTagError` before anything is created.
    """
    check_tags(tags)
    if not tags:
        return

    def add_tags(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        if not is_taggable(args.type_):
            return None
        return pulumi.ResourceTransformResult(
            props=with_tags(args.type_, args.props, tags), opts=args.opts
        )

    pulumi.runtime.register_resource_transform(add_tags)
