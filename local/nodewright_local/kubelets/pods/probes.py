"""Probes: how often to look, and what a row of results means. Pure; ``prober`` does the looking."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nodewright_local.kubelets.pods.environment import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe of a container's spec, defaults filled in. Times are seconds."""

    scheme: str
    """``http``, ``https`` or ``tcp``."""
    host: str
    """Empty: the pod's own address."""
    port: int
    path: str = "/"
    headers: Mapping[str, str] = field(default_factory=dict)
    initial_delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    success_threshold: int = 1
    failure_threshold: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTracker:
    """The row of equal results so far, and the verdict it led to."""

    success_threshold: int
    failure_threshold: int
    passing: bool | None
    """The verdict; None until the first threshold is reached."""
    last: bool | None = None
    row: int = 0

    @classmethod
    def start(cls, probe: Probe, *, passing: bool | None) -> "ProbeTracker":
        """Begin with a verdict: liveness passes, readiness fails, startup is open (None)."""
        return cls(
            success_threshold=probe.success_threshold,
            failure_threshold=probe.failure_threshold,
            passing=passing,
        )

    def observe(self, success: bool) -> "ProbeTracker":
        """Return the tracker after one more result; the verdict flips at the threshold."""
        row = self.row + 1 if success == self.last else 1
        threshold = self.success_threshold if success else self.failure_threshold
        verdict = success if row >= threshold else self.passing
        return replace(self, last=success, row=row, passing=verdict)


def parse_probe(spec: Mapping[str, Any], ports: Mapping[str, int]) -> Probe:
    """Read a probe of the pod spec; ``ports`` are the container's ports by name.

    Raises ConfigurationError for exec and gRPC probes and for a port name that does not exist.
    """
    common: dict[str, Any] = {
        "initial_delay": float(spec.get("initialDelaySeconds") or 0),
        "period": float(spec.get("periodSeconds") or 10),
        "timeout": float(spec.get("timeoutSeconds") or 1),
        "success_threshold": spec.get("successThreshold") or 1,
        "failure_threshold": spec.get("failureThreshold") or 3,
    }
    if "httpGet" in spec:
        http = spec["httpGet"]
        return Probe(
            scheme=(http.get("scheme") or "HTTP").lower(),
            host=http.get("host") or "",
            port=_port(http["port"], ports),
            path=http.get("path") or "/",
            headers={item["name"]: item["value"] for item in http.get("httpHeaders") or []},
            **common,
        )
    if "tcpSocket" in spec:
        socket = spec["tcpSocket"]
        return Probe(
            scheme="tcp", host=socket.get("host") or "", port=_port(socket["port"], ports), **common
        )
    raise ConfigurationError("the laptop cluster executes httpGet and tcpSocket probes only")


def _port(port: int | str, ports: Mapping[str, int]) -> int:
    if isinstance(port, int):
        return port
    if port.isdigit():
        return int(port)
    if port not in ports:
        raise ConfigurationError(f"probe port {port!r} is not a port name of the container")
    return ports[port]


def container_ports(container: Mapping[str, Any]) -> dict[str, int]:
    """Return the container's named ports."""
    return {
        port["name"]: port["containerPort"]
        for port in container.get("ports") or []
        if port.get("name")
    }
