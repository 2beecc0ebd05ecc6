"""The image families: what each lets the kubelet do, and what its images look like.

Everything that differs between AL2023, Bottlerocket, Windows and the others is a column here, so
that the other modules ask a family instead of comparing names. Upstream: pkg/providers/amifamily.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from nodewright_controller.api.ec2nodeclass import BlockDevice, BlockDeviceMapping, EC2NodeClass


class Family(enum.StrEnum):
    """An image family, as `amiFamily` spells it."""

    AL2 = "AL2"
    AL2023 = "AL2023"
    BOTTLEROCKET = "Bottlerocket"
    CUSTOM = "Custom"
    WINDOWS2019 = "Windows2019"
    WINDOWS2022 = "Windows2022"
    WINDOWS2025 = "Windows2025"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a family's nodes can do."""

    os: str = "linux"
    windows_build: str = ""
    eni_limited_pods: bool = True
    """Whether the VPC CNI's network interfaces bound the number of pods."""
    pods_per_core: bool = True
    memory_follows_pods: bool = False
    """kube-reserved memory counts the real number of pods instead of the ENI limit."""
    any_kubelet_field: bool = False
    """Whether every KubeletConfiguration field can be set, not only the managed ones."""
    ephemeral_device: str = "/dev/xvda"
    """The device pods write to."""
    block_devices: tuple[BlockDeviceMapping, ...] = ()


def _volume(device: str, size: str) -> BlockDeviceMapping:
    ebs = BlockDevice(encrypted=True, volume_type="gp3", volume_size=size)
    return BlockDeviceMapping(device_name=device, ebs=ebs)


def _windows(build: str) -> Traits:
    return Traits(
        os="windows",
        windows_build=build,
        eni_limited_pods=False,
        memory_follows_pods=True,
        ephemeral_device="/dev/sda1",
        block_devices=(_volume("/dev/sda1", "50Gi"),),
    )


_AMAZON_LINUX: Final = (_volume("/dev/xvda", "20Gi"),)
TRAITS: Final[Mapping[Family, Traits]] = {
    Family.AL2: Traits(block_devices=_AMAZON_LINUX),
    Family.AL2023: Traits(block_devices=_AMAZON_LINUX, any_kubelet_field=True),
    Family.BOTTLEROCKET: Traits(
        pods_per_core=False,
        memory_follows_pods=True,
        ephemeral_device="/dev/xvdb",
        block_devices=(_volume("/dev/xvda", "6Gi"), _volume("/dev/xvdb", "20Gi")),
    ),
    Family.CUSTOM: Traits(ephemeral_device="", any_kubelet_field=True),
    Family.WINDOWS2019: _windows("10.0.17763"),
    Family.WINDOWS2022: _windows("10.0.20348"),
    Family.WINDOWS2025: _windows("10.0.26100"),
}

LATEST: Final = "latest"
_BY_ALIAS: Final = {family.value.lower(): family for family in Family if family != Family.CUSTOM}
_ALIAS: Final = re.compile(r"([a-z0-9]+)@(.+)")


@dataclass(frozen=True, slots=True)
class Alias:
    """`family@version`, taken apart."""

    family: Family
    version: str
    """`latest`, or a version as the family's releases are named."""


def parse_alias(text: str) -> Alias:
    """Read an alias such as `al2023@latest`.

    Raises:
        ValueError: the family is unknown or the version missing; the message says which are known.

    """
    match = _ALIAS.fullmatch(text)
    family = _BY_ALIAS.get(match.group(1)) if match else None
    if match is None or family is None:
        known = ", ".join(f"{name}@…" for name in _BY_ALIAS)
        raise ValueError(f"alias {text!r} is not one of {known}")
    return Alias(family, match.group(2))


def alias_of(node_class: EC2NodeClass) -> Alias | None:
    """Return the alias that selects the images, if one does. Raises ValueError if malformed."""
    terms = node_class.spec.ami_selector_terms
    found = next((term.alias for term in terms if term.alias), "")
    return parse_alias(found) if found else None


def family_of(node_class: EC2NodeClass) -> Family:
    """Return the family whose bootstrap a node class uses: the one named, else its alias's.

    Raises:
        ValueError: neither names a known family.

    """
    named = node_class.spec.ami_family
    if named:
        try:
            return Family(named)
        except ValueError as error:
            known = ", ".join(Family)
            raise ValueError(f"amiFamily {named!r} is not one of {known}") from error
    alias = alias_of(node_class)
    if alias is None:
        raise ValueError("amiFamily is required when no amiSelectorTerm has an alias")
    return alias.family
