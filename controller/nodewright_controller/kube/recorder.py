"""Publishes events: de-duplicated, counted instead of repeated, and never in anybody's way.

Upstream: pkg/events/recorder.go.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from nodewright_controller.api.coordination import EventSource, KubeEvent, ObjectReference
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.kernel.text import shorten
from nodewright_controller.kernel.timing import format_instant
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.errors import KubeError, NotFound
from nodewright_controller.ports.events import Event
from nodewright_controller.ports.kube import Kube

log = structlog.get_logger()

_COMPONENT = "karpenter"
_REMEMBERED = 4096
_MAX_MESSAGE_BYTES = 1024


@dataclass(slots=True)
class _Published:
    name: str
    count: int


class EventRecorder:
    """Implements `ports.events.Recorder`; `run` must be kept running."""

    def __init__(self, kube: Kube, clock: Clock, now: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._now = now
        self._queue: asyncio.Queue[Event] = asyncio.Queue(maxsize=1000)
        self._seen: OrderedDict[str, float] = OrderedDict()
        self._published: OrderedDict[str, _Published] = OrderedDict()

    def record(self, event: Event) -> None:
        """Queue the event unless an equal one was recorded a short while ago."""
        kind = event.about.KIND.kind
        subject = f"{kind}|{event.about.key}|{event.about.uid}|{event.reason}"
        key = f"{subject}|{event.dedupe_key or event.message}"
        now = self._now()
        if now - self._seen.get(key, float("-inf")) < event.dedupe_seconds:
            return
        self._remember(key, now)
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            log.warning("event dropped", reason=event.reason, object=event.about.key)

    def _remember(self, key: str, now: float) -> None:
        self._seen[key] = now
        self._seen.move_to_end(key)
        while len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    async def run(self) -> None:
        """Publish until cancelled; an event that cannot be published is logged and forgotten."""
        while True:
            event = await self._queue.get()
            try:
                await self._publish(event)
            except KubeError as error:
                log.info("event not published", reason=event.reason, error=str(error))

    async def _publish(self, event: Event) -> None:
        about, message = event.about, shorten(event.message, _MAX_MESSAGE_BYTES)
        namespace = about.metadata.namespace or "default"
        key = f"{about.KIND.kind}|{about.uid}|{event.reason}|{message}"
        known = self._published.get(key)
        stamp = format_instant(self._clock.now())
        if known is not None:
            body = {"count": known.count + 1, "lastTimestamp": stamp}
            try:
                await self._kube.patch(KubeEvent, known.name, body, namespace=namespace)
            except NotFound:
                del self._published[key]
            else:
                known.count += 1
                return
        name = f"{about.name}.{uuid.uuid4().hex[:16]}"
        reference = ObjectReference(
            api_version=about.KIND.api_version,
            kind=about.KIND.kind,
            name=about.name,
            namespace=about.metadata.namespace,
            uid=about.uid,
            resource_version=about.metadata.resource_version,
        )
        await self._kube.create(
            KubeEvent(
                metadata=ObjectMeta(name=name, namespace=namespace),
                involved_object=reference,
                reason=event.reason,
                message=message,
                type="Warning" if event.warning else "Normal",
                count=1,
                first_timestamp=stamp,
                last_timestamp=stamp,
                source=EventSource(component=_COMPONENT),
                reporting_component=_COMPONENT,
            )
        )
        self._published[key] = _Published(name, 1)
        while len(self._published) > _REMEMBERED:
            self._published.popitem(last=False)
