"""Our declarations against the installed pulumi-aws SDK: nothing is named that a program lacks."""

import warnings
from types import ModuleType
from typing import Any

import pytest
from nodewright_local.pulumi_aws import registry
from nodewright_local.pulumi_aws.schema import Resource

with warnings.catch_warnings():  # the SDK warns of its own deprecated types when it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    import pulumi_aws
    import pulumi_aws.ec2

    assert pulumi_aws.ec2.Vpc.__name__  # the SDK loads its modules when they are first looked into

every_type = pytest.mark.parametrize(
    "resource", registry.resources().values(), ids=lambda item: item.token
)


def sdk_class(token: str) -> tuple[ModuleType, Any]:
    _, path, name = token.split(":")
    module = getattr(pulumi_aws, path.split("/", maxsplit=1)[0])
    return module, getattr(module, name)


def wire_names(cls: type) -> set[str]:
    return {
        getattr(member.fget, "_pulumi_name", name)
        for name, member in vars(cls).items()
        if isinstance(member, property)
    }


@every_type
def test_every_type_is_spelled_as_the_sdk_sends_it(resource: Resource) -> None:
    _, cls = sdk_class(resource.token)

    assert cls.pulumi_type == resource.token


@every_type
def test_every_property_exists_in_the_sdk(resource: Resource) -> None:
    module, cls = sdk_class(resource.token)
    arguments = wire_names(getattr(module, f"{cls.__name__}Args"))
    inputs = {name for name, prop in resource.properties.items() if not prop.output}

    assert set(resource.properties) <= wire_names(cls)
    assert inputs <= arguments


@every_type
def test_every_output_that_only_aws_sets_is_an_output_of_the_sdk_too(
    resource: Resource,
) -> None:
    module, cls = sdk_class(resource.token)
    arguments = wire_names(getattr(module, f"{cls.__name__}Args"))
    outputs = {name for name, prop in resource.properties.items() if prop.output}

    assert outputs.isdisjoint(arguments)


@pytest.mark.parametrize("token", sorted(registry.functions()))
def test_every_function_exists_in_the_sdk(token: str) -> None:
    _, path, name = token.split(":")
    part = path.split("/", maxsplit=1)[0]
    module = pulumi_aws if part == "index" else getattr(pulumi_aws, part)
    snake = "".join(f"_{char.lower()}" if char.isupper() else char for char in name)

    assert callable(getattr(module, snake))
