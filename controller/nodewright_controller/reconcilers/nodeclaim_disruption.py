"""Keeps the conditions that disruption reads: Consolidatable, and when pods last came or went.

Upstream: pkg/controllers/nodeclaim/disruption, pkg/controllers/nodeclaim/podevents.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from nodewright_controller.api import labels
from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.pods import is_owned_by_daemon_set, is_terminal
from nodewright_controller.kernel.timing import format_instant
from nodewright_controller.lifecycle.consolidatable import consolidatable
from nodewright_controller.ports.clock import Clock
from nodewright_controller.reconcilers.world import World
from nodewright_controller.reconcilers.writes import Writes
from nodewright_controller.runtime.reconciler import DONE, Result

_AT_MOST_EVERY: Final = timedelta(seconds=10)


class NodeClaimDisruptionReconciler:
    """Sets or clears Consolidatable."""

    def __init__(self, *, world: World, writes: Writes, clock: Clock) -> None:
        self._world = world
        self._writes = writes
        self._clock = clock

    async def reconcile(self, name: str) -> Result:
        """Look at one claim."""
        claim = self._world.node_claims.get(name)
        if claim is None or claim.deleting:
            return DONE
        pool = self._world.node_pools.get(claim.labels.get(labels.NODEPOOL, ""))
        if pool is None or pool.spec.replicas is not None:
            return DONE
        verdict = consolidatable(claim, pool, self._clock.now())
        conditions = self._writes.conditions_of(claim)
        if verdict.holds:
            conditions.set_true("Consolidatable")
        else:
            conditions.clear("Consolidatable")
        await self._writes.save_status(claim, conditions)
        if verdict.check_after is None:
            return DONE
        return Result(verdict.check_after.total_seconds() + 0.1)


def is_pod_event(old: Pod | None, new: Pod | None) -> bool:
    """Whether a change means that a pod came to a node, left it, or finished there."""
    pod = new or old
    if pod is None or not pod.spec.node_name or is_owned_by_daemon_set(pod):
        return False
    if old is None or new is None:
        return True
    return (
        old.spec.node_name != new.spec.node_name
        or is_terminal(old) != is_terminal(new)
        or old.deleting != new.deleting
    )


class PodEventReconciler:
    """Writes `status.lastPodEventTime`, at most once in ten seconds per claim, never losing the last."""

    def __init__(self, *, world: World, writes: Writes, clock: Clock) -> None:
        self._world = world
        self._writes = writes
        self._clock = clock
        self._happened: dict[str, str] = {}

    def pod_event(self, node_name: str) -> str | None:
        """Take in an event on a node; returns the name of the claim to reconcile, if it is ours."""
        node = self._world.nodes.get(node_name)
        claim = self._world.claim_of(node) if node is not None else None
        if claim is None:
            return None
        self._happened[claim.name] = format_instant(self._clock.now())
        return claim.name

    async def reconcile(self, name: str) -> Result:
        """Write down the last event of one claim."""
        claim = self._world.node_claims.get(name)
        happened = self._happened.get(name)
        if claim is None or happened is None:
            self._happened.pop(name, None)
            return DONE
        last = claim.status.last_pod_event_time
        if last is not None:
            wait = last + _AT_MOST_EVERY - self._clock.now()
            if wait > timedelta():
                return Result(wait.total_seconds())
        del self._happened[name]
        body = {"lastPodEventTime": happened}
        written = await self._writes.kube.patch(
            type(claim), claim.name, {"status": body}, status=True
        )
        self._world.node_claims.observe(written)
        return DONE
