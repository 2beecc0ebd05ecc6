"""What the API server lets through and the controller must name."""
# ruff: noqa: E501 - tables read better with a case on a line

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.api.nodepool import NodePool
from nodewright_controller.api.validation import (
    validate_node_claim,
    validate_node_class,
    validate_nodepool,
)

Json = dict[str, Any]
REFERENCE = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def pool(template: Json | None = None, labels: Json | None = None, **spec: Any) -> NodePool:
    template_spec = {"requirements": [], "nodeClassRef": REFERENCE, **(template or {})}
    body = {"spec": {"template": {"metadata": {"labels": labels}, "spec": template_spec}, **spec}}
    return msgspec.convert(body, NodePool)


def requiring(key: str, operator: str, *values: str, least: int | None = None) -> NodePool:
    requirement = {"key": key, "operator": operator, "values": list(values), "minValues": least}
    return pool({"requirements": [requirement]})


def node_class(**spec: Any) -> EC2NodeClass:
    body = {
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}],
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "node",
        **spec,
    }
    return msgspec.convert({"spec": body}, EC2NodeClass)


@pytest.mark.parametrize(
    "good",
    [
        pool(),
        pool(labels={"team": "a", "karpenter.k8s.aws/instance-family": "m5", "node-role.kubernetes.io/x": ""}),
        requiring("team", "NotIn"),
        requiring("karpenter.sh/capacity-type", "In", "spot", "no-such-type"),
        requiring("karpenter.k8s.aws/instance-cpu", "Gte", "4"),
        requiring("failure-domain.beta.kubernetes.io/zone", "In", "us-west-2a"),
        requiring("x", "In", "a", "b", least=2),
        pool(
            {
                "taints": [{"key": "a", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "a", "effect": "NoExecute"}],
                "expireAfter": "Never",
            },
            disruption={"budgets": [{"nodes": "10%", "schedule": "0 9 * * mon-fri", "duration": "8h"}]},
            limits={"cpu": "16", "memory": "64Gi", "nodes": 4},
        ),
    ],
)  # fmt: skip
def test_a_sound_nodepool_has_no_problems(good: NodePool) -> None:
    assert validate_nodepool(good) == []


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (pool(labels={"karpenter.sh/nodepool": "a"}), "spec.template.metadata.labels[karpenter.sh/nodepool]: this label is set by the NodePool itself; remove it"),
        (pool(labels={"karpenter.sh/custom": "a"}), "spec.template.metadata.labels[karpenter.sh/custom]: label karpenter.sh/custom is restricted: it belongs to Karpenter's own domain"),
        (pool(labels={"sub.karpenter.sh/custom": "a"}), "spec.template.metadata.labels[sub.karpenter.sh/custom]: label sub.karpenter.sh/custom is restricted: it belongs to Karpenter's own domain"),
        (pool(labels={"karpenter.k8s.aws/nitro-sandbox": "a"}), "spec.template.metadata.labels[karpenter.k8s.aws/nitro-sandbox]: label karpenter.k8s.aws/nitro-sandbox is restricted: karpenter.k8s.aws has no such label"),
        (pool(labels={"kubernetes.io/hostname": "a"}), "spec.template.metadata.labels[kubernetes.io/hostname]: label kubernetes.io/hostname is restricted: it belongs to the host name"),
        (pool(labels={"team": "a b"}), "spec.template.metadata.labels[team]: 'a b' is not a label value"),
        (pool(labels={"te am": "a"}), "spec.template.metadata.labels[te am]: 'te am' is not a label key (an optional DNS name, a slash, up to 63 letters)"),
        (requiring("karpenter.sh/nodepool", "In", "a"), "spec.template.spec.requirements[0].key: karpenter.sh/nodepool is set by the NodePool itself; remove it"),
        (requiring("team", "Between", "a"), "spec.template.spec.requirements[0].operator: 'Between' is not one of DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn"),
        (requiring("team", "In"), "spec.template.spec.requirements[0].values: operator In needs at least one value"),
        (requiring("team", "Gt", "a"), "spec.template.spec.requirements[0].values: operator Gt needs exactly one integer that is not negative"),
        (requiring("team", "Lte", "1", "2"), "spec.template.spec.requirements[0].values: operator Lte needs exactly one integer that is not negative"),
        (requiring("team", "In", "a", least=2), "spec.template.spec.requirements[0].values: minValues is 2, but only 1 are listed"),
        (requiring("team", "In", "a/b"), "spec.template.spec.requirements[0].values[0]: 'a/b' is not a label value"),
        (requiring("karpenter.sh/capacity-type", "In", "sport"), "spec.template.spec.requirements[0].values: karpenter.sh/capacity-type has none of ['sport']; it knows reserved, spot, on-demand"),
        (requiring("karpenter.sh/capacity-type", "In", "spot", "sport", least=2), "spec.template.spec.requirements[0].values: minValues is 2, but only ['spot'] are values of karpenter.sh/capacity-type"),
        (pool({"taints": [{"key": "a", "effect": "Never"}]}), "spec.template.spec.taints[0].effect: 'Never' is not one of NoSchedule, PreferNoSchedule, NoExecute"),
        (pool({"taints": [{"key": "", "effect": "NoExecute"}]}), "spec.template.spec.taints[0].key: '' is not a label key (an optional DNS name, a slash, up to 63 letters)"),
        (pool({"expireAfter": "soon"}), "spec.template.spec.expireAfter: 'soon' is not a duration (such as 30s, 5m, 1h30m)"),
        (pool({"nodeClassRef": {"name": "a", "kind": "B"}}), "spec.template.spec.nodeClassRef.group: must not be empty"),
        (pool(limits={"cpu": "many"}), "spec.limits[cpu]: 'many' is not a quantity (such as 500m, 2, 4Gi)"),
        (pool(disruption={"budgets": [{"nodes": "ten"}]}), "spec.disruption.budgets[0].nodes: 'ten' is neither a number nor a share such as 10%"),
        (pool(disruption={"budgets": [{"nodes": "1", "schedule": "@daily"}]}), "spec.disruption.budgets[0]: schedule and duration go together; give both or none"),
    ],
)  # fmt: skip
def test_a_problem_of_a_nodepool_names_its_field(bad: NodePool, problem: str) -> None:
    assert validate_nodepool(bad) == [problem]


def test_a_schedule_that_no_calendar_has_is_named() -> None:
    budget = {"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}

    (problem,) = validate_nodepool(pool(disruption={"budgets": [budget]}))

    assert problem.startswith("spec.disruption.budgets[0].schedule: schedule '61 * * * *'")


def test_a_taint_given_twice_is_named_at_both_places() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}

    assert validate_nodepool(pool({"taints": [taint], "startupTaints": [taint]})) == [
        "spec.template.spec.taints[0]: there is more than one taint a:NoSchedule",
        "spec.template.spec.startupTaints[0]: there is more than one taint a:NoSchedule",
    ]


def test_all_problems_are_told_at_once() -> None:
    bad = pool({"expireAfter": "x"}, labels={"a b": "c d"}, limits={"cpu": "x"})

    assert len(validate_nodepool(bad)) == 4


def test_a_node_claim_may_require_its_nodepool() -> None:
    body = {
        "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"]}],
        "nodeClassRef": REFERENCE,
    }

    assert validate_node_claim(msgspec.convert({"spec": body}, NodeClaim)) == []


def test_the_problems_of_a_node_claim_name_its_fields() -> None:
    body = {
        "requirements": [{"key": "a", "operator": "In"}],
        "resources": {"requests": {"cpu": "x"}},
        "terminationGracePeriod": "x",
        "nodeClassRef": {**REFERENCE, "group": "karpenter.k8s.aws/v1"},
    }

    assert validate_node_claim(msgspec.convert({"spec": body}, NodeClaim)) == [
        "spec.requirements[0].values: operator In needs at least one value",
        "spec.nodeClassRef.group: 'karpenter.k8s.aws/v1' must not contain a version",
        "spec.terminationGracePeriod: 'x' is not a duration (such as 30s, 5m, 1h30m)",
        "spec.resources.requests[cpu]: 'x' is not a quantity (such as 500m, 2, 4Gi)",
    ]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (node_class(subnetSelectorTerms=[]), "spec.subnetSelectorTerms: at least one term is needed"),
        (node_class(amiSelectorTerms=[], amiFamily="AL2"), "spec.amiSelectorTerms: at least one term is needed"),
        (node_class(instanceProfile="p"), "spec.role: exactly one of role and instanceProfile must be given"),
        (node_class(role=None), "spec.role: exactly one of role and instanceProfile must be given"),
        (node_class(amiSelectorTerms=[{"alias": "al2023"}]), "spec.amiSelectorTerms[0].alias: 'al2023' must look like family@version"),
        (node_class(amiSelectorTerms=[{"alias": "ubuntu@latest"}]), "spec.amiSelectorTerms[0].alias: family 'ubuntu' is not one of al2, al2023, bottlerocket, windows2019, windows2022, windows2025"),
        (node_class(amiSelectorTerms=[{"alias": "windows2022@1"}]), "spec.amiSelectorTerms[0].alias: windows2022 has no versions; use windows2022@latest"),
        (node_class(amiFamily="Bottlerocket"), "spec.amiFamily: Bottlerocket does not fit the alias al2023@latest"),
        (node_class(amiSelectorTerms=[{"id": "ami-1"}]), "spec.amiFamily: must be given when no term is an alias"),
        (node_class(amiSelectorTerms=[{"alias": "al2@latest"}, {"id": "ami-1"}]), "spec.amiSelectorTerms: an alias must be the only term"),
        (node_class(tags={"karpenter.sh/nodepool": "a"}), "spec.tags[karpenter.sh/nodepool]: this tag is set by Karpenter; remove it"),
        (node_class(tags={"kubernetes.io/cluster/a": "owned"}), "spec.tags[kubernetes.io/cluster/a]: this tag is set by Karpenter; remove it"),
        (node_class(blockDeviceMappings=[{"rootVolume": True}, {"rootVolume": True}]), "spec.blockDeviceMappings: 2 are the rootVolume; one can be"),
    ],
)  # fmt: skip
def test_a_problem_of_a_node_class_names_its_field(bad: EC2NodeClass, problem: str) -> None:
    assert validate_node_class(bad) == [problem]


@pytest.mark.parametrize("family", [None, "AL2023", "Custom"])
def test_a_sound_node_class_has_no_problems(family: str | None) -> None:
    assert validate_node_class(node_class(amiFamily=family, tags={"Name": "x"})) == []


def test_validators_take_objects_as_they_come() -> None:
    checks: list[tuple[Callable[[Any], list[str]], Any]] = [
        (validate_nodepool, NodePool()),
        (validate_node_claim, NodeClaim()),
        (validate_node_class, EC2NodeClass()),
    ]
    for validate, empty in checks:
        assert all(": " in problem for problem in validate(empty))
