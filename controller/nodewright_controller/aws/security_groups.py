"""Security groups that a node class selects. Upstream: pkg/providers/securitygroup."""

from __future__ import annotations

from collections.abc import Sequence

from nodewright_controller.api.ec2nodeclass import SecurityGroupSelectorTerm, SecurityGroupStatus
from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.expiring import ExpiringMap
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.selectors import Filter, tag_filters
from nodewright_controller.ports.clock import Clock


def security_group_queries(terms: Sequence[SecurityGroupSelectorTerm]) -> list[list[Filter]]:
    """Return the filters of each query: one for all ids, one for all names, one per tag set."""
    ids = sorted({term.id for term in terms if term.id})
    names = sorted({term.name for term in terms if term.name})
    queries: list[list[Filter]] = []
    if ids:
        queries.append([{"Name": "group-id", "Values": ids}])
    if names:
        queries.append([{"Name": "group-name", "Values": names}])
    queries.extend(
        tag_filters(term.tags) for term in terms if term.tags and not term.id and not term.name
    )
    return queries


class SecurityGroups:
    """Security groups by selector."""

    def __init__(self, clients: AwsClients, options: AwsOptions, clock: Clock) -> None:
        self._clients = clients
        self._cache: ExpiringMap[str, tuple[SecurityGroupStatus, ...]] = ExpiringMap(
            clock, options.security_group_refresh
        )

    async def select(
        self, terms: Sequence[SecurityGroupSelectorTerm]
    ) -> tuple[SecurityGroupStatus, ...]:
        """Return what the terms select, by id. Raises AwsError."""
        found: dict[str, SecurityGroupStatus] = {}
        for filters in security_group_queries(terms):
            found.update((group.id, group) for group in await self._describe(filters))
        return tuple(found[key] for key in sorted(found))

    async def _describe(self, filters: list[Filter]) -> tuple[SecurityGroupStatus, ...]:
        key = repr(filters)
        cached = self._cache.get(key)
        if cached is not None:
            return cached
        pages = await self._clients.pages(
            self._clients.ec2.describe_security_groups, Filters=filters
        )
        groups = tuple(
            SecurityGroupStatus(id=raw["GroupId"], name=raw.get("GroupName", ""))
            for page in pages
            for raw in page["SecurityGroups"]
        )
        self._cache.put(key, groups)
        return groups
