"""Service: its cluster address tells nodes where DNS is, its selector which pods belong together."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from nodewright_controller.api.meta import Kind, KubeObject, Struct, slim


class ServiceSpec(Struct):
    """Where the service answers, and for which pods."""

    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    selector: dict[str, str] | None = None
    """Absent: it selects nothing; empty: every pod of its namespace, but it says nothing of them."""


class Service(KubeObject):
    """A Service."""

    KIND: ClassVar[Kind] = Kind("", "v1", "Service", "services", True)

    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)

    def __post_init__(self) -> None:
        """Keep no annotations or labels: there may be thousands of Services, and nobody reads them."""
        slim(self.metadata)
