"""Lease and Event: the objects by which controllers talk to each other and to people."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from nodewright_controller.api.meta import Kind, KubeObject, Struct


class LeaseSpec(Struct):
    """Who leads, and until when. Times stay text: they have microseconds on the wire."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(KubeObject):
    """A Lease."""

    KIND: ClassVar[Kind] = Kind("coordination.k8s.io", "v1", "Lease", "leases", True)

    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class ObjectReference(Struct):
    """The object that an event is about."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class EventSource(Struct):
    """The component that saw it."""

    component: str = ""


class KubeEvent(KubeObject):
    """A core/v1 Event."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Event", "events", True)

    involved_object: ObjectReference = msgspec.field(default_factory=ObjectReference)
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    source: EventSource = msgspec.field(default_factory=EventSource)
    reporting_component: str = ""
