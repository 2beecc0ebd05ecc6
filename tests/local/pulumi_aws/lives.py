"""For each resource type: what it needs, how a program writes it, and two ways to change it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.local.pulumi_aws.lab import ASSUME_ROLE, Lab

Values = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Life:
    """One resource's life."""

    token: str
    inputs: Callable[[Lab], Values]
    updates: Mapping[str, Any] = field(default_factory=dict)
    """Inputs that can change in place."""
    replaces: Mapping[str, Any] = field(default_factory=dict)
    """Inputs whose change needs a new resource."""
    deletes_first: bool = False
    """Whether the new one can be made only when the old one is gone."""
    import_id: Callable[[str, Values], str] = lambda ident, _state: ident
    imports: bool = True
    """False when the id is a hash of ours, from which nothing can be read."""


def policy(action: str, resource: str = "*") -> str:
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": [action], "Resource": resource}],
        }
    )


def _subnet(lab: Lab) -> Values:
    return {
        "vpcId": lab.vpc().ident,
        "cidrBlock": "10.1.0.0/24",
        "availabilityZone": "us-west-2a",  # AWS chooses one at random where none is named
        "tags": {"a": "1", "b": "2"},
    }


def _route(lab: Lab) -> Values:
    vpc = lab.vpc()
    gateway = lab.make("aws:ec2/internetGateway:InternetGateway", {"vpcId": vpc.ident})
    table = lab.make("aws:ec2/routeTable:RouteTable", {"vpcId": vpc.ident})
    return {
        "routeTableId": table.ident,
        "destinationCidrBlock": "0.0.0.0/0",
        "gatewayId": gateway.ident,
    }


def _association(lab: Lab) -> Values:
    vpc = lab.vpc()
    table = lab.make("aws:ec2/routeTable:RouteTable", {"vpcId": vpc.ident})
    return {"routeTableId": table.ident, "subnetId": lab.subnets(vpc)[0].ident}


def _nat(lab: Lab) -> Values:
    address = lab.make("aws:ec2/eip:Eip", {"domain": "vpc"})
    return {
        "allocationId": address.ident,
        "subnetId": lab.subnets(lab.vpc())[0].ident,
        "tags": {"Name": "nat"},
    }


def _group(lab: Lab) -> Values:
    return {
        "vpcId": lab.vpc().ident,
        "description": "nodes",
        "egress": [
            {"protocol": "-1", "fromPort": 0, "toPort": 0, "cidrBlocks": ["0.0.0.0/0"]},
        ],
        "ingress": [
            {
                "protocol": "tcp",
                "fromPort": 443,
                "toPort": 443,
                "self": True,
                "cidrBlocks": ["10.0.0.0/8", "192.168.0.0/16"],
            },
        ],
    }


def _bare_group(lab: Lab) -> str:
    return lab.make("aws:ec2/securityGroup:SecurityGroup", {"vpcId": lab.vpc().ident}).ident


def _single_rule(lab: Lab) -> Values:
    group = _bare_group(lab)
    return {
        "securityGroupId": group,
        "ipProtocol": "tcp",
        "fromPort": 8443,
        "toPort": 8443,
        "referencedSecurityGroupId": group,
        "description": "webhook",
    }


def _access_entry(lab: Lab) -> Values:
    return {
        "clusterName": lab.cluster().ident,
        "principalArn": lab.role().state["arn"],
        "kubernetesGroups": ["viewers", "editors"],
    }


def _access_policy(lab: Lab) -> Values:
    entry = lab.make("aws:eks/accessEntry:AccessEntry", _access_entry(lab))
    return {
        "clusterName": entry.state["clusterName"],
        "principalArn": entry.state["principalArn"],
        "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        "accessScope": {"type": "cluster"},
    }


def _cluster(lab: Lab) -> Values:
    subnets = lab.subnets(lab.vpc())
    return {
        "roleArn": lab.role().state["arn"],
        "version": "1.35",
        "vpcConfig": {
            "subnetIds": [subnet.ident for subnet in reversed(subnets)],
            "endpointPrivateAccess": True,
        },
        "accessConfig": {
            "authenticationMode": "API",
            "bootstrapClusterCreatorAdminPermissions": True,
        },
        "enabledClusterLogTypes": ["audit", "api"],
        "tags": {"team": "a"},
    }


def _node_group(lab: Lab) -> Values:
    cluster = lab.cluster()
    return {
        "clusterName": cluster.ident,
        "nodeRoleArn": lab.role().state["arn"],
        "subnetIds": cluster.state["vpcConfig"]["subnetIds"],
        "scalingConfig": {"minSize": 1, "maxSize": 2, "desiredSize": 1},
        "instanceTypes": ["m5.large"],
        "labels": {"role": "system", "old": "yes"},
        "taints": [{"key": "CriticalAddonsOnly", "effect": "NO_SCHEDULE", "value": "true"}],
    }


def _queue_policy(lab: Lab) -> Values:
    queue = lab.make("aws:sqs/queue:Queue", {})
    return {"queueUrl": queue.ident, "policy": policy("sqs:SendMessage", queue.state["arn"])}


def _target(lab: Lab) -> Values:
    rule = lab.make(
        "aws:cloudwatch/eventRule:EventRule", {"eventPattern": '{"source": ["aws.ec2"]}'}
    )
    queue = lab.make("aws:sqs/queue:Queue", {})
    return {"rule": rule.ident, "arn": queue.state["arn"]}


LIVES = (
    Life(
        token="aws:ec2/vpc:Vpc",
        inputs=lambda _: {"cidrBlock": "10.1.0.0/16", "tags": {"a": "1", "x/y": "z"}},
        updates={"enableDnsHostnames": True, "enableDnsSupport": True, "tags": {"a": "2"}},
        replaces={"cidrBlock": "10.2.0.0/16"},
    ),
    Life(
        token="aws:ec2/subnet:Subnet",
        inputs=_subnet,
        updates={"mapPublicIpOnLaunch": True, "tags": {"b": "2", "c": "3"}},
        replaces={"availabilityZone": "us-west-2c"},
        deletes_first=True,
    ),
    Life(
        token="aws:ec2/internetGateway:InternetGateway",
        inputs=lambda lab: {"vpcId": lab.vpc().ident},
        updates={"tags": {"Name": "way out"}},
    ),
    Life(
        token="aws:ec2/routeTable:RouteTable",
        inputs=lambda lab: {"vpcId": lab.vpc().ident},
        updates={"tags": {"Name": "private"}},
    ),
    Life(
        token="aws:ec2/route:Route",
        inputs=_route,
        replaces={"destinationCidrBlock": "10.9.0.0/16"},
        import_id=lambda _, state: f"{state['routeTableId']}_{state['destinationCidrBlock']}",
    ),
    Life(
        token="aws:ec2/routeTableAssociation:RouteTableAssociation",
        inputs=_association,
        replaces={"subnetId": "subnet-other"},
        import_id=lambda _, state: f"{state['subnetId']}/{state['routeTableId']}",
    ),
    Life(
        token="aws:ec2/eip:Eip",
        inputs=lambda _: {"domain": "vpc"},
        updates={"tags": {"Name": "nat"}},
    ),
    Life(
        token="aws:ec2/natGateway:NatGateway",
        inputs=_nat,
        updates={"tags": {"Name": "other"}},
        replaces={"subnetId": "subnet-other"},
        deletes_first=True,
    ),
    Life(
        token="aws:ec2/securityGroup:SecurityGroup",
        inputs=_group,
        updates={
            "ingress": [
                {"protocol": "6", "fromPort": 443, "toPort": 443, "cidrBlocks": ["10.0.0.0/8"]},
                {"protocol": "udp", "fromPort": 53, "toPort": 53, "self": True},
            ],
            "tags": {"karpenter.sh/discovery": "demo"},
        },
        replaces={"description": "other"},
        deletes_first=True,
    ),
    Life(
        token="aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        inputs=_single_rule,
        updates={"description": "conversion webhook", "toPort": 8444},
        replaces={"securityGroupId": "sg-other"},
    ),
    Life(
        token="aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
        inputs=lambda lab: {
            "securityGroupId": _bare_group(lab),
            "ipProtocol": "-1",
            "cidrIpv4": "0.0.0.0/0",
        },
        updates={"cidrIpv4": "10.0.0.0/8"},
    ),
    Life(
        token="aws:ec2/securityGroupRule:SecurityGroupRule",
        inputs=lambda lab: {
            "type": "ingress",
            "securityGroupId": _bare_group(lab),
            "protocol": "tcp",
            "fromPort": 80,
            "toPort": 81,
            "cidrBlocks": ["10.0.0.0/8", "10.1.0.0/16"],
            "self": True,
        },
        updates={"description": "web"},
        replaces={"toPort": 82},
        imports=False,
    ),
    Life(
        token="aws:ec2/tag:Tag",
        inputs=lambda lab: {"resourceId": lab.vpc().ident, "key": "a/b", "value": "1"},
        updates={"value": "2"},
        replaces={"key": "c"},
    ),
    Life(
        token="aws:ec2/vpcEndpoint:VpcEndpoint",
        inputs=lambda lab: {
            "vpcId": lab.vpc().ident,
            "serviceName": "com.amazonaws.us-west-2.s3",
        },
        updates={"tags": {"Name": "s3"}},
        replaces={"serviceName": "com.amazonaws.us-west-2.dynamodb"},
    ),
    Life(
        token="aws:iam/role:Role",
        inputs=lambda _: {"assumeRolePolicy": ASSUME_ROLE, "tags": {"a": "1"}},
        updates={
            "description": "nodes",
            "maxSessionDuration": 7200,
            "assumeRolePolicy": ASSUME_ROLE.replace("ec2.amazonaws.com", "pods.eks.amazonaws.com"),
            "tags": {"b": "2"},
        },
        replaces={"path": "/nodes/"},
        deletes_first=True,
    ),
    Life(
        token="aws:iam/rolePolicy:RolePolicy",
        inputs=lambda lab: {"role": lab.role().ident, "policy": policy("ec2:RunInstances")},
        updates={"policy": policy("ec2:CreateFleet")},
        replaces={"role": "other"},
    ),
    Life(
        token="aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        inputs=lambda lab: {
            "role": lab.role().ident,
            "policyArn": lab.make("aws:iam/policy:Policy", {"policy": policy("s3:Get*")}).ident,
        },
        replaces={"policyArn": "arn:aws:iam::aws:policy/ReadOnlyAccess"},
    ),
    Life(
        token="aws:iam/policy:Policy",
        inputs=lambda _: {"policy": policy("ec2:RunInstances"), "description": "launch"},
        updates={"policy": policy("ec2:CreateFleet"), "tags": {"a": "1"}},
        replaces={"description": "other"},
        deletes_first=True,
    ),
    Life(
        token="aws:iam/instanceProfile:InstanceProfile",
        inputs=lambda lab: {"role": lab.role().ident},
        updates={"tags": {"a": "1"}},
        replaces={"path": "/nodes/"},
        deletes_first=True,
    ),
    Life(
        token="aws:iam/openIdConnectProvider:OpenIdConnectProvider",
        inputs=lambda _: {
            "url": "https://oidc.eks.us-west-2.amazonaws.com/id/ABC",
            "clientIdLists": ["sts.amazonaws.com"],
            "thumbprintLists": ["9e99a48a9960b14926bb7f3b02e22da2b0ab7280"],
        },
        updates={"thumbprintLists": ["0" * 40], "tags": {"a": "1"}},
        replaces={"url": "https://other.example.com"},
    ),
    Life(
        token="aws:eks/cluster:Cluster",
        inputs=_cluster,
        updates={
            "version": "1.36",
            "enabledClusterLogTypes": ["audit"],
            "deletionProtection": False,
            "tags": {"team": "b"},
        },
        replaces={"encryptionConfig": {"provider": {"keyArn": "k"}, "resources": ["secrets"]}},
        deletes_first=True,
    ),
    Life(
        token="aws:eks/accessEntry:AccessEntry",
        inputs=_access_entry,
        updates={"kubernetesGroups": ["viewers"], "tags": {"a": "1"}},
        replaces={"type": "EC2_LINUX"},
        deletes_first=True,
    ),
    Life(
        token="aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        inputs=_access_policy,
        replaces={"accessScope": {"type": "namespace", "namespaces": ["default"]}},
        deletes_first=True,
    ),
    Life(
        token="aws:eks/nodeGroup:NodeGroup",
        inputs=_node_group,
        updates={
            "scalingConfig": {"minSize": 1, "maxSize": 3, "desiredSize": 2},
            "labels": {"role": "controllers"},
            "taints": [],
        },
        replaces={"instanceTypes": ["m5.xlarge"]},
        deletes_first=True,
    ),
    Life(
        token="aws:eks/fargateProfile:FargateProfile",
        inputs=lambda lab: {
            "clusterName": (cluster := lab.cluster()).ident,
            "podExecutionRoleArn": lab.role().state["arn"],
            "subnetIds": cluster.state["vpcConfig"]["subnetIds"],
            "selectors": [{"namespace": "karpenter", "labels": {"a": "b"}}],
        },
        updates={"tags": {"a": "1"}},
        replaces={"selectors": [{"namespace": "other"}]},
        deletes_first=True,
    ),
    Life(
        token="aws:eks/addon:Addon",
        inputs=lambda lab: {
            "clusterName": lab.cluster().ident,
            "addonName": "eks-pod-identity-agent",
            "resolveConflictsOnCreate": "OVERWRITE",
        },
        updates={"configurationValues": '{"a": 1}', "resolveConflictsOnUpdate": "OVERWRITE"},
        replaces={"addonName": "vpc-cni"},
    ),
    Life(
        token="aws:eks/podIdentityAssociation:PodIdentityAssociation",
        inputs=lambda lab: {
            "clusterName": lab.cluster().ident,
            "namespace": "karpenter",
            "serviceAccount": "karpenter",
            "roleArn": lab.role().state["arn"],
        },
        updates={"tags": {"a": "1"}},
        replaces={"namespace": "other"},
        import_id=lambda ident, state: f"{state['clusterName']},{ident}",
    ),
    Life(
        token="aws:sqs/queue:Queue",
        inputs=lambda _: {"messageRetentionSeconds": 300, "sqsManagedSseEnabled": True},
        updates={"visibilityTimeoutSeconds": 60, "tags": {"a": "1"}},
        replaces={"name": "other"},
    ),
    Life(
        token="aws:sqs/queuePolicy:QueuePolicy",
        inputs=_queue_policy,
        updates={"policy": policy("sqs:*")},
        replaces={"queueUrl": "other"},
    ),
    Life(
        token="aws:cloudwatch/eventRule:EventRule",
        inputs=lambda _: {"eventPattern": '{"source": ["aws.ec2"]}', "description": "ec2"},
        updates={"eventPattern": '{"source": ["aws.health"]}', "state": "DISABLED"},
        replaces={"name": "other"},
    ),
    Life(
        token="aws:cloudwatch/eventTarget:EventTarget",
        inputs=_target,
        updates={"input": '{"a": 1}'},
        replaces={"targetId": "other"},
        import_id=lambda _, state: f"{state['rule']}/{state['targetId']}",
    ),
    Life(
        token="aws:cloudwatch/logGroup:LogGroup",
        inputs=lambda _: {"name": "/aws/eks/demo/cluster", "retentionInDays": 7},
        updates={"retentionInDays": 14, "tags": {"a": "1"}},
        replaces={"name": "/other"},
    ),
    Life(
        token="aws:kms/key:Key",
        inputs=lambda _: {"description": "secrets", "deletionWindowInDays": 7},
        updates={"enableKeyRotation": True, "description": "more secrets", "tags": {"a": "1"}},
        replaces={"keyUsage": "SIGN_VERIFY"},
    ),
    Life(
        token="aws:kms/alias:Alias",
        inputs=lambda lab: {"targetKeyId": lab.make("aws:kms/key:Key", {}).ident},
        replaces={"name": "alias/other"},
    ),
)
