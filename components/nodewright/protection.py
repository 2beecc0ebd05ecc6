"""Keeps a stack from removing what holds data or identity.

Called once at the start of a stack; components know nothing of it.
"""

import pulumi

PROTECTED_TYPES = frozenset(
    {
        "aws:ec2/vpc:Vpc",
        "aws:eks/cluster:Cluster",
        "aws:kms/key:Key",
    }
)
"""Resources whose loss can't be undone by running the program again."""


def protect(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
    """Return the resource with `protect` set if it is one of those to keep."""
    if args.type_ not in PROTECTED_TYPES:
        return None
    options = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(protect=True))
    return pulumi.ResourceTransformResult(props=args.props, opts=options)


def register() -> None:
    """Protect those resources from here on; `pulumi state unprotect` lifts it one by one."""
    pulumi.runtime.register_resource_transform(protect)
