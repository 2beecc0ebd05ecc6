"""Ports of the host that pods claim, and when two claims collide.

Upstream: pkg/scheduling/hostportusage.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from nodewright_controller.api.pod import Pod

_ANY: Final = frozenset({"", "0.0.0.0", "::"})


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port on the host; `ip` is empty when it is taken on every address."""

    protocol: str
    port: int
    ip: str = ""

    def conflicts(self, other: HostPort) -> bool:
        """Whether both cannot be on one host: same protocol and port on a common address."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return not self.ip or not other.ip or self.ip == other.ip

    @override
    def __str__(self) -> str:
        address = f" on {self.ip}" if self.ip else ""
        return f"{self.port}/{self.protocol}{address}"


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports of the pod, sorted; those of restartable init containers count."""
    containers = list(pod.spec.containers or ())
    containers.extend(c for c in pod.spec.init_containers or () if c.restart_policy == "Always")
    found = {
        HostPort(
            port.protocol or "TCP", port.host_port, "" if port.host_ip in _ANY else port.host_ip
        )
        for container in containers
        for port in container.ports or ()
        if port.host_port
    }
    return tuple(sorted(found))
