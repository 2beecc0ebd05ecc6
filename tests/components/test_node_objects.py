"""NodePool and EC2NodeClass: arguments, objects, and agreement with the CRDs."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, get_args, is_typeddict

import jsonschema
import pulumi
import pytest
from nodewright.ec2_node_class import EC2NodeClass, EC2NodeClassArgs, ec2_node_class_spec
from nodewright.manifests import camel_case, merge, to_manifest
from nodewright.node_pool import NodePool, NodePoolArgs, node_pool_spec
from nodewright.validation import InvalidArgumentError
from nodewright_templates import crds

from tests.components import arguments
from tests.components.conftest import Build
from tests.components.recorder import Recorder

# Of our own, not of the API.
OURS = {"name", "specOverrides"}
# Kubernetes' own, written by it alone.
SET_BY_KUBERNETES = {"template.spec.taints.timeAdded", "template.spec.startupTaints.timeAdded"}


def v1_schema(crd: str) -> dict[str, Any]:
    versions = crds.load()[crd]["spec"]["versions"]
    version = next(v for v in versions if v["name"] == "v1")
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def typed_dict_of(hint: Any) -> type | None:
    """Return the TypedDict inside an annotation such as `NotRequired[Sequence[X]]`."""
    if is_typeddict(hint):
        return hint  # type: ignore[no-any-return]
    return next((found for arg in get_args(hint) if (found := typed_dict_of(arg))), None)


def argument_paths(args: type, prefix: str = "") -> Iterator[str]:
    """Return the API path of every argument, depth first."""
    for field, hint in inspect.get_annotations(args).items():
        path = f"{prefix}{camel_case(field)}"
        yield path
        nested = typed_dict_of(hint)
        if nested is not None:
            yield from argument_paths(nested, f"{path}.")


def schema_paths(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Return the path of every field of a schema; a list counts as its items."""
    inner = schema.get("items", schema)
    for field, below in inner.get("properties", {}).items():
        yield f"{prefix}{field}"
        yield from schema_paths(below, f"{prefix}{field}.")


@pytest.mark.parametrize(
    ("args", "crd"),
    [
        (NodePoolArgs, "nodepools.karpenter.sh"),
        (EC2NodeClassArgs, "ec2nodeclasses.karpenter.k8s.aws"),
    ],
)
def test_arguments_and_definition_name_the_same_fields(args: type, crd: str) -> None:
    of_api = set(schema_paths(v1_schema(crd))) - SET_BY_KUBERNETES
    of_arguments = {path for path in argument_paths(args) if path not in OURS}

    assert of_api == of_arguments


def test_a_node_pool_fills_in_what_the_api_requires() -> None:
    spec = node_pool_spec({"template": {"spec": {"node_class_ref": {"name": "default"}}}})

    assert spec == {
        "template": {
            "spec": {
                "nodeClassRef": {
                    "group": "karpenter.k8s.aws",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "requirements": [],
            }
        }
    }


def test_a_full_node_pool_is_valid_by_its_definition() -> None:
    args = arguments.node_pool(
        disruption={
            "consolidation_policy": "WhenEmpty",
            "consolidate_after": "30s",
            "budgets": [{"nodes": "10%"}, {"nodes": "0", "schedule": "@daily", "duration": "8h"}],
        },
        limits={"cpu": "100", "memory": "400Gi"},
        weight=10,
    )

    jsonschema.validate(node_pool_spec(args), v1_schema("nodepools.karpenter.sh"))


def test_a_full_node_class_is_valid_by_its_definition() -> None:
    args = arguments.node_class(
        block_device_mappings=[
            {
                "device_name": "/dev/xvda",
                "root_volume": True,
                "ebs": {"volume_size": "100Gi", "volume_type": "gp3", "kms_key_id": "key"},
            }
        ],
        metadata_options={"http_protocol_ipv6": "disabled", "http_put_response_hop_limit": 1},
        kubelet={"maxPods": 42, "clusterDNS": ["10.0.0.10"]},
        associate_public_ip_address=False,
        tags={"team_name": "a"},
    )
    spec = ec2_node_class_spec(args)

    jsonschema.validate(spec, v1_schema("ec2nodeclasses.karpenter.k8s.aws"))
    assert spec["blockDeviceMappings"][0]["ebs"]["kmsKeyID"] == "key"
    assert spec["kubelet"] == {"maxPods": 42, "clusterDNS": ["10.0.0.10"]}
    assert spec["tags"] == {"team_name": "a"}


def test_overrides_are_laid_over_last() -> None:
    spec = node_pool_spec(
        arguments.node_pool(weight=10, spec_overrides={"weight": 20, "disruption": {"x": 1}})
    )

    assert spec["weight"] == 20
    assert spec["disruption"] == {"x": 1}


def test_maps_merge_and_everything_else_is_replaced() -> None:
    assert merge({"a": {"b": 1}, "d": [1, 2]}, {"a": {"c": 2}, "d": [3]}) == {
        "a": {"b": 1, "c": 2},
        "d": [3],
    }


def test_fields_that_are_none_are_left_out() -> None:
    assert to_manifest({"a": [{"b_c": 1, "d": None}], "e": None}) == {"a": [{"bC": 1}]}


def test_the_objects_are_created_under_their_names(engine: Recorder, build: Build) -> None:
    def program() -> None:
        EC2NodeClass("class", arguments.node_class())
        NodePool("pool", arguments.node_pool())

    build(program)
    pool = engine.only("kubernetes:karpenter.sh/v1:NodePool")
    node_class = engine.only("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass")
    assert pool.inputs["metadata"]["name"] == "general"
    assert node_class.inputs["metadata"]["name"] == "default"
    assert node_class.inputs["spec"]["role"] == "KarpenterNodeRole-demo"


def requirement(**more: Any) -> dict[str, Any]:
    return {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"], **more}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (arguments.node_pool(weight=0), "weight is 0; use a number from 1 to 100"),
        (arguments.node_pool(weight=5, replicas=1), "weight is given beside replicas"),
        (arguments.node_pool(replicas=1, limits={"cpu": "1"}), "limits names resources beside"),
        (arguments.node_pool(template={}), "template.spec is missing"),
        (arguments.node_pool(template={"spec": {}}), "node_class_ref names no class"),
        (
            arguments.pool_with(requirements=[requirement(operator="Is")]),
            r"template.spec.requirements\[0\].operator is 'Is'; use one of: In",
        ),
        (
            arguments.pool_with(requirements=[requirement(values=[])]),
            r"requirements\[0\].values is empty; name at least one value for In",
        ),
        (
            arguments.pool_with(requirements=[requirement(operator="Exists")]),
            r"requirements\[0\].values is given for Exists; leave it out",
        ),
        (
            arguments.pool_with(requirements=[requirement(operator="Gt", values=["4", "5"])]),
            r"requirements\[0\].values is \['4', '5'\] for Gt",
        ),
        (
            arguments.pool_with(requirements=[requirement(min_values=2)]),
            r"requirements\[0\].min_values is 2 with 1 values",
        ),
        (
            arguments.pool_with(requirements=[requirement(key="karpenter.sh/nodepool")]),
            r"requirements\[0\].key is 'karpenter.sh/nodepool'; leave it out",
        ),
        (arguments.pool_with(taints=[{"key": "a", "effect": "Never"}]), "effect is 'Never'"),
        (arguments.pool_with(expire_after="30d"), "expire_after is '30d'; write it like 720h"),
        (
            arguments.pool_with(termination_grace_period="Never"),
            "termination_grace_period is 'Never'; write it like 48h",
        ),
        (
            arguments.node_pool(disruption={"consolidation_policy": "WhenUnderutilized"}),
            "disruption.consolidation_policy is 'WhenUnderutilized'; use one of: WhenEmpty",
        ),
        (
            arguments.node_pool(disruption={"budgets": [{"nodes": "110%"}]}),
            r"disruption.budgets\[0\].nodes is '110%'; write it like 10%",
        ),
        (
            arguments.node_pool(disruption={"budgets": [{"nodes": "1", "duration": "8h"}]}),
            r"disruption.budgets\[0\] has one of schedule and duration; give both",
        ),
        (arguments.node_pool(name="Big"), "name is 'Big'; write it like general-purpose"),
    ],
)
def test_a_bad_node_pool_is_refused_before_anything_is_made(
    engine: Recorder, build: Build, args: NodePoolArgs, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"NodePool 'pool': .*{message}"):
        build(lambda: NodePool("pool", args))
    assert engine.resources == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (arguments.node_class(instance_profile="p"), "role and instance_profile: exactly one"),
        (arguments.node_class(role=None), "role and instance_profile: exactly one"),
        (arguments.node_class(subnet_selector_terms=[]), "subnet_selector_terms is empty"),
        (arguments.node_class(subnet_selector_terms=[{}]), r"terms\[0\] selects nothing; use one"),
        (
            arguments.node_class(security_group_selector_terms=[{"id": "sg-1", "name": "a"}]),
            r"security_group_selector_terms\[0\] mixes id and name; make a term of each",
        ),
        (
            arguments.node_class(ami_selector_terms=[{"alias": "al2023"}]),
            "ami_selector_terms.alias is 'al2023'; write family@version",
        ),
        (
            arguments.node_class(ami_selector_terms=[{"alias": "windows2022@v1"}]),
            "alias is 'windows2022@v1'; use windows2022@latest",
        ),
        (
            arguments.node_class(ami_selector_terms=[{"alias": "al2023@latest"}, {"id": "ami-1"}]),
            "has terms beside an alias",
        ),
        (arguments.node_class(ami_family="Bottlerocket"), "is 'Bottlerocket' beside the alias"),
        (arguments.node_class(ami_selector_terms=[{"id": "ami-1"}]), "ami_family is missing"),
        (arguments.node_class(tags={"karpenter.sh/nodepool": "x"}), "tags sets 'karpenter.sh/nod"),
        (
            arguments.node_class(block_device_mappings=[{"ebs": {"volume_size": "100"}}]),
            r"block_device_mappings\[0\].ebs.volume_size is '100'; write it like 100Gi",
        ),
        (
            arguments.node_class(metadata_options={"http_tokens": "yes"}),
            "metadata_options.http_tokens is 'yes'; use one of: required, optional",
        ),
    ],
)
def test_a_bad_node_class_is_refused_before_anything_is_made(
    engine: Recorder, build: Build, args: EC2NodeClassArgs, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"EC2NodeClass 'class': .*{message}"):
        build(lambda: EC2NodeClass("class", args))
    assert engine.resources == []


def test_a_value_that_is_not_known_yet_passes_the_checks(engine: Recorder, build: Build) -> None:
    build(
        lambda: EC2NodeClass(
            "class",
            arguments.node_class(role=pulumi.Output.from_input("KarpenterNodeRole-demo")),
        )
    )

    node_class = engine.only("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass")
    assert node_class.inputs["spec"]["role"] == "KarpenterNodeRole-demo"
