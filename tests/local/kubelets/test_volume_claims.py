"""Which volume a claim gets, in which zone; and what happens when it cannot have one."""

from typing import Any

import pytest
from nodewright_local.kubelets.volumes.claims import (
    ClaimRefused,
    Place,
    choose_zone,
    order_for,
    persistent_volume,
    waits_for_scheduler,
    wants_volume,
)
from nodewright_local.kubelets.volumes.ebs import Ebs, EbsRefused, VolumeOrder
from nodewright_local.kubelets.volumes.provisioner import Provisioner
from typing_extensions import override

from tests.local.kubelets.storage import (
    PROVISIONER,
    SELECTED_NODE,
    FakeApi,
    attachment,
    claim,
    storage,
    storage_class,
    volume,
)

CLAIM_PATH = "/api/v1/namespaces/default/persistentvolumeclaims/data-db-0"
PLACES = [Place(node="node-1", zone="us-west-2a"), Place(node="node-2", zone="us-west-2b")]


class FakeEbs(Ebs):
    def __init__(self, *, refuses: bool = False) -> None:
        self.orders: list[VolumeOrder] = []
        self.deleted: list[str] = []
        self.refuses = refuses

    @override
    def create(self, order: VolumeOrder) -> str:
        if self.refuses:
            raise EbsRefused("VolumeLimitExceeded")
        self.orders.append(order)
        return "vol-1"

    @override
    def delete(self, volume_id: str) -> None:
        self.deleted.append(volume_id)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (claim(), True),
        (claim(bound="pvc-1"), False),
        ({**claim(), "metadata": {**claim()["metadata"], "deletionTimestamp": "now"}}, False),
        ({**claim(), "metadata": {"annotations": {PROVISIONER: "efs.csi.aws.com"}}}, False),
        ({**claim(), "metadata": {}}, False),
    ],
)
def test_only_unbound_claims_handed_to_the_driver_are_served(found: Any, wanted: bool) -> None:
    assert wants_volume(found) is wanted


def test_a_class_that_waits_for_its_consumer_waits_for_the_selected_node() -> None:
    assert waits_for_scheduler(claim(), storage_class())
    assert not waits_for_scheduler(claim(node="node-2"), storage_class())
    assert not waits_for_scheduler(claim(), storage_class(waits=False))


def test_the_volume_is_made_in_the_zone_of_the_selected_node() -> None:
    assert choose_zone(claim(node="node-2"), storage_class(), PLACES) == "us-west-2b"


@pytest.mark.parametrize(
    ("node", "zones"), [("node-9", ()), ("node-2", ("us-west-2a", "us-west-2c"))]
)
def test_an_impossible_node_makes_the_scheduler_choose_again(
    node: str, zones: tuple[str, ...]
) -> None:
    with pytest.raises(ClaimRefused, match=node) as refused:
        choose_zone(claim(node=node), storage_class(zones=zones), PLACES)

    assert refused.value.choose_again


def test_claims_of_a_stateful_set_that_bind_at_once_go_through_the_zones_in_turn() -> None:
    at_once = storage_class(waits=False)

    zones = {choose_zone(claim(f"data-db-{n}"), at_once, PLACES) for n in range(2)}

    assert zones == {"us-west-2a", "us-west-2b"}


def test_the_zones_of_the_class_come_before_those_that_have_nodes() -> None:
    at_once = storage_class(waits=False, zones=("us-west-2c",))

    assert choose_zone(claim(), at_once, PLACES) == "us-west-2c"
    assert choose_zone(claim(), at_once, []) == "us-west-2c"


def test_without_any_node_there_is_no_zone_to_choose() -> None:
    with pytest.raises(ClaimRefused, match="no node runs the driver"):
        choose_zone(claim(), storage_class(waits=False), [])


def test_parameters_of_the_class_become_those_of_the_volume() -> None:
    parameters = {"Type": "io2", "iops": "4000", "encrypted": "true", "tagSpecification_1": "a=b"}

    order = order_for(claim(), storage_class(parameters=parameters), "us-west-2a")

    assert order.size_gib == 2
    assert order.options == {"VolumeType": "io2", "Iops": 4000, "Encrypted": True}
    assert order.tags["a"] == "b"
    assert order.tags["kubernetes.io/created-for/pvc/name"] == "data-db-0"


@pytest.mark.parametrize(
    ("parameters", "spec", "word"),
    [
        ({"colour": "red"}, {}, "colour"),
        ({"iops": "many"}, {}, "iops"),
        ({}, {"dataSource": {"kind": "VolumeSnapshot", "name": "s"}}, "snapshots"),
    ],
)
def test_what_the_driver_cannot_do_is_refused(
    parameters: dict[str, str], spec: dict[str, Any], word: str
) -> None:
    with pytest.raises(ClaimRefused, match=word):
        order_for(claim(**spec), storage_class(parameters=parameters), "us-west-2a")


def test_a_volume_is_tied_to_its_claim_and_its_zone() -> None:
    order = order_for(claim(), storage_class(), "us-west-2b")

    made = persistent_volume(claim(), storage_class(), order, "vol-1")

    assert made["metadata"]["name"] == "pvc-uid-of-data-db-0"
    assert made["spec"]["capacity"] == {"storage": "2Gi"}
    assert made["spec"]["claimRef"]["uid"] == "uid-of-data-db-0"
    assert made["spec"]["csi"]["volumeHandle"] == "vol-1"
    [term] = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-west-2b"]}
    ]


def world(*, driver: str = "ebs.csi.aws.com") -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": "us-west-2b"}
    node = {"metadata": {"name": "node-2", "labels": labels}}
    csi_node = {"metadata": {"name": "node-2"}, "spec": {"drivers": [{"name": driver}]}}
    return {
        "/apis/storage.k8s.io/v1/storageclasses/gp3": storage_class(),
        "/apis/storage.k8s.io/v1/csinodes": {"items": [csi_node]},
        "/api/v1/nodes": {"items": [node]},
    }


async def test_a_claim_gets_one_volume_and_an_event_says_so() -> None:
    api, ebs = FakeApi(world()), FakeEbs()

    await Provisioner(api=api, ebs=ebs).serve(claim(node="node-2"))

    assert [order.zone for order in ebs.orders] == ["us-west-2b"]
    assert [path for _, path, _ in api.writes] == [
        "/api/v1/persistentvolumes",
        "/api/v1/namespaces/default/events",
    ]
    assert api.writes[1][2]["reason"] == "ProvisioningSucceeded"


@pytest.mark.parametrize(
    ("driver", "refuses"), [("efs.csi.aws.com", False), ("ebs.csi.aws.com", True)]
)
async def test_a_claim_that_fails_gives_its_node_back_and_is_not_tried_again_at_once(
    driver: str, refuses: bool
) -> None:
    api, ebs = FakeApi(world(driver=driver)), FakeEbs(refuses=refuses)
    provisioner = Provisioner(api=api, ebs=ebs)

    await provisioner.serve(claim(node="node-2"))
    await provisioner.serve(claim(node="node-2"))

    [event, patch] = api.writes
    assert event[2]["reason"] == "ProvisioningFailed"
    assert patch[1] == CLAIM_PATH
    assert patch[2] == {"metadata": {"annotations": {SELECTED_NODE: None}}}


async def test_a_claim_of_an_absent_class_waits() -> None:
    api, ebs = FakeApi({}), FakeEbs()

    await Provisioner(api=api, ebs=ebs).serve(claim(node="node-2"))

    assert not api.writes
    assert not ebs.orders


async def test_a_released_volume_goes_in_ec2_first_and_then_from_the_cluster() -> None:
    api, ebs = FakeApi({}), FakeEbs()
    provisioner = Provisioner(api=api, ebs=ebs)

    await provisioner.take_back(volume(), storage())
    await provisioner.take_back(volume(deletionTimestamp="now"), storage())

    assert ebs.deleted == ["vol-1", "vol-1"]
    [delete, patch] = api.writes
    assert delete[:2] == ("DELETE", "/api/v1/persistentvolumes/pvc-1")
    assert patch[2]["metadata"] == {
        "finalizers": ["kubernetes.io/pv-protection"],
        "resourceVersion": "9",
    }


@pytest.mark.parametrize(
    ("kept", "attachments"),
    [
        (volume(phase="Bound"), []),
        (volume(phase="Bound", deletionTimestamp="now"), []),
        (volume(annotations={}), []),
        (volume(), [attachment(attached=True)]),
        ({**volume(), "spec": {"csi": {"driver": "efs.csi.aws.com"}}}, []),
        (
            {**volume(), "spec": {**volume()["spec"], "persistentVolumeReclaimPolicy": "Retain"}},
            [],
        ),
    ],
)
async def test_volumes_in_use_or_of_others_or_to_be_kept_stay(kept: Any, attachments: Any) -> None:
    api, ebs = FakeApi({}), FakeEbs()

    await Provisioner(api=api, ebs=ebs).take_back(kept, storage(attachments=attachments))

    assert not ebs.deleted
    assert not api.writes
