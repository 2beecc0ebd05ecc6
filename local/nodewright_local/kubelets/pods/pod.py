"""One pod of ours from binding to deletion: address, identity, containers, status."""

import asyncio
import base64
import contextlib
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nodewright_local.kubelets.api import ApiClient, ApiError, ApiUnreachable
from nodewright_local.kubelets.aws_api import AWS_ERRORS, AwsApi
from nodewright_local.kubelets.logs import container_log
from nodewright_local.kubelets.pods.addresses import AddressClaim, NoAddress, claim_address
from nodewright_local.kubelets.pods.container import Container, StopOrder
from nodewright_local.kubelets.pods.environment import (
    ConfigurationError,
    ReferenceKind,
    Sources,
    command_line,
    compose,
    references,
)
from nodewright_local.kubelets.pods.identity import PodFiles, PodIdentity, platform_environment
from nodewright_local.kubelets.pods.process import Command, LogFile
from nodewright_local.kubelets.pods.restarts import restarts
from nodewright_local.kubelets.pods.status import (
    Condition,
    ContainerReport,
    Ended,
    Waiting,
    conditions,
    pod_status,
)
from nodewright_local.state import ClusterState

log = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
FINAL_ATTEMPTS = 30
"""For the last status of a pod; after a minute of silence its object is removed without it."""
DEFAULT_GRACE_SECONDS = 30
FORCE_DELETE = {"gracePeriodSeconds": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """What every pod runs on."""

    cluster: ClusterState
    api: ApiClient
    aws: AwsApi
    entrypoint: str
    """What the controller image starts when the pod gives no command."""
    path: str
    """PATH of the containers."""


@dataclass(slots=True, kw_only=True)
class PodRun:
    """Runs one pod."""

    pod: dict[str, Any]
    platform: Platform
    eks_cluster_name: str
    stop: StopOrder = field(default_factory=StopOrder)
    containers: list[Container] = field(default_factory=list)
    _silent: bool = False
    _claim: AddressClaim | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _conditions: dict[str, Condition] = field(default_factory=dict)
    _published: dict[str, Any] = field(default_factory=dict)
    _identity: PodIdentity | None = None

    @property
    def name(self) -> str:
        """``namespace/name``."""
        return f"{self.pod['metadata']['namespace']}/{self.pod['metadata']['name']}"

    @property
    def address(self) -> str:
        """The pod's address, empty until it has one."""
        return self._claim.address if self._claim else ""

    @property
    def is_ready(self) -> bool:
        """Whether traffic may be sent to the pod."""
        return (
            not self.stop.given.is_set()
            and bool(self.containers)
            and all(container.report.ready for container in self.containers)
        )

    def delete(self, grace_seconds: float) -> None:
        """End the pod gracefully and remove its object, as after ``kubectl delete``."""
        self.stop.give(grace_seconds)

    def abandon(self) -> None:
        """End the pod at once and say nothing: its node died or its object is gone."""
        self._silent = True
        self.stop.give(0.0)

    async def run(self) -> None:
        """Run the pod to its end; cancelled, end its processes and leave its object alone."""
        try:
            await self._start()
            await self._run_containers()
            if not self._silent:
                await self._finish()
        finally:
            if self._claim:
                self._claim.release()
            shutil.rmtree(self._files.folder, ignore_errors=True)

    @property
    def _files(self) -> PodFiles:
        return PodFiles(folder=self.platform.cluster.pods_dir / self.pod["metadata"]["uid"])

    async def _start(self) -> None:
        """Get an address and an identity; keep trying until both are there."""
        before = self.pod.get("status") or {}
        while not self.stop.given.is_set():
            try:
                self._claim = self._claim or claim_address(before.get("podIP") or "")
                self._identity = await self._make_identity()
                break
            except (ApiError, ApiUnreachable, NoAddress, *AWS_ERRORS) as error:
                log.warning("pod %s cannot start yet: %s", self.name, error)
                await self._pause(RETRY_SECONDS)
        self.pod["status"] = {
            **before,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "hostIP": "127.0.0.1",
            "hostIPs": [{"ip": "127.0.0.1"}],
        }

    async def _make_identity(self) -> PodIdentity:
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        with_pod_identity = await asyncio.to_thread(
            self.platform.aws.has_pod_identity,
            self.eks_cluster_name,
            metadata["namespace"],
            spec.get("serviceAccountName") or "default",
        )
        identity = PodIdentity(
            pod=self.pod,
            cluster=self.platform.cluster,
            api=self.platform.api,
            with_pod_identity=with_pod_identity,
            files=self._files,
        )
        await identity.prepare()
        return identity

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stop.given.wait()

    async def _run_containers(self) -> None:
        if self._identity is None or self._claim is None:
            return
        self.containers = [self._container(spec) for spec in self.pod["spec"]["containers"]]
        self._changed.set()
        async with asyncio.TaskGroup() as group:
            helpers = [
                group.create_task(self._publish_changes()),
                group.create_task(self._identity.keep_fresh()),
            ]
            runs = [group.create_task(container.run()) for container in self.containers]
            await asyncio.wait(runs)
            for helper in helpers:
                helper.cancel()

    def _container(self, spec: Mapping[str, Any]) -> Container:
        metadata = self.pod["metadata"]
        known = {
            item["name"]: item
            for item in (self.pod.get("status") or {}).get("containerStatuses") or []
        }
        earlier = known.get(spec["name"], {})
        # A container that ran under an earlier run of this program starts again, and that counts.
        ran = bool(earlier.get("containerID"))
        name = spec["name"]
        logs_dir = self.platform.cluster.logs_dir
        return Container(
            spec=spec,
            pod_name=self.name,
            restart_policy=self.pod["spec"].get("restartPolicy") or "Always",
            grace_seconds=float(
                self.pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
            ),
            pod_ip=self.address,
            stop=self.stop,
            output=LogFile(container_log(logs_dir, metadata["namespace"], metadata["name"], name)),
            prepare=self._prepare,
            changed=self._changed.set,
            report=ContainerReport(
                name=name,
                image=spec.get("image") or "",
                container_id="",
                state=Waiting(reason="ContainerCreating"),
                restart_count=int(earlier.get("restartCount") or 0) + (1 if ran else 0),
            ),
            id_prefix=f"process://{metadata['uid']}/{name}",
        )

    async def _prepare(self, spec: Mapping[str, Any]) -> Command:
        if self.pod["spec"].get("initContainers"):
            raise ConfigurationError("the laptop cluster runs no init containers")
        sources = Sources(
            pod=self.pod,
            data=await self._referenced_data(spec),
            allocatable=await self._allocatable(),
        )
        platform = platform_environment(
            self.platform.cluster,
            self._files,
            self.pod["metadata"]["name"],
            with_pod_identity=self._identity is not None and self._identity.with_pod_identity,
            path=self.platform.path,
        )
        environment = compose(spec, sources, platform)
        return Command(
            words=command_line(spec, self.platform.entrypoint, environment),
            environment=environment,
            folder=self._files.home,
            pid_file=self._files.folder / f"{spec['name']}.pid",
        )

    async def _referenced_data(
        self, spec: Mapping[str, Any]
    ) -> dict[tuple[ReferenceKind, str], Mapping[str, str]]:
        namespace = self.pod["metadata"]["namespace"]
        found: dict[tuple[ReferenceKind, str], Mapping[str, str]] = {}
        for kind, name in sorted(set(references(spec))):
            try:
                item = await self.platform.api.get(f"/api/v1/namespaces/{namespace}/{kind}/{name}")
            except ApiError as error:
                if error.status != 404:
                    raise
                continue
            data = item.get("data") or {}
            if kind == "secrets":
                data = {key: base64.b64decode(value).decode() for key, value in data.items()}
            found[kind, name] = data
        return found

    async def _allocatable(self) -> Mapping[str, str]:
        node = await self.platform.api.get(f"/api/v1/nodes/{self.pod['spec']['nodeName']}")
        allocatable: Mapping[str, str] = node["status"].get("allocatable") or {}
        return allocatable

    async def _publish_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not await self._publish():
                await asyncio.sleep(RETRY_SECONDS)
                self._changed.set()

    async def _publish(self) -> bool:
        """Patch the pod's status if it changed; False: try again."""
        if self._silent:
            return True
        status = self._status()
        if status == self._published:
            return True
        try:
            await self.platform.api.patch(
                f"{self._path}/status",
                {"metadata": {"uid": self.pod["metadata"]["uid"]}, "status": status},
            )
        except ApiError as error:
            if error.status in (404, 409):  # gone, or another pod of the same name
                return True
            log.warning("status of pod %s not accepted: %s", self.name, error)
            return False
        except ApiUnreachable as error:
            log.warning("status of pod %s not delivered: %s", self.name, error)
            return False
        self._published = status
        return True

    @property
    def _path(self) -> str:
        metadata = self.pod["metadata"]
        return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"

    def _status(self) -> dict[str, Any]:
        reports = [container.report for container in self.containers]
        now = datetime.now(UTC)
        self._conditions = conditions(reports, self._conditions, now)
        policy = self.pod["spec"].get("restartPolicy") or "Always"
        will_restart = not self.stop.given.is_set() and any(
            not isinstance(report.state, Ended) or restarts(policy, report.state.exit_code)
            for report in reports
        )
        start_time = (self.pod["status"] or {}).get("startTime")
        return pod_status(
            reports,
            self._conditions,
            pod_ip=self.address,
            start_time=datetime.fromisoformat(start_time) if start_time else self._started(now),
            will_restart=will_restart,
        )

    def _started(self, now: datetime) -> datetime:
        self.pod["status"]["startTime"] = now.isoformat()
        return now

    async def _finish(self) -> None:
        """Report the end, then remove the object if its deletion was asked for."""
        for _ in range(FINAL_ATTEMPTS):
            if not self.containers or await self._publish():
                break
            await asyncio.sleep(RETRY_SECONDS)
        if self.stop.given.is_set() and not self._silent:
            await remove_pod(self.platform.api, self.pod)


async def remove_pod(api: ApiClient, pod: Mapping[str, Any]) -> None:
    """Delete a pod whose containers have ended, the kubelet's last word; keep trying."""
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    options = {**FORCE_DELETE, "preconditions": {"uid": metadata["uid"]}}
    while True:
        try:
            await api.delete(path, options)
        except ApiError as error:
            if error.status not in (404, 409):
                log.warning("pod %s not removed: %s", metadata["name"], error)
            return
        except ApiUnreachable:
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return


def entrypoint_in(folder: Path) -> str:
    """Return the controller's console script in a folder of programs."""
    return str(folder / "nodewright-controller")
