"""Subnets: which ones a node class selects, and which one of a zone takes the next node.

EC2's count of free addresses lags behind launches, so what was just launched is deducted here
until the count moves. Upstream: pkg/providers/subnet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodewright_controller.api.ec2nodeclass import SubnetSelectorTerm
from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.expiring import ExpiringMap
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.selectors import Filter, tag_filters
from nodewright_controller.ports.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnet:
    """A subnet."""

    id: str
    zone: str
    zone_id: str
    free_ips: int


def parse_subnet(raw: Mapping[str, Any]) -> Subnet:
    """Read an entry of DescribeSubnets."""
    return Subnet(
        id=raw["SubnetId"],
        zone=raw["AvailabilityZone"],
        zone_id=raw.get("AvailabilityZoneId", ""),
        free_ips=raw.get("AvailableIpAddressCount", 0),
    )


def subnet_queries(terms: Sequence[SubnetSelectorTerm]) -> list[list[Filter]]:
    """Return the filters of each query that the terms need: one for all ids, one per tag set."""
    ids = sorted({term.id for term in terms if term.id})
    queries: list[list[Filter]] = [[{"Name": "subnet-id", "Values": ids}]] if ids else []
    queries.extend(tag_filters(term.tags) for term in terms if term.tags and not term.id)
    return queries


def subnet_per_zone(subnets: Iterable[Subnet], deducted: Mapping[str, int]) -> dict[str, Subnet]:
    """Return the subnet with most free addresses of each zone; ties go to the smaller id."""
    best: dict[str, Subnet] = {}
    for subnet in sorted(subnets, key=lambda found: found.id):
        known = best.get(subnet.zone)
        free = subnet.free_ips - deducted.get(subnet.id, 0)
        if known is None or free > known.free_ips - deducted.get(known.id, 0):
            best[subnet.zone] = subnet
    return best


class Subnets:
    """Subnets by selector, with the addresses that are as good as taken."""

    def __init__(self, clients: AwsClients, options: AwsOptions, clock: Clock) -> None:
        self._clients = clients
        self._cache: ExpiringMap[str, tuple[Subnet, ...]] = ExpiringMap(
            clock, options.subnet_refresh
        )
        self._known: dict[str, Subnet] = {}
        self._in_flight: dict[str, int] = {}

    async def select(self, terms: Sequence[SubnetSelectorTerm]) -> tuple[Subnet, ...]:
        """Return what the terms select: most free addresses first, then by id. Raises AwsError."""
        found: dict[str, Subnet] = {}
        for filters in subnet_queries(terms):
            for subnet in await self._describe(filters):
                found[subnet.id] = subnet
        return tuple(sorted(found.values(), key=lambda subnet: (-subnet.free_ips, subnet.id)))

    async def for_launch(self, ids: Sequence[str]) -> dict[str, Subnet]:
        """Return one subnet per zone out of `ids`, the one with most room. Raises AwsError."""
        if not ids:
            return {}
        subnets = await self._describe([{"Name": "subnet-id", "Values": sorted(ids)}])
        return subnet_per_zone(subnets, self._in_flight)

    async def _describe(self, filters: list[Filter]) -> tuple[Subnet, ...]:
        key = repr(filters)
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        pages = await self._clients.pages(self._clients.ec2.describe_subnets, Filters=filters)
        subnets = tuple(parse_subnet(raw) for page in pages for raw in page["Subnets"])
        for subnet in subnets:
            known = self._known.get(subnet.id)
            if known is None or known.free_ips != subnet.free_ips:
                self._in_flight.pop(subnet.id, None)  # EC2 has counted what was launched
            self._known[subnet.id] = subnet
        self._cache.put(key, subnets)
        return subnets

    def deduct(self, subnet_ids: Iterable[str], addresses: int) -> None:
        """Count addresses as taken while a launch is under way."""
        for subnet_id in subnet_ids:
            self._in_flight[subnet_id] = self._in_flight.get(subnet_id, 0) + addresses

    def give_back(self, subnet_ids: Iterable[str], addresses: int) -> None:
        """Undo `deduct` for subnets that the launch did not use."""
        for subnet_id in subnet_ids:
            left = self._in_flight.get(subnet_id, 0) - addresses
            if left > 0:
                self._in_flight[subnet_id] = left
            else:
                self._in_flight.pop(subnet_id, None)
