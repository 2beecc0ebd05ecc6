"""Service: only its cluster address is read, to tell nodes where DNS is."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from nodewright_controller.api.meta import Kind, KubeObject, Struct


class ServiceSpec(Struct):
    """Where the service answers."""

    cluster_ip: str = msgspec.field(default="", name="clusterIP")


class Service(KubeObject):
    """A Service."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Service", "services", True)

    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)
