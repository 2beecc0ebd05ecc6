"""What the generated schemas must be, whatever the models say in detail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from nodewright_controller.api.codec import to_wire
from nodewright_controller.api.crds import SERVED, crds
from nodewright_controller.api.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.schema import object_schema

Schema = dict[str, Any]
MODELS = [model for served in SERVED for model in served.models]


def walk(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from walk(schema[name], f"{path}[]")


def at(schema: Schema, *path: str) -> Schema:
    for name in path:
        schema = schema["items"] if name == "[]" else schema["properties"][name]
    return schema


@pytest.mark.parametrize("model", MODELS)
def test_every_field_is_explained_in_a_sentence(model: type[KubeObject]) -> None:
    for path, schema in walk(object_schema(model)):
        if path == ".metadata" or path.endswith("[]"):
            continue
        assert schema.get("description", "").endswith("."), f"{path} has no sentence"


@pytest.mark.parametrize("model", MODELS)
def test_no_private_keyword_reaches_the_api_server(model: type[KubeObject]) -> None:
    for path, schema in walk(object_schema(model)):
        assert "required" not in schema or isinstance(schema["required"], list), path
        assert "type" in schema or schema.get("x-kubernetes-int-or-string"), path


def defaults(schema: Schema) -> Any:
    """What the API server fills into an empty object."""
    if "default" in schema:
        return schema["default"]
    filled = {name: defaults(child) for name, child in schema.get("properties", {}).items()}
    return {name: value for name, value in filled.items() if value not in (None, {})} or None


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (NodePool, ("spec", "template", "spec")),
        (NodePool, ("spec", "disruption")),
        (NodeClaim, ("spec",)),
        (EC2NodeClass, ("spec", "metadataOptions")),
    ],
)
def test_the_models_have_the_defaults_of_the_schema(
    model: type[KubeObject], path: tuple[str, ...]
) -> None:
    body: Any = msgspec.json.decode(
        b'{"spec": {"template": {"spec": {}}, "disruption": {}, "metadataOptions": {}}}', type=model
    )
    schema = at(object_schema(model), *path)
    for step in path:
        body = getattr(body, "metadata_options" if step == "metadataOptions" else step)
    python_names = {field.encode_name: field.name for field in msgspec.structs.fields(type(body))}

    for name, child in schema["properties"].items():
        if "default" in child:
            value = msgspec.to_builtins(getattr(body, python_names[name]))
            assert value in (child["default"], [{}]), f"{'.'.join(path)}.{name}"


def test_the_stored_versions_are_v1() -> None:
    for definition in crds()[:3]:
        versions = definition["spec"]["versions"]
        assert [(one["name"], one["served"], one["storage"]) for one in versions] == [
            ("v1", True, True),
            ("v1beta1", True, False),
        ]
        conversion = definition["spec"]["conversion"]
        assert conversion["strategy"] == "Webhook"
        assert conversion["webhook"]["conversionReviewVersions"] == ["v1"]
        assert conversion["webhook"]["clientConfig"]["service"] == {
            "namespace": "karpenter",
            "name": "karpenter",
            "port": 8443,
            "path": "/convert",
        }


def test_names_are_those_that_users_type() -> None:
    names = {definition["metadata"]["name"]: definition["spec"]["names"] for definition in crds()}

    assert all(one["categories"] == ["karpenter"] for one in names.values())
    assert names["ec2nodeclasses.karpenter.k8s.aws"]["shortNames"] == ["ec2nc", "ec2ncs"]
    assert names["nodeoverlays.karpenter.sh"]["shortNames"] == ["overlays"]


def test_the_kubelet_section_keeps_what_it_does_not_know() -> None:
    kubelet = at(object_schema(EC2NodeClass), "spec", "kubelet")

    assert kubelet["x-kubernetes-preserve-unknown-fields"] is True


def test_limits_are_numbers_or_quantities() -> None:
    limits = at(object_schema(NodePool), "spec", "limits")

    assert limits["additionalProperties"]["x-kubernetes-int-or-string"] is True


def test_every_field_of_a_node_class_reaches_the_schema() -> None:
    names = {field.encode_name for field in msgspec.structs.fields(EC2NodeClassSpec)}

    assert names == set(at(object_schema(EC2NodeClass), "spec")["properties"])


def test_demanded_lists_are_written_even_when_empty() -> None:
    assert to_wire(NodeClaim())["spec"]["requirements"] == []
    assert to_wire(NodePool())["spec"]["template"]["spec"]["requirements"] == []
