"""EKS: clusters, access, pod identity associations, add-ons, node groups, Fargate profiles."""

import base64
from collections.abc import Iterator
from email import message_from_string
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from tests.local.aws.account import ZONES, Account, eventually

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def make_cluster(account: Account, name: str, **more: Any) -> dict[str, Any]:
    """Create a cluster and wait until it is ACTIVE."""
    account.eks.create_cluster(
        name=name,
        roleArn=account.role(f"{name}-control-plane", "eks.amazonaws.com"),
        resourcesVpcConfig={"subnetIds": list(account.subnets.values())},
        **{
            "accessConfig": {
                "authenticationMode": "API",
                "bootstrapClusterCreatorAdminPermissions": True,
            },
            **more,
        },
    )
    account.eks.get_waiter("cluster_active").wait(
        name=name, WaiterConfig={"Delay": 0, "MaxAttempts": 5000}
    )
    described: dict[str, Any] = account.eks.describe_cluster(name=name)["cluster"]
    return described


@pytest.fixture(scope="module")
def cluster(account: Account) -> dict[str, Any]:
    return make_cluster(account, "demo", tags={"team": "a"})


@pytest.fixture
def nodegroup(account: Account, cluster: dict[str, Any]) -> Iterator[str]:
    created = account.eks.create_nodegroup(
        clusterName="demo",
        nodegroupName="system",
        nodeRole=account.node_role,
        subnets=list(account.subnets.values()),
        scalingConfig={"minSize": 0, "maxSize": 4, "desiredSize": 2},
        instanceTypes=["m5.large"],
        labels={"karpenter.sh/controller": "true"},
        taints=[{"key": "CriticalAddonsOnly", "value": "true", "effect": "NO_SCHEDULE"}],
    )
    assert created["nodegroup"]["status"] == "CREATING"
    yield "system"
    account.eks.delete_nodegroup(clusterName="demo", nodegroupName="system")
    eventually(lambda: account.eks.list_nodegroups(clusterName="demo")["nodegroups"] == [])


def code_of(failed: pytest.ExceptionInfo[ClientError]) -> str:
    """The AWS error code."""
    return str(failed.value.response["Error"]["Code"])


def test_a_cluster_hands_out_the_laptops_api_server(cluster: dict[str, Any]) -> None:
    ca = base64.b64decode(cluster["certificateAuthority"]["data"]).decode()

    assert cluster["endpoint"] == "https://127.0.0.1:6443"
    assert "laptop" in ca
    assert cluster["version"] == "1.36"
    assert cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "10.100.0.0/16"
    assert cluster["identity"]["oidc"]["issuer"].startswith("https://oidc.eks.us-west-2.")
    assert cluster["tags"] == {"team": "a"}


def test_its_security_group_exists(account: Account, cluster: dict[str, Any]) -> None:
    group_id = cluster["resourcesVpcConfig"]["clusterSecurityGroupId"]

    (group,) = account.ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"]

    assert group["VpcId"] == account.vpc_id
    assert {"Key": "kubernetes.io/cluster/demo", "Value": "owned"} in group["Tags"]


def test_a_second_cluster_of_the_name_is_refused(account: Account, cluster: dict[str, Any]) -> None:
    with pytest.raises(ClientError) as failed:
        account.eks.create_cluster(
            name="demo",
            roleArn=cluster["roleArn"],
            resourcesVpcConfig={"subnetIds": list(account.subnets.values())},
        )

    assert code_of(failed) == "ResourceInUseException"


def test_one_zone_is_not_enough(account: Account, cluster: dict[str, Any]) -> None:
    with pytest.raises(ClientError, match="two different AZs"):
        account.eks.create_cluster(
            name="lonely",
            roleArn=cluster["roleArn"],
            resourcesVpcConfig={"subnetIds": [account.subnets[ZONES[0]]]},
        )


def test_configuration_and_version_are_updated(account: Account) -> None:
    make_cluster(account, "changing", version="1.35")

    def finished(update: dict[str, Any]) -> bool:
        shown = account.eks.describe_update(name="changing", updateId=update["id"])
        return bool(shown["update"]["status"] == "Successful")

    access = account.eks.update_cluster_config(
        name="changing",
        resourcesVpcConfig={"endpointPrivateAccess": True, "publicAccessCidrs": ["10.0.0.0/8"]},
    )["update"]
    eventually(lambda: finished(access))
    logging = account.eks.update_cluster_config(
        name="changing", logging={"clusterLogging": [{"types": ["audit"], "enabled": True}]}
    )["update"]
    eventually(lambda: finished(logging))
    version = account.eks.update_cluster_version(name="changing", version="1.36")["update"]
    eventually(lambda: finished(version))

    shown = account.eks.describe_cluster(name="changing")["cluster"]
    assert shown["status"] == "ACTIVE"
    assert shown["version"] == "1.36"
    assert shown["resourcesVpcConfig"]["endpointPrivateAccess"] is True
    assert shown["resourcesVpcConfig"]["publicAccessCidrs"] == ["10.0.0.0/8"]
    assert {"types": ["audit"], "enabled": True} in shown["logging"]["clusterLogging"]


def test_a_deleted_cluster_takes_its_security_group_along(account: Account) -> None:
    described = make_cluster(account, "short-lived")
    group_id = described["resourcesVpcConfig"]["clusterSecurityGroupId"]

    account.eks.delete_cluster(name="short-lived")

    eventually(lambda: "short-lived" not in account.eks.list_clusters()["clusters"])
    with pytest.raises(ClientError) as failed:
        account.ec2.describe_security_groups(GroupIds=[group_id])
    assert code_of(failed) == "InvalidGroup.NotFound"


def test_the_creator_is_an_administrator(account: Account, cluster: dict[str, Any]) -> None:
    creator = account.client("sts").get_caller_identity()["Arn"]

    policies = account.eks.list_associated_access_policies(
        clusterName="demo", principalArn=creator
    )["associatedAccessPolicies"]

    assert [policy["policyArn"] for policy in policies] == [ADMIN]


def test_access_entries_live_and_die(account: Account, cluster: dict[str, Any]) -> None:
    role = account.role("reader", "ec2.amazonaws.com")
    created = account.eks.create_access_entry(
        clusterName="demo", principalArn=role, kubernetesGroups=["readers"], tags={"a": "b"}
    )["accessEntry"]
    assert created["type"] == "STANDARD"
    assert created["username"].endswith("assumed-role/reader/{{SessionName}}")

    account.eks.update_access_entry(
        clusterName="demo", principalArn=role, kubernetesGroups=["writers"], username="bob"
    )
    account.eks.associate_access_policy(
        clusterName="demo", principalArn=role, policyArn=ADMIN, accessScope={"type": "cluster"}
    )

    shown = account.eks.describe_access_entry(clusterName="demo", principalArn=role)
    assert shown["accessEntry"]["kubernetesGroups"] == ["writers"]
    listed = account.eks.list_access_entries(clusterName="demo", associatedPolicyArn=ADMIN)
    assert role in listed["accessEntries"]
    account.eks.disassociate_access_policy(clusterName="demo", principalArn=role, policyArn=ADMIN)
    account.eks.delete_access_entry(clusterName="demo", principalArn=role)
    with pytest.raises(ClientError) as failed:
        account.eks.describe_access_entry(clusterName="demo", principalArn=role)
    assert code_of(failed) == "ResourceNotFoundException"


def test_an_access_entry_needs_a_role_that_exists(
    account: Account, cluster: dict[str, Any]
) -> None:
    with pytest.raises(ClientError) as failed:
        account.eks.create_access_entry(
            clusterName="demo", principalArn="arn:aws:iam::123456789012:role/nobody"
        )

    assert code_of(failed) == "InvalidParameterException"


def test_node_entries_take_no_groups(account: Account, cluster: dict[str, Any]) -> None:
    role = account.role("other-nodes", "ec2.amazonaws.com")
    with pytest.raises(ClientError) as failed:
        account.eks.create_access_entry(
            clusterName="demo", principalArn=role, type="EC2_LINUX", kubernetesGroups=["x"]
        )
    assert code_of(failed) == "InvalidParameterException"

    entry = account.eks.create_access_entry(
        clusterName="demo", principalArn=role, type="EC2_LINUX"
    )["accessEntry"]
    assert entry["username"] == "system:node:{{EC2PrivateDNSName}}"
    assert entry["kubernetesGroups"] == ["system:bootstrappers", "system:nodes"]


def test_a_config_map_cluster_has_no_access_entries(account: Account) -> None:
    make_cluster(account, "old-style", accessConfig={"authenticationMode": "CONFIG_MAP"})

    with pytest.raises(ClientError) as failed:
        account.eks.create_access_entry(
            clusterName="old-style", principalArn=account.node_role, type="EC2_LINUX"
        )

    assert code_of(failed) == "InvalidRequestException"


def test_pod_identity_associations_live_and_die(account: Account, cluster: dict[str, Any]) -> None:
    role = account.role("controller-a", "pods.eks.amazonaws.com")
    other = account.role("controller-b", "pods.eks.amazonaws.com")
    created = account.eks.create_pod_identity_association(
        clusterName="demo", namespace="karpenter", serviceAccount="karpenter", roleArn=role
    )["association"]
    with pytest.raises(ClientError) as failed:
        account.eks.create_pod_identity_association(
            clusterName="demo", namespace="karpenter", serviceAccount="karpenter", roleArn=role
        )
    assert code_of(failed) == "ResourceInUseException"

    account.eks.update_pod_identity_association(
        clusterName="demo", associationId=created["associationId"], roleArn=other
    )

    shown = account.eks.describe_pod_identity_association(
        clusterName="demo", associationId=created["associationId"]
    )["association"]
    listed = account.eks.list_pod_identity_associations(clusterName="demo", namespace="karpenter")
    assert shown["roleArn"] == other
    assert [a["associationId"] for a in listed["associations"]] == [created["associationId"]]
    account.eks.delete_pod_identity_association(
        clusterName="demo", associationId=created["associationId"]
    )
    assert account.eks.list_pod_identity_associations(clusterName="demo")["associations"] == []


def test_addons_live_and_die(account: Account, cluster: dict[str, Any]) -> None:
    versions = account.eks.describe_addon_versions(addonName="vpc-cni")["addons"][0]
    newest, older = (item["addonVersion"] for item in versions["addonVersions"])
    created = account.eks.create_addon(clusterName="demo", addonName="vpc-cni", addonVersion=older)[
        "addon"
    ]

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = account.eks.describe_addon(clusterName="demo", addonName="vpc-cni")[
            "addon"
        ]
        return found

    assert created["status"] == "CREATING"
    eventually(lambda: shown()["status"] == "ACTIVE")
    account.eks.update_addon(clusterName="demo", addonName="vpc-cni", addonVersion=newest)
    eventually(lambda: shown()["status"] == "ACTIVE")
    assert shown()["addonVersion"] == newest
    with pytest.raises(ClientError, match="not supported"):
        account.eks.create_addon(clusterName="demo", addonName="no-such-addon")
    account.eks.delete_addon(clusterName="demo", addonName="vpc-cni")
    eventually(lambda: account.eks.list_addons(clusterName="demo")["addons"] == [])


def group_instances(account: Account) -> list[dict[str, Any]]:
    """Live instances of node groups, as the control API lists them."""
    return [
        item
        for item in account.control("GET", "instances")
        if item["launched_by"] == "nodegroup" and item["state"] in ("pending", "running")
    ]


def status(account: Account, name: str) -> str:
    """The status of a node group of the demo cluster."""
    shown = account.eks.describe_nodegroup(clusterName="demo", nodegroupName=name)
    return str(shown["nodegroup"]["status"])


def test_a_node_group_launches_what_is_desired(account: Account, nodegroup: str) -> None:
    eventually(lambda: status(account, nodegroup) == "ACTIVE")

    found = group_instances(account)

    assert len(found) == 2
    assert len({item["zone"] for item in found}) == 2
    assert {item["role_arn"] for item in found} == {account.node_role}
    assert found[0]["tags"]["eks:nodegroup-name"] == "system"
    entry = account.eks.describe_access_entry(clusterName="demo", principalArn=account.node_role)
    assert entry["accessEntry"]["type"] == "EC2_LINUX"


def test_its_user_data_is_what_eks_gives_al2023(
    account: Account, nodegroup: str, cluster: dict[str, Any]
) -> None:
    text = base64.b64decode(group_instances(account)[0]["user_data_base64"]).decode()

    part = next(part for part in message_from_string(text).walk() if not part.is_multipart())
    config = yaml.safe_load(str(part.get_payload()))

    assert part.get_content_type() == "application/node.eks.aws"
    assert config["kind"] == "NodeConfig"
    spec = config["spec"]
    assert spec["cluster"] == {
        "name": "demo",
        "apiServerEndpoint": cluster["endpoint"],
        "certificateAuthority": cluster["certificateAuthority"]["data"],
        "cidr": "10.100.0.0/16",
    }
    assert spec["kubelet"]["config"] == {"maxPods": 29, "clusterDNS": ["10.100.0.10"]}
    labels, taints = spec["kubelet"]["flags"]
    assert "eks.amazonaws.com/nodegroup=system" in labels
    assert "karpenter.sh/controller=true" in labels
    assert taints == "--register-with-taints=CriticalAddonsOnly=true:NoSchedule"


def test_a_lost_node_is_replaced_and_sizes_are_followed(account: Account, nodegroup: str) -> None:
    eventually(lambda: status(account, nodegroup) == "ACTIVE")
    lost = group_instances(account)[0]["instance_id"]
    account.ec2.terminate_instances(InstanceIds=[lost])

    def names() -> set[str]:
        return {item["instance_id"] for item in group_instances(account)}

    eventually(lambda: lost not in names() and len(names()) == 2)
    account.eks.update_nodegroup_config(
        clusterName="demo", nodegroupName=nodegroup, scalingConfig={"desiredSize": 3}
    )
    eventually(lambda: len(names()) == 3 and status(account, nodegroup) == "ACTIVE")
    account.eks.update_nodegroup_config(
        clusterName="demo", nodegroupName=nodegroup, scalingConfig={"desiredSize": 0}
    )
    eventually(lambda: not names() and status(account, nodegroup) == "ACTIVE")


def test_a_deleted_node_group_leaves_neither_instances_nor_profile(
    account: Account, cluster: dict[str, Any]
) -> None:
    account.eks.create_nodegroup(
        clusterName="demo",
        nodegroupName="brief",
        nodeRole=account.node_role,
        subnets=list(account.subnets.values()),
        amiType="BOTTLEROCKET_ARM_64",
        instanceTypes=["m6g.large"],
        scalingConfig={"minSize": 1, "maxSize": 1, "desiredSize": 1},
    )
    (instance,) = group_instances(account)
    assert instance["image_family"] == "Bottlerocket"
    user_data = base64.b64decode(instance["user_data_base64"]).decode()
    assert 'cluster-name = "demo"' in user_data

    deleted = account.eks.delete_nodegroup(clusterName="demo", nodegroupName="brief")

    assert deleted["nodegroup"]["status"] == "DELETING"
    eventually(lambda: account.eks.list_nodegroups(clusterName="demo")["nodegroups"] == [])
    assert group_instances(account) == []
    profiles = account.iam.list_instance_profiles(PathPrefix="/")["InstanceProfiles"]
    assert not [item for item in profiles if item["InstanceProfileName"].startswith("eks-")]


def test_a_node_group_without_capacity_says_so_in_its_health(
    account: Account, cluster: dict[str, Any]
) -> None:
    account.drain({"instance_type": "m5.2xlarge", "remaining": 0})
    account.eks.create_nodegroup(
        clusterName="demo",
        nodegroupName="hungry",
        nodeRole=account.node_role,
        subnets=list(account.subnets.values()),
        instanceTypes=["m5.2xlarge"],
        scalingConfig={"minSize": 1, "maxSize": 1, "desiredSize": 1},
    )

    shown = account.eks.describe_nodegroup(clusterName="demo", nodegroupName="hungry")
    (issue,) = shown["nodegroup"]["health"]["issues"]
    assert issue["code"] == "AsgInstanceLaunchFailures"
    assert "InsufficientInstanceCapacity" in issue["message"]
    account.drain()
    eventually(lambda: status(account, "hungry") == "ACTIVE")
    account.eks.delete_nodegroup(clusterName="demo", nodegroupName="hungry")


def test_fargate_profiles_live_and_die(account: Account, cluster: dict[str, Any]) -> None:
    role = account.role("fargate", "eks-fargate-pods.amazonaws.com")
    account.eks.create_fargate_profile(
        clusterName="demo",
        fargateProfileName="karpenter",
        podExecutionRoleArn=role,
        selectors=[{"namespace": "karpenter"}],
    )

    def shown() -> Any:
        return account.eks.describe_fargate_profile(
            clusterName="demo", fargateProfileName="karpenter"
        )["fargateProfile"]["status"]

    eventually(lambda: shown() == "ACTIVE")
    account.eks.delete_fargate_profile(clusterName="demo", fargateProfileName="karpenter")
    eventually(
        lambda: account.eks.list_fargate_profiles(clusterName="demo")["fargateProfileNames"] == []
    )


def test_resources_are_tagged_by_arn(account: Account, cluster: dict[str, Any]) -> None:
    account.eks.tag_resource(resourceArn=cluster["arn"], tags={"stage": "test"})
    account.eks.untag_resource(resourceArn=cluster["arn"], tagKeys=["team"])

    tags = account.eks.list_tags_for_resource(resourceArn=cluster["arn"])["tags"]

    assert tags == {"stage": "test"}
    account.eks.tag_resource(resourceArn=cluster["arn"], tags={"team": "a"})
    account.eks.untag_resource(resourceArn=cluster["arn"], tagKeys=["stage"])


def test_a_call_that_is_not_there_says_so(account: Account, cluster: dict[str, Any]) -> None:
    with pytest.raises(ClientError, match="eks:ListInsights is not there on the laptop"):
        account.eks.list_insights(clusterName="demo")
