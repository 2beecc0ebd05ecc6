"""Reads the Kubernetes API with a kubeconfig that gets its token from a command.

kubectl would run that command for every call; here one token serves until it is about to end, so
that looking every second costs little. Only what the demo and the end-to-end tests need: reading.
"""

import base64
import json
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

import httpx2
import yaml

RENEW_BEFORE: Final = timedelta(minutes=1)
TOKEN_WITHIN_S: Final = 30.0
ANSWER_WITHIN_S: Final = 10.0
PATHS: Final = {
    "pods": "/api/v1/pods",
    "nodes": "/api/v1/nodes",
    "events": "/api/v1/events",
    "nodeclaims": "/apis/karpenter.sh/v1/nodeclaims",
    "nodepools": "/apis/karpenter.sh/v1/nodepools",
    "ec2nodeclasses": "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    "leases": "/apis/coordination.k8s.io/v1/leases",
}


class ApiError(Exception):
    """The cluster did not give what was asked for; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token and its end."""

    text: str
    ends: datetime


class ClusterApi:
    """The API server of a kubeconfig whose user is an `exec` entry."""

    def __init__(self, kubeconfig: str, environ: Mapping[str, str]) -> None:
        """Take the kubeconfig's text (YAML or JSON); `environ` is for its token command."""
        document = yaml.safe_load(kubeconfig)
        cluster, self._command = _chosen(document)
        self._environ = dict(environ)
        self._token: Token | None = None
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._http = httpx2.Client(
            base_url=cluster["server"],
            verify=ssl.create_default_context(cadata=authority),
            timeout=ANSWER_WITHIN_S,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def list(self, kind: str, *, namespace: str | None = None, labels: str = "") -> list[Any]:
        """Return the objects of a kind (a key of `PATHS`), by name."""
        path = PATHS[kind]
        if namespace is not None:
            head, _, tail = path.rpartition("/")
            path = f"{head}/namespaces/{namespace}/{tail}"
        answer = self.get(path, **({"labelSelector": labels} if labels else {}))
        items: list[Any] = answer.get("items") or []
        return sorted(items, key=lambda item: str(item["metadata"]["name"]))

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """Return what is at a path; raises ApiError for any other answer than 200."""
        try:
            answer = self._http.get(
                path, params=parameters, headers={"Authorization": f"Bearer {self._bearer()}"}
            )
        except httpx2.HTTPError as error:
            raise ApiError(f"the API server does not answer {path}: {error!r}") from error
        if answer.status_code != httpx2.codes.OK:
            raise ApiError(f"GET {path} answered {answer.status_code}: {answer.text[:300]}")
        document: dict[str, Any] = answer.json()
        return document

    def _bearer(self) -> str:
        if self._token is None or self._token.ends - RENEW_BEFORE < datetime.now(UTC):
            self._token = _ask_for_token(self._command, self._environ)
        return self._token.text


def _chosen(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """Return the cluster and the token command of the current context."""
    name = document["current-context"]
    context = _named(document["contexts"], name)["context"]
    cluster = _named(document["clusters"], context["cluster"])["cluster"]
    user = _named(document["users"], context["user"])["user"]
    if "exec" not in user:
        raise ApiError(f"the user of context {name!r} has no exec entry to get a token with")
    return cluster, [user["exec"]["command"], *user["exec"].get("args", [])]


def _named(entries: list[Any], name: str) -> Any:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise ApiError(f"the kubeconfig has no entry named {name!r}")


def _ask_for_token(command: list[str], environ: Mapping[str, str]) -> Token:
    answer = subprocess.run(
        command,
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=TOKEN_WITHIN_S,
    )
    if answer.returncode != 0:
        raise ApiError(f"{' '.join(command)} failed: {answer.stderr.strip()}")
    status = json.loads(answer.stdout)["status"]
    return Token(text=status["token"], ends=datetime.fromisoformat(status["expirationTimestamp"]))
