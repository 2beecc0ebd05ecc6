"""What makes the provisioner look again."""

from __future__ import annotations

import asyncio

import pytest
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClaimStatus
from nodewright_controller.runtime.batch_window import BatchWindow

from tests.fakes.harness import Harness


def claim(*, provider_id: str = "") -> NodeClaim:
    return NodeClaim(
        metadata=ObjectMeta(name="general-1"),
        spec=NodeClaimSpec(),
        status=NodeClaimStatus(provider_id=provider_id),
    )


async def looks_again(old: NodeClaim | None, new: NodeClaim | None) -> bool:
    harness, window = Harness(), BatchWindow(idle_seconds=0, max_seconds=1)
    provisioner = harness.make_provisioner(window=window)
    provisioner.claim_changed(old, new)
    try:
        await asyncio.wait_for(window.wait(), 0.05)
    except TimeoutError:
        return False
    return True


async def test_the_end_of_a_claim_that_got_nothing_is_followed_by_another_look() -> None:
    assert await looks_again(claim(), None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, claim()),
        (claim(), claim(provider_id="aws:///zone-a/i-0001")),
        (claim(provider_id="aws:///zone-a/i-0001"), None),
    ],
)
async def test_launches_and_the_end_of_launched_claims_need_no_further_look(
    old: NodeClaim | None, new: NodeClaim | None
) -> None:
    assert not await looks_again(old, new)
