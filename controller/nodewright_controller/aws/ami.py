"""Which image a node boots: aliases to SSM paths, images to requirement sets, types to images.

Pure. Talking to SSM and EC2 is `images.py`. Upstream: pkg/providers/amifamily.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from nodewright_controller.api import labels
from nodewright_controller.api.ec2nodeclass import AMISelectorTerm, AMIStatus
from nodewright_controller.api.nodepool import NodeSelectorRequirementWithMinValues
from nodewright_controller.aws.families import LATEST, TRAITS, Alias, Family
from nodewright_controller.aws.instance_type_info import ARCHITECTURES
from nodewright_controller.aws.kubelet import Problem
from nodewright_controller.aws.selectors import tag_filters
from nodewright_controller.constraints.instance_type import InstanceType
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.timing import parse_instant

Entry = NodeSelectorRequirementWithMinValues
_DEFAULT_OWNERS: Final = ("self", "amazon")


@dataclass(frozen=True, slots=True)
class Variant:
    """The devices an image has drivers for, as requirements on the instance type."""

    name: str
    gpu: str
    accelerator: str

    def entries(self) -> list[Entry]:
        """Return the requirements, without the architecture."""
        wanted = (
            (labels.INSTANCE_GPU_COUNT, self.gpu),
            (labels.INSTANCE_ACCELERATOR_COUNT, self.accelerator),
        )
        return [Entry(key=key, operator=operator) for key, operator in wanted if operator]


STANDARD: Final = Variant("standard", "DoesNotExist", "DoesNotExist")
NVIDIA: Final = Variant("nvidia", "Exists", "")
NEURON: Final = Variant("neuron", "", "Exists")


@dataclass(frozen=True, slots=True)
class ImageParameter:
    """An SSM parameter that names an image, and the variants that image serves."""

    path: str
    variants: tuple[Variant, ...]


def alias_parameters(alias: Alias, kubernetes_version: str) -> tuple[ImageParameter, ...]:
    """Return the SSM parameters behind an alias; some may not exist for an old version."""
    family, version = alias.family, alias.version
    if family is Family.AL2023:
        return _al2023(kubernetes_version, version)
    if family is Family.BOTTLEROCKET:
        return _bottlerocket(kubernetes_version, version)
    if family is Family.AL2:
        return _al2(kubernetes_version, version)
    year = family.value.removeprefix("Windows")
    name = f"Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes_version}"
    return (ImageParameter(f"/aws/service/ami-windows-latest/{name}/image_id", ()),)


def _al2023(kubernetes_version: str, version: str) -> tuple[ImageParameter, ...]:
    found = []
    for arch, variants in (("x86_64", (STANDARD, NVIDIA, NEURON)), ("arm64", (STANDARD, NVIDIA))):
        for variant in variants:
            pinned = f"amazon-eks-node-al2023-{arch}-{variant.name}-{kubernetes_version}-{version}"
            segment = "recommended" if version == LATEST else pinned
            path = (
                f"/aws/service/eks/optimized-ami/{kubernetes_version}/amazon-linux-2023"
                f"/{arch}/{variant.name}/{segment}/image_id"
            )
            found.append(ImageParameter(path, (variant,)))
    return tuple(found)


def _bottlerocket(kubernetes_version: str, version: str) -> tuple[ImageParameter, ...]:
    version = version.removeprefix("v")
    found = []
    for suffix, arch, variants in (
        ("", "x86_64", (STANDARD, NEURON)),
        ("", "arm64", (STANDARD,)),
        ("-nvidia", "x86_64", (NVIDIA,)),
        ("-nvidia", "arm64", (NVIDIA,)),
    ):
        root = f"/aws/service/bottlerocket/aws-k8s-{kubernetes_version}{suffix}"
        found.append(ImageParameter(f"{root}/{arch}/{version}/image_id", variants))
    return tuple(found)


def _al2(kubernetes_version: str, version: str) -> tuple[ImageParameter, ...]:
    found = []
    for suffix, pinned, variants in (
        ("", "amazon-eks-node", (STANDARD,)),
        ("-arm64", "amazon-eks-arm64-node", (STANDARD,)),
        ("-gpu", "amazon-eks-gpu-node", (NEURON, NVIDIA)),
    ):
        segment = "recommended" if version == LATEST else f"{pinned}-{kubernetes_version}-{version}"
        root = f"/aws/service/eks/optimized-ami/{kubernetes_version}/amazon-linux-2{suffix}"
        found.append(ImageParameter(f"{root}/{segment}/image_id", variants))
    return tuple(found)


def alias_problem(alias: Alias, kubernetes_version: str) -> Problem | None:
    """Return why an alias can never resolve for this Kubernetes version, or None."""
    minor = int(kubernetes_version.partition(".")[2] or 0)
    message = ""
    if alias.family is Family.AL2 and minor >= 33:
        message = f"al2 has no images for Kubernetes {kubernetes_version}; use al2023@latest"
    if alias.family is Family.WINDOWS2025 and minor < 35:
        message = f"windows2025 has no images for Kubernetes {kubernetes_version}, only from 1.35"
    return Problem("UnsupportedAlias", message) if message else None


@dataclass(frozen=True, slots=True)
class Image:
    """An image of DescribeImages."""

    id: str
    name: str
    created: datetime
    architecture: str
    """Kubernetes name."""
    deprecated: bool


def parse_image(raw: Mapping[str, Any], now: datetime) -> Image | None:
    """Read an entry of DescribeImages; None if its architecture is none that nodes have."""
    architecture = ARCHITECTURES.get(raw.get("Architecture", ""))
    if architecture is None:
        return None
    deprecation = raw.get("DeprecationTime")
    return Image(
        id=raw["ImageId"],
        name=raw.get("Name", ""),
        created=parse_instant(raw.get("CreationDate") or "1970-01-01T00:00:00Z"),
        architecture=architecture,
        deprecated=deprecation is not None and parse_instant(deprecation) <= now,
    )


def images_request(term: AMISelectorTerm) -> dict[str, Any]:
    """Return the DescribeImages request of a selector term by tags, name or owner."""
    filters: list[dict[str, Any]] = []
    if term.name:
        filters.append({"Name": "name", "Values": [term.name]})
    filters.extend(tag_filters(term.tags))
    request = _images_base(filters)
    if term.owner:
        request["Owners"] = [term.owner]
    elif term.name:
        request["Owners"] = list(_DEFAULT_OWNERS)
    return request


def images_by_id_request(ids: Iterable[str]) -> dict[str, Any]:
    """Return the DescribeImages request for known ids; ids that are gone are no error."""
    return _images_base([{"Name": "image-id", "Values": sorted(ids)}])


def _images_base(filters: list[dict[str, Any]]) -> dict[str, Any]:
    everything = [*filters, {"Name": "state", "Values": ["available"]}]
    return {"Filters": everything, "IncludeDeprecated": True, "MaxResults": 1000}


def status_of(image: Image, variant: Variant | None, family: Family) -> AMIStatus:
    """Return the image with the requirements a type must meet to boot it."""
    entries = [Entry(key=labels.ARCH, operator="In", values=[image.architecture])]
    if variant is not None:
        entries.extend(variant.entries())
    traits = TRAITS[family]
    if traits.os == "windows":
        entries.append(Entry(key=labels.OS, operator="In", values=[traits.os]))
        build = [traits.windows_build]
        entries.append(Entry(key=labels.WINDOWS_BUILD, operator="In", values=build))
    return AMIStatus(
        id=image.id, name=image.name, deprecated=image.deprecated, requirements=entries
    )


def choose(candidates: Sequence[tuple[Image, AMIStatus]]) -> tuple[AMIStatus, ...]:
    """Return one image per requirement set, newest first, ties by id.

    Of several for one set, one that is not deprecated wins, then the newest, then the greater name.
    """
    best: dict[Requirements, tuple[Image, AMIStatus]] = {}
    for image, status in candidates:
        key = Requirements.of_entries(status.requirements)
        known = best.get(key)
        if known is None or _rank(image) > _rank(known[0]):
            best[key] = (image, status)
    ordered = sorted(best.values(), key=lambda found: found[0].id)
    ordered.sort(key=lambda found: found[0].created, reverse=True)
    return tuple(status for _, status in ordered)


def _rank(image: Image) -> tuple[bool, datetime, str]:
    return (not image.deprecated, image.created, image.name)


@functools.lru_cache(maxsize=256)
def _requirements(encoded: bytes) -> Requirements:
    return Requirements.of_entries(msgspec.json.decode(encoded, type=list[Entry]))


def image_for(instance_type: InstanceType, amis: Iterable[AMIStatus]) -> AMIStatus | None:
    """Return the first image that boots the type, or None."""
    for ami in amis:
        wanted = _requirements(msgspec.json.encode(ami.requirements))
        if instance_type.requirements.compatible_with_new_node(wanted):
            return ami
    return None
