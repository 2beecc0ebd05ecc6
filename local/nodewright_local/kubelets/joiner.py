"""Keep Nodes in step with EC2 instances: join, die, come back, be removed.

Pure part: :func:`next_step` from a record and the instance's state. The loop around it polls the
stand-in's list, carries out the steps, and survives silence of AWS and of the API server. Removing
the Node of a terminated instance is what the AWS cloud controller manager does on EKS.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum

import httpx2

from nodewright_local.kubelets.api import ApiClient, ApiError, ApiUnreachable
from nodewright_local.kubelets.aws_api import AwsApi, InstanceList
from nodewright_local.kubelets.heartbeat import end_heartbeat, free_heartbeat
from nodewright_local.kubelets.instance import Instance
from nodewright_local.kubelets.join import JoinFailed, join
from nodewright_local.kubelets.records import JoinState, Record, Records
from nodewright_local.kubelets.userdata.bootstrap import UserDataError

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 15.0
NODE_REMOVAL_SECONDS = 20.0
"""From the end of an instance until its Node is deleted, if nobody else did."""


class Step(Enum):
    """What to do for one instance now."""

    NOTHING = "nothing"
    JOIN = "join"
    STOP = "stop"
    REVIVE = "revive"
    WAIT_FOR_REMOVAL = "wait for removal"
    FORGET = "forget"


def next_step(record: Record | None, state: str | None, *, registered: bool) -> Step:
    """Decide from the instance's record and EC2's state (None: EC2 no longer lists it).

    ``registered``: whether this process has registered the kubelet since it started.
    """
    if state == "running":
        return _step_of_running(record, registered=registered)
    if record is None or state == "pending":
        return Step.NOTHING
    if state in (None, "terminated"):
        if record.has_node:
            return Step.WAIT_FOR_REMOVAL
        # The reason why it never joined stays readable as long as EC2 shows the instance.
        return Step.FORGET if state is None else Step.NOTHING
    if record.has_node and record.state is not JoinState.STOPPED:
        return Step.STOP
    return Step.NOTHING


def _step_of_running(record: Record | None, *, registered: bool) -> Step:
    if record is None:
        return Step.JOIN
    if record.state is JoinState.REFUSED:
        return Step.NOTHING
    if record.state is JoinState.STOPPED:
        return Step.REVIVE
    if record.state is JoinState.JOINED and registered:
        return Step.NOTHING
    return Step.JOIN


def retry_delay(attempts: int) -> float:
    """Return the seconds until the next attempt after so many failed ones: 1, 2, 4, 8, 15."""
    return min(LONGEST_RETRY_SECONDS, float(2 ** min(attempts - 1, 10)))


def _failed(record: Record, state: JoinState, error: UserDataError | JoinFailed) -> Record:
    return replace(
        record,
        state=state,
        reason=error.problem.value,
        detail=error.detail,
        attempts=record.attempts + 1,
    )


@dataclass(slots=True, kw_only=True)
class _Progress:
    """What this process remembers of an instance beyond its record. Times are loop times."""

    task: asyncio.Task[None] | None = None
    registered: bool = False
    not_before: float = 0.0
    ended_at: float | None = None


@dataclass(slots=True, kw_only=True)
class Joiner:
    """The loop. ``api`` acts with the administrator's rights, as cloud controllers do."""

    api: ApiClient
    aws: AwsApi
    instances: InstanceList
    records: Records
    kubelet_port: int
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _progress: dict[str, _Progress] = field(default_factory=dict)
    _aws_silent: bool = False

    async def run(self) -> None:
        """Poll until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._poll(tasks)
                await asyncio.sleep(POLL_SECONDS)

    async def _poll(self, tasks: asyncio.TaskGroup) -> None:
        try:
            listed = {item.instance_id: item for item in await self.instances.read()}
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            if not self._aws_silent:
                log.warning("AWS does not list instances: %r; nodes stay as they are", error)
            self._aws_silent = True
            return
        if self._aws_silent:
            log.info("AWS lists instances again")
        self._aws_silent = False
        for instance_id in [*listed, *(r.instance_id for r in self.records)]:
            self._advance(instance_id, listed.get(instance_id), tasks)

    def _advance(
        self, instance_id: str, instance: Instance | None, tasks: asyncio.TaskGroup
    ) -> None:
        progress = self._progress.setdefault(instance_id, _Progress())
        if progress.task is not None and not progress.task.done():
            return
        if asyncio.get_running_loop().time() < progress.not_before:
            return
        record = self.records.get(instance_id)
        state = instance.state if instance else None
        step = next_step(record, state, registered=progress.registered)
        if step is Step.FORGET:
            self._forget(instance_id)
        elif step is Step.JOIN and instance is not None:
            progress.task = tasks.create_task(self._join(instance, progress))
        elif step is Step.STOP and record is not None:
            progress.task = tasks.create_task(self._stop(record))
        elif step is Step.REVIVE and record is not None:
            progress.task = tasks.create_task(self._revive(record, progress))
        elif step is Step.WAIT_FOR_REMOVAL and record is not None:
            progress.task = tasks.create_task(self._remove(record, progress))
        elif instance is None and record is None:
            self._progress.pop(instance_id, None)

    def _forget(self, instance_id: str) -> None:
        self.records.forget(instance_id)
        self._progress.pop(instance_id, None)

    async def _join(self, instance: Instance, progress: _Progress) -> None:
        record = self.records.get(instance.instance_id) or Record(
            instance_id=instance.instance_id, state=JoinState.STARTING
        )
        record = replace(
            record, node_name=instance.private_dns_name, provider_id=instance.provider_id
        )
        try:
            joined = await join(instance, self.aws, kubelet_port=self.kubelet_port, now=self.now)
        except UserDataError as error:
            self.records.put(_failed(record, JoinState.REFUSED, error))
        except JoinFailed as error:
            failed = _failed(record, JoinState.RETRYING, error)
            self.records.put(failed)
            progress.not_before = asyncio.get_running_loop().time() + retry_delay(failed.attempts)
        except Exception:
            log.exception("joining instance %s failed unexpectedly", instance.instance_id)
            progress.not_before = asyncio.get_running_loop().time() + LONGEST_RETRY_SECONDS
        else:
            progress.registered = True
            self.records.put(
                replace(
                    record,
                    state=JoinState.JOINED,
                    cluster_name=joined.cluster_name,
                    joined_at=record.joined_at or self.now().isoformat(timespec="seconds"),
                    notes=joined.notes,
                    reason="",
                    detail="",
                    attempts=record.attempts + 1,
                )
            )

    async def _stop(self, record: Record) -> None:
        # The pods die with the machine, whether or not the API server can be told.
        self.records.put(replace(record, state=JoinState.STOPPED))
        while True:
            try:
                await self._end_heartbeat(record)
            except ApiUnreachable:
                await asyncio.sleep(POLL_SECONDS)
            except ApiError as error:
                if error.status != 404:
                    log.warning("node %s keeps its heartbeat: %s", record.node_name, error)
                return
            else:
                return

    async def _end_heartbeat(self, record: Record) -> None:
        node = await self.api.get(f"/api/v1/nodes/{record.node_name}")
        if node["spec"].get("providerID") == record.provider_id:
            await end_heartbeat(self.api, record.node_name)

    async def _revive(self, record: Record, progress: _Progress) -> None:
        """Let a machine boot again: its kubelet registers anew, and finds its Node."""
        try:
            await free_heartbeat(self.api, record.node_name)
        except (ApiError, ApiUnreachable) as error:
            log.warning("node %s cannot come back yet: %s", record.node_name, error)
            return
        progress.registered = False
        self.records.put(replace(record, state=JoinState.STARTING))

    async def _remove(self, record: Record, progress: _Progress) -> None:
        clock = asyncio.get_running_loop().time
        if record.state is not JoinState.STOPPED:
            await self._stop(record)
        if progress.ended_at is None:
            progress.ended_at = clock()
        path = f"/api/v1/nodes/{record.node_name}"
        try:
            node = await self.api.get(path)
            if node["spec"].get("providerID") != record.provider_id:
                self._forget(record.instance_id)
            elif clock() - progress.ended_at >= NODE_REMOVAL_SECONDS:
                if "deletionTimestamp" not in node["metadata"]:
                    log.info("deleting node %s: its instance is gone", record.node_name)
                    await self.api.delete(path)
                progress.ended_at = clock()
        except ApiError as error:
            if error.status == 404:
                self._forget(record.instance_id)
        except ApiUnreachable:
            log.debug("API server silent; node %s is removed later", record.node_name)
