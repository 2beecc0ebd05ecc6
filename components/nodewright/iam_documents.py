"""IAM policy documents as plain data: trust policies, sizes, and rendering.

Which permissions the controller gets is decided in `controller_policies`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Statement = dict[str, Any]
Document = dict[str, Any]

MANAGED_POLICY_LIMIT = 6144
"""Characters of a managed policy, white space not counted. Source: IAM and STS quotas."""


class PolicyTooLargeError(ValueError):
    """A document is larger than IAM takes."""


def document(statements: Sequence[Statement]) -> Document:
    """Return a policy document of these statements."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def render(policy: Mapping[str, Any], name: str = "policy") -> str:
    """Return the document as compact JSON; raise `PolicyTooLargeError` beyond IAM's limit."""
    text = json.dumps(policy, separators=(",", ":"))
    if len(text) > MANAGED_POLICY_LIMIT:
        raise PolicyTooLargeError(
            f"{name} has {len(text)} characters and IAM takes {MANAGED_POLICY_LIMIT}; "
            "name fewer or shorter resources in the extra statements, or put them in a policy "
            "of their own"
        )
    return text


def service_trust(service: str, *, with_session_tags: bool = False) -> Document:
    """Return a trust policy for an AWS service such as `ec2.amazonaws.com`."""
    action: str | list[str] = "sts:AssumeRole"
    if with_session_tags:
        action = ["sts:AssumeRole", "sts:TagSession"]
    return document(
        [{"Effect": "Allow", "Principal": {"Service": service}, "Action": action}],
    )


def pod_identity_trust() -> Document:
    """Return the trust policy that lets EKS Pod Identity hand the role to a pod."""
    return service_trust("pods.eks.amazonaws.com", with_session_tags=True)


def service_account_trust(
    provider_arn: str, issuer_url: str, namespace: str, service_account: str
) -> Document:
    """Return the trust policy for one service account of an OIDC issuer (IRSA)."""
    issuer = issuer_url.removeprefix("https://")
    return document(
        [
            {
                "Effect": "Allow",
                "Principal": {"Federated": provider_arn},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {
                    "StringEquals": {
                        f"{issuer}:aud": "sts.amazonaws.com",
                        f"{issuer}:sub": f"system:serviceaccount:{namespace}:{service_account}",
                    }
                },
            }
        ]
    )
