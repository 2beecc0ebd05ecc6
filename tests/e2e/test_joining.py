"""Instances that run and yet are no nodes: joining takes right user data and an access entry."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from nodewright_local.demo import observe

from tests.e2e.stage import ALLOWANCE_S, NODE_WITHIN_S, Stage, node_class, node_pool
from tests.local.running import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(ALLOWANCE_S)]

LONG_ENOUGH_S = 20.0
"""Instances that do join take less than ten seconds from running to the Node."""
IMAGE = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"


def instance_that_runs_for_long(stage: Stage) -> Any:
    """Wait until the one launched instance has had time enough to join."""

    def running() -> Any:
        return [item for item in stage.emulator.fleet_instances() if item.state == "running"]

    [instance] = eventually(running, within_s=NODE_WITHIN_S, what="an instance runs")
    time.sleep(LONG_ENOUGH_S)
    return instance


def names_of_nodes(stage: Stage) -> list[str]:
    return [node["metadata"]["name"] for node in stage.api.list("nodes")]


def test_an_instance_with_foreign_user_data_never_becomes_a_node(stage: Stage) -> None:
    image = stage.clients["ssm"].get_parameter(Name=IMAGE)["Parameter"]["Value"]
    stage.apply(
        node_class(
            stage,
            amiFamily="Custom",
            amiSelectorTerms=[{"id": image}],
            userData="#!/bin/bash\necho this joins no cluster\n",
        ),
        node_pool("web", category=["t"]),
    )
    stage.run_pod("web")
    instance = instance_that_runs_for_long(stage)
    assert instance.private_dns_name not in names_of_nodes(stage)
    [claim] = stage.claims().values()
    assert observe.is_true(claim, "Launched")
    assert not observe.is_true(claim, "Registered")
    assert instance.instance_id in stage.state.log_file("kubelets").read_text("utf-8")


@contextmanager
def without_access_entry(stage: Stage, role_arn: str) -> Iterator[None]:
    """Take a role's access entry away, and give it back as the stack made it."""
    eks = stage.clients["eks"]
    entry = {"clusterName": stage.cluster_name, "principalArn": role_arn}
    as_made = eks.describe_access_entry(**entry)["accessEntry"]
    eks.delete_access_entry(**entry)
    try:
        yield
    finally:
        eks.create_access_entry(**entry, type=as_made["type"], tags=as_made["tags"])


def test_an_instance_joins_only_when_its_role_has_an_access_entry(stage: Stage) -> None:
    role = stage.clients["iam"].get_role(RoleName=f"KarpenterNodeRole-{stage.cluster_name}")
    stage.apply(node_class(stage), node_pool("web", category=["t"]))
    with without_access_entry(stage, role["Role"]["Arn"]):
        stage.run_pod("web")
        instance = instance_that_runs_for_long(stage)
        assert instance.private_dns_name not in names_of_nodes(stage)
    assert stage.wait_for_pod("web") == instance.private_dns_name
