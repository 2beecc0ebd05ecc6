"""Tokens, kubeconfigs, and the variables and files of a pod."""

import base64
import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from nodewright_local.kubelets.api import access_of_kubeconfig
from nodewright_local.kubelets.aws_api import AwsApi, RoleCredentials
from nodewright_local.kubelets.pods.identity import PodFiles, platform_environment
from nodewright_local.pki import ensure_pki
from nodewright_local.state import ClusterState, plan_state

FILES = PodFiles(folder=Path("/pods/u-1"))


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterState:
    state = plan_state(tmp_path, versions={}, binaries={}, environ={})
    ensure_pki(state)
    return state


def test_a_token_is_a_presigned_question_who_am_i() -> None:
    credentials = RoleCredentials(
        access_key_id="ASIAX", secret_access_key="secret", session_token="session"
    )

    token = AwsApi("http://127.0.0.1:4566", "us-west-2").eks_token(credentials, "demo")

    prefix, _, encoded = token.partition(".")
    url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    query = {key: values[0] for key, values in parse_qs(url.query).items()}
    assert prefix == "k8s-aws-v1"
    assert "=" not in encoded
    assert url.netloc == "127.0.0.1:4566"
    assert query["Action"] == "GetCallerIdentity"
    assert query["X-Amz-Credential"].startswith("ASIAX/")
    assert query["X-Amz-SignedHeaders"] == "host;x-k8s-aws-id"
    assert query["X-Amz-Security-Token"] == "session"
    assert query["X-Amz-Expires"] == "60"


def test_the_administrators_kubeconfig_gives_server_and_client_certificate(
    cluster: ClusterState,
) -> None:
    access = access_of_kubeconfig(cluster.admin_kubeconfig)

    assert access.server == cluster.api_server_url
    assert access.token is None
    assert [item["subject"] for item in access.ssl_context.get_ca_certs()]


def test_a_kubeconfig_without_a_certificate_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "a",
                "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://x"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )

    with pytest.raises(ValueError, match="not a kubeconfig with a client certificate"):
        access_of_kubeconfig(path)


def test_the_platform_gives_nothing_of_the_callers_environment(
    cluster: ClusterState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "mine")

    variables = platform_environment(cluster, FILES, "k-1", with_pod_identity=False, path="/bin")

    assert variables == {
        "PATH": "/bin",
        "HOME": "/pods/u-1/home",
        "TMPDIR": "/pods/u-1/tmp",
        "LANG": "C.UTF-8",
        "HOSTNAME": "k-1",
        "PYTHONUNBUFFERED": "1",
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(cluster.api_server_port),
        "KUBECONFIG": "/pods/u-1/kubeconfig",
        "AWS_ENDPOINT_URL": cluster.aws_url,
    }


def test_an_association_adds_what_the_pod_identity_webhook_adds(cluster: ClusterState) -> None:
    bare = platform_environment(cluster, FILES, "k-1", with_pod_identity=False, path="/bin")
    full = platform_environment(cluster, FILES, "k-1", with_pod_identity=True, path="/bin")

    assert {key: full[key] for key in full.keys() - bare.keys()} == {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": (
            f"{cluster.aws_url}/_nodewright/pod-identity/credentials"
        ),
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/pods/u-1/eks-pod-identity/token",
        "AWS_REGION": "us-west-2",
        "AWS_DEFAULT_REGION": "us-west-2",
        "AWS_STS_REGIONAL_ENDPOINTS": "regional",
    }
