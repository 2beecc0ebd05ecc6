"""Launch templates in EC2: made when a launch needs one, deleted when none did for a while.

Upstream: pkg/providers/launchtemplate/launchtemplate.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

import structlog

from nodewright_controller.api.labels import EC2_NODE_CLASS
from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.error_codes import AwsError
from nodewright_controller.aws.expiring import ExpiringMap
from nodewright_controller.aws.launch_template import LaunchTemplate
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.selectors import Filter
from nodewright_controller.aws.tags import CLUSTER_NAME
from nodewright_controller.ports.clock import Clock

log = structlog.get_logger(__name__)

UNUSED_TIME_TO_LIVE: Final = timedelta(minutes=1)


class LaunchTemplates:
    """Which templates exist, as far as this process knows."""

    def __init__(self, clients: AwsClients, options: AwsOptions, clock: Clock) -> None:
        self._clients = clients
        self._cluster_name = options.cluster_name
        self._known: ExpiringMap[str, None] = ExpiringMap(clock, UNUSED_TIME_TO_LIVE)
        self._names: set[str] = set()
        self._lock = asyncio.Lock()

    async def ensure(self, templates: Iterable[LaunchTemplate]) -> None:
        """Make those that do not exist yet, and count all of them as used now. Raises AwsError."""
        async with self._lock:
            for template in templates:
                if template.name not in self._names:
                    await self._create(template)
                self._keep(template.name)

    async def _create(self, template: LaunchTemplate) -> None:
        try:
            await self._clients.call(
                self._clients.ec2.create_launch_template, **template.create_request()
            )
        except AwsError as error:
            # The name says what is inside: one that exists is the one that is wanted.
            if not error.already_exists:
                raise
        log.debug("created launch template", launch_template=template.name)

    def _keep(self, name: str) -> None:
        self._names.add(name)
        self._known.put(name, None)

    def forget(self, names: Iterable[str]) -> None:
        """Forget templates that turned out not to exist."""
        for name in names:
            self._names.discard(name)
            self._known.drop(name)

    async def hydrate(self) -> None:
        """Learn of the cluster's templates in EC2, so that unused ones are deleted. AwsError."""
        for name in await self._list([self._cluster_filter()]):
            if name not in self._names:
                self._keep(name)

    async def delete_unused(self) -> int:
        """Delete what no launch used for a minute; return how many. Raises AwsError."""
        async with self._lock:
            lapsed = [name for name, _ in self._known.take_lapsed()]
            for index, name in enumerate(lapsed):
                try:
                    await self._delete(name)
                except AwsError:
                    for rest in lapsed[index:]:
                        self._keep(rest)
                    raise
                self._names.discard(name)
            return len(lapsed)

    async def delete_of_node_class(self, node_class: str) -> None:
        """Delete every template made for a node class. Raises AwsError."""
        filters = [
            self._cluster_filter(),
            {"Name": f"tag:{EC2_NODE_CLASS}", "Values": [node_class]},
        ]
        async with self._lock:
            for name in await self._list(filters):
                await self._delete(name)
                self.forget([name])

    def _cluster_filter(self) -> Filter:
        return {"Name": f"tag:{CLUSTER_NAME}", "Values": [self._cluster_name]}

    async def _list(self, filters: list[Filter]) -> list[str]:
        pages = await self._clients.pages(
            self._clients.ec2.describe_launch_templates, Filters=filters, MaxResults=200
        )
        return [str(raw["LaunchTemplateName"]) for page in pages for raw in page["LaunchTemplates"]]

    async def _delete(self, name: str) -> None:
        try:
            await self._clients.call(
                self._clients.ec2.delete_launch_template, LaunchTemplateName=name
            )
        except AwsError as error:
            if not error.not_found:
                raise
        log.debug("deleted launch template", launch_template=name)
