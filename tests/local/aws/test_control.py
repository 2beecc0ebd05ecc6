"""The control API, and what the endpoint does with calls that are nobody's."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests
from botocore.exceptions import ClientError
from nodewright_local.aws.settings import SettingsError, load_settings

from tests.local.aws.account import Account, eventually


def test_health_names_account_and_region(account: Account) -> None:
    health = account.control("GET", "health")

    assert health == {"status": "ok", "account_id": "123456789012", "region": "us-west-2"}


def test_pools_are_set_shown_and_cleared(account: Account) -> None:
    pool = {"instance_type": "m5.large", "zone": "us-west-2a", "capacity_type": "spot"}
    account.drain({**pool, "remaining": 3})

    (shown,) = account.control("GET", "ice")["pools"]

    assert shown == {**pool, "remaining": 3, "error": "InsufficientInstanceCapacity"}
    account.drain()
    assert account.control("GET", "ice")["pools"] == []


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        ({"instancetype": "m5.large"}, "unknown keys ['instancetype']"),
        ({"remaining": -1}, "remaining must be a number from 0 up"),
        ({"capacity_type": "reserved"}, "capacity_type is spot, on-demand or *"),
    ],
)
def test_a_pool_that_makes_no_sense_is_refused(
    account: Account, pool: dict[str, object], reason: str
) -> None:
    refused = account.control_response("PUT", "ice", {"pools": [pool]})

    assert refused.status_code == 400
    assert reason in refused.json()["error"]


def test_unknown_routes_and_instances_are_404(account: Account) -> None:
    assert account.control_response("GET", "weather").status_code == 404
    missing = account.control_response("POST", "spot-interruption", {"instance_id": "i-0"})
    assert missing.status_code == 404


def test_calls_that_moto_answers_are_recorded_too(account: Account) -> None:
    account.control("DELETE", "calls")
    account.iam.list_roles()

    (call,) = account.control("GET", "calls?service=iam")

    assert (call["action"], call["response"]["status"]) == ("ListRoles", 200)


ALLOW = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "ec2:DescribeImages", "Resource": "*"}],
    }
)


def test_roles_policies_and_profiles_are_those_of_iam(account: Account) -> None:
    account.iam.attach_role_policy(
        RoleName="KarpenterNodeRole-demo",
        PolicyArn="arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
    )
    account.iam.put_role_policy(
        RoleName="KarpenterNodeRole-demo",
        PolicyName="inline",
        PolicyDocument=ALLOW,
    )
    account.iam.tag_instance_profile(
        InstanceProfileName="nodes", Tags=[{"Key": "karpenter.k8s.aws/ec2nodeclass", "Value": "x"}]
    )
    below = account.iam.list_instance_profiles(PathPrefix="/karpenter/us-west-2/demo/")
    beside = account.iam.list_instance_profiles(PathPrefix="/karpenter/us-west-2/other/")

    assert [item["InstanceProfileName"] for item in below["InstanceProfiles"]] == ["nodes"]
    assert beside["InstanceProfiles"] == []
    attached = account.iam.list_attached_role_policies(RoleName="KarpenterNodeRole-demo")
    assert [p["PolicyName"] for p in attached["AttachedPolicies"]] == ["AmazonEKSWorkerNodePolicy"]


def test_a_call_that_nobody_answers_is_an_error_that_names_it(account: Account) -> None:
    with pytest.raises(ClientError, match="ec2:DescribeVerifiedAccessGroups is not there"):
        account.ec2.describe_verified_access_groups()


def test_placement_groups_are_remembered_and_reservations_are_none(account: Account) -> None:
    account.ec2.create_placement_group(GroupName="close", Strategy="cluster")

    found = account.ec2.describe_placement_groups(GroupNames=["close"])["PlacementGroups"]

    assert found[0]["Strategy"] == "cluster"
    account.ec2.delete_placement_group(GroupName="close")
    with pytest.raises(ClientError, match="InvalidPlacementGroup"):
        account.ec2.describe_placement_groups(GroupNames=["close"])
    assert account.ec2.describe_capacity_reservations()["CapacityReservations"] == []


@pytest.fixture
def process(tmp_path: Path) -> "subprocess.Popen[str]":
    """The stand-in as a process of its own."""
    ca = tmp_path / "ca.crt"
    ca.write_text("-----BEGIN CERTIFICATE-----\n")
    environment = {key: value for key, value in os.environ.items() if key != "NODEWRIGHT_LOCAL_DIR"}
    return subprocess.Popen(
        [sys.executable, "-m", "nodewright_local.aws", "--port", "0", "--ca-file", str(ca)],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_the_process_serves_survives_a_pause_and_ends_on_sigterm(
    process: "subprocess.Popen[str]",
) -> None:
    assert process.stderr is not None
    try:
        line = next(text for text in process.stderr if "AWS answers at" in text)
        url = line.split("AWS answers at ")[1].strip()
        health = f"{url}/_nodewright/health"
        assert requests.get(health, timeout=20).status_code == 200

        process.send_signal(signal.SIGSTOP)
        with pytest.raises(requests.Timeout):
            requests.get(health, timeout=0.5)
        process.send_signal(signal.SIGCONT)
        eventually(lambda: requests.get(health, timeout=20).status_code == 200)
    finally:
        process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        process.wait(timeout=20)
        process.stderr.close()
    assert process.returncode == 0
    assert time.monotonic() - started < 10


def test_settings_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no laptop cluster at"):
        load_settings(tmp_path, {})
    with pytest.raises(SettingsError, match=r"missing\.crt"):
        load_settings(None, {"ca_file": tmp_path / "missing.crt"})


def test_options_win_over_nothing(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text("certificate")

    settings = load_settings(None, {"ca_file": ca, "region": "eu-central-1", "port": None})

    assert (settings.region, settings.port, settings.ca_pem) == ("eu-central-1", 0, "certificate")
