"""Who a bearer token is, as kube-apiserver asks it: the way of EKS from IAM to a Kubernetes user."""

import base64
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.model import ServiceId
from botocore.signers import RequestSigner
from nodewright_local.aws.identity import IdentityError, identify_presigned

from tests.local.aws.account import REGION, Account

AWS = Path(sys.executable).with_name("aws")
ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


@pytest.fixture(scope="module", autouse=True)
def cluster(account: Account) -> str:
    account.eks.create_cluster(
        name="demo",
        roleArn=account.role("control-plane", "eks.amazonaws.com"),
        resourcesVpcConfig={"subnetIds": list(account.subnets.values())},
        accessConfig={"authenticationMode": "API"},
    )
    account.eks.create_access_entry(
        clusterName="demo", principalArn=account.node_role, type="EC2_LINUX"
    )
    return "demo"


def presigned(account: Account, sts: Any, cluster_name: str = "demo") -> str:
    """A GetCallerIdentity URL signed with a client's own keys."""
    signer = RequestSigner(
        ServiceId("sts"), REGION, "sts", "v4", sts._request_signer._credentials, sts.meta.events
    )
    request = {
        "method": "GET",
        "url": f"{account.url}/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster_name},
        "context": {},
    }
    url: str = signer.generate_presigned_url(
        request, region_name=REGION, expires_in=60, operation_name=""
    )
    return url


def token_of(url: str) -> str:
    """The bearer token that carries a URL."""
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def review(account: Account, token: str, query: str = "") -> dict[str, Any]:
    """Ask the way kube-apiserver asks and return the status."""
    document = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    }
    answer = account.control("POST", f"authenticate?cluster={query}", document)
    assert answer["kind"] == "TokenReview"
    status: dict[str, Any] = answer["status"]
    return status


def session(account: Account, role_arn: str, name: str) -> Any:
    """An STS client with the keys of an assumed role."""
    keys = account.client("sts").assume_role(RoleArn=role_arn, RoleSessionName=name)["Credentials"]
    return account.client(
        "sts",
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
    )


def test_the_creator_is_a_cluster_administrator(account: Account) -> None:
    status = review(account, token_of(presigned(account, account.client("sts"))))

    assert status["authenticated"] is True
    assert status["user"]["groups"] == ["system:masters"]
    assert status["user"]["username"] == "arn:aws:iam::123456789012:user/laptop-admin"


def test_an_instance_is_its_node(account: Account) -> None:
    instance_id = account.launch()
    node = session(account, account.node_role, instance_id)

    status = review(account, token_of(presigned(account, node)), query="demo")

    name = account.instance(instance_id)["PrivateDnsName"]
    assert status["user"]["username"] == f"system:node:{name}"
    assert status["user"]["groups"] == ["system:bootstrappers", "system:nodes"]


def test_a_role_that_is_not_an_instance_is_no_node(account: Account) -> None:
    someone = session(account, account.node_role, "i-0123456789abcdef0")

    status = review(account, token_of(presigned(account, someone)))

    assert status["authenticated"] is False
    assert "is not an EC2 instance" in status["error"]


def test_a_role_without_an_entry_is_a_stranger(account: Account) -> None:
    stranger = session(account, account.role("stranger", "ec2.amazonaws.com"), "me")

    status = review(account, token_of(presigned(account, stranger)))

    assert status["authenticated"] is False
    assert "no access entry" in status["error"]


def test_a_role_gets_the_groups_and_the_name_of_its_entry(account: Account) -> None:
    role = account.role("developer", "ec2.amazonaws.com")
    account.eks.create_access_entry(
        clusterName="demo", principalArn=role, kubernetesGroups=["developers"]
    )
    developer = session(account, role, "alice@example.com")

    status = review(account, token_of(presigned(account, developer)))

    assert status["user"]["groups"] == ["developers"]
    assert status["user"]["username"] == (
        "arn:aws:sts::123456789012:assumed-role/developer/alice@example.com"
    )


def test_an_iam_user_is_known_by_its_key(account: Account) -> None:
    user = account.iam.create_user(UserName="bob")["User"]["Arn"]
    key = account.iam.create_access_key(UserName="bob")["AccessKey"]
    account.eks.create_access_entry(clusterName="demo", principalArn=user)
    account.eks.associate_access_policy(
        clusterName="demo", principalArn=user, policyArn=ADMIN, accessScope={"type": "cluster"}
    )
    bob = account.client(
        "sts",
        aws_access_key_id=key["AccessKeyId"],
        aws_secret_access_key=key["SecretAccessKey"],
    )
    forger = account.client(
        "sts", aws_access_key_id=key["AccessKeyId"], aws_secret_access_key="guessed"
    )

    status = review(account, token_of(presigned(account, bob)))
    forged = review(account, token_of(presigned(account, forger)))

    assert bob.get_caller_identity()["Arn"] == user
    assert status["user"]["username"] == user
    assert status["user"]["groups"] == ["system:masters"]
    assert forged["authenticated"] is False
    assert "signature does not match" in forged["error"]


def test_a_token_for_another_cluster_is_refused(account: Account) -> None:
    instance_id = account.launch()
    node = session(account, account.node_role, instance_id)

    status = review(account, token_of(presigned(account, node, cluster_name="other")))

    assert status["authenticated"] is False
    assert "signature does not match" in status["error"]


def test_an_old_token_is_refused(account: Account) -> None:
    url = presigned(account, account.client("sts"))
    now = datetime.now(UTC)

    accepted = identify_presigned(url, cluster="demo", now=now + timedelta(minutes=14))

    assert accepted.principal_arn.endswith("user/laptop-admin")
    with pytest.raises(IdentityError, match="expired"):
        identify_presigned(url, cluster="demo", now=now + timedelta(minutes=16))


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("eyJhbGciOi.something", "does not begin with k8s-aws-v1."),
        (token_of("https://sts.amazonaws.com/?Action=AssumeRole"), "GetCallerIdentity"),
        (token_of("https://x/?Action=GetCallerIdentity"), "x-k8s-aws-id"),
    ],
)
def test_other_tokens_are_refused_with_the_reason(
    account: Account, token: str, reason: str
) -> None:
    status = review(account, token)

    assert status["authenticated"] is False
    assert reason in status["error"]


def test_an_unknown_cluster_authenticates_nobody(account: Account) -> None:
    token = token_of(presigned(account, account.client("sts")))

    assert "no EKS cluster" in review(account, token, query="elsewhere")["error"]


def test_only_roles_that_exist_can_be_assumed(account: Account) -> None:
    with pytest.raises(Exception, match="AccessDenied"):
        session(account, "arn:aws:iam::123456789012:role/nobody", "someone")


def aws_cli(account: Account, *arguments: str) -> Any:
    """Run the real `aws` command line and return its JSON."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "AWS_ENDPOINT_URL": account.url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    done = subprocess.run(
        [str(AWS), *arguments, "--output", "json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_aws_command_line_gets_a_token_that_is_accepted(account: Account) -> None:
    credential = aws_cli(account, "eks", "get-token", "--cluster-name", "demo", "--region", REGION)

    status = review(account, credential["status"]["token"], query="demo")

    assert status["authenticated"] is True
    assert status["user"]["groups"] == ["system:masters"]


def test_the_aws_command_line_lists_instances(account: Account) -> None:
    instance_id = account.launch()

    listed = aws_cli(account, "ec2", "describe-instances", "--instance-ids", instance_id)

    assert listed["Reservations"][0]["Instances"][0]["InstanceId"] == instance_id
