"""Refuses bad component arguments before anything is created.

A check looks only at values that are already known; an `Output` passes, and is judged later by
the part that needs it. Every error names the component, its field and the way out.
"""

import ipaddress
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pulumi


class InvalidArgumentError(ValueError):
    """An argument of a component can't be used; the message says what to write instead."""

    def __init__(self, where: str, field: str, problem: str, remedy: str) -> None:
        super().__init__(f"{where}: {field} {problem}; {remedy}")
        self.where = where
        self.field = field


def is_known(value: object) -> bool:
    """Tell whether a value can be judged now: it's given and isn't an `Output`."""
    return value is not None and not isinstance(value, pulumi.Output)


class Check:
    """The checks of one component's arguments, so that every error names that component."""

    def __init__(self, component: str, name: str) -> None:
        self.where = f"{component} {name!r}"

    def refuse(self, field: str, problem: str, remedy: str) -> InvalidArgumentError:
        """Return the error to raise."""
        return InvalidArgumentError(self.where, field, problem, remedy)

    def required(self, args: Mapping[str, Any], fields: Collection[str]) -> None:
        """Refuse arguments that lack one of these fields."""
        for field in fields:
            if args.get(field) is None:
                raise self.refuse(field, "is missing", "pass a value for it")

    def known_fields(self, args: Mapping[str, Any], args_type: type) -> None:
        """Refuse fields that the argument type doesn't have: a typo would be ignored silently."""
        fields = args_type.__annotations__
        for field in args:
            if field not in fields:
                raise self.refuse(
                    field, "is not an argument", f"use one of: {', '.join(sorted(fields))}"
                )

    def one_of(self, field: str, value: object, allowed: Sequence[str]) -> None:
        """Refuse a value outside a closed set."""
        if is_known(value) and value not in allowed:
            raise self.refuse(field, f"is {value!r}", f"use one of: {', '.join(allowed)}")

    def matches(self, field: str, value: object, pattern: str, example: str) -> None:
        """Refuse text that doesn't match the whole pattern."""
        if not is_known(value):
            return
        if not isinstance(value, str) or re.fullmatch(pattern, value) is None:
            raise self.refuse(field, f"is {value!r}", f"write it like {example}")

    def at_most(self, field: str, value: object, limit: int, remedy: str) -> None:
        """Refuse text longer than AWS or Kubernetes takes."""
        if isinstance(value, str) and len(value) > limit:
            raise self.refuse(
                field, f"{value!r} has {len(value)} characters, {limit} are allowed", remedy
            )

    def between(self, field: str, value: object, low: float, high: float) -> None:
        """Refuse a number outside an inclusive range."""
        if not is_known(value):
            return
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(field, f"is {value!r}", f"use a number from {low} to {high}")
        if not low <= value <= high:
            raise self.refuse(field, f"is {value}", f"use a number from {low} to {high}")

    def unique(self, field: str, values: Sequence[object]) -> None:
        """Refuse a list that names the same thing twice."""
        known = [value for value in values if is_known(value)]
        for value in known:
            if known.count(value) > 1:
                raise self.refuse(field, f"names {value!r} twice", "name each of them once")

    def cidrs(self, field: str, values: Sequence[object]) -> None:
        """Refuse anything that isn't an IPv4 network in canonical form."""
        for value in values:
            if not is_known(value):
                continue
            try:
                ipaddress.IPv4Network(str(value))
            except ValueError as error:
                raise self.refuse(
                    field, f"holds {value!r} ({error})", "write networks like 203.0.113.0/24"
                ) from error


CLUSTER_NAME = r"[0-9A-Za-z][0-9A-Za-z_-]*"
"""What EKS takes as a cluster name, up to 100 characters."""


def check_cluster_name(check: Check, value: object, field: str = "cluster_name") -> None:
    """Refuse a cluster name that EKS, SQS or IAM would refuse later.

    The node role is `KarpenterNodeRole-<cluster>` by contract and IAM allows 64 characters, so a
    cluster that runs Nodewright has at most 46 of them.
    """
    check.matches(field, value, CLUSTER_NAME, "platform-dev")
    check.at_most(
        field,
        value,
        64 - len("KarpenterNodeRole-"),
        "choose a shorter name: the node role is called KarpenterNodeRole-<cluster>",
    )
