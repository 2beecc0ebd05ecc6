"""Images that a node class selects, asked of SSM and EC2. The rules are in `ami.py`.

Upstream: pkg/providers/amifamily/ami.go, pkg/providers/ssm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

import structlog

from nodewright_controller.api.ec2nodeclass import AMISelectorTerm, AMIStatus, EC2NodeClass
from nodewright_controller.aws.ami import (
    Image,
    Variant,
    alias_parameters,
    choose,
    images_by_id_request,
    images_request,
    parse_image,
    status_of,
)
from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.error_codes import AwsError
from nodewright_controller.aws.expiring import ExpiringMap
from nodewright_controller.aws.families import LATEST, Alias, alias_of, family_of
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.version import ClusterVersion
from nodewright_controller.ports.clock import Clock

log = structlog.get_logger(__name__)

_ALIAS_TIME_TO_LIVE: Final = timedelta(hours=24)
_CUSTOM_TIME_TO_LIVE: Final = timedelta(minutes=5)
Found = list[tuple[Image, Variant | None]]


class Images:
    """Images by node class."""

    def __init__(
        self, clients: AwsClients, options: AwsOptions, clock: Clock, version: ClusterVersion
    ) -> None:
        self._clients = clients
        self._clock = clock
        self._version = version
        self._parameters: ExpiringMap[str, str] = ExpiringMap(clock, _ALIAS_TIME_TO_LIVE)
        self._mutable: set[str] = set()
        self._images: ExpiringMap[str, tuple[Image, ...]] = ExpiringMap(clock, options.ami_refresh)

    async def select(self, node_class: EC2NodeClass) -> tuple[AMIStatus, ...]:
        """Return the images a node class may boot, newest first; empty when there is none.

        Raises:
            AwsError: AWS did not answer.
            ValueError: the family or an alias is unknown.

        """
        family = family_of(node_class)
        alias = alias_of(node_class)
        if alias is not None:
            found = await self._of_alias(alias)
        else:
            found = await self._of_terms(node_class.spec.ami_selector_terms)
        return choose([(image, status_of(image, variant, family)) for image, variant in found])

    async def _of_alias(self, alias: Alias) -> Found:
        parameters = alias_parameters(alias, self._version.current)
        mutable = alias.version == LATEST
        ids = await asyncio.gather(
            *(self._parameter(item.path, _ALIAS_TIME_TO_LIVE, mutable) for item in parameters)
        )
        variants: dict[str, list[Variant | None]] = {}
        for image_id, item in zip(ids, parameters, strict=True):
            if image_id:
                variants.setdefault(image_id, []).extend(item.variants or (None,))
        images = await self._by_id(variants)
        return [(image, variant) for image in images for variant in variants[image.id]]

    async def _of_terms(self, terms: Sequence[AMISelectorTerm]) -> Found:
        ids = {term.id for term in terms if term.id}
        for term in terms:
            if term.ssm_parameter and not term.id:
                value = await self._parameter(term.ssm_parameter, _CUSTOM_TIME_TO_LIVE, True)
                if value.startswith("ami-"):
                    ids.add(value)
                else:
                    log.warning("skipped image parameter", parameter=term.ssm_parameter)
        images = list(await self._by_id(ids))
        for term in terms:
            if not term.id and not term.ssm_parameter:
                images.extend(await self._describe(images_request(term)))
        return [(image, None) for image in {image.id: image for image in images}.values()]

    async def _parameter(self, name: str, time_to_live: timedelta, mutable: bool) -> str:
        """Return a parameter's value, empty if there is no such parameter."""
        cached = self._parameters.get(name)
        if cached is not None:
            return cached
        try:
            answer = await self._clients.call(self._clients.ssm.get_parameter, Name=name)
        except AwsError as error:
            if not error.not_found:
                raise
            return ""
        value = str(answer["Parameter"]["Value"])
        self._parameters.put(name, value, time_to_live)
        if mutable:
            self._mutable.add(name)
        return value

    async def _by_id(self, ids: Iterable[str]) -> tuple[Image, ...]:
        wanted = sorted(ids)
        return await self._describe(images_by_id_request(wanted)) if wanted else ()

    async def _describe(self, request: dict[str, Any]) -> tuple[Image, ...]:
        key = repr(request)
        cached = self._images.get(key)
        if cached is not None:
            return cached
        pages = await self._clients.pages(self._clients.ec2.describe_images, **request)
        now = self._clock.now()
        parsed = (parse_image(raw, now) for page in pages for raw in page["Images"])
        images = tuple(image for image in parsed if image is not None)
        self._images.put(key, images)
        return images

    async def forget_deprecated(self) -> None:
        """Look anew at `latest` parameters whose image is deprecated by now. Raises AwsError."""
        values = {
            name: value for name, value in self._parameters.live().items() if name in self._mutable
        }
        images = {image.id: image for image in await self._by_id(set(values.values()))}
        for name, value in values.items():
            if value not in images or images[value].deprecated:
                self._parameters.drop(name)
