"""EC2 as a scenario says it answers, and the settings and fields that a scenario may get wrong."""

from __future__ import annotations

from typing import Any

import pytest
from nodewright_controller.scenario.canned import answer, unreadable
from nodewright_controller.scenario.files import Documents
from nodewright_controller.scenario.loading import load_world
from nodewright_controller.scenario.matching import whole_number
from nodewright_controller.scenario.pod_fields import unknown_pod_fields
from nodewright_controller.scenario.schema_check import check_schema
from nodewright_controller.scenario.settings import options_of

NO_STOCK = "InsufficientInstanceCapacity"


def request(*places: tuple[str, str, float]) -> dict[str, Any]:
    overrides = [
        {
            "InstanceType": name,
            "AvailabilityZone": zone,
            "SubnetId": f"subnet-{zone}",
            "ImageId": "ami-1",
            "Priority": price,
        }
        for name, zone, price in places
    ]
    return {
        "TargetCapacitySpecification": {"DefaultTargetCapacityType": "on-demand"},
        "LaunchTemplateConfigs": [{"Overrides": overrides}],
        "TagSpecifications": [{"Tags": [{"Key": "karpenter.sh/nodepool", "Value": "apps"}]}],
    }


TWO = request(("m9.large", "b", 0.2), ("m9.large", "a", 0.1))


def test_the_cheapest_place_that_is_not_refused_is_launched() -> None:
    rules = {"onCreateFleet": [{"when": {"zone": "a"}, "error": NO_STOCK}]}

    found = answer(rules, TWO, 7).result

    assert found.instance is not None
    assert (found.instance.zone, found.instance.instance_id) == ("b", "i-00000000000000007")
    assert [(error.code, error.zone) for error in found.errors] == [(NO_STOCK, "a")]


@pytest.mark.parametrize(
    "when",
    [
        {},
        {"capacityType": "on-demand"},
        {"instanceType": ["m9.large", "m9.xlarge"]},
        {"subnetId": ["subnet-a", "subnet-b"]},
        {"nodePool": "apps"},
    ],
)
def test_a_rule_that_fits_every_place_fails_the_call(when: dict[str, Any]) -> None:
    found = answer({"onCreateFleet": [{"when": when, "error": NO_STOCK}]}, TWO, 1).result

    assert found.instance is None
    assert len(found.errors) == 2


def test_the_first_rule_that_fits_decides() -> None:
    rules = [{"when": {"zone": "a"}, "result": "launched"}, {"error": NO_STOCK}]

    found = answer({"onCreateFleet": rules}, TWO, 1).result

    assert found.instance is not None
    assert found.errors == ()


def test_a_node_joins_only_if_the_rule_says_so() -> None:
    joins = {"result": "launched", "joins": True, "allocatable": {"cpu": "1"}}

    assert answer({"onCreateFleet": [{"result": "launched"}]}, TWO, 1).joined is None
    found = answer({"onCreateFleet": [joins]}, TWO, 1).joined
    assert found is not None
    assert found.allocatable == {"cpu": "1"}


def test_what_is_not_understood_of_the_answers_is_named() -> None:
    rules = [{"when": {"colour": "red"}, "result": "perhaps", "size": 1}, "launch"]

    texts = " | ".join(unreadable({"onCreateFleet": rules, "regions": {}}))

    assert "spec.aws.regions: is not known" in texts
    assert "spec.aws.onCreateFleet[0].size: is not known" in texts
    assert "spec.aws.onCreateFleet[0].when.colour: is not known, so it never fits" in texts
    assert "spec.aws.onCreateFleet[0].result: 'perhaps' is not known" in texts
    assert "spec.aws.onCreateFleet[1]: must be a map" in texts


# Settings.


def gates(**settings: Any) -> set[str]:
    """The gates that are open, and what was said about the settings."""
    scenario = {"apiVersion": "test.local/v1", "kind": "Scenario", "spec": {"settings": settings}}
    options = options_of(load_world(Documents(name="case", bodies=(scenario,))))
    return {name for name, is_open in options.gates.items() if is_open} | set(options.warnings)


@pytest.mark.parametrize(
    "settings",
    [
        {"featureGates": {"NodeOverlay": True}},
        {"featureGates": {"nodeOverlay": "true", "reservedCapacity": True}},
        {"FEATURE_GATES": "NodeOverlay=true, SpotToSpotConsolidation=false"},
        {"--feature-gates": "NodeOverlay=true"},
        {"feature-gates": ["NodeOverlay=true"]},
    ],
)
def test_feature_gates_are_read_in_every_spelling(settings: dict[str, Any]) -> None:
    assert gates(**settings) == {"NodeOverlay", "ReservedCapacity"}


def test_a_feature_gate_that_does_not_exist_is_named() -> None:
    said = " | ".join(gates(featureGates="NodeOverlays=true"))

    assert "there is no feature gate NodeOverlays" in said


# Objects.


def test_the_schema_names_the_field_that_is_wrong() -> None:
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "spec": {
            "weight": 101,
            "limits": {"cpu": "many", "memory": 1.5},
            "disruption": {"consolidationPolicy": "Sometimes", "consolidateAfter": "30"},
            "template": {
                "spec": {
                    "expireAfter": None,
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"},
                    "requirements": [{"key": "a", "operator": "Near", "values": "b"}],
                    "taint": [],
                }
            },
        },
    }

    found = check_schema(pool)

    problems = " | ".join(found.problems)
    for text in (
        "spec.weight: must be at most 100, and is 101",
        "spec.disruption.consolidationPolicy: 'Sometimes' is not one of",
        "spec.disruption.consolidateAfter: '30' does not match",
        "spec.template.spec.nodeClassRef.name: must be given",
        "spec.template.spec.requirements[0].operator: 'Near' is not one of",
        "spec.template.spec.requirements[0].values: 'b' must be an array",
    ):
        assert text in problems
    assert "expireAfter" not in problems
    assert found.unknown == ("spec.template.spec.taint",)


def test_a_kind_without_a_schema_is_not_looked_at() -> None:
    assert check_schema({"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}}).unknown == ()


def test_misspelt_fields_of_pods_are_found_where_they_matter() -> None:
    term = {"topologyKey": "zone", "labelSelctor": {}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = {
        "kind": "Deployment",
        "spec": {
            "template": {
                "spec": {
                    "nodeSelctor": {},
                    "affinity": affinity,
                    "containers": [{"resources": {"request": {}}, "env": [{"whatever": 1}]}],
                }
            }
        },
    }

    assert [path.removeprefix("spec.template.spec.") for path in unknown_pod_fields(pod)] == [
        "nodeSelctor",
        "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelctor",
        "containers[0].resources.request",
    ]


@pytest.mark.parametrize(("text", "number"), [(2, 2), ("2", 2), (2.0, 2), ("0", 0)])
def test_a_count_may_be_written_as_text(text: Any, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", [True, -1, 1.5, "two", None, [1]])
def test_what_is_no_count_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="is no count"):
        whole_number(text)
