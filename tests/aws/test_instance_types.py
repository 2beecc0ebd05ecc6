"""Instance types as nodes would have them: labels, capacity, overhead, offerings, and how fast."""

from __future__ import annotations

import time
from typing import Any

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES
from nodewright_controller.api.ec2nodeclass import (
    BlockDevice,
    BlockDeviceMapping,
    ConnectionTracking,
    EC2NodeClass,
    EnclaveOptions,
    NetworkInterface,
)
from nodewright_controller.aws.capacity import node_capacity
from nodewright_controller.aws.families import Family
from nodewright_controller.aws.instance_type_info import InstanceTypeInfo, parse_instance_type
from nodewright_controller.aws.instance_types import compatible, describe
from nodewright_controller.aws.max_pods import eni_limited_pods, max_pods
from nodewright_controller.aws.overhead import node_overhead, reserved_cpu
from nodewright_controller.aws.shape import NodeShape, shape_of
from nodewright_controller.aws.volume_limits import volume_limits
from nodewright_controller.constraints.instance_type import InstanceType

from tests import golden
from tests.aws import fakes
from tests.aws.world import World, node_class, options


def info(name: str) -> InstanceTypeInfo:
    return parse_instance_type(fakes.describe(name))


def shape(alias: str = "al2023@latest", **spec: Any) -> NodeShape:
    return shape_of(node_class(alias=alias, **spec), options())


async def resolved(world: World | None = None, **spec: Any) -> dict[str, InstanceType]:
    world = world or World(node_classes={"default": node_class(**spec)})
    await world.provider.catalog.ensure_loaded()
    types = world.provider.catalog.types_for(world.node_classes["default"])
    return {each.name: each for each in types}


async def test_labels_capacity_and_overhead_of_known_types() -> None:
    types = await resolved()

    golden.check_json(
        "instance_types.json",
        {
            name: {
                "labels": {key: sorted(found.values) for key, found in each.requirements.items()},
                "capacity": each.capacity.format(),
                "allocatable": each.allocatable.format(),
                "kubeReserved": each.overhead.kube_reserved.format(),
            }
            for name, each in types.items()
        },
    )


@pytest.mark.parametrize(
    ("name", "category", "generation", "family", "size"),
    [
        ("m5.large", "m", "5", "m5", "large"),
        ("u-12tb1.112xlarge", "u", "1", "u-12tb1", "112xlarge"),
        ("c7gn.metal", "c", "7", "c7gn", "metal"),
        ("inf2.xlarge", "inf", "2", "inf2", "xlarge"),
        ("m7i-flex.large", "m", "7", "m7i-flex", "large"),
    ],
)
def test_names_are_taken_apart(
    name: str, category: str, generation: str, family: str, size: str
) -> None:
    found = parse_instance_type(fakes.describe("m5.large") | {"InstanceType": name})

    assert (found.category, found.generation) == (category, generation)
    assert (found.family, found.size) == (family, size)


@pytest.mark.parametrize(
    ("vcpus", "millicores"), [(1, 60), (2, 70), (4, 80), (8, 90), (96, 310), (192, 550)]
)
def test_reserved_cpu_follows_the_bands(vcpus: int, millicores: int) -> None:
    assert reserved_cpu(vcpus) == millicores


def test_pods_are_what_the_network_interfaces_can_address() -> None:
    assert eni_limited_pods(info("m5.large")) == 29
    assert eni_limited_pods(info("m5.large"), reserved_enis=1) == 20
    assert eni_limited_pods(info("m5.large"), reserved_enis=3) == 0
    assert eni_limited_pods(info("p5.48xlarge")) == 2 * 49 + 2


ROOT = BlockDeviceMapping(
    device_name="/dev/xvda", root_volume=True, ebs=BlockDevice(volume_size="20Gi")
)
DATA = BlockDeviceMapping(device_name="/dev/xvdb", ebs=BlockDevice(volume_size="50Gi"))
TWO_INTERFACES = [
    NetworkInterface(network_card_index=0, device_index=index, interface_type="interface")
    for index in range(2)
]


@pytest.mark.parametrize(
    ("name", "alias", "spec", "volumes"),
    [
        ("m5.large", "al2023@latest", {}, 26),  # 28 slots: an interface, the root volume
        ("m5d.large", "al2023@latest", {}, 25),  # and a local disk
        ("m7i.large", "al2023@latest", {}, 31),  # 32 of its own: the root volume
        ("m5.large", "bottlerocket@latest", {}, 25),  # two volumes of the machine
        ("m5.large", "al2023@latest", {"block_device_mappings": [ROOT, DATA]}, 25),
        ("m5.large", "al2023@latest", {"network_interfaces": TWO_INTERFACES}, 25),
        ("m7i.large", "al2023@latest", {"network_interfaces": TWO_INTERFACES}, 31),
    ],
)
def test_volumes_are_what_ec2_attaches_without_the_machines_own_devices(
    name: str, alias: str, spec: dict[str, Any], volumes: int
) -> None:
    assert volume_limits(info(name), shape(alias, **spec)) == {"ebs.csi.aws.com": volumes}


def test_a_type_of_which_ec2_says_nothing_has_no_known_bound() -> None:
    silent = parse_instance_type(fakes.describe("m5.large") | {"EbsInfo": {}})

    assert volume_limits(silent, shape()) == {}


def test_ec2_counts_local_disks_and_one_interface_before_it_names_a_shared_number() -> None:
    """The rule in `volume_limits` rests on this, so it is held against every type known."""
    shared = [
        described
        for described in INSTANCE_TYPES.values()
        if described["EbsInfo"]["AttachmentLimitType"] == "shared"
        and described.get("Hypervisor") == "nitro"
        and not {"GpuInfo", "NeuronInfo", "InferenceAcceleratorInfo", "FpgaInfo"} & set(described)
        and not described["InstanceType"].startswith("vt1.")  # media accelerators, not described
    ]

    wrong = [
        described["InstanceType"]
        for described in shared
        if described["EbsInfo"]["MaximumEbsAttachments"] != 28 - 1 - _disks(described)
    ]
    assert len(shared) > 400
    assert wrong == []


def _disks(described: dict[str, Any]) -> int:
    disks = described.get("InstanceStorageInfo", {}).get("Disks", ())
    return sum(int(disk["Count"]) for disk in disks)


async def test_the_limits_reach_the_types_that_pods_are_planned_on() -> None:
    types = await resolved()

    assert types["m5.large"].volume_limits == {"ebs.csi.aws.com": 26}


@pytest.mark.parametrize(
    ("alias", "kubelet", "pods"),
    [
        ("al2023@latest", None, 29),
        ("al2023@latest", {"maxPods": 110}, 110),
        ("al2023@latest", {"podsPerCore": 4}, 8),
        ("bottlerocket@latest", {"podsPerCore": 4}, 29),
        ("windows2022@latest", None, 110),
    ],
)
def test_max_pods_by_family_and_kubelet(alias: str, kubelet: Any, pods: int) -> None:
    assert max_pods(info("m5.large"), shape(alias, kubelet=kubelet)) == pods


def test_arm_machines_lose_their_contiguous_memory_first() -> None:
    arm = node_capacity(info("m6g.large"), shape())["memory"]
    x86 = node_capacity(info("m5.large"), shape())["memory"]

    assert x86 == (8192 - 615) * 2**20
    assert arm == (8128 - 610) * 2**20


def test_observed_memory_replaces_the_estimate() -> None:
    assert node_capacity(info("m5.large"), shape(), 123)["memory"] == 123


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        ({}, 20 * 2**30),
        ({"instance_store_policy": "RAID0"}, 125 * 10**9),
        (
            {
                "block_device_mappings": [
                    BlockDeviceMapping(device_name="/dev/xvda", ebs=BlockDevice(volume_size="8Gi")),
                    BlockDeviceMapping(
                        device_name="/dev/sdb", root_volume=True, ebs=BlockDevice(volume_size="9Gi")
                    ),
                ]
            },
            9 * 2**30,
        ),
        (
            {
                "ami_family": "Custom",
                "block_device_mappings": [
                    BlockDeviceMapping(device_name="/dev/xvda", ebs=BlockDevice(volume_size="8Gi")),
                    BlockDeviceMapping(device_name="/dev/sdb", ebs=BlockDevice(volume_size="50G")),
                ],
            },
            50 * 10**9,
        ),
    ],
    ids=["family default", "instance store", "root volume", "custom image"],
)
def test_pods_write_to_the_right_disk(spec: dict[str, Any], size: int) -> None:
    assert node_capacity(info("g4dn.xlarge"), shape(**spec))["ephemeral-storage"] == size


def test_memory_of_the_kubelet_counts_pods_as_the_family_does() -> None:
    few = {"maxPods": 10}
    machine = info("m5.large")

    al2023, bottlerocket = (
        node_overhead(machine, found, node_capacity(machine, found)).kube_reserved["memory"]
        for found in (shape(kubelet=few), shape("bottlerocket@latest", kubelet=few))
    )

    assert al2023 == (29 * 11 + 255) * 2**20
    assert bottlerocket == (10 * 11 + 255) * 2**20


def test_users_override_reservations_and_evictions_key_by_key() -> None:
    kubelet = {
        "kubeReserved": {"cpu": "1"},
        "systemReserved": {"memory": "1Gi"},
        "evictionHard": {"memory.available": "10%", "nodefs.available": "100%"},
    }
    machine, wanted = info("m5.large"), shape(kubelet=kubelet)
    capacity = node_capacity(machine, wanted)

    overhead = node_overhead(machine, wanted, capacity)

    assert overhead.kube_reserved["cpu"] == 1000
    assert overhead.kube_reserved["memory"] == (29 * 11 + 255) * 2**20
    assert overhead.system_reserved["memory"] == 2**30
    assert overhead.eviction_threshold["memory"] == -(-capacity["memory"] // 10)
    assert overhead.eviction_threshold["ephemeral-storage"] == 0


@pytest.mark.parametrize(
    ("name", "spec", "usable"),
    [
        ("m5.large", {}, True),
        ("a1.large", {}, False),
        ("a1.large", {"alias": "bottlerocket@latest"}, True),
        ("m6g.large", {"alias": "windows2022@latest"}, False),
        ("m5.metal", {"connection_tracking": ConnectionTracking(udp_timeout=30)}, True),
        ("c4.large", {"connection_tracking": ConnectionTracking(udp_timeout=30)}, False),
        ("m5.large", {"enclave_options": EnclaveOptions(enabled=True)}, False),
        ("m5.xlarge", {"enclave_options": EnclaveOptions(enabled=True)}, True),
        (
            "m5.large",
            {"network_interfaces": [NetworkInterface(), NetworkInterface(device_index=7)]},
            False,
        ),
        (
            "p5.48xlarge",
            {
                "network_interfaces": [
                    NetworkInterface(),
                    NetworkInterface(network_card_index=1, interface_type="efa-only"),
                ]
            },
            True,
        ),
    ],
)
def test_a_node_class_uses_the_types_that_can_do_what_it_asks(
    name: str, spec: dict[str, Any], usable: bool
) -> None:
    if name == "m5.metal" and info(name).hypervisor != "nitro":
        usable = False  # bare metal reports no hypervisor

    assert compatible(info(name), shape(**spec)) is usable


async def test_offerings_are_priced_and_only_where_the_node_class_has_subnets() -> None:
    world = World()
    subnets = world.node_classes["default"].status.subnets or []
    world.node_classes["default"].status.subnets = subnets[:1]

    offerings = (await resolved(world))["m5.large"].offerings

    assert {(o.zone, o.available) for o in offerings} == {
        ("us-west-2a", True),
        ("us-west-2b", False),
        ("us-west-2c", False),
    }
    assert {o.capacity_type for o in offerings} == {"spot", "on-demand"}
    assert all(o.usd_per_hour == 0.096 for o in offerings)


async def test_a_type_that_no_image_boots_has_no_offering_to_launch() -> None:
    made = node_class()
    made.status.amis = [ami for ami in made.status.amis or () if ami.id == "ami-x86"]

    types = await resolved(World(node_classes={"default": made}))

    assert any(o.available for o in types["m5.large"].offerings)
    assert not any(o.available for o in types["m6g.large"].offerings)
    assert not any(o.available for o in types["g4dn.xlarge"].offerings)


async def test_only_what_changed_is_made_anew() -> None:
    world = World()
    before = await resolved(world)

    world.provider.unavailable.mark("m5.large", "us-west-2a", "spot")
    after = await resolved(world)

    changed = [name for name in before if before[name] is not after[name]]
    assert changed == ["m5.large"]
    assert [(o.zone, o.available) for o in after["m5.large"].offerings if not o.available] == [
        ("us-west-2a", False)
    ]


async def test_memory_that_a_node_reported_is_used_from_then_on() -> None:
    world = World()
    await resolved(world)

    catalog, made = world.provider.catalog, world.node_classes["default"]
    catalog.record_memory(made, "m5.large", 7_000_000_000)
    catalog.record_memory(made, "m5.large", 7_500_000_000)

    assert (await resolved(world))["m5.large"].capacity["memory"] == 7_000_000_000


async def test_the_whole_catalogue_resolves_in_well_under_a_second() -> None:
    world = World()
    world.aws.ec2.types = list(INSTANCE_TYPES.values())
    await world.provider.catalog.refresh()

    started = time.thread_time()
    types = world.provider.catalog.types_for(world.node_classes["default"])

    assert len(types) > 1000
    assert time.thread_time() - started < 1.0


def test_every_described_type_has_the_labels_that_are_always_there() -> None:
    for raw in INSTANCE_TYPES.values():
        found = {requirement.key: requirement for requirement in describe(parse_instance_type(raw))}
        assert len(found["karpenter.k8s.aws/instance-category"].values) == 1, raw["InstanceType"]
        assert found["karpenter.k8s.aws/instance-cpu"].values
        assert Family.AL2023


def test_equal_shapes_have_equal_keys_whatever_else_differs() -> None:
    one: EC2NodeClass = node_class("one", user_data="a")
    two: EC2NodeClass = node_class("two", user_data="b")

    assert shape_of(one, options()).key() == shape_of(two, options()).key()
    two.spec.kubelet = {"maxPods": 3}
    assert shape_of(one, options()).key() != shape_of(two, options()).key()
