"""The provider against the laptop's AWS over HTTP and the real SDK: a better judge than fakes.

One stand-in serves all tests here. It checks what EC2 would: that subnets, groups, profiles, images
and templates exist and fit together, and it answers CreateFleet by client token.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import boto3
import msgspec
import pytest
import pytest_asyncio
from nodewright_controller.api.ec2nodeclass import (
    CapacityReservationSelectorTerm,
    EC2NodeClass,
    EC2NodeClassStatus,
)
from nodewright_controller.api.meta import is_true
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws import clients
from nodewright_controller.aws.clients import AwsClients, connect
from nodewright_controller.aws.eks import resolve_cluster
from nodewright_controller.aws.nodeclass import NodeClassReconciler
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.provider import EC2Provider
from nodewright_controller.ports.cloud import Launched
from nodewright_controller.ports.errors import CreateFailed, InsufficientCapacity, NodeClaimNotFound
from nodewright_controller.scheduling.claims import node_claim_from
from nodewright_controller.scheduling.solver import solve

from tests.aws.fakes import REGION
from tests.aws.world import ON_DEMAND, SPOT, X86, node_claim, node_class, node_pool
from tests.builders import nodepool, pod, world
from tests.fakes.harness import FakeRecorder
from tests.fakes.kube import FakeKube

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]
_URL = re.compile(r"http://127[0-9.]*:\d+")


class Now:
    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass
class StandIn:
    url: str
    process: subprocess.Popen[str]

    def control(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/_nodewright/{path}", data, method="GET" if data is None else "PUT"
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read() or b"null")

    def clients(self) -> AwsClients:
        return connect(REGION, endpoint_url=self.url)


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandIn]:
    """The laptop's AWS with a cluster, three subnets, a security group and a node role."""
    environment = os.environ | {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "NODEWRIGHT_LOCAL_DIR": "",
    }
    command = [sys.executable, "-m", "nodewright_local.aws", "--region", REGION]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if found := _URL.search(line):
            break
    else:
        pytest.fail("the stand-in did not start:\n" + "".join(lines))
    drain = threading.Thread(target=process.stdout.read, daemon=True)
    drain.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        made = StandIn(found.group(0), process)
        furnish(made.url)
        yield made
    process.send_signal(signal.SIGCONT)
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)
    drain.join(5)
    process.stdout.close()


def furnish(url: str) -> None:
    make: Any = boto3.client
    ec2, iam, eks = (
        make(name, region_name=REGION, endpoint_url=url) for name in ("ec2", "iam", "eks")
    )
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    tag = [{"Key": "karpenter.sh/discovery", "Value": "demo"}]
    subnets = [
        ec2.create_subnet(
            VpcId=vpc,
            CidrBlock=f"10.0.{index}.0/24",
            AvailabilityZone=f"{REGION}{zone}",
            TagSpecifications=[{"ResourceType": "subnet", "Tags": tag}],
        )["Subnet"]["SubnetId"]
        for index, zone in enumerate("abc")
    ]
    ec2.create_security_group(
        GroupName="nodes",
        Description="nodes",
        VpcId=vpc,
        TagSpecifications=[{"ResourceType": "security-group", "Tags": tag}],
    )
    role = iam.create_role(RoleName="KarpenterNodeRole-demo", AssumeRolePolicyDocument="{}")
    eks.create_cluster(
        name="demo", roleArn=role["Role"]["Arn"], resourcesVpcConfig={"subnetIds": subnets}
    )
    for _ in range(100):
        if eks.describe_cluster(name="demo")["cluster"]["status"] == "ACTIVE":
            return
        time.sleep(0.1)


class Site:
    """A provider and its node class reconciler, connected to the stand-in."""

    def __init__(self, aws: AwsClients, options: AwsOptions) -> None:
        self.kube = FakeKube()
        store = self.kube.store(EC2NodeClass)
        self.provider = EC2Provider(aws, options, store.get, Now())
        self.reconciler = NodeClassReconciler(
            self.provider,
            self.kube,
            FakeRecorder(),
            Now(),
            node_classes=store,
            node_claims=self.kube.store(NodeClaim),
        )

    async def add(self, alias: str = "al2023@latest", **spec: Any) -> str:
        """Make a node class, wait until it is Ready, and return its name."""
        name = f"class-{time.monotonic_ns()}"
        made = node_class(name, alias, **spec)
        made.status = EC2NodeClassStatus()
        self.kube.add(made)
        await self.reconciler.reconcile(name)
        found = self.kube.store(EC2NodeClass).get(name)
        assert found is not None
        assert is_true(found.status.conditions, "Ready"), found.status.conditions
        return name

    async def remove(self, name: str) -> None:
        """Terminate what runs with a node class, and delete it."""
        for instance in await self.provider.list():
            if instance.tags.get("karpenter.k8s.aws/ec2nodeclass") == name:
                with contextlib.suppress(NodeClaimNotFound):
                    await self.provider.instances.terminate(instance.instance_id)
        await self.kube.delete(EC2NodeClass, name)
        await self.reconciler.reconcile(name)
        assert self.kube.store(EC2NodeClass).get(name) is None


async def open_site(stand_in: StandIn) -> Site:
    aws = stand_in.clients()
    options = await resolve_cluster(aws, AwsOptions(cluster_name="demo"), "10.96.0.10")
    return Site(aws, options)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(stand_in: StandIn) -> Site:
    made = await open_site(stand_in)
    await made.provider.pricing.refresh()
    return made


@pytest_asyncio.fixture(loop_scope="module")
async def default(site: Site) -> AsyncIterator[str]:
    """Name of an AL2023 node class that is Ready."""
    name = await site.add()
    yield name
    if site.kube.store(EC2NodeClass).get(name) is not None:
        await site.remove(name)


def fresh_claim(name: str, requires: dict[str, list[str]], of: str) -> NodeClaim:
    return node_claim(f"{name}-{time.monotonic_ns()}", requires, of=of, created=Now().now())


async def persist(provider: EC2Provider, claim: NodeClaim) -> Launched:
    """Try again until the launch is answered, as the work queue does."""
    for _ in range(20):
        with contextlib.suppress(CreateFailed):
            return await provider.create(claim)
        await asyncio.sleep(0.2)
    return await provider.create(claim)


async def test_a_walkthrough_claim_becomes_an_instance_and_goes_away(
    stand_in: StandIn, site: Site, default: str
) -> None:
    requires = X86 | ON_DEMAND | {"karpenter.k8s.aws/instance-category": ["t"]}
    claim = fresh_claim("walk", requires, default)

    launched = await site.provider.create(claim)

    (seen,) = [
        each
        for each in stand_in.control("instances")
        if each["tags"].get("karpenter.sh/nodeclaim") == claim.name
    ]
    assert launched.provider_id == f"aws:///{seen['zone']}/{seen['instance_id']}"
    assert seen["considered_instance_types"] == launched.considered_types > 5
    assert seen["price_usd_per_hour"] == launched.usd_per_hour
    assert seen["image_family"] == "AL2023"
    assert seen["role_arn"].endswith("role/KarpenterNodeRole-demo")
    claim.status.provider_id = launched.provider_id
    assert await site.provider.is_drifted(claim) == ""

    for _ in range(100):
        try:
            await site.provider.delete(claim)
        except NodeClaimNotFound:
            break
        await asyncio.sleep(0.1)
    else:
        pytest.fail("the instance did not go away")


async def test_spot_arm_and_bottlerocket(site: Site) -> None:
    rocket = await site.add("bottlerocket@1.60.0")
    requires = {
        "kubernetes.io/arch": ["arm64"],
        "karpenter.k8s.aws/instance-category": ["c", "m", "r"],
        "karpenter.k8s.aws/instance-cpu": ["4"],
    }

    launched = await site.provider.create(fresh_claim("batch", requires | SPOT, rocket))

    assert launched.labels["kubernetes.io/arch"] == "arm64"
    assert launched.labels["karpenter.k8s.aws/instance-cpu"] == "4"
    assert launched.labels["karpenter.sh/capacity-type"] == "spot"
    on_demand = site.provider.pricing.on_demand(launched.labels["node.kubernetes.io/instance-type"])
    assert launched.usd_per_hour is not None
    assert on_demand is not None
    assert launched.usd_per_hour < on_demand / 2
    await site.remove(rocket)


async def test_a_drained_market_is_insufficient_capacity(
    stand_in: StandIn, site: Site, default: str
) -> None:
    everything = {"instance_type": "c5.large", "zone": "*", "capacity_type": "*", "remaining": 0}
    stand_in.control("ice", {"pools": [everything]})
    requires = {"node.kubernetes.io/instance-type": ["c5.large"]} | ON_DEMAND
    try:
        with pytest.raises(InsufficientCapacity, match="InsufficientInstanceCapacity"):
            await site.provider.create(fresh_claim("ice", requires, default))
    finally:
        stand_in.control("ice", {"pools": []})


async def planned(site: Site, of: str, pods: int) -> list[NodeClaim]:
    """Return the claims that the solver asks for, for pods of which a node takes one each."""
    pool = nodepool("general")
    pool.spec.template.spec.node_class_ref = node_pool(of).spec.template.spec.node_class_ref
    types = await site.provider.instance_types(pool)
    kind = {"node.kubernetes.io/instance-type": "m5.large"}
    asking = [pod(f"web-{n}", cpu="1500m", select=kind) for n in range(pods)]
    decision = solve(world(pool, *types, *asking))
    claims = [node_claim_from(each, pool) for each in decision.new_claims]
    for claim in claims:
        name = f"reserved-{time.monotonic_ns()}"
        claim.metadata = msgspec.structs.replace(
            claim.metadata, name=name, uid=f"uid-{name}", creation_timestamp=Now().now()
        )
    return claims


async def test_what_is_reserved_is_used_first_and_can_be_had_again(
    stand_in: StandIn, site: Site
) -> None:
    make: Any = boto3.client
    ec2 = make("ec2", region_name=REGION, endpoint_url=stand_in.url)
    reserved = ec2.create_capacity_reservation(
        InstanceType="m5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=f"{REGION}b",
        InstanceCount=1,
        InstanceMatchCriteria="targeted",
    )["CapacityReservation"]["CapacityReservationId"]
    of = await site.add(
        capacity_reservation_selector_terms=[CapacityReservationSelectorTerm(id=reserved)]
    )

    # One pod gets the place, the other waits for the next round rather than be bought for.
    (first,) = await planned(site, of, pods=2)
    launched = await site.provider.create(first)
    (second,) = await planned(site, of, pods=1)
    bought = await site.provider.create(second)

    assert launched.labels["karpenter.sh/capacity-type"] == "reserved"
    assert launched.labels["karpenter.k8s.aws/capacity-reservation-id"] == reserved
    assert launched.labels["topology.kubernetes.io/zone"] == f"{REGION}b"
    assert (await site.provider.get(launched.provider_id)).capacity_reservation_id == reserved
    assert bought.labels["karpenter.sh/capacity-type"] in ("spot", "on-demand")

    first.status.provider_id = launched.provider_id
    first.metadata.labels = {**first.labels, **launched.labels}
    for _ in range(100):
        try:
            await site.provider.delete(first)
        except NodeClaimNotFound:
            break
        await asyncio.sleep(0.1)
    (third,) = await planned(site, of, pods=1)
    again = await site.provider.create(third)
    assert again.labels["karpenter.k8s.aws/capacity-reservation-id"] == reserved

    ec2.cancel_capacity_reservation(CapacityReservationId=reserved)
    assert (await site.provider.get(again.provider_id)).capacity_type == "on-demand"
    await site.remove(of)


async def test_an_aws_that_stops_answering_in_the_middle_doubles_nothing(
    stand_in: StandIn, site: Site, default: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "READ_TIMEOUT_SECONDS", 1)
    monkeypatch.setattr(clients, "ATTEMPTS", 2)
    store = site.kube.store(EC2NodeClass)
    provider = EC2Provider(stand_in.clients(), site.provider.options, store.get, Now())
    provider.catalog = site.provider.catalog  # reading it anew takes longer than this patience
    await persist(provider, fresh_claim("warm", X86 | ON_DEMAND, default))
    claims = [fresh_claim(f"pause{n}", X86 | ON_DEMAND, default) for n in range(3)]

    stand_in.process.send_signal(signal.SIGSTOP)
    try:
        outcomes = await asyncio.gather(
            *(provider.create(claim) for claim in claims), return_exceptions=True
        )
    finally:
        stand_in.process.send_signal(signal.SIGCONT)
    assert all(isinstance(each, CreateFailed) for each in outcomes), outcomes
    await asyncio.sleep(1)
    # One is launched again by another leader, which knows nothing of the first attempt.
    launched = [await persist(site.provider, claims[0])]
    launched += [await persist(provider, claim) for claim in claims[1:]]

    names = [each.node_claim for each in await site.provider.list()]
    assert len({each.provider_id for each in launched}) == 3
    assert [names.count(claim.name) for claim in claims] == [1, 1, 1]


async def test_deleting_the_node_class_leaves_nothing_behind(site: Site, default: str) -> None:
    await site.provider.create(fresh_claim("last", X86 | ON_DEMAND, default))

    await site.remove(default)

    aws = site.provider.clients
    templates = await aws.call(
        aws.ec2.describe_launch_templates,
        Filters=[{"Name": "tag:karpenter.k8s.aws/ec2nodeclass", "Values": [default]}],
    )
    profiles = await aws.call(aws.iam.list_instance_profiles)
    assert templates["LaunchTemplates"] == []
    assert [each for each in profiles["InstanceProfiles"] if default in str(each.get("Tags"))] == []
