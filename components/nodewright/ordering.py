"""Carries creation order inside values.

A neighbour that uses an output should wait for more than the resource the value came from: a node
group must not start before the private subnets have a route. Writing that order into the output
makes it hold for every user of the component, in every language, without `depends_on`.
"""

from collections.abc import Awaitable, Iterable
from typing import TypeVar, cast

import pulumi

T = TypeVar("T")


def after(value: pulumi.Output[T], resources: Iterable[pulumi.Resource]) -> pulumi.Output[T]:
    """Return the same value that also waits for these resources.

    Unlike `Output.all(...)` the value stays known in a preview that adds one of the resources, so
    a new route doesn't make a node group look replaced.
    """
    extra = set(resources)

    async def both() -> set[pulumi.Resource]:
        return await value.resources() | extra

    # Pulumi types the future as optional because an unknown value has none to give.
    future = cast(Awaitable[T], value.future())
    return pulumi.Output(both(), future, value.is_known(), value.is_secret())
