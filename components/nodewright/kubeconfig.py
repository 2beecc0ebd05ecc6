"""Renders the kubeconfig of an EKS cluster. Pure.

It holds no secret: whoever uses it asks AWS for a token with credentials of their own.
"""

import json
from typing import Any


def kubeconfig(*, name: str, endpoint: str, certificate_authority: str, region: str) -> str:
    """Return a kubeconfig as JSON, whose user runs `aws eks get-token`.

    `certificate_authority` is base64 text as EKS gives it.
    """
    token_command: dict[str, Any] = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": [
            "eks",
            "get-token",
            "--cluster-name",
            name,
            "--region",
            region,
            "--output",
            "json",
        ],
        "interactiveMode": "Never",
        "provideClusterInfo": False,
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": name,
                    "cluster": {
                        "server": endpoint,
                        "certificate-authority-data": certificate_authority,
                    },
                }
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
            "users": [{"name": name, "user": {"exec": token_command}}],
        }
    )
