"""A type that the node class has no image for: what is said, and that the advice is proven."""

from __future__ import annotations

import pytest
from nodewright_controller.api.meta import Condition
from nodewright_controller.api.pod import Pod
from nodewright_controller.cluster.cluster import Cluster
from nodewright_controller.reconcilers.offers import offers_of
from nodewright_controller.scheduling.decision import message
from nodewright_controller.scheduling.fixes import with_fixes
from nodewright_controller.scheduling.problem import problem_from
from nodewright_controller.scheduling.solver import solve

from tests.aws.world import START, World, node_pool
from tests.builders import pod

ARM = pod("web-0", requires="arch in arm64")
GPU = pod("web-0", requests={"nvidia.com/gpu": "1"})


async def said(world: World, waiting: Pod) -> str:
    """What a pod is told in a cluster with one pool of all types."""
    pool = node_pool()
    pool.status.conditions = [Condition(type="Ready", status="True")]
    cluster = Cluster()
    cluster.apply_node_pool(pool)
    cluster.apply_pod(waiting)
    problem = problem_from(cluster.snapshot(START), await offers_of(world.provider, [pool]))
    decision = with_fixes(problem, solve(problem))
    return "; ".join(message(one) for one in decision.unschedulable)


@pytest.mark.parametrize(
    ("image", "waiting", "has_none", "fix"),
    [
        ("ami-arm", ARM, "has no image for arm64", "add an image for arm64 to node class default"),
        ("ami-gpu", GPU, "which would hold nvidia.com/gpu 1", "add an image for "),
    ],
    ids=["architecture", "gpu"],
)
async def test_the_missing_image_is_named_and_adding_it_is_proven_to_help(
    image: str, waiting: Pod, has_none: str, fix: str
) -> None:
    world = World()
    assert await said(world, waiting) == ""
    status = world.node_classes["default"].status
    status.amis = [found for found in status.amis or () if found.id != image]

    text = await said(world, waiting)

    assert has_none in text
    assert f"→ {fix}" in text
    assert text.endswith("[P403]")
