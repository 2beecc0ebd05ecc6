"""The eviction queue: asks for each pod's eviction until it goes, with back-off where a PDB forbids it.

Upstream: pkg/controllers/node/termination/terminator/eviction.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog

from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.pods import is_evictable, is_terminal
from nodewright_controller.lifecycle.termination import Means, Removal
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.errors import Conflict, KubeError, NotFound, TooManyRequests
from nodewright_controller.ports.events import Event, Recorder
from nodewright_controller.ports.kube import Kube
from nodewright_controller.reconcilers.world import World
from nodewright_controller.runtime import metrics
from nodewright_controller.runtime.reconciler import DONE, Controller, Result

log = structlog.get_logger()

_FIRST_SECONDS: Final = 0.1
_LAST_SECONDS: Final = 10.0


@dataclass(slots=True)
class _Wish:
    uid: str
    removal: Removal
    reason: str
    tries: int = 0


class EvictionQueue:
    """Removes pods of nodes that drain; one wish per pod, a forced deletion replaces an eviction."""

    def __init__(
        self, *, world: World, kube: Kube, recorder: Recorder, clock: Clock, concurrency: int = 20
    ) -> None:
        self._world = world
        self._kube = kube
        self._recorder = recorder
        self._clock = clock
        self._wishes: dict[str, _Wish] = {}
        self.controller = Controller("eviction-queue", self._handle, concurrency=concurrency)

    def add(self, removal: Removal, reason: str) -> None:
        """Ask for a pod to go; `reason` is why its node is disrupted."""
        key = removal.pod.key
        known = self._wishes.get(key)
        same_pod = known is not None and known.uid == removal.pod.uid
        if same_pod and not _replaces(removal, known):
            return
        self._wishes[key] = _Wish(removal.pod.uid, removal, reason)
        self.controller.enqueue(key)

    async def _handle(self, key: str) -> Result:
        wish = self._wishes.get(key)
        if wish is None:
            return DONE
        pod = self._world.pods.get(key)
        if pod is None or pod.uid != wish.uid or is_terminal(pod):
            self._wishes.pop(key, None)
            return DONE
        if wish.removal.means is Means.FORCE_DELETE:
            return await self._delete(pod, wish)
        if pod.deleting:
            self._wishes.pop(key, None)
            return DONE
        if not is_evictable(pod, self._clock.now()):
            return self._later(wish)
        return await self._evict(pod, wish)

    async def _evict(self, pod: Pod, wish: _Wish) -> Result:
        try:
            await self._kube.evict(pod.metadata.namespace, pod.name, pod.uid)
        except TooManyRequests as error:
            metrics.EVICTION_REQUESTS.labels("429").inc()
            self._tell_blocked(pod, str(error))
            return self._later(wish)
        except (NotFound, Conflict):
            metrics.EVICTION_REQUESTS.labels("404").inc()
        except KubeError as error:
            metrics.EVICTION_REQUESTS.labels("500").inc()
            log.warning("eviction failed", pod=pod.key, error=str(error))
            return self._later(wish)
        else:
            metrics.EVICTION_REQUESTS.labels("200").inc()
            metrics.PODS_DRAINED.labels(wish.reason).inc()
            self._recorder.record(
                Event(
                    about=pod,
                    reason="Evicted",
                    message=f"Evicted pod: {wish.reason or 'Forceful Termination'}",
                )
            )
        self._wishes.pop(pod.key, None)
        return DONE

    async def _delete(self, pod: Pod, wish: _Wish) -> Result:
        grace = wish.removal.grace_seconds or 1
        try:
            await self._kube.delete(
                Pod,
                pod.name,
                namespace=pod.metadata.namespace,
                uid=pod.uid,
                grace_seconds=grace,
            )
        except (NotFound, Conflict):
            pass
        except KubeError as error:
            log.warning("forced deletion failed", pod=pod.key, error=str(error))
            return self._later(wish)
        metrics.PODS_DRAINED.labels(wish.reason).inc()
        text = (
            f"Deleted the pod with {grace}s of grace to accommodate the terminationTime of its node;"
            " this bypasses its PDB and the karpenter.sh/do-not-disrupt annotation"
        )
        self._recorder.record(Event(about=pod, reason="Disrupted", message=text))
        self._wishes.pop(pod.key, None)
        return DONE

    def _tell_blocked(self, pod: Pod, error: str) -> None:
        node = self._world.nodes.get(pod.spec.node_name)
        if node is None:
            return
        several = "multiple PodDisruptionBudgets" in error
        cause = (
            f"eviction does not support multiple PDBs (pod {pod.key})"
            if several
            else f"evicting pod violates a PDB (pod {pod.key})"
        )
        self._recorder.record(
            Event(
                about=node,
                reason="FailedDraining",
                message=f"Failed to drain node, {cause}",
                warning=True,
            )
        )

    def _later(self, wish: _Wish) -> Result:
        delay = min(_FIRST_SECONDS * 2.0 ** min(wish.tries, 12), _LAST_SECONDS)
        wish.tries += 1
        return Result(delay)


def _replaces(removal: Removal, known: _Wish | None) -> bool:
    """Whether a new wish for the same pod is stronger than the one that waits."""
    forced = known is not None and known.removal.means is Means.FORCE_DELETE
    return removal.means is Means.FORCE_DELETE and not forced
