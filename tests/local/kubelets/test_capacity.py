"""Capacity from hardware, and the kubelet's deductions."""

from typing import Any

import pytest
from nodewright_local.kubelets.capacity import (
    Amounts,
    allocatable_amounts,
    capacity_amounts,
    default_cpu_reserved_milli,
    devices,
    image_reservations,
    interface_pods,
    resource_list,
)
from nodewright_local.kubelets.instance import Hardware, parse_hardware
from nodewright_local.kubelets.quantity import GIB, MIB, parse_milli, parse_units
from nodewright_local.kubelets.userdata.bootstrap import JoinProblem, UserDataError

from tests.local.kubelets.builders import bootstrap, hardware, instance


def allocatable(capacity: Amounts, family: str = "AL2023", **changes: Any) -> Amounts:
    return allocatable_amounts(
        instance(image_family=family), hardware(), bootstrap(**changes), capacity
    )


ROUND = Amounts(cpu_milli=2000, memory_bytes=8 * GIB, storage_bytes=20 * GIB, pods=29)


@pytest.mark.parametrize(
    ("vcpus", "milli"), [(1, 60), (2, 70), (4, 80), (8, 90), (16, 110), (96, 310)]
)
def test_the_cpu_reservation_grows_ever_slower_with_the_cores(vcpus: int, milli: int) -> None:
    assert default_cpu_reserved_milli(vcpus) == milli


def test_pods_follow_from_the_addresses_of_the_interfaces() -> None:
    assert interface_pods(hardware()) == 29


def test_capacity_is_near_but_below_what_ec2_says() -> None:
    found = capacity_amounts(instance(), hardware(), bootstrap())

    assert found.cpu_milli == 2000
    assert found.pods == 29
    assert 0.92 * 8 * GIB < found.memory_bytes < 0.95 * 8 * GIB
    assert 0.99 * 20 * GIB < found.storage_bytes < 20 * GIB


def test_an_arm64_kernel_keeps_some_memory_for_itself() -> None:
    x86 = capacity_amounts(instance(), hardware(), bootstrap())
    arm = capacity_amounts(instance(architecture="arm64"), hardware(), bootstrap())

    assert 59 * MIB <= x86.memory_bytes - arm.memory_bytes <= 60 * MIB


@pytest.mark.parametrize(
    ("changes", "pods"),
    [
        ({"max_pods": 110}, 110),
        ({"max_pods": 110, "pods_per_core": 10}, 20),
        ({"pods_per_core": 100}, 29),
    ],
)
def test_user_data_sets_the_pods_and_cores_limit_them(changes: dict[str, int], pods: int) -> None:
    assert capacity_amounts(instance(), hardware(), bootstrap(**changes)).pods == pods


def test_raid0_makes_the_local_disks_the_pods_disk() -> None:
    disks = hardware(instance_store_gb=75)

    with_raid = capacity_amounts(instance(), disks, bootstrap(instance_store_raid0=True))
    without = capacity_amounts(instance(), disks, bootstrap())
    no_disks = capacity_amounts(instance(), hardware(), bootstrap(instance_store_raid0=True))

    assert 0.99 * 75e9 < with_raid.storage_bytes < 75e9
    assert without.storage_bytes == no_disks.storage_bytes < 20 * GIB


def test_allocatable_is_capacity_without_reservations_and_hard_thresholds() -> None:
    left = allocatable(ROUND)

    assert left == Amounts(
        cpu_milli=2000 - 70,
        memory_bytes=8 * GIB - (11 * 29 + 255) * MIB - 100 * MIB,
        storage_bytes=20 * GIB - GIB - 2 * GIB,
        pods=29,
    )


def test_own_values_replace_the_images_key_by_key() -> None:
    left = allocatable(
        ROUND,
        kube_reserved={"cpu": "200m"},
        system_reserved={"memory": "1Gi", "ephemeral-storage": "1Gi"},
        eviction_hard={"memory.available": "10%", "nodefs.available": "5Gi"},
    )

    assert left.cpu_milli == 1800
    assert left.memory_bytes == (8 * GIB - (11 * 29 + 255) * MIB - GIB - int(8 * GIB * 10 / 100))
    assert left.storage_bytes == 20 * GIB - 2 * GIB - 5 * GIB


def test_al2023_reserves_memory_for_the_interfaces_and_bottlerocket_for_its_pods() -> None:
    assert image_reservations("AL2023", hardware(), 110)["memory"] == "574Mi"
    assert image_reservations("Bottlerocket", hardware(), 110)["memory"] == "1465Mi"


@pytest.mark.parametrize("percent", ["0%", "100%"])
def test_a_threshold_of_nothing_or_everything_is_off(percent: str) -> None:
    left = allocatable(ROUND, eviction_hard={"memory.available": percent})

    assert left.memory_bytes == 8 * GIB - 574 * MIB


def test_an_explicit_set_of_system_cpus_replaces_both_cpu_reservations() -> None:
    left = allocatable(
        ROUND, reserved_system_cpus=1, kube_reserved={"cpu": "1"}, system_reserved={"cpu": "1"}
    )

    assert left.cpu_milli == 1000


def test_a_kubelet_that_reserves_more_than_there_is_does_not_start() -> None:
    with pytest.raises(UserDataError, match=r"memory: .* reserved") as error:
        allocatable(ROUND, system_reserved={"memory": "100Gi"})

    assert error.value.problem is JoinProblem.TOO_LITTLE_CAPACITY


def test_resources_are_printed_as_a_kubelet_prints_them() -> None:
    amounts = Amounts(cpu_milli=1930, memory_bytes=GIB + 1, storage_bytes=2 * GIB, pods=29)

    assert resource_list(amounts, {"nvidia.com/gpu": "1"}) == {
        "cpu": "1930m",
        "memory": "1048576Ki",
        "ephemeral-storage": "2097152Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": "29",
        "nvidia.com/gpu": "1",
    }


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("standard", {}),
        ("nvidia", {"nvidia.com/gpu": "4"}),
        ("neuron", {"aws.amazon.com/neuron": "2", "aws.amazon.com/neuroncore": "8"}),
    ],
)
def test_only_the_image_with_the_plugin_registers_devices(
    variant: str, expected: dict[str, str]
) -> None:
    machine = hardware(gpus={"nvidia.com/gpu": 4}, neuron_devices=2, neuron_cores=8)

    assert devices(instance(image_variant=variant), machine) == expected


def test_hardware_is_read_from_ec2s_description() -> None:
    description = {
        "VCpuInfo": {"DefaultVCpus": 48},
        "MemoryInfo": {"SizeInMiB": 196608},
        "NetworkInfo": {
            "MaximumNetworkInterfaces": 30,
            "Ipv4AddressesPerInterface": 50,
            "DefaultNetworkCardIndex": 0,
            "NetworkCards": [
                {"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 15},
                {"NetworkCardIndex": 1, "MaximumNetworkInterfaces": 15},
            ],
        },
        "InstanceStorageInfo": {"TotalSizeInGB": 900},
        "GpuInfo": {"Gpus": [{"Manufacturer": "NVIDIA", "Count": 4}]},
        "NeuronInfo": {"NeuronDevices": [{"Count": 2, "CoreInfo": {"Count": 4}}]},
    }

    assert parse_hardware(description, root_volume_gib=50, efa_interfaces=1) == Hardware(
        vcpus=48,
        memory_mib=196608,
        network_interfaces=15,
        ipv4_addresses_per_interface=50,
        instance_store_gb=900,
        root_volume_gib=50,
        gpus={"nvidia.com/gpu": 4},
        neuron_devices=2,
        neuron_cores=8,
        efa_interfaces=1,
    )


@pytest.mark.parametrize(
    ("limit", "kind", "volumes", "interfaces", "left"),
    [
        (27, "shared", 1, 1, 26),
        (27, "shared", 2, 3, 23),  # further interfaces take slots where they are shared
        (32, "dedicated", 2, 3, 30),
        (3, "shared", 2, 3, 1),
    ],
)
def test_the_machines_own_volumes_take_places_from_the_pods(
    limit: int, kind: str, volumes: int, interfaces: int, left: int
) -> None:
    description = {
        "VCpuInfo": {"DefaultVCpus": 2},
        "MemoryInfo": {"SizeInMiB": 8192},
        "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10},
        "EbsInfo": {"MaximumEbsAttachments": limit, "AttachmentLimitType": kind},
    }

    found = parse_hardware(
        description, root_volume_gib=20, own_volumes=volumes, own_interfaces=interfaces
    )

    assert found.volumes_for_pods == left


@pytest.mark.parametrize(
    ("text", "units", "milli"),
    [
        ("1", 1, 1000),
        ("500m", 1, 500),
        ("1.5", 2, 1500),
        ("100Mi", 100 * MIB, 100 * MIB * 1000),
        ("1e3", 1000, 1_000_000),
        ("2k", 2000, 2_000_000),
        ("0.1", 1, 100),
    ],
)
def test_quantities_are_read_and_rounded_up(text: str, units: int, milli: int) -> None:
    assert (parse_units(text), parse_milli(text)) == (units, milli)


@pytest.mark.parametrize("text", ["", "Mi", "1 Gi", "1gb", "--1", "1KiB", "1e3Mi"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_units(text)
