"""User data of each family, letter by letter, and the rules by which the user's own is merged."""

from __future__ import annotations

import email
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from nodewright_controller.api.node import Taint
from nodewright_controller.aws.bootstrap import (
    Bootstrap,
    kubelet_flags,
    node_labels,
    registration_taints,
)
from nodewright_controller.aws.bottlerocket import knows_its_directories
from nodewright_controller.aws.families import Family
from nodewright_controller.aws.kubelet import parse_kubelet
from nodewright_controller.aws.user_data import render_user_data

from tests import golden

KUBELET = {
    "kubeReserved": {"memory": "500Mi", "cpu": "100m"},
    "systemReserved": {"cpu": "50m"},
    "evictionHard": {"memory.available": "5%", "nodefs.available": "10%"},
    "evictionSoft": {"memory.available": "8%"},
    "evictionSoftGracePeriod": {"memory.available": "2m"},
    "evictionMaxPodGracePeriod": 60,
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
    "cpuCFSQuota": False,
}
CUSTOM = {
    Family.AL2: "#!/bin/bash\necho before\n",
    Family.AL2023: "#!/bin/bash\necho before\n",
    Family.BOTTLEROCKET: '[settings.motd]\ntext = "hello"\n[settings.kubernetes]\nmax-pods = 5\n',
    Family.CUSTOM: "anything at all",
}


def bootstrap(**more: Any) -> Bootstrap:
    values: dict[str, Any] = {
        "cluster_name": "demo",
        "endpoint": "https://demo.eks",
        "ca_bundle": "Q0E=",
        "service_cidr": "10.100.0.0/16",
        "dns_ip": "10.100.0.10",
        "labels": node_labels({"app": "web", "kubernetes.io/os": "linux"}, "spot"),
        "taints": registration_taints([Taint(key="team", value="a", effect="NoSchedule")], None),
        "max_pods": 29,
    }
    return Bootstrap(**(values | more))


@pytest.mark.parametrize("family", list(Family))
def test_plain_user_data_of_a_family(family: Family) -> None:
    golden.check_text(
        f"user_data/{family.value.lower()}.txt", render_user_data(family, bootstrap())
    )


@pytest.mark.parametrize("family", list(Family))
def test_user_data_of_a_family_with_everything_set(family: Family) -> None:
    full = bootstrap(
        kubelet=parse_kubelet(KUBELET),
        custom=CUSTOM.get(family, "Write-Host before"),
        raid0=True,
        binds_instance_storage=False,
    )

    golden.check_text(f"user_data/{family.value.lower()}-full.txt", render_user_data(family, full))


def parts(message: str) -> list[tuple[str, str]]:
    parsed = email.message_from_string(message)
    assert parsed.is_multipart()
    found = []
    for part in parsed.walk():
        if not part.is_multipart():
            body = part.get_payload(decode=True)
            assert isinstance(body, bytes)
            found.append((part.get_content_type(), body.decode()))
    return found


def test_nodeadm_gets_karpenters_config_last_because_later_ones_win() -> None:
    custom = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}\n"

    kinds = [kind for kind, _ in parts(render_user_data(Family.AL2023, bootstrap(custom=custom)))]

    assert kinds == ["application/node.eks.aws", "application/node.eks.aws"]


@pytest.mark.parametrize(
    ("custom", "kind"),
    [
        ("#!/bin/bash\necho: hi", "text/x-shellscript"),
        ("echo hi", "text/x-shellscript"),
        ("kind: NodeConfig", "application/node.eks.aws"),
    ],
)
def test_bare_user_data_becomes_the_part_it_looks_like(custom: str, kind: str) -> None:
    rendered = parts(render_user_data(Family.AL2023, bootstrap(custom=custom)))

    assert rendered[0] == (kind, custom)


def test_parts_of_a_mime_message_are_kept_in_order() -> None:
    custom = (
        'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="B"\r\n\r\n'
        "--B\r\nContent-Type: text/x-shellscript\r\n\r\necho one\r\n"
        "--B\r\nContent-Type: text/cloud-config\r\n\r\nusers: []\r\n--B--\r\n"
    )

    rendered = parts(render_user_data(Family.AL2, bootstrap(custom=custom)))

    assert [body.strip() for _, body in rendered[:2]] == ["echo one", "users: []"]
    assert rendered[2][1].startswith("#!/bin/bash")


def test_a_mime_message_without_parts_is_refused() -> None:
    with pytest.raises(ValueError, match="check its boundary"):
        render_user_data(Family.AL2023, bootstrap(custom="MIME-Version: 1.0\n\nnothing"))


def test_al2023_cannot_join_without_the_service_cidr() -> None:
    with pytest.raises(ValueError, match="service CIDR"):
        render_user_data(Family.AL2023, bootstrap(service_cidr=""))


def test_the_kubelet_config_of_al2023_keeps_what_only_the_user_knows() -> None:
    kubelet = parse_kubelet({"maxPods": 5, "singleProcessOOMKill": True, "clusterDNS": ["1.1.1.1"]})
    rendered = parts(render_user_data(Family.AL2023, bootstrap(kubelet=kubelet)))

    config = yaml.safe_load(rendered[-1][1])["spec"]["kubelet"]["config"]

    assert config["singleProcessOOMKill"] is True
    assert config["maxPods"] == 29
    assert config["clusterDNS"] == ["1.1.1.1"]


def test_bottlerocket_keeps_other_settings_and_merges_labels() -> None:
    custom = """
    [settings.ntp]
    time-servers = ["a", "b"]
    [settings.kubernetes]
    api-server = "https://elsewhere"
    allowed-unsafe-sysctls = ["net.core.somaxconn"]
    [settings.kubernetes.node-labels]
    mine = "yes"
    app = "other"
    [settings.kubernetes.node-taints]
    gone = ["x:NoSchedule"]
    """

    settings = tomllib.loads(render_user_data(Family.BOTTLEROCKET, bootstrap(custom=custom)))[
        "settings"
    ]

    assert settings["ntp"] == {"time-servers": ["a", "b"]}
    kubernetes = settings["kubernetes"]
    assert kubernetes["api-server"] == "https://demo.eks"
    assert kubernetes["allowed-unsafe-sysctls"] == ["net.core.somaxconn"]
    assert kubernetes["node-labels"]["mine"] == "yes"
    assert kubernetes["node-labels"]["app"] == "web"
    assert kubernetes["node-taints"] == {
        "team": ["a:NoSchedule"],
        "karpenter.sh/unregistered": [":NoExecute"],
    }


def test_broken_toml_is_refused() -> None:
    with pytest.raises(ValueError, match="not TOML"):
        render_user_data(Family.BOTTLEROCKET, bootstrap(custom="settings ="))


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("latest", True),
        ("1.46.0", True),
        ("v1.60.0", True),
        ("1.45.9", False),
        ("bottlerocket-aws-k8s-1.36-x86_64-v1.19.2-29cc92cc", False),
        ("who-knows", False),
    ],
)
def test_new_bottlerocket_binds_its_directories_itself(version: str, known: bool) -> None:
    assert knows_its_directories(version) is known


def test_kubernetes_own_labels_are_left_to_registration() -> None:
    labels = node_labels(
        {
            "a.kubernetes.io/x": "1",
            "node-restriction.kubernetes.io/y": "2",
            "karpenter.k8s.aws/z": "3",
            "k8s.io/w": "4",
            "plain": "5",
        },
        "on-demand",
    )

    assert labels == {
        "karpenter.k8s.aws/z": "3",
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/do-not-sync-taints": "true",
        "plain": "5",
    }


def test_the_unregistered_taint_is_added_once() -> None:
    marker = Taint(key="karpenter.sh/unregistered", effect="NoExecute")

    assert registration_taints([marker], None) == (marker,)
    assert registration_taints(None, [Taint(key="s", effect="NoSchedule")])[-1] == marker


@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text("abc.-_1", max_size=9))
)
def test_flags_do_not_depend_on_the_order_of_labels(labels: dict[str, str]) -> None:
    forward = bootstrap(labels=labels)
    backward = bootstrap(labels=dict(reversed(labels.items())))

    assert kubelet_flags(forward) == kubelet_flags(backward)
