"""What is garbage, and above all what is not; and the tags a known node adds."""

from __future__ import annotations

import pytest
from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.meta import ObjectMeta
from nodewright_controller.api.node import Node, NodeSpec
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.garbage import InstanceGarbage, ProfileGarbage
from nodewright_controller.aws.tagging import TaggingReconciler

from tests.aws.world import World, node_claim, node_class
from tests.fakes.kube import FakeKube


class Site:
    def __init__(self) -> None:
        self.world = World()
        self.kube = FakeKube(self.world.clock.now)
        self.garbage = InstanceGarbage(self.world.provider, self.kube, self.world.clock)

    async def launch(self, name: str) -> NodeClaim:
        claim = node_claim(name, created=self.world.clock.now())
        claim.status.provider_id = (await self.world.provider.create(claim)).provider_id
        return claim


async def test_an_instance_without_a_claim_goes_after_thirty_seconds_with_its_node() -> None:
    site = Site()
    claim = await site.launch("gone")
    site.kube.add(
        Node(
            metadata=ObjectMeta(name="node-1"),
            spec=NodeSpec(provider_id=claim.status.provider_id),
        )
    )

    await site.garbage.step()
    young = site.world.instance_ids()
    site.world.clock.move(seconds=30)
    await site.garbage.step()

    assert len(young) == 1
    assert site.world.instance_ids() == []
    assert site.kube.store(Node).get("node-1") is None


async def test_an_instance_whose_launch_was_not_answered_yet_is_spared() -> None:
    site = Site()
    claim = await site.launch("waiting")
    claim.status.provider_id = ""
    site.kube.add(claim)
    site.world.clock.move(minutes=5)

    await site.garbage.step()

    assert len(site.world.instance_ids()) == 1


async def test_a_second_instance_of_a_claim_is_garbage() -> None:
    site = Site()
    claim = await site.launch("twice")
    site.kube.add(claim)
    twin = await site.launch("other")
    instance_id = twin.status.provider_id.rpartition("/")[2]
    for tag in site.world.aws.ec2.instances[instance_id]["Tags"]:
        if tag["Key"] == "karpenter.sh/nodeclaim":
            tag["Value"] = "twice"
    site.world.clock.move(minutes=1)

    await site.garbage.step()

    assert site.world.instance_ids() == [claim.status.provider_id.rpartition("/")[2]]


async def test_the_first_rounds_are_frequent() -> None:
    site = Site()

    periods = [(await site.garbage.step()).requeue_after for _ in range(21)]

    assert periods[0] == 10
    assert periods[-1] == 120


async def test_profiles_that_claims_still_name_are_kept() -> None:
    site = Site()
    made = node_class()
    profiles = site.world.provider.profiles
    names = []
    for role in ("one", "two", "three"):
        made.spec.role = role
        names.append(await profiles.ensure(made))
    made.status.instance_profile = names[0]
    site.kube.add(made)
    claim = node_claim()
    claim.metadata.annotations = {"karpenter.k8s.aws/instance-profile-name": names[1]}
    site.kube.add(claim)
    site.world.clock.move(hours=2)

    await ProfileGarbage(
        site.world.provider,
        node_classes=site.kube.store(EC2NodeClass),
        node_claims=site.kube.store(NodeClaim),
    ).step()

    assert sorted(site.world.aws.iam.profiles) == sorted(names[:2])


async def test_profiles_are_left_alone_until_everything_was_read() -> None:
    site = Site()
    await site.world.provider.profiles.ensure(node_class())
    site.world.clock.move(hours=2)
    site.kube.store(NodeClaim).ready = False

    await ProfileGarbage(
        site.world.provider,
        node_classes=site.kube.store(EC2NodeClass),
        node_claims=site.kube.store(NodeClaim),
    ).step()

    assert len(site.world.aws.iam.profiles) == 1


@pytest.mark.parametrize("named_by_user", [False, True])
async def test_a_known_node_names_its_instance_once(named_by_user: bool) -> None:
    site = Site()
    claim = await site.launch("claim-1")
    claim.status.node_name = "ip-10-0-0-1"
    site.kube.add(claim)
    (instance,) = site.world.aws.ec2.instances.values()
    if named_by_user:
        instance["Tags"].append({"Key": "Name", "Value": "mine"})
    reconciler = TaggingReconciler(site.world.provider, site.kube, site.kube.store(NodeClaim))

    await reconciler.reconcile("claim-1")
    await reconciler.reconcile("claim-1")

    names = [tag["Value"] for tag in instance["Tags"] if tag["Key"] == "Name"]
    assert names == (["mine"] if named_by_user else ["ip-10-0-0-1"])
    assert len(site.world.aws.ec2.requests("create_tags")) == (0 if named_by_user else 1)
    stamped = site.kube.store(NodeClaim).get("claim-1")
    assert stamped is not None
    assert stamped.annotations["karpenter.k8s.aws/tagged"] == "true"


async def test_a_claim_without_a_node_is_not_tagged() -> None:
    site = Site()
    site.kube.add(await site.launch("claim-1"))

    await TaggingReconciler(site.world.provider, site.kube, site.kube.store(NodeClaim)).reconcile(
        "claim-1"
    )

    assert site.world.aws.ec2.requests("create_tags") == []
