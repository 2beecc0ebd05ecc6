"""AL2023 user data: what joins, what never does, and why."""

import base64
import gzip
from typing import Any

import pytest
from nodewright_local.kubelets.userdata.bootstrap import JoinProblem, Taint, UserDataError
from nodewright_local.kubelets.userdata.decode import decode_user_data
from nodewright_local.kubelets.userdata.nodeconfig import decode, merge_specs

from tests.local.kubelets.builders import (
    ENDPOINT,
    bottlerocket,
    ca_pem,
    cluster,
    mime,
    node_config,
)

NODE = "application/node.eks.aws"
SHELL = 'text/x-shellscript; charset="us-ascii"'


def refused(user_data: bytes) -> UserDataError:
    with pytest.raises(UserDataError) as error:
        decode(user_data)
    return error.value


def with_kubelet(**kubelet: Any) -> bytes:
    return node_config({"cluster": cluster(), "kubelet": kubelet}).encode()


def test_a_bare_node_config_joins() -> None:
    result = decode(node_config().encode())

    assert result.cluster_name == "demo"
    assert result.api_server_endpoint == ENDPOINT
    assert result.certificate_authority_pem == ca_pem()
    assert result.max_pods is None


def test_the_dns_address_is_the_tenth_of_the_service_range_unless_given() -> None:
    given = with_kubelet(config={"clusterDNS": ["10.100.0.53"]})

    assert decode(node_config().encode()).cluster_dns == ("10.100.0.10",)
    assert decode(given).cluster_dns == ("10.100.0.53",)


def test_everything_the_controller_writes_is_understood() -> None:
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "maxPods": 110,
        "podsPerCore": 20,
        "kubeReserved": {"cpu": "100m"},
        "systemReserved": {"memory": "200Mi"},
        "evictionHard": {"memory.available": "5%"},
        "registerWithTaints": [
            {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
            {"key": "team", "value": "a", "effect": "NoSchedule"},
        ],
    }
    spec = {
        "cluster": cluster(),
        "instance": {"localStorage": {"strategy": "RAID0"}},
        "kubelet": {
            "config": config,
            "flags": ['--node-labels="app=web,karpenter.sh/nodepool=default"'],
        },
    }

    result = decode(mime((SHELL, "#!/bin/bash\ntrue"), (NODE, node_config(spec))))

    assert result.max_pods == 110
    assert result.pods_per_core == 20
    assert result.kube_reserved == {"cpu": "100m"}
    assert result.system_reserved == {"memory": "200Mi"}
    assert result.eviction_hard == {"memory.available": "5%"}
    assert result.labels == {"app": "web", "karpenter.sh/nodepool": "default"}
    assert result.taints == (
        Taint(key="karpenter.sh/unregistered", effect="NoExecute"),
        Taint(key="team", value="a", effect="NoSchedule"),
    )
    assert result.instance_store_raid0
    assert result.notes == ("a part of type text/x-shellscript was not executed",)


def test_a_later_document_wins_and_maps_are_merged() -> None:
    first = {"kubelet": {"config": {"maxPods": 10, "kubeReserved": {"cpu": "1", "memory": "1Gi"}}}}
    second = {"cluster": cluster(), "kubelet": {"config": {"kubeReserved": {"cpu": "2"}}}}

    result = decode(mime((NODE, node_config(first)), (NODE, node_config(second))))

    assert result.max_pods == 10
    assert result.kube_reserved == {"cpu": "2", "memory": "1Gi"}


def test_flags_of_all_documents_add_up_and_the_later_label_wins() -> None:
    first = {"kubelet": {"flags": ["--node-labels=a=1,b=1"]}}
    second = {"cluster": cluster(), "kubelet": {"flags": ["--node-labels=b=2"]}}

    assert merge_specs(first, second)["kubelet"]["flags"] == [
        "--node-labels=a=1,b=1",
        "--node-labels=b=2",
    ]
    result = decode(mime((NODE, node_config(first)), (NODE, node_config(second))))
    assert result.labels == {"a": "1", "b": "2"}


def test_gzip_is_unpacked() -> None:
    assert decode(gzip.compress(node_config().encode())).cluster_name == "demo"


@pytest.mark.parametrize("missing", ["name", "apiServerEndpoint", "certificateAuthority", "cidr"])
def test_each_cluster_field_is_mandatory(missing: str) -> None:
    error = refused(node_config({"cluster": cluster(**{missing: None})}).encode())

    assert error.problem is JoinProblem.BAD_USER_DATA
    assert error.detail == f"spec.cluster.{missing} is missing"


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"certificateAuthority": "not base64!"}, "is not base64"),
        ({"certificateAuthority": "aGVsbG8="}, "holds no PEM certificate"),
        ({"apiServerEndpoint": "http://127.0.0.1:1"}, "must be an https:// URL"),
        ({"cidr": "10.0.0.0/99"}, "is not an address range"),
        ({"cidr": "10.0.0.0/30"}, "too small to hold the DNS service"),
        ({"clusterName": "x"}, "has no field 'clusterName'"),
    ],
)
def test_a_wrong_cluster_field_is_named(changes: dict[str, str], detail: str) -> None:
    assert detail in refused(node_config({"cluster": cluster(**changes)}).encode()).detail


@pytest.mark.parametrize(
    ("document", "detail"),
    [
        ("{", "is not YAML"),
        ("just words", "is not a NodeConfig"),
        (node_config(kind="NodeConfiguration"), "must have apiVersion"),
        (node_config(apiVersion="node.eks.aws/v1"), "must have apiVersion"),
        (node_config(specs={}), "has no field 'specs'"),
        (node_config({"cluster": cluster(), "kubelets": {}}), "spec has no field 'kubelets'"),
        (node_config({"cluster": [1]}), "spec.cluster must be a map"),
    ],
)
def test_a_document_that_is_no_node_config_is_refused(document: str, detail: str) -> None:
    assert detail in refused(document.encode()).detail


def test_mime_without_a_node_config_part_never_joins() -> None:
    assert "no part of type application/node.eks.aws" in refused(mime((SHELL, "true"))).detail


def test_mime_whose_boundary_separates_nothing_never_joins() -> None:
    text = b'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="A"\n\n--B\n\nx\n--B--\n'

    assert "separates no part" in refused(text).detail


def test_mime_of_a_single_type_never_joins() -> None:
    assert "not multipart" in refused(b"Content-Type: text/plain\n\nhello\n").detail


@pytest.mark.parametrize(
    ("config", "detail"),
    [
        ({"maxPod": 5}, "has no field 'maxPod'"),
        ({"maxPods": "5"}, "maxPods must be an integer"),
        ({"maxPods": True}, "maxPods must be an integer"),
        ({"maxPods": -1}, "maxPods must not be negative"),
        ({"kubeReserved": {"gpu": "1"}}, "'gpu' cannot be reserved"),
        ({"kubeReserved": {"cpu": "-1"}}, "must not be negative"),
        ({"systemReserved": {"memory": "lots"}}, "is not a quantity"),
        ({"evictionHard": {"memory.free": "1%"}}, "unknown eviction signal"),
        ({"evictionHard": {"memory.available": "101%"}}, "between 0% and 100%"),
        ({"evictionSoft": {"memory.available": "1Gi"}}, "without evictionSoftGracePeriod"),
        ({"evictionSoftGracePeriod": {"memory.available": "soon"}}, "is not a duration"),
        ({"imageGCHighThresholdPercent": 70}, "must be greater than"),
        ({"imageGCHighThresholdPercent": 700}, "between 0 and 100"),
        ({"cpuCFSQuotaPeriod": "5"}, "must be a duration"),
        ({"registerWithTaints": ["a=b:NoSchedule"]}, "is not a taint"),
    ],
)
def test_a_configuration_with_which_no_kubelet_starts_never_joins(
    config: dict[str, Any], detail: str
) -> None:
    error = refused(with_kubelet(config=config))

    assert error.problem is JoinProblem.BAD_KUBELET_CONFIGURATION
    assert detail in error.detail


@pytest.mark.parametrize(
    "label",
    [
        "kubernetes.io/role",
        "node-role.kubernetes.io/worker",
        "node-restriction.kubernetes.io/team",
        "kops.k8s.io/x",
        "k8s.io/x",
    ],
)
def test_a_label_that_a_kubelet_may_not_set_keeps_the_node_away(label: str) -> None:
    error = refused(with_kubelet(flags=[f"--node-labels={label}=x,fine=y"]))

    assert error.problem is JoinProblem.LABEL_NOT_ALLOWED
    assert label in error.detail
    assert "fine" not in error.detail


@pytest.mark.parametrize(
    "label",
    [
        "topology.kubernetes.io/zone",
        "node.kubernetes.io/anything",
        "sub.node.kubernetes.io/anything",
        "kubelet.kubernetes.io/x",
        "karpenter.sh/nodepool",
        "karpenter.k8s.aws/ec2nodeclass",
        "topology.k8s.aws/zone-id",
        "notkubernetes.io/x",
    ],
)
def test_a_label_that_a_kubelet_may_set_is_kept(label: str) -> None:
    assert decode(with_kubelet(flags=[f"--node-labels={label}=x"])).labels == {label: "x"}


@pytest.mark.parametrize("labels", ["a b=c", "a=b c", "-a=b", "a/b/c=d", "x=" + "y" * 64])
def test_a_malformed_label_keeps_the_node_away(labels: str) -> None:
    assert refused(with_kubelet(flags=[f"--node-labels='{labels}'"])).problem in (
        JoinProblem.LABEL_NOT_ALLOWED,
    )


@pytest.mark.parametrize(
    ("taint", "detail"),
    [
        ({"key": "a", "effect": "Never"}, "the effect must be one of"),
        ({"key": "", "effect": "NoSchedule"}, "the key is not valid"),
        ({"key": "a", "value": "b c", "effect": "NoSchedule"}, "the value is not valid"),
    ],
)
def test_a_bad_taint_keeps_the_node_away(taint: dict[str, str], detail: str) -> None:
    error = refused(with_kubelet(config={"registerWithTaints": [taint]}))

    assert error.problem is JoinProblem.BAD_TAINT
    assert detail in error.detail


def test_the_same_taint_twice_keeps_the_node_away() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}

    assert (
        "appear twice" in refused(with_kubelet(config={"registerWithTaints": [taint] * 2})).detail
    )


def test_toml_given_to_al2023_never_joins() -> None:
    with pytest.raises(UserDataError) as error:
        decode_user_data("AL2023", base64.b64encode(bottlerocket()).decode())

    assert error.value.problem is JoinProblem.BAD_USER_DATA


def test_an_image_family_that_cannot_be_simulated_is_refused_by_name() -> None:
    with pytest.raises(UserDataError, match="Windows2022") as error:
        decode_user_data("Windows2022", "eA==")

    assert error.value.problem is JoinProblem.UNSUPPORTED_FAMILY


@pytest.mark.parametrize("user_data", [None, ""])
def test_a_machine_without_user_data_joins_nothing(user_data: str | None) -> None:
    with pytest.raises(UserDataError) as error:
        decode_user_data("AL2023", user_data)

    assert error.value.problem is JoinProblem.NO_USER_DATA
