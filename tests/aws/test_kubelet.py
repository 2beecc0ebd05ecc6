"""What is wrong with a node class's kubelet map, in words that name the field."""

from __future__ import annotations

from typing import Any

import pytest
from nodewright_controller.aws.families import Family
from nodewright_controller.aws.kubelet import parse_kubelet, problem_with

GOOD: dict[str, Any] = {
    "maxPods": 20,
    "clusterDNS": ["10.0.0.10"],
    "kubeReserved": {"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "1Gi", "pid": "100"},
    "evictionHard": {"memory.available": "5%", "nodefs.inodesFree": "100"},
    "evictionSoft": {"memory.available": "1Gi"},
    "evictionSoftGracePeriod": {"memory.available": "1m30s"},
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
}


@pytest.mark.parametrize("family", [Family.AL2, Family.AL2023, Family.BOTTLEROCKET, Family.CUSTOM])
def test_a_sound_map_is_fine_everywhere(family: Family) -> None:
    assert problem_with(GOOD, family) is None


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        ({"registerWithTaints": []}, "InvalidKubeletConfiguration", "registerWithTaints"),
        ({"maxPodz": 3}, "InvalidKubeletConfiguration", "maxPodz is no field"),
        ({"maxPods": -1}, "InvalidKubeletConfiguration", "maxPods"),
        ({"maxPods": "vcpus * 8"}, "KubeletExpressionsDisabled", "vcpus"),
        ({"podsPerCore": True}, "InvalidKubeletConfiguration", "podsPerCore"),
        ({"kubeReserved": ["cpu"]}, "InvalidKubeletConfiguration", "must be a map"),
        ({"kubeReserved": {"gpu": "1"}}, "InvalidKubeletConfiguration", "'gpu'"),
        ({"kubeReserved": {"cpu": "-1"}}, "InvalidKubeletConfiguration", "negative"),
        ({"systemReserved": {"cpu": "vcpus"}}, "KubeletExpressionsDisabled", "systemReserved.cpu"),
        ({"evictionHard": {"memory.free": "1"}}, "InvalidKubeletConfiguration", "memory.free"),
        ({"evictionHard": {"pid.available": "101%"}}, "InvalidKubeletConfiguration", "101%"),
        ({"evictionSoft": {}}, "InvalidKubeletConfiguration", "same keys"),
        (
            {"evictionSoftGracePeriod": {"memory.available": "soon"}},
            "InvalidKubeletConfiguration",
            "must be a duration",
        ),
        ({"imageGCHighThresholdPercent": 101}, "InvalidKubeletConfiguration", "0 to 100"),
        ({"imageGCLowThresholdPercent": 85}, "InvalidKubeletConfiguration", "must exceed"),
        ({"clusterDNS": "10.0.0.10"}, "InvalidKubeletConfiguration", "must be a list"),
        ({"cpuCFSQuota": "yes"}, "InvalidKubeletConfiguration", "true or false"),
    ],
)
def test_a_mistake_is_named(change: dict[str, Any], reason: str, words: str) -> None:
    found = problem_with(GOOD | change, Family.AL2023)

    assert found is not None
    assert found.reason == reason
    assert words in found.message


@pytest.mark.parametrize(
    ("kubelet", "family", "words"),
    [
        ({"podPidsLimit": 100}, Family.AL2, "podPidsLimit can be set on AL2023 only"),
        ({"podsPerCore": 2}, Family.BOTTLEROCKET, "no podsPerCore"),
        ({"clusterDNS": ["1.1.1.1", "2.2.2.2"]}, Family.WINDOWS2022, "one clusterDNS"),
    ],
)
def test_families_support_what_their_bootstrap_does(
    kubelet: dict[str, Any], family: Family, words: str
) -> None:
    found = problem_with(kubelet, family)

    assert found is not None
    assert found.reason == "UnsupportedKubeletConfiguration"
    assert words in found.message
    assert problem_with(kubelet, Family.AL2023) is None


def test_the_managed_fields_are_typed_and_the_rest_is_kept() -> None:
    kubelet = parse_kubelet({**GOOD, "podPidsLimit": 100, "kubeReserved": {"cpu": 1}})

    assert kubelet.max_pods == 20
    assert kubelet.cluster_dns == ("10.0.0.10",)
    assert kubelet.kube_reserved == {"cpu": "1"}
    assert kubelet.raw["podPidsLimit"] == 100
