"""Conversion between v1beta1 and v1: nothing is lost, and both versions mean the same."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from nodewright_controller.api.conversion import (
    KUBELET,
    NODE_CLASS_REFERENCE,
    UBUNTU,
    ConversionError,
    convert,
    kubelet_of,
)

from tests.api import objects

Json = dict[str, Any]
MANIFESTS = Path(__file__).parents[1] / "data" / "manifests"


def up(body: Json) -> Json:
    return convert(body, f"{body['apiVersion'].partition('/')[0]}/v1")


def down(body: Json) -> Json:
    return convert(body, f"{body['apiVersion'].partition('/')[0]}/v1beta1")


def pool_beta(template_spec: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {
            "template": {
                "spec": {
                    "requirements": [],
                    "nodeClassRef": {"name": "default"},
                    **(template_spec or {}),
                }
            },
            **spec,
        },
    }


def pool(template_spec: Json | None = None, **spec: Any) -> Json:
    body = pool_beta(template_spec, **spec)
    body["apiVersion"] = "karpenter.sh/v1"
    body["spec"]["template"]["spec"].setdefault("expireAfter", "720h")
    if body["spec"]["template"]["spec"]["nodeClassRef"] == {"name": "default"}:
        body["spec"]["template"]["spec"]["nodeClassRef"] = {
            "group": "karpenter.k8s.aws",
            "kind": "EC2NodeClass",
            "name": "default",
        }
    return body


def node_class(version: str, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    metadata: Json = {"name": "default"}
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": f"karpenter.k8s.aws/{version}",
        "kind": "EC2NodeClass",
        "metadata": metadata,
        "spec": spec,
    }


@settings(max_examples=400, deadline=None)
@given(objects.beta_objects)
def test_v1beta1_to_v1_and_back_is_what_was_given(body: Json) -> None:
    before = copy.deepcopy(body)

    assert before == down(up(body))
    assert before == body  # converting leaves its argument alone


@settings(max_examples=400, deadline=None)
@given(objects.current_objects)
def test_v1_to_v1beta1_and_back_is_what_was_given(body: Json) -> None:
    assert body == up(down(body))


@settings(max_examples=150, deadline=None)
@given(objects.current_objects)
def test_any_number_of_conversions_ends_where_it_began(body: Json) -> None:
    beta = down(body)

    assert beta == down(up(beta))
    assert body == up(down(up(beta)))


@settings(max_examples=150, deadline=None)
@given(objects.beta_objects)
def test_metadata_keeps_all_but_our_annotations(body: Json) -> None:
    ours = ("compatibility.karpenter.sh/", "compatibility.karpenter.k8s.aws/")

    def foreign(metadata: Json) -> Json:
        annotations = metadata.get("annotations") or {}
        kept = {key: text for key, text in annotations.items() if not key.startswith(ours)}
        return {**metadata, "annotations": kept}

    assert foreign(body["metadata"]) == foreign(up(body)["metadata"])


def test_a_node_class_named_only_becomes_an_ec2nodeclass_and_back() -> None:
    v1 = up(pool_beta())

    reference = v1["spec"]["template"]["spec"]["nodeClassRef"]
    assert reference == {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    assert v1["metadata"]["annotations"] == {NODE_CLASS_REFERENCE: '{"name":"default"}'}
    assert down(v1)["spec"]["template"]["spec"]["nodeClassRef"] == {"name": "default"}


def test_a_full_v1beta1_node_class_reference_needs_no_annotation() -> None:
    given_ref = {
        "apiVersion": "karpenter.k8s.aws/v1beta1",
        "kind": "EC2NodeClass",
        "name": "default",
    }

    v1 = up(pool_beta({"nodeClassRef": given_ref}))

    assert "annotations" not in v1["metadata"]
    assert down(v1)["spec"]["template"]["spec"]["nodeClassRef"] == given_ref


def test_a_node_class_renamed_in_v1_is_renamed_in_v1beta1_too() -> None:
    v1 = up(pool_beta())
    v1["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "other"

    reference = down(v1)["spec"]["template"]["spec"]["nodeClassRef"]

    assert reference == {
        "apiVersion": "karpenter.k8s.aws/v1beta1",
        "kind": "EC2NodeClass",
        "name": "other",
    }


def test_when_underutilized_alone_consolidates_at_once() -> None:
    disruption = up(pool_beta(disruption={"consolidationPolicy": "WhenUnderutilized"}))["spec"][
        "disruption"
    ]

    assert disruption == {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
    }


def test_when_underutilized_with_consolidate_after_keeps_both_meanings() -> None:
    given_disruption = {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "30s"}

    v1 = up(pool_beta(disruption=given_disruption))

    assert v1["spec"]["disruption"] == {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "30s",
    }
    assert down(v1)["spec"]["disruption"] == given_disruption


def test_expire_after_moves_between_disruption_and_template() -> None:
    v1 = up(pool_beta(disruption={"consolidationPolicy": "WhenEmpty", "expireAfter": "24h"}))

    assert v1["spec"]["template"]["spec"]["expireAfter"] == "24h"
    assert "expireAfter" not in v1["spec"]["disruption"]
    assert down(pool())["spec"]["disruption"] == {"expireAfter": "720h"}


def test_a_v1beta1_kubelet_stays_with_the_pool_where_the_launch_finds_it() -> None:
    v1 = up(pool_beta({"kubelet": {"maxPods": 20, "clusterDNS": ["10.0.0.10"]}}))

    assert "kubelet" not in v1["spec"]["template"]["spec"]
    assert v1["metadata"]["annotations"][KUBELET] == '{"clusterDNS":["10.0.0.10"],"maxPods":20}'
    assert kubelet_of(v1["metadata"]["annotations"]) == {
        "maxPods": 20,
        "clusterDNS": ["10.0.0.10"],
    }


@pytest.mark.parametrize("annotations", [None, {}, {KUBELET: "not json"}, {KUBELET: "[1]"}])
def test_no_kubelet_is_read_where_none_is_kept(annotations: dict[str, str] | None) -> None:
    assert kubelet_of(annotations) is None


def test_a_v1_kubelet_of_a_node_class_survives_v1beta1() -> None:
    v1 = node_class("v1", kubelet={"maxPods": 8}, metadataOptions={"httpPutResponseHopLimit": 1})

    beta = down(v1)

    assert "kubelet" not in beta["spec"]
    assert beta["metadata"]["annotations"] == {KUBELET: '{"maxPods":8}'}


def test_what_v1_alone_knows_is_kept_in_an_annotation_that_reads_well() -> None:
    beta = down(pool(replicas=3, disruption={"consolidateAfter": "0s"}))

    assert "replicas" not in beta["spec"]
    notes = yaml.safe_load(beta["metadata"]["annotations"]["compatibility.karpenter.sh/v1-fields"])
    assert notes == {"/spec/replicas": {"kept": 3}}


def test_an_edit_in_the_other_version_beats_what_was_kept() -> None:
    v1 = pool(
        disruption={
            "consolidationPolicy": "Balanced",
            "consolidateAfter": "0s",
            "budgets": [
                {"nodes": "1", "reasons": ["Empty"]},
                {"nodes": "2", "reasons": ["Drifted"]},
            ],
        }
    )
    beta = down(v1)
    beta["spec"]["disruption"]["consolidationPolicy"] = "WhenEmpty"
    beta["spec"]["disruption"]["budgets"][0]["nodes"] = "7"

    disruption = up(beta)["spec"]["disruption"]

    assert disruption["consolidationPolicy"] == "WhenEmpty"
    assert disruption["budgets"] == [{"nodes": "7"}, {"nodes": "2", "reasons": ["Drifted"]}]


def test_old_vetoes_of_the_template_become_do_not_disrupt() -> None:
    beta = pool_beta()
    beta["spec"]["template"]["metadata"] = {
        "annotations": {"karpenter.sh/do-not-consolidate": "true", "mine": "1"}
    }

    annotations = up(beta)["spec"]["template"]["metadata"]["annotations"]

    assert annotations == {"karpenter.sh/do-not-disrupt": "true", "mine": "1"}


@pytest.mark.parametrize(
    ("family", "alias"),
    [
        ("AL2", "al2@latest"),
        ("AL2023", "al2023@latest"),
        ("Bottlerocket", "bottlerocket@latest"),
        ("Windows2019", "windows2019@latest"),
        ("Windows2022", "windows2022@latest"),
    ],
)
def test_a_family_without_terms_means_its_newest_image(family: str, alias: str) -> None:
    beta = node_class("v1beta1", amiFamily=family, metadataOptions={"httpPutResponseHopLimit": 2})

    v1 = up(beta)

    assert v1["spec"]["amiSelectorTerms"] == [{"alias": alias}]
    assert v1["spec"]["amiFamily"] == family
    assert down(v1) == beta
    assert "annotations" not in v1["metadata"]


def test_custom_has_no_image_of_its_own() -> None:
    assert "amiSelectorTerms" not in up(node_class("v1beta1", amiFamily="Custom"))["spec"]


def test_a_pinned_alias_reads_as_its_family_and_is_not_lost() -> None:
    v1 = node_class(
        "v1",
        amiSelectorTerms=[{"alias": "bottlerocket@1.60.0"}],
        metadataOptions={"httpPutResponseHopLimit": 1},
    )

    beta = down(v1)

    assert beta["spec"]["amiFamily"] == "Bottlerocket"
    assert "amiSelectorTerms" not in beta["spec"]
    assert up(beta) == v1


def test_a_family_changed_in_v1beta1_frees_the_pinned_alias() -> None:
    v1 = node_class("v1", amiFamily="AL2", amiSelectorTerms=[{"alias": "al2@v20260501"}])
    beta = down(v1)
    beta["spec"]["amiFamily"] = "AL2023"

    assert up(beta)["spec"]["amiSelectorTerms"] == [{"alias": "al2023@latest"}]


def test_ubuntu_becomes_al2_with_its_own_root_volume_and_waits_for_an_image() -> None:
    v1 = up(node_class("v1beta1", amiFamily="Ubuntu"))

    assert v1["spec"]["amiFamily"] == "AL2"
    assert v1["spec"]["amiSelectorTerms"] == []
    assert v1["spec"]["blockDeviceMappings"] == [
        {
            "deviceName": "/dev/sda1",
            "rootVolume": True,
            "ebs": {"encrypted": True, "volumeType": "gp3", "volumeSize": "20Gi"},
        }
    ]
    assert v1["metadata"]["annotations"][UBUNTU] == "amiFamily,blockDeviceMappings"


def test_ubuntu_with_its_own_volumes_keeps_them() -> None:
    devices = [{"deviceName": "/dev/sda1", "ebs": {"volumeSize": "50Gi"}}]

    v1 = up(node_class("v1beta1", amiFamily="Ubuntu", blockDeviceMappings=devices))

    assert v1["spec"]["blockDeviceMappings"] == devices
    assert v1["metadata"]["annotations"][UBUNTU] == "amiFamily"


@pytest.mark.parametrize(
    ("options", "hops"), [({}, 2), ({"metadataOptions": {"httpTokens": "optional"}}, 2)]
)
def test_the_old_hop_limit_is_written_out(options: Json, hops: int) -> None:
    spec = up(node_class("v1beta1", amiFamily="AL2023", **options))["spec"]

    assert spec["metadataOptions"]["httpPutResponseHopLimit"] == hops
    assert down(node_class("v1"))["spec"]["metadataOptions"]["httpPutResponseHopLimit"] == 1


def test_a_v1beta1_node_claim_without_a_pool_never_expires() -> None:
    claim = {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodeClaim",
        "metadata": {"name": "a"},
        "spec": {"requirements": [], "nodeClassRef": {"name": "default"}},
    }
    of_a_pool = {
        **claim,
        "metadata": {"name": "a", "labels": {"karpenter.sh/nodepool": "general"}},
    }

    assert up(claim)["spec"]["expireAfter"] == "Never"
    assert "expireAfter" not in up(of_a_pool)["spec"]


def test_the_walkthrough_manifests_convert_without_loss() -> None:
    for path in sorted(MANIFESTS.glob("*.yaml")):
        body = yaml.safe_load(path.read_text())
        there_and_back = (
            down(up(body)) if body["apiVersion"].endswith("v1beta1") else up(down(body))
        )

        assert body == there_and_back, path.name


@pytest.mark.parametrize(
    ("body", "target", "message"),
    [
        (
            {**pool_beta(), "spec": {"template": {"spec": {"nodeClassRef": "default"}}}},
            "karpenter.sh/v1",
            "NodePool general: spec.template.spec.nodeClassRef: expected an object, got str",
        ),
        (
            {**pool_beta(), "spec": []},
            "karpenter.sh/v1",
            "NodePool general: spec: expected an object, got list",
        ),
        (
            pool_beta(),
            "karpenter.sh/v2",
            "NodePool general: apiVersion 'karpenter.sh/v2' is not served; use one of "
            "['karpenter.sh/v1', 'karpenter.sh/v1beta1']",
        ),
        (
            {"apiVersion": "karpenter.sh/v1", "kind": "Machine"},
            "karpenter.sh/v1",
            "Machine (no name): no conversion for kind 'Machine' of 'karpenter.sh/v1'",
        ),
    ],
)
def test_an_object_of_the_wrong_shape_is_refused_by_name_and_field(
    body: Json, target: str, message: str
) -> None:
    with pytest.raises(ConversionError) as caught:
        convert(body, target)

    assert message == str(caught.value)


def test_the_same_version_is_left_as_it_is() -> None:
    assert pool() == convert(pool(), "karpenter.sh/v1")


def test_a_note_that_someone_garbled_is_ignored() -> None:
    beta = pool_beta({"nodeClassRef": {"apiVersion": "a/v1beta1", "kind": "B", "name": "c"}})
    beta["metadata"]["annotations"] = {"compatibility.karpenter.sh/v1-fields": "{oops"}

    assert "annotations" not in up(beta)["metadata"]
