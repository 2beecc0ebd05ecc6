"""Volumes in EC2: what the driver makes of them, and what EC2 refuses."""

import pytest
from botocore.exceptions import ClientError
from nodewright_local.kubelets.volumes.ebs import Ebs, EbsRefused, VolumeOrder, is_pod_volume

from tests.local.aws.account import Account, eventually


def order(name: str, zone: str = "us-west-2a") -> VolumeOrder:
    return VolumeOrder(name=name, zone=zone, size_gib=2, options={"VolumeType": "gp3"})


def running(account: Account) -> str:
    instance_id = account.launch()
    eventually(lambda: account.state(instance_id) == "running")
    return instance_id


def refusal(account: Account, volume_id: str, instance_id: str) -> str:
    with pytest.raises(ClientError) as refused:
        account.ec2.attach_volume(VolumeId=volume_id, InstanceId=instance_id, Device="/dev/xvdaa")
    return str(refused.value.response["Error"]["Code"])


def test_an_order_repeated_finds_the_first_ones_volume(account: Account) -> None:
    ebs = Ebs(account.ec2)

    first = ebs.create(order("once"))

    assert ebs.create(order("once")) == first
    assert ebs.create(order("another")) != first
    [volume] = account.ec2.describe_volumes(VolumeIds=[first])["Volumes"]
    assert (volume["AvailabilityZone"], volume["Size"]) == ("us-west-2a", 2)


def test_what_ec2_refuses_to_make_says_why(account: Account) -> None:
    with pytest.raises(EbsRefused, match=r"InvalidZone\.NotFound"):
        Ebs(account.ec2).create(order("nowhere", zone="us-west-2x"))


def test_attaching_and_detaching_can_be_repeated(account: Account) -> None:
    ebs, instance_id = Ebs(account.ec2), running(account)
    first, second = ebs.create(order("first")), ebs.create(order("second"))

    devices = [ebs.attach(first, instance_id), ebs.attach(second, instance_id)]

    assert ebs.attach(first, instance_id) == devices[0]
    mapped = account.instance(instance_id)["BlockDeviceMappings"]
    assert {item["DeviceName"] for item in mapped if is_pod_volume(item["DeviceName"])} == {
        *devices
    }
    assert len(mapped) == 3
    for _ in range(2):
        ebs.detach(first, instance_id)
        ebs.detach(second, instance_id)
    for _ in range(2):
        ebs.delete(first)
        ebs.delete(second)
    assert len(account.instance(instance_id)["BlockDeviceMappings"]) == 1


def test_a_volume_in_use_is_neither_attached_again_nor_deleted(account: Account) -> None:
    ebs, instance_id, other = Ebs(account.ec2), running(account), running(account)
    volume_id = ebs.create(order("busy"))
    ebs.attach(volume_id, instance_id)

    with pytest.raises(EbsRefused, match="VolumeInUse"):
        ebs.attach(volume_id, other)
    with pytest.raises(EbsRefused, match="could not delete"):
        ebs.delete(volume_id)


def test_a_volume_of_another_zone_is_not_attached(account: Account) -> None:
    volume_id = Ebs(account.ec2).create(order("far", zone="us-west-2b"))

    assert refusal(account, volume_id, running(account)) == "InvalidVolume.ZoneMismatch"


def test_the_end_of_an_instance_frees_the_volumes_of_its_pods(account: Account) -> None:
    ebs, instance_id = Ebs(account.ec2), running(account)
    volume_id = ebs.create(order("survivor"))
    ebs.attach(volume_id, instance_id)

    account.ec2.terminate_instances(InstanceIds=[instance_id])
    eventually(lambda: account.state(instance_id) == "terminated")

    [volume] = account.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
    assert volume["State"] == "available"
    assert refusal(account, volume_id, instance_id) == "IncorrectState"
    ebs.detach(volume_id, instance_id)
