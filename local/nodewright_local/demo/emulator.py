"""The AWS stand-in's control API, as the demo and the end-to-end tests use it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import httpx2

GONE: Final = frozenset({"shutting-down", "terminated"})


class EmulatorError(Exception):
    """The stand-in refused or did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Instance:
    """What the demo tells about an instance."""

    instance_id: str
    instance_type: str
    zone: str
    state: str
    capacity_type: str
    usd_per_hour: float | None
    image_name: str
    image_family: str
    architecture: str
    private_dns_name: str
    launched_at: datetime
    launched_by: str
    """fleet, nodegroup or run-instances."""
    considered_types: int
    """How many instance types the request offered."""
    tags: dict[str, str]

    @property
    def is_gone(self) -> bool:
        """Say whether it is terminated or on the way there."""
        return self.state in GONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Capacity of one kind in one place; `*` stands for all."""

    instance_type: str = "*"
    zone: str = "*"
    capacity_type: str = "*"
    remaining: int = 0


class Emulator:
    """One AWS stand-in."""

    def __init__(self, aws_url: str) -> None:
        self._http = httpx2.Client(base_url=f"{aws_url}/_nodewright", timeout=15.0, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def instances(self, *, launched_by: str | None = None) -> list[Ec2Instance]:
        """Return the instances, terminated ones too while they are remembered."""
        found = [_instance(item) for item in self._ask("GET", "/instances")]
        return [item for item in found if launched_by in (None, item.launched_by)]

    def fleet_instances(self) -> list[Ec2Instance]:
        """Return the instances that the controller launched and that are not gone."""
        return [item for item in self.instances(launched_by="fleet") if not item.is_gone]

    def calls(self, action: str) -> list[dict[str, Any]]:
        """Return the recorded calls of an action, oldest first."""
        found: list[dict[str, Any]] = self._ask("GET", "/calls", params={"action": action})
        return found

    def call_times(self, action: str) -> list[datetime]:
        """Return when an action was called, oldest first."""
        return [datetime.fromtimestamp(call["time"], UTC) for call in self.calls(action)]

    def set_capacity(self, pools: Sequence[Pool]) -> None:
        """Say which capacity is short; no pool means everything is there."""
        body = {
            "pools": [
                {
                    "instance_type": pool.instance_type,
                    "zone": pool.zone,
                    "capacity_type": pool.capacity_type,
                    "remaining": pool.remaining,
                }
                for pool in pools
            ]
        }
        self._ask("PUT", "/ice", json=body)

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            answer = self._http.request(method, path, **options)
        except httpx2.HTTPError as error:
            raise EmulatorError(f"the AWS stand-in does not answer {path}: {error!r}") from error
        if answer.status_code != httpx2.codes.OK:
            raise EmulatorError(f"{method} {path} answered {answer.status_code}: {answer.text}")
        return answer.json()


def _instance(item: dict[str, Any]) -> Ec2Instance:
    return Ec2Instance(
        instance_id=item["instance_id"],
        instance_type=item["instance_type"],
        zone=item["zone"],
        state=item["state"],
        capacity_type=item["capacity_type"],
        usd_per_hour=item["price_usd_per_hour"],
        image_name=item["image_name"],
        image_family=item["image_family"],
        architecture=item["architecture"],
        private_dns_name=item["private_dns_name"],
        launched_at=datetime.fromisoformat(item["launch_time"]),
        launched_by=item["launched_by"],
        considered_types=item["considered_instance_types"] or 0,
        tags=item["tags"],
    )
