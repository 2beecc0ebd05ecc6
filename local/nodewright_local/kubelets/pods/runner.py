"""Run the controller's pods that are bound to living nodes of ours.

Level based: every second the list of pods is compared with what runs. Silence of the API server
changes nothing; a pod that is gone from the list, or whose node died, ends at once.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from nodewright_local.kubelets.api import ApiClient, ApiError, ApiUnreachable
from nodewright_local.kubelets.pods.pod import Platform, PodRun, remove_pod
from nodewright_local.kubelets.pods.process import end_orphans
from nodewright_local.kubelets.records import Records

log = logging.getLogger(__name__)

NAMESPACE = "karpenter"
LABEL_SELECTOR = "app.kubernetes.io/name=karpenter"
POLL_SECONDS = 1.0


@dataclass(slots=True, kw_only=True)
class PodRunner:
    """The loop over all pods of ours."""

    platform: Platform
    records: Records
    _runs: dict[str, PodRun] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _silent: bool = False

    async def run(self) -> None:
        """Poll until cancelled; then end every process."""
        await end_orphans(self.platform.cluster.pods_dir)
        self._runs.clear()  # this may be a second beginning, after an error
        self._tasks.clear()
        async with asyncio.TaskGroup() as group:
            while True:
                await self._poll(group)
                await asyncio.sleep(POLL_SECONDS)

    def ready_addresses(self) -> list[str]:
        """Return the addresses of pods that are Ready, in order of their names."""
        ready = [run for run in self._runs.values() if run.is_ready]
        return [run.address for run in sorted(ready, key=lambda run: run.name)]

    def find(self, namespace: str, pod_name: str) -> PodRun | None:
        """Return the run of a pod by name."""
        name = f"{namespace}/{pod_name}"
        return next((run for run in self._runs.values() if run.name == name), None)

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods that this kubelet runs, as it last knew them."""
        return [run.pod for run in self._runs.values()]

    async def _poll(self, group: asyncio.TaskGroup) -> None:
        api: ApiClient = self.platform.api
        try:
            answer = await api.get(
                f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=LABEL_SELECTOR
            )
        except (ApiError, ApiUnreachable) as error:
            if not self._silent:
                log.warning("pods cannot be listed: %s; what runs keeps running", error)
            self._silent = True
            return
        self._silent = False
        pods = {pod["metadata"]["uid"]: pod for pod in answer["items"]}
        self._collect_finished(set(pods))
        for uid, run in self._runs.items():
            if uid not in pods or self.records.node(run.pod["spec"]["nodeName"]) is None:
                run.abandon()
        for uid, pod in pods.items():
            self._advance(uid, pod, group)

    def _collect_finished(self, listed: set[str]) -> None:
        """Forget pods whose run has ended, once their objects are gone too."""
        for uid, task in list(self._tasks.items()):
            if task.done() and uid not in listed:
                del self._tasks[uid], self._runs[uid]

    def _advance(self, uid: str, pod: dict[str, Any], group: asyncio.TaskGroup) -> None:
        metadata = pod["metadata"]
        record = self.records.node(pod["spec"].get("nodeName") or "")
        deleting = "deletionTimestamp" in metadata
        if uid in self._runs:
            if deleting and not self._tasks[uid].done():
                grace = metadata.get("deletionGracePeriodSeconds")
                self._runs[uid].delete(float(30 if grace is None else grace))
                return
            if not deleting or record is None:
                return
        if record is None:
            return
        if deleting:
            # Nothing of it runs (any more); only the object is left to remove.
            group.create_task(remove_pod(self.platform.api, pod))
            return
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return
        log.info("starting pod %s/%s", metadata["namespace"], metadata["name"])
        run = PodRun(pod=pod, platform=self.platform, eks_cluster_name=record.cluster_name)
        self._runs[uid] = run
        self._tasks[uid] = group.create_task(_guarded(run))


async def _guarded(run: PodRun) -> None:
    try:
        await run.run()
    except Exception:
        log.exception("pod %s ended by an error of the pod runner", run.name)
