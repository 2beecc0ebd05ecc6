"""The package as other languages see it."""

import ast
import inspect
import json
import sys
from typing import Any

import pytest
from nodewright.provider import COMPONENTS, PACKAGE
from pulumi.provider.experimental.component import ComponentProvider

from tests import golden


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        ComponentProvider(COMPONENTS, PACKAGE, version="0.0.0").schema or ""
    )
    return loaded


def test_the_schema_is_as_reviewed(schema: dict[str, Any]) -> None:
    golden.check_json("components/schema.json", schema)


def test_every_component_is_offered_under_its_own_type_token(schema: dict[str, Any]) -> None:
    assert {f"nodewright:index:{c.__name__}" for c in COMPONENTS} == set(schema["resources"])


@pytest.mark.parametrize("component", COMPONENTS)
def test_the_type_token_in_the_constructor_is_the_one_of_the_schema(component: type) -> None:
    constructor = ast.parse(inspect.getsource(component))
    tokens = [
        node.value
        for node in ast.walk(constructor)
        if isinstance(node, ast.Constant) and str(node.value).startswith("nodewright:index:")
    ]

    assert [f"nodewright:index:{component.__name__}"] == tokens


def test_every_argument_and_output_is_described(schema: dict[str, Any]) -> None:
    bare = [
        f"{token}.{name}"
        for token, definition in {**schema["resources"], **schema["types"]}.items()
        for kind in ("inputProperties", "properties")
        for name, member in definition.get(kind, {}).items()
        if not member.get("description")
    ]

    assert bare == []


@pytest.mark.parametrize("component", COMPONENTS)
def test_component_modules_keep_their_annotations_as_types(component: type) -> None:
    # The schema is read off annotations without evaluating text.
    assert "annotations" not in vars(sys.modules[component.__module__])


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_declared_output_is_registered(component: type, schema: dict[str, Any]) -> None:
    source = inspect.getsource(component)
    registered = source[source.index("self.register_outputs(") :]

    for name in schema["resources"][f"nodewright:index:{component.__name__}"]["properties"]:
        assert f'"{name}":' in registered
