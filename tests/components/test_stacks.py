"""The one program: configuration, and what each environment consists of."""

import json
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from stacks import config
from stacks.config import ConfigError, StackConfig
from stacks.program import program
from tests import golden
from tests.components.conftest import Build
from tests.components.recorder import Recorder

ROOT = Path(__file__).resolve().parents[2]
# What a stack's file leaves to whoever brings it up.
BY_HAND: dict[str, dict[str, Any]] = {
    "local": {"nodewright:webhookUrl": "https://127.0.0.1:9443/convert"},
    "dev": {
        "nodewright:controllerImage": "registry.example/controller@sha256:0",
        "nodewright:publicAccessCidrs": ["203.0.113.7/32"],
    },
    "prod": {"nodewright:controllerImage": "registry.example/controller@sha256:0"},
}
STACKS = sorted(BY_HAND)


def as_text(given: Any) -> str:
    """Return a configuration value as the engine passes it to a program."""
    return given if isinstance(given, str) else json.dumps(given)


def settings_of(stack: str) -> dict[str, str]:
    path = ROOT / "stacks" / f"Pulumi.{stack}.yaml"
    from_file = yaml.safe_load(path.read_text("utf-8"))["config"]
    return {key: as_text(given) for key, given in {**from_file, **BY_HAND[stack]}.items()}


def load(values: dict[str, Any]) -> StackConfig:
    texts = {key: as_text(given) for key, given in values.items()}
    return config.load(texts.get, [f"nodewright:{key}" for key in texts])


def minimal(**more: Any) -> dict[str, Any]:
    return {"clusterName": "demo", "controllerImage": "registry.example/c:1", **more}


def run(build: Build, stack: str) -> None:
    def configured() -> None:
        pulumi.runtime.set_all_config(settings_of(stack))
        program()

    build(configured)


@pytest.mark.parametrize("stack", STACKS)
def test_each_stack_consists_of_the_reviewed_resources(
    engine: Recorder, build: Build, stack: str
) -> None:
    run(build, stack)

    graph = sorted(f"{resource.type} {resource.name}" for resource in engine.resources)
    golden.check_text(f"components/stack-{stack}.txt", "\n".join(graph) + "\n")


@pytest.mark.parametrize("stack", STACKS)
def test_exactly_one_security_group_can_be_discovered(
    engine: Recorder, build: Build, stack: str
) -> None:
    run(build, stack)

    groups = engine.of_type("aws:ec2/securityGroup:SecurityGroup")
    tagged = [g for g in groups if "karpenter.sh/discovery" in g.inputs.get("tags", {})]
    assert len(tagged) == 1


@pytest.mark.parametrize("stack", STACKS)
def test_each_stack_tags_what_it_makes(engine: Recorder, build: Build, stack: str) -> None:
    run(build, stack)

    args = pulumi.ResourceTransformArgs(
        custom=True,
        type_="aws:sqs/queue:Queue",
        name="q",
        props={},
        opts=pulumi.ResourceOptions(),
    )
    results = [transform(args) for transform in engine.transforms]
    tags = [result.props["tags"] for result in results if result is not None]
    assert [{"environment": stack}] == tags


def test_production_protects_and_others_do_not(engine: Recorder, build: Build) -> None:
    run(build, "prod")

    assert len(engine.transforms) == 2
    assert not load_stack("dev").protect
    assert not load_stack("local").protect


def load_stack(stack: str) -> StackConfig:
    values = settings_of(stack)
    return config.load(lambda key: values.get(f"nodewright:{key}"), list(values))


def test_production_is_private_and_survives_a_zone(engine: Recorder, build: Build) -> None:
    run(build, "prod")

    access = engine.only("aws:eks/cluster:Cluster").inputs["vpcConfig"]
    assert not access["endpointPublicAccess"]
    assert len(engine.of_type("aws:ec2/natGateway:NatGateway")) == 3
    assert {True} == {
        crd.retain_on_delete
        for crd in engine.of_type("kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition")
    }


def test_the_laptop_has_no_pool_of_its_own_and_a_webhook_by_address(
    engine: Recorder, build: Build
) -> None:
    run(build, "local")

    assert engine.of_type("kubernetes:karpenter.sh/v1:NodePool") == []
    crd = engine.named(
        "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition",
        "autoscaler-crds-nodepools.karpenter.sh",
    )
    client = crd.inputs["spec"]["conversion"]["webhook"]["clientConfig"]
    assert client == {"url": "https://127.0.0.1:9443/convert"}
    spec = engine.only("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    variables = {entry["name"]: entry.get("value") for entry in spec["containers"][0]["env"]}
    assert "127.0.0.1" in str(variables["WEBHOOK_HOSTS"]).split(",")
    assert spec["containers"][0]["image"] == "nodewright-controller:local"


def test_the_project_names_the_program_and_how_to_run_it() -> None:
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text("utf-8"))

    assert project["name"] == "nodewright"
    assert (ROOT / project["main"] / "__main__.py").exists()
    assert (ROOT / project["stackConfigDir"] / "Pulumi.local.yaml").exists()
    assert project["runtime"]["options"] == {"toolchain": "pip", "virtualenv": ".venv"}


def test_defaults_hold_where_a_stack_is_silent() -> None:
    settings = load(minimal())

    assert (
        settings.vpc_cidr,
        settings.zone_count,
        settings.nat,
        settings.public_access,
    ) == ("10.0.0.0/16", 3, "single", False)


def test_lists_maps_numbers_and_booleans_are_read() -> None:
    settings = load(
        minimal(zones=["a", "b"], tags={"team": "x"}, coreNodeCount="4", protect="true")
    )

    assert settings.zones == ("a", "b")
    assert settings.tags == {"team": "x"}
    assert settings.core_node_count == 4
    assert settings.protect


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"controllerImage": "x"}, "nodewright:clusterName is missing; set it with `pulumi config"),
        ({"clusterName": "x"}, "nodewright:controllerImage is missing; set it with"),
        (minimal(protect="yes"), "nodewright:protect is 'yes'; write true or false"),
        (minimal(coreNodeCount="two"), "nodewright:coreNodeCount is 'two'; write a whole number"),
        (minimal(zones="us-west-2a"), r"nodewright:zones is 'us-west-2a'; write a list"),
        (minimal(zones=[1]), r"nodewright:zones is '\[1\]'; write a list of texts"),
        (minimal(tags=["a"]), "nodewright:tags is .* write a map of texts"),
        (minimal(publicAccess="true"), "nodewright:publicAccessCidrs is empty while publicAccess"),
        (
            minimal(clusterNam="x"),
            r"nodewright:clusterNam is not a setting; did you mean clusterName\?",
        ),
        (minimal(colour="red"), "nodewright:colour is not a setting; use one of: clusterName"),
    ],
)
def test_a_bad_setting_is_refused_with_its_key_and_the_way_out(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(values)


def test_settings_of_other_packages_are_none_of_our_business() -> None:
    values = minimal()

    assert config.load(values.get, ["aws:region", "nodewright:clusterName"]).cluster_name == "demo"


def test_a_bad_setting_makes_nothing(engine: Recorder, build: Build) -> None:
    def configured() -> None:
        pulumi.runtime.set_all_config({**settings_of("local"), "nodewright:nat": "two"})
        program()

    with pytest.raises(ValueError, match="Network 'network': nat is 'two'"):
        build(configured)
    assert engine.resources == []
