"""Images: what an alias means, which image a type boots, and what EC2 and SSM are asked."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from nodewright_controller.api.ec2nodeclass import AMISelectorTerm
from nodewright_controller.aws.ami import (
    NVIDIA,
    STANDARD,
    Image,
    alias_parameters,
    alias_problem,
    choose,
    images_request,
    parse_image,
    status_of,
)
from nodewright_controller.aws.error_codes import UNREACHABLE, AwsError
from nodewright_controller.aws.families import Family, alias_of, family_of, parse_alias

from tests.aws import fakes
from tests.aws.world import World, node_class


def paths(alias: str) -> list[str]:
    return [found.path for found in alias_parameters(parse_alias(alias), "1.36")]


def test_al2023_aliases_name_the_recommended_or_the_pinned_image() -> None:
    root = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023"

    assert paths("al2023@latest") == [
        f"{root}/x86_64/standard/recommended/image_id",
        f"{root}/x86_64/nvidia/recommended/image_id",
        f"{root}/x86_64/neuron/recommended/image_id",
        f"{root}/arm64/standard/recommended/image_id",
        f"{root}/arm64/nvidia/recommended/image_id",
    ]
    pinned = "amazon-eks-node-al2023-x86_64-standard-1.36-v20260101"
    assert f"{root}/x86_64/standard/{pinned}/image_id" in paths("al2023@v20260101")


def test_bottlerocket_versions_lose_their_v() -> None:
    assert paths("bottlerocket@v1.60.0")[0] == (
        "/aws/service/bottlerocket/aws-k8s-1.36/x86_64/1.60.0/image_id"
    )
    assert paths("bottlerocket@1.60.0") == paths("bottlerocket@v1.60.0")


def test_al2_and_windows_have_their_own_paths() -> None:
    assert paths("al2@latest")[2] == (
        "/aws/service/eks/optimized-ami/1.36/amazon-linux-2-gpu/recommended/image_id"
    )
    assert paths("windows2022@latest") == [
        "/aws/service/ami-windows-latest/"
        "Windows_Server-2022-English-Core-EKS_Optimized-1.36/image_id"
    ]


@pytest.mark.parametrize(
    ("alias", "version", "refused"),
    [
        ("al2@latest", "1.32", False),
        ("al2@latest", "1.33", True),
        ("windows2025@latest", "1.34", True),
        ("windows2025@latest", "1.35", False),
        ("al2023@latest", "1.36", False),
    ],
)
def test_some_families_have_no_images_for_some_versions(
    alias: str, version: str, refused: bool
) -> None:
    assert (alias_problem(parse_alias(alias), version) is not None) is refused


@pytest.mark.parametrize("alias", ["al2024@latest", "al2023", "AL2023@latest", "custom@latest"])
def test_an_unknown_alias_is_refused_with_the_known_ones(alias: str) -> None:
    with pytest.raises(ValueError, match="al2023@…"):
        parse_alias(alias)


def test_the_family_comes_from_its_name_or_the_alias() -> None:
    assert family_of(node_class(alias="bottlerocket@latest")) is Family.BOTTLEROCKET
    assert family_of(node_class(ami_family="Custom")) is Family.CUSTOM
    assert alias_of(node_class(alias="", ami_family="AL2023")) is None
    nameless = node_class()
    nameless.spec.ami_selector_terms = [AMISelectorTerm(id="ami-1")]
    with pytest.raises(ValueError, match="amiFamily is required"):
        family_of(nameless)
    nameless.spec.ami_family = "Ubuntu"
    with pytest.raises(ValueError, match="'Ubuntu' is not one of"):
        family_of(nameless)


def test_terms_by_name_look_at_own_and_amazons_images() -> None:
    assert images_request(AMISelectorTerm(name="base-*"))["Owners"] == ["self", "amazon"]
    assert images_request(AMISelectorTerm(name="base-*", owner="1"))["Owners"] == ["1"]
    tagged = images_request(AMISelectorTerm(tags={"team": "*", "env": "dev"}))
    assert "Owners" not in tagged
    assert tagged["Filters"][:2] == [
        {"Name": "tag:env", "Values": ["dev"]},
        {"Name": "tag-key", "Values": ["team"]},
    ]


def image(image_id: str, day: int, *, deprecated: bool = False, arch: str = "amd64") -> Image:
    return Image(image_id, image_id, datetime(2026, 1, day, tzinfo=UTC), arch, deprecated)


def test_one_image_per_requirement_set_newest_and_not_deprecated() -> None:
    candidates = [
        (each, status_of(each, variant, Family.AL2023))
        for each, variant in (
            (image("ami-old", 1), STANDARD),
            (image("ami-new", 3), STANDARD),
            (image("ami-newest", 4, deprecated=True), STANDARD),
            (image("ami-gpu", 2), NVIDIA),
            (image("ami-arm", 3, arch="arm64"), STANDARD),
        )
    ]

    assert [ami.id for ami in choose(candidates)] == ["ami-arm", "ami-new", "ami-gpu"]
    assert choose(candidates) == choose(list(reversed(candidates)))


def test_images_of_other_architectures_are_dropped() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    assert parse_image(fakes.image("ami-1", "i386"), now) is None
    old = parse_image(fakes.image("ami-1", "x86_64", DeprecationTime="2025-01-01T00:00:00Z"), now)
    assert old is not None
    assert old.deprecated


async def test_custom_parameters_and_ids_are_looked_up_together() -> None:
    world = World()
    world.aws.ssm.parameters["/mine"] = "ami-arm"
    world.aws.ssm.parameters["/broken"] = "none"
    made = node_class(alias="", ami_family="AL2023")
    made.spec.ami_selector_terms = [
        AMISelectorTerm(id="ami-x86"),
        AMISelectorTerm(ssm_parameter="/mine"),
        AMISelectorTerm(ssm_parameter="/broken"),
        AMISelectorTerm(ssm_parameter="/absent"),
    ]

    found = await world.provider.images.select(made)

    assert {ami.id for ami in found} == {"ami-x86", "ami-arm"}
    assert all(len(ami.requirements) == 1 for ami in found)


async def test_parameters_are_cached_and_deprecated_ones_looked_at_anew() -> None:
    world = World()
    images = world.provider.images
    await images.select(node_class())
    asked = len(world.aws.ssm.requests("get_parameter"))
    await images.select(node_class())
    known = len(world.aws.ssm.requests("get_parameter")) - asked
    world.aws.ec2.images[0]["DeprecationTime"] = "2025-01-01T00:00:00Z"
    world.aws.ec2.images.append(fakes.image("ami-next", "x86_64"))
    path = (
        "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"
    )
    world.aws.ssm.parameters[path] = "ami-next"

    await images.forget_deprecated()
    world.clock.move(minutes=2)
    await images.forget_deprecated()
    found = await images.select(node_class())

    assert known == 2, "only the two parameters that do not exist are asked for again"
    assert "ami-next" in {ami.id for ami in found}
    assert "ami-x86" not in {ami.id for ami in found}


async def test_an_ssm_that_does_not_answer_is_no_missing_parameter() -> None:
    world = World()
    world.aws.ssm.refuse["get_parameter"] = AwsError(UNREACHABLE, "timed out")

    with pytest.raises(AwsError, match="timed out"):
        await world.provider.images.select(node_class())
