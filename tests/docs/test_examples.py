"""The programs in docs/examples do what the docs say they do."""

import json
import runpy
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from tests import golden
from tests.components.conftest import Build, build, engine  # the fixtures
from tests.components.recorder import Recorder

__all__ = ["build", "engine"]
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CLUSTER = {
    "name": "blue",
    "endpoint": "https://blue.example",
    "certificateAuthorities": [{"data": "Y2E="}],
}


def test_the_python_example_makes_the_whole_autoscaler(
    engine: Recorder, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "call", known_cluster(engine.call))

    def program() -> None:
        pulumi.runtime.set_all_config(
            {"nodewright:clusterName": "blue", "nodewright:controllerImage": "registry.example/c:1"}
        )
        runpy.run_path(str(EXAMPLES / "existing_cluster.py"))

    build(program)

    made = {resource.type for resource in engine.resources}
    assert "kubernetes:apps/v1:Deployment" in made
    assert "kubernetes:karpenter.sh/v1:NodePool" in made
    assert "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass" in made
    assert "aws:sqs/queue:Queue" in made
    assert "aws:eks/cluster:Cluster" not in made


def known_cluster(call: Any) -> Any:
    def answer(args: Any) -> Any:
        return (CLUSTER, []) if args.token == "aws:eks/getCluster:getCluster" else call(args)

    return answer


def test_the_yaml_example_fits_the_schema() -> None:
    schema = json.loads((golden.ROOT / "components" / "schema.json").read_text("utf-8"))
    document = yaml.safe_load((EXAMPLES / "existing_cluster.yaml").read_text("utf-8"))
    for resource in document["resources"].values():
        package, name = resource["type"].split(":")
        component = schema["resources"][f"{package}:index:{name}"]
        check(resource["properties"], component["inputProperties"], schema["types"])
        assert set(component["requiredInputs"]) <= set(resource["properties"])
    for text in document["outputs"].values():
        name = text.removeprefix("${autoscaler.").removesuffix("}")
        assert name in schema["resources"]["nodewright:index:Autoscaler"]["properties"]


def check(given: dict[str, Any], known: dict[str, Any], types: dict[str, Any]) -> None:
    """Fail for a property that the schema does not know, at any depth."""
    for name, value in given.items():
        assert name in known, f"the schema knows no {name}; it knows {sorted(known)}"
        check_value(value, known[name], types)


def check_value(value: Any, member: dict[str, Any], types: dict[str, Any]) -> None:
    if "$ref" in member:
        check(value, types[member["$ref"].rsplit("/", 1)[-1]]["properties"], types)
    elif member.get("type") == "array":
        for item in value:
            check_value(item, member["items"], types)
