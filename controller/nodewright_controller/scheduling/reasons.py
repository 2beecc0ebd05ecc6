"""How it stands with a pod, and why: one code per cause, which never changes its meaning.

The text of a cause may improve; code and parameters stay. What is true of a certain pod and pool is
a `Refusal` in `scheduling.decision`. Why a node is of its instance type has codes of its own, in
`scheduling.type_reasons`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class Verdict(enum.StrEnum):
    """What it comes to for a pod."""

    BLOCKED = "blocked"
    """Nothing we may build fits."""
    STARVED = "starved"
    """It would fit, but a limit or the stock says no."""
    HELD = "held"
    """It waits for something that will come."""
    COMING = "coming"
    """A node for it is on its way, or is there and not used yet."""
    PLACED = "placed"
    """It has a node."""
    NOT_OURS = "not ours"
    """Somebody else decides about it."""


class Reason(enum.Enum):
    """A cause: code, kind (as scenario files name it), verdict, and message template.

    P1xx the pod's own shape, P2xx the place, P3xx the pool, P4xx the cloud, P5xx waiting.
    """

    CONFLICT = ("P101", "requirements", Verdict.BLOCKED, "{key} {asked} is not offered: {found}")
    UNKNOWN_LABEL = (
        "P102",
        "unknown-label",
        Verdict.BLOCKED,
        "label {key} is set by no node{hint}",
    )
    TAINT = ("P103", "taint", Verdict.BLOCKED, "taint {taint} is not tolerated")
    TOO_LARGE = (
        "P104",
        "no-instance-type-fits",
        Verdict.BLOCKED,
        "no instance type fits: {resource} {asked} is more than {found}",
    )
    NO_TYPE = (
        "P105",
        "no-instance-type-fits",
        Verdict.BLOCKED,
        "no instance type has {what}",
    )
    NO_OFFERING = (
        "P106",
        "no-offering",
        Verdict.BLOCKED,
        "no fitting instance type is offered as {what}",
    )
    HOST_PORT = (
        "P107",
        "host-port-conflict",
        Verdict.BLOCKED,
        "host port {port} is taken by daemon {owner}",
    )
    CONTRADICTION = ("P108", "requirements", Verdict.BLOCKED, "its own rules on {key} exclude all")
    INVALID = ("P109", "invalid-pod", Verdict.BLOCKED, "it cannot be read: {detail}")
    RESOURCE_CLAIMS = (
        "P110",
        "resource-claims",
        Verdict.NOT_OURS,
        "it uses dynamic resource claims ({claims}), which are not planned for",
    )
    NO_POOL_WANTED = ("P111", "requirements", Verdict.NOT_OURS, "it refuses every NodePool")
    RESTRICTED_LABEL = (
        "P112",
        "requirements",
        Verdict.BLOCKED,
        "label {key} is in Karpenter's own domain, and no node can be made with it",
    )
    CLOSED_VALUE = (
        "P113",
        "requirements",
        Verdict.BLOCKED,
        "{key} {asked} does not exist (there is {found})",
    )
    BY_FIELD = (
        "P114",
        "invalid-pod",
        Verdict.BLOCKED,
        "it selects nodes by field {field}, which no new node can promise",
    )
    HOST_WANTED = (
        "P115",
        "requirements",
        Verdict.BLOCKED,
        "it must run on host {asked}, and no new node can be that",
    )
    CLAIM_NOT_FOUND = ("P201", "pvc-not-found", Verdict.HELD, "volume claim {claim} does not exist")
    CLAIM_IMMEDIATE = (
        "P202",
        "pvc-unbound-immediate",
        Verdict.HELD,
        "volume claim {claim} is not bound yet, and its class {detail} binds at once",
    )
    VOLUME_PLACE = (
        "P203",
        "volume-topology",
        Verdict.BLOCKED,
        "volume claim {claim} needs {asked}, which is not offered",
    )
    SPREAD = (
        "P204",
        "topology-spread",
        Verdict.BLOCKED,
        "spread over {key} allows {allowed} (now {counts}, max skew {skew})",
    )
    ANTI_AFFINITY = (
        "P205",
        "pod-anti-affinity",
        Verdict.BLOCKED,
        "pod anti-affinity leaves no {key} free",
    )
    AFFINITY = (
        "P206",
        "pod-affinity",
        Verdict.BLOCKED,
        "pod affinity wants a {key} with {selector}, and there is none it can reach",
    )
    ATTACH_LIMIT = (
        "P207",
        "volume-limit",
        Verdict.BLOCKED,
        "{count} volumes of {driver} are more than an instance attaches ({limit})",
    )
    CLAIM_UNUSABLE = ("P208", "pvc-unusable", Verdict.HELD, "volume claim {claim} {detail}")
    LIMIT = (
        "P301",
        "nodepool-limit",
        Verdict.STARVED,
        "limit {resource} {limit} leaves {left}, the smallest fitting node has {asked}",
    )
    NODE_LIMIT = (
        "P302",
        "nodepool-limit",
        Verdict.STARVED,
        "limit nodes {limit} is used up",
    )
    MIN_VALUES = (
        "P303",
        "min-values",
        Verdict.BLOCKED,
        "fewer than {asked} values of {key} are left ({found})",
    )
    NOT_READY = ("P304", "nodeclass-not-ready", Verdict.HELD, "the pool is not ready: {detail}")
    NO_TYPES = ("P305", "no-instance-type-fits", Verdict.BLOCKED, "the pool has no instance types")
    OUT_OF_STOCK = (
        "P401",
        "no-offering",
        Verdict.STARVED,
        "every fitting offering is out of stock",
    )
    RESERVED_ONLY = (
        "P402",
        "no-offering",
        Verdict.STARVED,
        "only reserved capacity is allowed, and it is used up",
    )
    NO_IMAGE = ("P403", "no-image", Verdict.BLOCKED, "{detail}")
    NO_POOLS = ("P306", "no-pools", Verdict.BLOCKED, "there is no NodePool that can make nodes")
    RESERVATION_PENDING = (
        "P501",
        "deferred",
        Verdict.HELD,
        "reserved capacity is promised to others in this round",
    )
    OUT_OF_TIME = ("P502", "deferred", Verdict.HELD, "the round ended before it was looked at")
    GATED = ("P503", "gate", Verdict.HELD, "scheduling gate {gate} is closed")
    CLAIM_COMING = ("P504", "coming", Verdict.COMING, "claim {claim} {stage}")
    NOT_TAKEN = (
        "P505",
        "loop-guard",
        Verdict.HELD,
        "{what} was bought for it {times} and did not take it: {detail}",
    )
    NEVER_JOINED = (
        "P506",
        "loop-guard",
        Verdict.HELD,
        "a claim for it ended {times} before its node was ready",
    )
    PLANNED = ("P507", "coming", Verdict.COMING, "pool {pool} makes {what}")
    ROOM = ("P508", "coming", Verdict.COMING, "node/{node} has room for it")
    PREEMPTING = ("P509", "coming", Verdict.COMING, "it preempts others on node/{node}")
    NOT_TOLD = (
        "P510",
        "waiting",
        Verdict.HELD,
        "kube-scheduler has not said yet that it finds no place",
    )
    BOUND = ("P511", "placed", Verdict.PLACED, "it is on node/{node}")
    ENDED = ("P512", "ended", Verdict.NOT_OURS, "it has ended ({phase})")
    DELETING = ("P513", "deleting", Verdict.NOT_OURS, "it is being deleted")
    DAEMON = ("P514", "daemon", Verdict.NOT_OURS, "it belongs to {owner}, which brings no nodes")

    def __init__(self, code: str, kind: str, verdict: Verdict, template: str) -> None:
        self.code = code
        self.kind = kind
        self.verdict = verdict
        self.template = template


AWAITED: Final[Mapping[Reason, str]] = {
    Reason.CLAIM_NOT_FOUND: "when the claim exists",
    Reason.CLAIM_IMMEDIATE: "when it is bound",
    Reason.CLAIM_UNUSABLE: "when that has changed",
    Reason.NOT_READY: "when it is ready",
    Reason.OUT_OF_STOCK: "when there is stock again",
    Reason.RESERVED_ONLY: "when a reservation has room",
    Reason.RESERVATION_PENDING: "in the next round",
    Reason.OUT_OF_TIME: "in the next round",
    Reason.GATED: "when the gate is gone",
    Reason.PLANNED: "in the next round",
    Reason.ROOM: "when kube-scheduler binds it",
    Reason.PREEMPTING: "when they are gone",
    Reason.NOT_TOLD: "when it says so",
}
"""What a pod waits for, where that is an event rather than a change that somebody makes."""

NOT_MEANT: Final = frozenset({Reason.TAINT, Reason.CONFLICT, Reason.UNKNOWN_LABEL})
"""Causes by which a pool says that it is not meant for the pod, rather than unable to hold it."""
