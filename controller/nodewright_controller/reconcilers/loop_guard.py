"""Watches what was bought for which pod, and tells the solver what not to buy again for it.

Claims are remembered with the pods that they were made for. When a claim's node is ready and a pod
still waits, or the claim ended without one, that is a miss (`scheduling.guard` judges and counts
it). Pods that got a place, or are gone, are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from nodewright_controller.api.labels import INSTANCE_TYPE
from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.snapshot import Snapshot, StateNode
from nodewright_controller.scheduling.guard import Bar, Finding, Miss, Misses, judge_node

log = structlog.get_logger()

_SETTLING: Final = timedelta(seconds=20)
"""How long kube-scheduler may take to use a node that has become ready."""
_REMEMBERED: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A claim that did not help a pod."""

    pod: str
    node_claim: str
    node_pool: str
    instance_type: str
    bar: Bar


def log_miss(missed: Missed) -> None:
    """Write a miss to the log."""
    log.info(
        "claim did not help its pod",
        pod=missed.pod,
        nodeclaim=missed.node_claim,
        nodepool=missed.node_pool,
        instance_type=missed.instance_type,
        miss=missed.bar.miss.name.lower(),
        times=missed.bar.times,
        barred_until=missed.bar.until.isoformat(),
    )


@dataclass(slots=True)
class _Bought:
    node_pool: str
    pods: tuple[str, ...]
    instance_type: str = ""
    """Known once it is launched."""
    ready_since: datetime | None = None
    made: datetime | None = None
    """When the claim was created, once it was seen."""


class LoopGuard:
    """Remembers claims and their misses; lives as long as the process leads."""

    def __init__(self, tell: Callable[[Missed], None] = log_miss) -> None:
        self._tell = tell
        self._bought: OrderedDict[str, _Bought] = OrderedDict()
        self._misses = Misses()

    def bought(self, claim_name: str, node_pool: str, pods: Sequence[str]) -> None:
        """Remember a claim and the keys of the pods that it was made for."""
        self._bought[claim_name] = _Bought(node_pool, tuple(pods))
        while len(self._bought) > _REMEMBERED:
            self._bought.popitem(last=False)

    def bars(self, snapshot: Snapshot) -> Mapping[str, tuple[Bar, ...]]:
        """Look at what was bought, count what missed, and return what is barred, by pod key."""
        waiting = {pod.key: pod for pod in snapshot.pending_pods}
        nodes = {
            node.node_claim.name: node for node in snapshot.nodes if node.node_claim is not None
        }
        for name in list(self._bought):
            self._look(name, nodes.get(name), waiting, snapshot.now)
        self._misses.keep_only(waiting.keys())
        return self._misses.bars(snapshot.now)

    def _look(
        self, name: str, node: StateNode | None, waiting: Mapping[str, Pod], now: datetime
    ) -> None:
        bought = self._bought[name]
        if node is not None and node.node_claim is not None:
            bought.made = node.node_claim.metadata.creation_timestamp
        # A StatefulSet gives a new pod the name of the old one, which may have run here for long.
        bought.pods = tuple(
            pod
            for pod in bought.pods
            if pod not in waiting or not _is_younger(waiting[pod], bought.made)
        )
        if not any(pod in waiting for pod in bought.pods):
            if node is None or not bought.pods:
                del self._bought[name]
            return
        if node is None:
            del self._bought[name]
            if bought.ready_since is None:
                ended = Miss.DIED if bought.instance_type else Miss.UNSOLD
                found = {pod: Finding(ended) for pod in bought.pods if pod in waiting}
                self._count(name, bought, found, now)
            return
        if node.provider_id:
            bought.instance_type = node.labels.get(INSTANCE_TYPE, bought.instance_type)
        if not node.initialized or node.marked_for_deletion:
            return
        bought.ready_since = bought.ready_since or now
        settled = now - bought.ready_since >= _SETTLING
        found = {
            pod: finding
            for pod in bought.pods
            if pod in waiting
            and ((finding := judge_node(node, waiting[pod])).miss is not Miss.NOT_USED or settled)
        }
        # What a node is shows at once; whether kube-scheduler uses it shows after a while.
        bought.pods = tuple(pod for pod in bought.pods if pod not in found)
        if settled:
            del self._bought[name]
        self._count(name, bought, found, now)

    def _count(
        self, claim: str, bought: _Bought, found: Mapping[str, Finding], now: datetime
    ) -> None:
        for pod, finding in found.items():
            bar = self._misses.record(pod, bought.node_pool, bought.instance_type, finding, now)
            self._tell(
                Missed(
                    pod=pod,
                    node_claim=claim,
                    node_pool=bought.node_pool,
                    instance_type=bought.instance_type,
                    bar=bar,
                )
            )


def _is_younger(pod: Pod, claim_made: datetime | None) -> bool:
    """Whether the pod was created after the claim, which then was made for another of its name."""
    created = pod.metadata.creation_timestamp
    return created is not None and claim_made is not None and created > claim_made
