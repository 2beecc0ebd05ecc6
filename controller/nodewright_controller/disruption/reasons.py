"""Why nodes are disrupted, and why one may not be; counted, and told as events."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class DisruptionReason(enum.StrEnum):
    """The reasons of the API, as budgets name them."""

    EMPTY = "Empty"
    UNDERUTILIZED = "Underutilized"
    DRIFTED = "Drifted"
    UNHEALTHY = "Unhealthy"


class Blocker(enum.Enum):
    """Why a node cannot be a candidate; the value is the sentence that the event shows."""

    NO_NODE_CLAIM = "node isn't managed by karpenter"
    NO_NODE = "nodeclaim does not have an associated node"
    DELETING = "node is deleting or marked for deletion"
    NOT_REGISTERED = "node isn't initialized nor registered"
    NOT_INITIALIZED = "node isn't initialized"
    NOMINATED = "node is nominated for a pending pod"
    DO_NOT_DISRUPT_NODE = (
        'disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation'
    )
    NO_NODE_POOL_LABEL = 'node doesn\'t have required label "karpenter.sh/nodepool"'
    UNKNOWN_NODE_POOL = "nodepool of the node doesn't exist"
    DO_NOT_DISRUPT_POD = 'pod has "karpenter.sh/do-not-disrupt" annotation'
    PDB = "pdb prevents pod evictions"
    SEVERAL_PDBS = "eviction does not support multiple PDBs"
    QUEUED = "node is already being disrupted"


@dataclass(frozen=True, slots=True)
class Blocked:
    """A node that may not be disrupted now."""

    node_name: str
    blocker: Blocker
    detail: str = ""
    """The pod or PDB that stands in the way."""

    @property
    def message(self) -> str:
        """The sentence for people."""
        text = f"{self.blocker.value} ({self.detail})" if self.detail else self.blocker.value
        return text[0].upper() + text[1:]
