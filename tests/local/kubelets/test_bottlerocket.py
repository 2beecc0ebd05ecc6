"""Bottlerocket user data: TOML settings, their types, and what they become."""

import base64

import pytest
from nodewright_local.kubelets.userdata.bootstrap import JoinProblem, Taint, UserDataError
from nodewright_local.kubelets.userdata.bottlerocket import decode
from nodewright_local.kubelets.userdata.decode import decode_user_data

from tests.local.kubelets.builders import ENDPOINT, bottlerocket, ca_pem, node_config


def refused(user_data: bytes) -> UserDataError:
    with pytest.raises(UserDataError) as error:
        decode(user_data)
    return error.value


def test_the_settings_of_a_node_are_understood() -> None:
    extra = """
cluster-dns-ip = "10.100.0.10"
image-gc-high-threshold-percent = "85"
[settings.kubernetes.node-labels]
"karpenter.sh/nodepool" = "default"
[settings.kubernetes.node-taints]
"karpenter.sh/unregistered" = [":NoExecute"]
"team" = ["a:NoSchedule", "a:NoExecute"]
[settings.kubernetes.kube-reserved]
cpu = "100m"
[settings.kubernetes.eviction-hard]
"memory.available" = "5%"
[settings.bootstrap-commands.000-mount-instance-storage]
commands = [["apiclient", "ephemeral-storage", "init"], ["apiclient", "ephemeral-storage", "bind"]]
mode = "always"
essential = true
[settings.host-containers.admin]
enabled = true
"""

    result = decode(bottlerocket(extra))

    assert result.cluster_name == "demo"
    assert result.api_server_endpoint == ENDPOINT
    assert result.certificate_authority_pem == ca_pem()
    assert result.max_pods == 29
    assert result.cluster_dns == ("10.100.0.10",)
    assert result.labels == {"karpenter.sh/nodepool": "default"}
    assert result.taints == (
        Taint(key="karpenter.sh/unregistered", effect="NoExecute"),
        Taint(key="team", value="a", effect="NoSchedule"),
        Taint(key="team", value="a", effect="NoExecute"),
    )
    assert result.kube_reserved == {"cpu": "100m"}
    assert result.eviction_hard == {"memory.available": "5%"}
    assert result.instance_store_raid0
    assert result.notes == ("settings.host-containers was accepted but has no effect here",)


@pytest.mark.parametrize("missing", ["cluster_name", "api_server", "cluster_certificate"])
def test_each_cluster_setting_is_mandatory(missing: str) -> None:
    without: dict[str, str | None] = {missing: None}

    detail = refused(bottlerocket("", **without)).detail

    assert detail == f"settings.kubernetes.{missing.replace('_', '-')} is missing"


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"max_pods": '"29"'}, "max-pods must be an integer"),
        ({"max_pods": "true"}, "max-pods must be an integer"),
        ({"max_pod": "29"}, "no setting settings.kubernetes.max-pod"),
        ({"node_labels": "{ a = 1 }"}, "node-labels must be a table of strings"),
        ({"node_taints": '["a=b:NoSchedule"]'}, "node-taints must be a table"),
        ({"kube_reserved": "{ cpu = 1 }"}, "kube-reserved must be a table of strings"),
        ({"cluster_dns_ip": '"nowhere"'}, "cluster-dns-ip must be an IP address"),
        ({"cpu_cfs_quota_enforced": '"yes"'}, "must be true or false"),
        ({"image_gc_high_threshold_percent": '"a lot"'}, "must be a percentage"),
        ({"cluster_certificate": '"Zm9v"'}, "holds no PEM certificate"),
        ({"node_taints": '{ a = ["NoSchedule"] }'}, 'is not "value:effect"'),
    ],
)
def test_a_setting_of_the_wrong_type_makes_first_boot_fail(
    changes: dict[str, str], detail: str
) -> None:
    assert detail in refused(bottlerocket(**changes)).detail


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (b"[settings", "is not TOML"),
        (b"[kubernetes]\n", "no table [settings]"),
        (b"[settings.motd]\n", "no table [settings.kubernetes]"),
    ],
)
def test_what_is_not_bottlerocket_settings_is_refused(text: bytes, detail: str) -> None:
    assert detail in refused(text).detail


def test_yaml_given_to_bottlerocket_never_joins() -> None:
    with pytest.raises(UserDataError) as error:
        decode_user_data("Bottlerocket", base64.b64encode(node_config().encode()).decode())

    assert error.value.problem is JoinProblem.BAD_USER_DATA


def test_a_bad_effect_keeps_the_node_away() -> None:
    error = refused(bottlerocket(node_taints='{ a = ["b:Sometimes"] }'))

    assert error.problem is JoinProblem.BAD_TAINT


def test_a_label_of_the_kubernetes_domain_keeps_the_node_away() -> None:
    error = refused(bottlerocket(node_labels='{ "kubernetes.io/team" = "a" }'))

    assert error.problem is JoinProblem.LABEL_NOT_ALLOWED


def test_a_storage_command_that_is_switched_off_formats_nothing() -> None:
    extra = """
[settings.bootstrap-commands.disks]
commands = [["apiclient", "ephemeral-storage", "init"]]
mode = "off"
"""

    assert not decode(bottlerocket(extra)).instance_store_raid0
