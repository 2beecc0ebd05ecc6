"""Instance profiles: one per node class and role, made, found again and cleaned up.

The name follows from cluster, node class and role, so making it twice makes one; a new role gets a
new profile, because nodes still run with the old one. Upstream: pkg/providers/instanceprofile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.error_codes import AwsError
from nodewright_controller.aws.expiring import ExpiringMap
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.tags import as_list, profile_tags
from nodewright_controller.ports.clock import Clock

log = structlog.get_logger(__name__)

_KNOWN_TIME_TO_LIVE: Final = timedelta(minutes=15)
PROTECTED: Final = timedelta(hours=1)
"""A profile this young is never garbage: whoever made it may not have written it down yet."""
_PAGE: Final = ("Marker", "Marker")
_LONGEST_NAME: Final = 128


@dataclass(frozen=True, slots=True)
class Profile:
    """An instance profile in IAM."""

    name: str
    path: str
    created: datetime
    roles: tuple[str, ...]


def parse_profile(raw: Mapping[str, Any]) -> Profile:
    """Read an instance profile."""
    return Profile(
        name=raw["InstanceProfileName"],
        path=raw.get("Path", "/"),
        created=raw["CreateDate"],
        roles=tuple(role["RoleName"] for role in raw.get("Roles") or ()),
    )


def role_name(role: str) -> str:
    """Return the name of a role that may be given with its path or as an ARN."""
    return role.rpartition("/")[2]


def profile_name(node_class: EC2NodeClass, role: str, options: AwsOptions) -> str:
    """Return the name of the profile of a node class for a role."""
    seed = "\n".join((options.region, node_class.name, node_class.uid, role_name(role)))
    digest = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
    suffix = f"_{digest}"
    return options.cluster_name[: _LONGEST_NAME - len(suffix)] + suffix


def cluster_path(options: AwsOptions) -> str:
    """Return the IAM path of everything made for a cluster."""
    return f"/karpenter/{options.region}/{options.cluster_name}/"


def node_class_path(node_class: EC2NodeClass, options: AwsOptions) -> str:
    """Return the IAM path of a node class's profiles."""
    return f"{cluster_path(options)}{node_class.uid}/"


class InstanceProfiles:
    """Instance profiles of this cluster."""

    def __init__(self, clients: AwsClients, options: AwsOptions, clock: Clock) -> None:
        self._clients = clients
        self._options = options
        self._clock = clock
        self._ready: ExpiringMap[str, str] = ExpiringMap(clock, _KNOWN_TIME_TO_LIVE)

    async def ensure(self, node_class: EC2NodeClass) -> str:
        """Return the name of the node class's profile, which then exists and holds its role.

        Raises:
            AwsError: IAM does not know the role, refuses, or does not answer.

        """
        spec = node_class.spec
        if spec.instance_profile:
            return spec.instance_profile
        role = role_name(spec.role or "")
        name = profile_name(node_class, role, self._options)
        if self._ready.get(name) == role:
            return name
        profile = await self._get(name) or await self._create(name, node_class)
        await self._give_role(profile, role)
        self._ready.put(name, role)
        return name

    async def _get(self, name: str) -> Profile | None:
        try:
            answer = await self._clients.call(
                self._clients.iam.get_instance_profile, InstanceProfileName=name
            )
        except AwsError as error:
            if not error.not_found:
                raise
            return None
        return parse_profile(answer["InstanceProfile"])

    async def _create(self, name: str, node_class: EC2NodeClass) -> Profile:
        try:
            answer = await self._clients.call(
                self._clients.iam.create_instance_profile,
                InstanceProfileName=name,
                Path=node_class_path(node_class, self._options),
                Tags=as_list(profile_tags(node_class, self._options)),
            )
        except AwsError as error:
            found = await self._get(name) if error.already_exists else None
            if found is None:
                raise
            return found
        log.info("created instance profile", instance_profile=name)
        return parse_profile(answer["InstanceProfile"])

    async def _give_role(self, profile: Profile, role: str) -> None:
        for other in profile.roles:
            if other != role:
                await self._clients.call(
                    self._clients.iam.remove_role_from_instance_profile,
                    InstanceProfileName=profile.name,
                    RoleName=other,
                )
        if role not in profile.roles:
            try:
                await self._clients.call(
                    self._clients.iam.add_role_to_instance_profile,
                    InstanceProfileName=profile.name,
                    RoleName=role,
                )
            except AwsError as error:
                # A repeated call after a lost answer finds the place taken by this very role.
                again = await self._get(profile.name) if error.code == "LimitExceeded" else None
                if again is None or role not in again.roles:
                    raise

    async def list(self, path: str) -> tuple[Profile, ...]:
        """Return the profiles under an IAM path. Raises AwsError."""
        pages = await self._clients.pages(
            self._clients.iam.list_instance_profiles, tokens=_PAGE, PathPrefix=path
        )
        profiles = (parse_profile(raw) for page in pages for raw in page["InstanceProfiles"])
        return tuple(profile for profile in profiles if profile.path.startswith(path))

    async def delete(self, profile: Profile) -> None:
        """Delete a profile; one that is gone already is fine. Raises AwsError."""
        iam, name = self._clients.iam, profile.name
        try:
            for role in profile.roles:
                await self._clients.call(
                    iam.remove_role_from_instance_profile, InstanceProfileName=name, RoleName=role
                )
            await self._clients.call(iam.delete_instance_profile, InstanceProfileName=name)
        except AwsError as error:
            if not error.not_found:
                raise
        self._ready.drop(name)
        log.info("deleted instance profile", instance_profile=name)

    async def delete_of_node_class(self, node_class: EC2NodeClass) -> None:
        """Delete every profile made for a node class. Raises AwsError."""
        if self._options.isolated_vpc:
            return
        for profile in await self.list(node_class_path(node_class, self._options)):
            await self.delete(profile)

    async def garbage(self, in_use: frozenset[str]) -> tuple[Profile, ...]:
        """Return the cluster's profiles that nothing uses and that are not young. AwsError."""
        now = self._clock.now()
        return tuple(
            profile
            for profile in await self.list(cluster_path(self._options))
            if profile.name not in in_use and now - profile.created >= PROTECTED
        )
