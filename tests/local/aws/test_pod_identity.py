"""Credentials for pods: the service account token is verified, the association names the role."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from nodewright_local.aws.server import AwsServer
from typing_extensions import override

from tests.local.aws.account import Account, trust


class Reviewer:
    """An API server that knows some tokens and nothing else."""

    def __init__(self) -> None:
        self.users: dict[str, str] = {}
        self.audiences: list[Any] = []
        reviewer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(reviewer.review(self.path, body)).encode()
                self.send_response(201)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            @override
            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever)
        self.thread.start()

    def review(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert path == "/apis/authentication.k8s.io/v1/tokenreviews"
        self.audiences.append(body["spec"]["audiences"])
        user = self.users.get(body["spec"]["token"])
        if user is None:
            return {"status": {"authenticated": False, "error": "unknown token"}}
        extra = {"authentication.kubernetes.io/pod-name": ["karpenter-0"]}
        return {"status": {"authenticated": True, "user": {"username": user, "extra": extra}}}

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture(scope="module")
def api_server(server: AwsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviewer]:
    """Make the stand-in verify tokens at a reviewer of ours."""
    reviewer = Reviewer()
    kubeconfig: Path = tmp_path_factory.mktemp("pod-identity") / "admin.kubeconfig"
    url = f"http://127.0.0.1:{reviewer.http.server_port}"
    document = {
        "clusters": [{"name": "laptop", "cluster": {"server": url}}],
        "users": [{"name": "admin", "user": {"token": "admin"}}],
    }
    kubeconfig.write_text(yaml.safe_dump(document))
    kept = server.world.settings
    server.world.settings = type(kept)(
        api_server_url=kept.api_server_url,
        ca_pem=kept.ca_pem,
        delays=kept.delays,
        admin_kubeconfig=kubeconfig,
    )
    yield reviewer
    reviewer.close()
    server.world.settings = kept


@pytest.fixture(scope="module")
def role(account: Account, api_server: Reviewer) -> str:
    """A role that is associated with karpenter/karpenter."""
    api_server.users["good"] = "system:serviceaccount:karpenter:karpenter"
    api_server.users["other"] = "system:serviceaccount:default:default"
    api_server.users["human"] = "alice"
    account.eks.create_cluster(
        name="demo",
        roleArn=account.role("control-plane", "eks.amazonaws.com"),
        resourcesVpcConfig={"subnetIds": list(account.subnets.values())},
        accessConfig={"authenticationMode": "API"},
    )
    arn = account.role("KarpenterController-demo", "pods.eks.amazonaws.com")
    account.eks.create_pod_identity_association(
        clusterName="demo", namespace="karpenter", serviceAccount="karpenter", roleArn=arn
    )
    return arn


def ask(account: Account, token: str) -> tuple[int, dict[str, Any]]:
    """Ask for credentials as an SDK does."""
    answer = account.control_response("GET", "pod-identity/credentials", Authorization=token)
    return answer.status_code, answer.json()


def test_a_pod_gets_the_credentials_of_its_role(
    account: Account, role: str, api_server: Reviewer
) -> None:
    status, keys = ask(account, "good")

    assert status == 200
    sts = account.client(
        "sts",
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["Token"],
    )
    assert sts.get_caller_identity()["Arn"] == (
        "arn:aws:sts::123456789012:assumed-role/KarpenterController-demo/eks-demo-karpenter-0"
    )
    assert keys["AccountId"] == "123456789012"
    assert keys["Expiration"].endswith("Z")
    assert api_server.audiences[-1] == ["pods.eks.amazonaws.com"]


@pytest.mark.parametrize(
    ("token", "status", "reason"),
    [
        ("", 401, "must carry a service account token"),
        ("forged", 401, "unknown token"),
        ("other", 404, "no pod identity association for service account default/default"),
        ("human", 403, "alice is not a service account"),
    ],
)
def test_a_refusal_says_why(
    account: Account, role: str, token: str, status: int, reason: str
) -> None:
    answered, document = ask(account, token)

    assert answered == status
    assert reason in document["error"]


def test_the_role_must_trust_pod_identity(account: Account, role: str) -> None:
    account.iam.update_assume_role_policy(
        RoleName="KarpenterController-demo", PolicyDocument=trust("ec2.amazonaws.com")
    )

    status, document = ask(account, "good")

    account.iam.update_assume_role_policy(
        RoleName="KarpenterController-demo", PolicyDocument=trust("pods.eks.amazonaws.com")
    )
    assert status == 403
    assert "does not let pods.eks.amazonaws.com do sts:AssumeRole" in document["error"]
