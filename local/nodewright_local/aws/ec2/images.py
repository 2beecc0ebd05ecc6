"""The machine images of AWS that an EKS node can start from.

EKS publishes images per Kubernetes minor, architecture and variant, and their ids as SSM
parameters. Both views are made here from one table, so that a parameter and DescribeImages always
agree. Names, owners, parameter paths and device layouts are AWS's; release dates and ids are
invented, the same on every machine.
"""

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MINORS = tuple(f"1.{minor}" for minor in range(26, 38))
"""Kubernetes minors with images."""
EKS_OWNER = "602401143452"
BOTTLEROCKET_OWNER = "092701018921"
WINDOWS_OWNER = "801119661308"
AL2_LAST_MINOR = 32
"""EKS published no Amazon Linux 2 image after this minor."""
WINDOWS_2025_FIRST_MINOR = 35
EKS_RELEASES = ("20260915", "20261016", "20261120")
"""Release days of the EKS images, oldest first."""
BOTTLEROCKET_RELEASES = (
    ("1.45.0", "20250820"),
    ("1.46.0", "20250912"),
    ("1.50.0", "20251203"),
    ("1.55.0", "20260408"),
    ("1.58.0", "20260714"),
    ("1.59.0", "20260902"),
    ("1.60.0", "20261013"),
    ("1.61.0", "20261118"),
)
"""Bottlerocket versions with their release days, oldest first."""
_DEPRECATED_AFTER = timedelta(days=730)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of an image's block device mapping."""

    name: str
    size_gib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One public machine image."""

    image_id: str
    name: str
    family: str
    """`AL2`, `AL2023`, `Bottlerocket`, `Windows2022`, as an EC2NodeClass would name it."""
    variant: str
    """`standard`, `nvidia`, `neuron` or `gpu`."""
    kubernetes_minor: str
    architecture: str
    """`x86_64` or `arm64`."""
    owner_id: str
    created: datetime
    devices: tuple[Device, ...]
    """The root device first."""
    parameters: tuple[str, ...]
    """SSM parameters whose value is this image's id."""
    description: str
    release: str
    """What `release_version` says of the image."""

    @property
    def deprecated_at(self) -> datetime:
        """When DescribeImages begins to call the image deprecated."""
        return self.created + _DEPRECATED_AFTER

    @property
    def windows(self) -> bool:
        """Whether the image runs Windows."""
        return self.family.startswith("Windows")


def _image_id(name: str, region: str) -> str:
    return "ami-0" + hashlib.sha256(f"{region}/{name}".encode()).hexdigest()[:16]


def _day(day: str) -> datetime:
    return datetime.strptime(day, "%Y%m%d").replace(hour=18, tzinfo=UTC)


_ROOT = (Device(name="/dev/xvda", size_gib=20),)
_BOTTLEROCKET_DEVICES = (
    Device(name="/dev/xvda", size_gib=2),
    Device(name="/dev/xvdb", size_gib=20),
)
_WINDOWS_ROOT = (Device(name="/dev/sda1", size_gib=50),)


def _al2023(region: str, minor: str, day: str, *, newest: bool) -> Iterator[Image]:
    for architecture, variants in (
        ("x86_64", ("standard", "nvidia", "neuron")),
        ("arm64", ("standard", "nvidia")),
    ):
        for variant in variants:
            name = f"amazon-eks-node-al2023-{architecture}-{variant}-{minor}-v{day}"
            base = (
                f"/aws/service/eks/optimized-ami/{minor}/amazon-linux-2023/{architecture}/{variant}"
            )
            names = (name, "recommended") if newest else (name,)
            yield Image(
                image_id=_image_id(name, region),
                name=name,
                family="AL2023",
                variant=variant,
                kubernetes_minor=minor,
                architecture=architecture,
                owner_id=EKS_OWNER,
                created=_day(day),
                devices=_ROOT,
                parameters=tuple(f"{base}/{segment}/image_id" for segment in names),
                description=f"EKS-optimized Kubernetes node based on Amazon Linux 2023, "
                f"(k8s: {minor}.0, containerd: 2.1.*)",
                release=f"{minor}.0-{day}",
            )


_AL2_KINDS = (
    ("amazon-linux-2", "amazon-eks-node", "x86_64", "standard"),
    ("amazon-linux-2-arm64", "amazon-eks-arm64-node", "arm64", "standard"),
    ("amazon-linux-2-gpu", "amazon-eks-gpu-node", "x86_64", "gpu"),
)


def _al2(region: str, minor: str, day: str, *, newest: bool) -> Iterator[Image]:
    for folder, prefix, architecture, variant in _AL2_KINDS:
        name = f"{prefix}-{minor}-v{day}"
        base = f"/aws/service/eks/optimized-ami/{minor}/{folder}"
        names = (name, "recommended") if newest else (name,)
        yield Image(
            image_id=_image_id(name, region),
            name=name,
            family="AL2",
            variant=variant,
            kubernetes_minor=minor,
            architecture=architecture,
            owner_id=EKS_OWNER,
            created=_day(day),
            devices=_ROOT,
            parameters=tuple(f"{base}/{segment}/image_id" for segment in names),
            description=f"EKS Kubernetes Worker AMI with AmazonLinux2 image, (k8s: {minor}.0)",
            release=f"{minor}.0-{day}",
        )


def _bottlerocket(region: str, minor: str, version: str, day: str) -> Iterator[Image]:
    newest = version == BOTTLEROCKET_RELEASES[-1][0]
    for suffix, variant in (("", "standard"), ("-nvidia", "nvidia")):
        for architecture in ("x86_64", "arm64"):
            kind = f"aws-k8s-{minor}{suffix}"
            build = hashlib.sha256(f"{kind}{version}".encode()).hexdigest()[:8]
            name = f"bottlerocket-{kind}-{architecture}-v{version}-{build}"
            base = f"/aws/service/bottlerocket/{kind}/{architecture}"
            names = (
                (version, f"{version}-{build}", "latest")
                if newest
                else (version, f"{version}-{build}")
            )
            yield Image(
                image_id=_image_id(name, region),
                name=name,
                family="Bottlerocket",
                variant=variant,
                kubernetes_minor=minor,
                architecture=architecture,
                owner_id=BOTTLEROCKET_OWNER,
                created=_day(day),
                devices=_BOTTLEROCKET_DEVICES,
                parameters=tuple(f"{base}/{segment}/image_id" for segment in names),
                description=name,
                release=f"{version}-{build}",
            )


def _windows(region: str, minor: str, day: str, *, newest: bool) -> Iterator[Image]:
    for year in ("2019", "2022", "2025"):
        if year == "2025" and int(minor.split(".")[1]) < WINDOWS_2025_FIRST_MINOR:
            continue
        kind = f"Windows_Server-{year}-English-Core-EKS_Optimized-{minor}"
        parameter = f"/aws/service/ami-windows-latest/{kind}/image_id"
        name = f"{kind}-{day[:4]}.{day[4:6]}.{day[6:]}"
        yield Image(
            image_id=_image_id(name, region),
            name=name,
            family=f"Windows{year}",
            variant="standard",
            kubernetes_minor=minor,
            architecture="x86_64",
            owner_id=WINDOWS_OWNER,
            created=_day(day),
            devices=_WINDOWS_ROOT,
            parameters=(parameter,) if newest else (),
            description=f"Microsoft Windows Server {year} Core with EKS {minor}",
            release=f"{minor}-{day}",
        )


def _all_images(region: str) -> Iterator[Image]:
    for minor in MINORS:
        for day in EKS_RELEASES:
            newest = day == EKS_RELEASES[-1]
            yield from _al2023(region, minor, day, newest=newest)
            if int(minor.split(".")[1]) <= AL2_LAST_MINOR:
                yield from _al2(region, minor, day, newest=newest)
            yield from _windows(region, minor, day, newest=newest)
        for version, day in BOTTLEROCKET_RELEASES:
            yield from _bottlerocket(region, minor, version, day)


@functools.cache
def images(region: str) -> dict[str, Image]:
    """Every image of a region by id, oldest first."""
    found = sorted(_all_images(region), key=lambda image: (image.created, image.name))
    return {image.image_id: image for image in found}


@functools.cache
def parameters(region: str) -> dict[str, Image]:
    """SSM parameter names that end in `/image_id`, and the image each names."""
    return {name: image for image in images(region).values() for name in image.parameters}
