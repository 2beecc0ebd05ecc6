"""AL2 user data: the call of bootstrap.sh."""

import pytest
from nodewright_local.kubelets.userdata.al2 import decode
from nodewright_local.kubelets.userdata.bootstrap import Taint, UserDataError

from tests.local.kubelets.builders import ENDPOINT, ca_base64, mime

SHELL = 'text/x-shellscript; charset="us-ascii"'


def call(*options: str, name: str = "demo") -> str:
    words = [name, "--apiserver-endpoint", ENDPOINT, "--b64-cluster-ca", ca_base64(), *options]
    return "#!/bin/bash -xe\n/etc/eks/bootstrap.sh " + " ".join(words) + "\n"


def test_a_bootstrap_call_in_mime_joins() -> None:
    script = call(
        "--dns-cluster-ip 10.100.0.10",
        "--use-max-pods false",
        "--local-disks raid0",
        '--kubelet-extra-args \'--node-labels="a=b,c=d" --max-pods=29 '
        '--register-with-taints="x=y:NoSchedule,karpenter.sh/unregistered:NoExecute" '
        '--kube-reserved="cpu=100m,memory=1Gi" --eviction-hard="memory.available<5%"\'',
    )

    result = decode(mime((SHELL, "#!/bin/bash\necho before"), (SHELL, script)))

    assert result.cluster_name == "demo"
    assert result.api_server_endpoint == ENDPOINT
    assert result.cluster_dns == ("10.100.0.10",)
    assert result.max_pods == 29
    assert result.labels == {"a": "b", "c": "d"}
    assert result.taints == (
        Taint(key="x", value="y", effect="NoSchedule"),
        Taint(key="karpenter.sh/unregistered", effect="NoExecute"),
    )
    assert result.kube_reserved == {"cpu": "100m", "memory": "1Gi"}
    assert result.eviction_hard == {"memory.available": "5%"}
    assert result.instance_store_raid0


def test_a_call_over_several_lines_is_one_call() -> None:
    script = call().replace(" --b64", " \\\n  --b64")

    assert decode(script.encode()).cluster_name == "demo"


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        ("#!/bin/bash\necho nothing\n", "no shell script of the user data calls"),
        ("#!/bin/bash\n# /etc/eks/bootstrap.sh demo\n", "no shell script of the user data calls"),
        ("#!/bin/bash\n/etc/eks/bootstrap.sh demo\n", "--apiserver-endpoint is missing"),
        ("#!/bin/bash\n/etc/eks/bootstrap.sh 'demo\n", "does not parse"),
        ("apiVersion: node.eks.aws/v1alpha1\n", "must be a shell script"),
    ],
)
def test_a_script_that_does_not_bootstrap_never_joins(script: str, detail: str) -> None:
    with pytest.raises(UserDataError) as error:
        decode(script.encode())

    assert detail in error.value.detail


@pytest.mark.parametrize(
    ("arguments", "detail"),
    [
        ("--max-pods=many", "--max-pods must be a non-negative number"),
        ("--register-with-taints=a=b", "has no effect"),
        ("--kube-reserved=cpu", "is not of the form key=value"),
        ("node-labels=a=b", "takes no argument"),
        ("--eviction-hard=memory.free<1", "unknown eviction signal"),
    ],
)
def test_kubelet_arguments_that_fail_keep_the_node_away(arguments: str, detail: str) -> None:
    with pytest.raises(UserDataError) as error:
        decode(call(f"--kubelet-extra-args '{arguments}'").encode())

    assert detail in error.value.detail


def test_a_flag_and_its_value_may_be_two_words() -> None:
    script = call("--kubelet-extra-args '--node-labels a=b --max-pods 5'")

    result = decode(script.encode())

    assert (dict(result.labels), result.max_pods) == ({"a": "b"}, 5)
