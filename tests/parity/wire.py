"""Problems as the JSON that the Karpenter program reads, and its answers as values.

A problem holds nothing that Karpenter could not be told: nodes, claims and pods are Kubernetes
objects on both sides, only the catalogue has a form of our own. Representative daemon pods go back
to being DaemonSets.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from nodewright_controller.api import labels
from nodewright_controller.api.codec import to_wire
from nodewright_controller.api.meta import KubeObject
from nodewright_controller.api.pod import Pod
from nodewright_controller.aws.offerings import RESERVATION_LABELS
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.requirement import Requirement
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import EMPTY
from nodewright_controller.scheduling.decision import Decision, Offer, PlannedClaim
from nodewright_controller.scheduling.problem import Problem


class Answer(msgspec.Struct, rename="camel"):
    """A part of Karpenter's answer."""


class KarpenterOffer(Answer, kw_only=True):
    """The cheapest way to get a claim."""

    instance_type: str
    zone: str
    capacity_type: str
    price: float


class KarpenterRule(Answer, kw_only=True):
    """A requirement of a claim."""

    key: str
    operator: str
    values: list[str] | None = None


class KarpenterClaim(Answer, kw_only=True):
    """A node that Karpenter would ask for."""

    node_pool: str
    pods: list[str]
    instance_types: list[str]
    requirements: list[KarpenterRule]
    cheapest: KarpenterOffer


class KarpenterDecision(Answer, kw_only=True):
    """What Karpenter decided about one world."""

    name: str
    placements: dict[str, str]
    claims: list[KarpenterClaim] | None = None
    errors: dict[str, str]
    ignored: dict[str, str] | None = None
    cut_off: bool
    """Whether it ran out of time."""
    failure: str = ""
    setup_seconds: float
    solve_seconds: float

    @property
    def placed(self) -> frozenset[str]:
        """Keys of the pods that got a place."""
        new = (key for claim in self.claims or () for key in claim.pods)
        return frozenset((*self.placements, *new))

    @property
    def usd_per_hour(self) -> float:
        """What the new claims cost at their cheapest."""
        return sum(claim.cheapest.price for claim in self.claims or ())


def question(name: str, problem: Problem, runs: int = 1, solve_seconds: float = 0.0) -> bytes:
    """Return the problem as one JSON value.

    It will be decided `runs` times; each ends after `solve_seconds` with what it has by then,
    unless that is zero.
    """
    return msgspec.json.encode(
        {
            "name": name,
            "runs": runs,
            "solveSeconds": solve_seconds,
            "preferencePolicy": str(problem.options.preference_policy),
            "minValuesPolicy": str(problem.options.min_values_policy),
            "wellKnownLabels": sorted(labels.WELL_KNOWN),
            "normalizedLabels": labels.NORMALIZED,
            "reservationIDLabel": labels.CAPACITY_RESERVATION_ID,
            "reservationLabels": list(RESERVATION_LABELS),
            **_catalogue(problem),
            **_cluster(problem),
            **_storage(problem),
        }
    )


def ask(program: Path, questions: Iterable[bytes]) -> list[KarpenterDecision]:
    """Return Karpenter's decisions, one per question and run, in their order.

    Raises:
        RuntimeError: the program stops; the message is what it said.

    """
    answer = subprocess.run(
        [program], input=b"\n".join(questions), capture_output=True, check=False
    )
    if answer.returncode != 0:
        raise RuntimeError(answer.stderr.decode(errors="replace").strip())
    return [
        msgspec.json.decode(line, type=KarpenterDecision) for line in answer.stdout.splitlines()
    ]


def as_decision(problem: Problem, theirs: KarpenterDecision) -> Decision:
    """Return Karpenter's decision in our own form, so that the same judge can look at it.

    Pods that it refused are left out: its reasons are prose.
    """
    pools = {offer.node_pool.name: offer.node_pool for offer in problem.node_pools}
    claims = []
    for claim in theirs.claims or ():
        template = pools[claim.node_pool].spec.template
        claims.append(
            PlannedClaim(
                node_pool=claim.node_pool,
                pods=tuple(claim.pods),
                requirements=Requirements(
                    Requirement.of(rule.key, rule.operator, rule.values or ())
                    for rule in claim.requirements
                    if rule.key not in (labels.REGISTERED, labels.INITIALIZED)
                ),
                instance_types=tuple(claim.instance_types),
                cheapest=Offer(
                    instance_type=claim.cheapest.instance_type,
                    zone=claim.cheapest.zone,
                    capacity_type=claim.cheapest.capacity_type,
                    usd_per_hour=claim.cheapest.price,
                ),
                requests=EMPTY,
                labels={
                    **(template.metadata.labels or {}),
                    labels.NODEPOOL: claim.node_pool,
                    labels.EC2_NODE_CLASS: template.spec.node_class_ref.name,
                },
                taints=tuple(template.spec.taints or ()),
            )
        )
    return Decision(placements=theirs.placements, new_claims=tuple(claims))


def _cluster(problem: Problem) -> dict[str, Any]:
    nodes = (*problem.nodes, *problem.leaving)
    running = [pod for node in nodes for pod in node.pods]
    spaces = {pod.metadata.namespace for pod in (*problem.pods, *running, *problem.daemon_pods)}
    return {
        "nodePools": _wire(offer.node_pool for offer in problem.node_pools),
        "nodes": _wire(node.node for node in nodes if node.node is not None),
        "nodeClaims": _wire(node.node_claim for node in nodes if node.node_claim is not None),
        "pods": _wire((*problem.pods, *running)),
        "daemonSets": [_daemon_set(pod) for pod in problem.daemon_pods],
        "namespaces": [
            {"metadata": {"name": name, "labels": dict(problem.namespaces.get(name, {}))}}
            for name in sorted(spaces | set(problem.namespaces))
        ],
    }


def _storage(problem: Problem) -> dict[str, Any]:
    found = problem.volumes
    return {
        "persistentVolumeClaims": _wire(found.claims.values()),
        "persistentVolumes": _wire(found.volumes.values()),
        "storageClasses": _wire(found.classes.values()),
        "csiNodes": _wire(found.csi_nodes.values()),
    }


def _wire(objects: Iterable[KubeObject]) -> list[dict[str, Any]]:
    return [_spelled_out(one) for one in objects]


def _spelled_out(one: KubeObject) -> dict[str, Any]:
    """Return the object with the defaults that the API server would have filled in."""
    body = to_wire(one)
    _fill(one, body)
    return body


def _fill(struct: msgspec.Struct, body: dict[str, Any]) -> None:
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if value == field.default and value:
            body[field.encode_name] = msgspec.to_builtins(value)
        written = body.get(field.encode_name)
        if isinstance(value, msgspec.Struct) and isinstance(written, dict):
            _fill(value, written)
        elif isinstance(value, list) and isinstance(written, list):
            for item, item_body in zip(value, written, strict=True):
                if isinstance(item, msgspec.Struct):
                    _fill(item, item_body)


def _daemon_set(pod: Pod) -> dict[str, Any]:
    body = _spelled_out(pod)
    body["spec"].pop("nodeName", None)
    marks = {"daemon": pod.name}
    return {
        "metadata": {"name": pod.name, "namespace": pod.metadata.namespace, "uid": pod.uid},
        "spec": {
            "selector": {"matchLabels": marks},
            "template": {"metadata": {"labels": {**pod.labels, **marks}}, "spec": body["spec"]},
        },
    }


def _catalogue(problem: Problem) -> dict[str, Any]:
    types = {one.name: one for offer in problem.node_pools for one in offer.instance_types}
    return {
        "catalogue": [_instance_type(one) for one in types.values()],
        "instanceTypesByPool": {
            offer.node_pool.name: [one.name for one in offer.instance_types]
            for offer in problem.node_pools
        },
    }


def _instance_type(one: InstanceType) -> dict[str, Any]:
    return {
        "name": one.name,
        "requirements": _rules(one.requirements),
        "offerings": [
            {
                "requirements": _rules(offering.requirements),
                "price": offering.usd_per_hour,
                "available": offering.available,
                "reservationCapacity": offering.reservation_capacity,
            }
            for offering in one.offerings
        ],
        "capacity": one.capacity.format(),
        "overhead": one.overhead.total.format(),
        "volumeLimits": dict(one.volume_limits),
    }


def _rules(requirements: Requirements) -> list[dict[str, Any]]:
    entries: Sequence[tuple[str, Any, tuple[str, ...]]] = [
        entry for one in requirements.values() for entry in one.entries()
    ]
    return [
        {"key": key, "operator": str(operator), "values": list(values)}
        for key, operator, values in entries
    ]
