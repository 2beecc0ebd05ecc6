"""What the controller may do in AWS: six policies, each within IAM's size limit.

Pure. The statements carry Karpenter's own statement ids, so that an access report reads the same.
Whatever creates, changes or deletes is bound to this cluster's tags; what only reads is bound to
the region.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodewright.iam_documents import Document, Statement, document

_LAUNCH_ACTIONS = ["ec2:RunInstances", "ec2:CreateFleet"]
_CREATED_BY_LAUNCH = [
    "fleet",
    "instance",
    "volume",
    "network-interface",
    "launch-template",
    "spot-instances-request",
]
_EC2_READS = [
    "AvailabilityZones",
    "CapacityReservations",
    "Images",
    "Instances",
    "InstanceStatus",
    "InstanceTypeOfferings",
    "InstanceTypes",
    "LaunchTemplates",
    "PlacementGroups",
    "SecurityGroups",
    "SpotPriceHistory",
    "Subnets",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyScope:
    """The one cluster that the policies are about."""

    partition: str
    """`aws`, `aws-cn` or `aws-us-gov`."""
    region: str
    account_id: str
    cluster_name: str
    node_role_arn: str
    queue_arn: str
    ssm_parameter_arns: tuple[str, ...] = ()
    """Parameters outside `/aws/service/` that image selectors name."""

    def ec2(self, kind: str) -> str:
        """Return the ARN pattern of all EC2 resources of a kind in the region."""
        return f"arn:{self.partition}:ec2:{self.region}:*:{kind}/*"

    @property
    def cluster_arn(self) -> str:
        """ARN of the EKS cluster."""
        return (
            f"arn:{self.partition}:eks:{self.region}:{self.account_id}:cluster/{self.cluster_name}"
        )

    @property
    def instance_profiles(self) -> str:
        """ARN pattern of the account's instance profiles."""
        return f"arn:{self.partition}:iam::{self.account_id}:instance-profile/*"

    def _owned(self, where: str) -> dict[str, str]:
        return {f"aws:{where}Tag/kubernetes.io/cluster/{self.cluster_name}": "owned"}

    def _cluster(self) -> dict[str, str]:
        return {"aws:RequestTag/eks:eks-cluster-name": self.cluster_name}

    def _region(self, where: str) -> dict[str, str]:
        return {f"aws:{where}Tag/topology.kubernetes.io/region": self.region}


def controller_policies(
    scope: PolicyScope, extra_statements: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Document]:
    """Return the policy documents by their kebab-case names, always in the same order.

    `extra_statements` become a seventh document, `extra`.
    """
    policies = {
        "node-lifecycle": document(_node_lifecycle(scope)),
        "iam-integration": document(_iam_integration(scope)),
        "eks-integration": document(_eks_integration(scope)),
        "interruption": document(_interruption(scope)),
        "zonal-shift": document(_zonal_shift(scope)),
        "resource-discovery": document(_resource_discovery(scope)),
    }
    if extra_statements:
        policies["extra"] = document([dict(statement) for statement in extra_statements])
    return policies


def policy_names(*, extra: bool) -> tuple[str, ...]:
    """Return the names that `controller_policies` gives, before any ARN is known."""
    names = (
        "node-lifecycle",
        "iam-integration",
        "eks-integration",
        "interruption",
        "zonal-shift",
        "resource-discovery",
    )
    return (*names, "extra") if extra else names


def _allow(sid: str, actions: str | list[str], resources: str | list[str]) -> Statement:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}


def _node_lifecycle(scope: PolicyScope) -> list[Statement]:
    of_a_pool = {"aws:ResourceTag/karpenter.sh/nodepool": "*"}
    for_a_pool = {"aws:RequestTag/karpenter.sh/nodepool": "*"}
    requested = {**scope._owned("Request"), **scope._cluster()}
    created = [scope.ec2(kind) for kind in _CREATED_BY_LAUNCH]
    read_by_launch = ["security-group", "subnet", "capacity-reservation", "placement-group"]
    public = [
        f"arn:{scope.partition}:ec2:{scope.region}::{kind}/*" for kind in ("image", "snapshot")
    ]
    owned_by_a_pool = {"StringEquals": scope._owned("Resource"), "StringLike": of_a_pool}
    return [
        _allow(
            "AllowScopedEC2InstanceAccessActions",
            _LAUNCH_ACTIONS,
            [*public, *(scope.ec2(kind) for kind in read_by_launch)],
        ),
        _allow(
            "AllowScopedEC2LaunchTemplateAccessActions",
            _LAUNCH_ACTIONS,
            scope.ec2("launch-template"),
        )
        | {"Condition": owned_by_a_pool},
        _allow(
            "AllowScopedEC2InstanceActionsWithTags",
            [*_LAUNCH_ACTIONS, "ec2:CreateLaunchTemplate"],
            created,
        )
        | {"Condition": {"StringEquals": requested, "StringLike": for_a_pool}},
        _allow("AllowScopedResourceCreationTagging", "ec2:CreateTags", created)
        | {
            "Condition": {
                "StringEquals": {
                    **requested,
                    "ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"],
                },
                "StringLike": for_a_pool,
            }
        },
        _allow("AllowScopedResourceTagging", "ec2:CreateTags", scope.ec2("instance"))
        | {
            "Condition": {
                **owned_by_a_pool,
                "StringEqualsIfExists": scope._cluster(),
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
                },
            }
        },
        _allow(
            "AllowScopedDeletion",
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            [scope.ec2("instance"), scope.ec2("launch-template")],
        )
        | {"Condition": owned_by_a_pool},
    ]


def _iam_integration(scope: PolicyScope) -> list[Statement]:
    services = ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]
    has_class = {"aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "*"}
    gets_class = {"aws:RequestTag/karpenter.k8s.aws/ec2nodeclass": "*"}
    existing = {**scope._owned("Resource"), **scope._region("Resource")}
    requested = {**scope._owned("Request"), **scope._cluster(), **scope._region("Request")}
    return [
        _allow("AllowPassingInstanceRole", "iam:PassRole", scope.node_role_arn)
        | {"Condition": {"StringEquals": {"iam:PassedToService": services}}},
        _allow(
            "AllowScopedInstanceProfileCreationActions",
            "iam:CreateInstanceProfile",
            scope.instance_profiles,
        )
        | {"Condition": {"StringEquals": requested, "StringLike": gets_class}},
        _allow(
            "AllowScopedInstanceProfileTagActions",
            "iam:TagInstanceProfile",
            scope.instance_profiles,
        )
        | {
            "Condition": {
                "StringEquals": {**existing, **requested},
                "StringLike": {**has_class, **gets_class},
            }
        },
        _allow(
            "AllowScopedInstanceProfileActions",
            [
                "iam:AddRoleToInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
                "iam:DeleteInstanceProfile",
            ],
            scope.instance_profiles,
        )
        | {"Condition": {"StringEquals": existing, "StringLike": has_class}},
    ]


def _eks_integration(scope: PolicyScope) -> list[Statement]:
    return [_allow("AllowAPIServerEndpointDiscovery", "eks:DescribeCluster", scope.cluster_arn)]


def _interruption(scope: PolicyScope) -> list[Statement]:
    actions = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
    return [_allow("AllowInterruptionQueueActions", actions, scope.queue_arn)]


def _zonal_shift(scope: PolicyScope) -> list[Statement]:
    condition = {"StringEquals": {"arc-zonal-shift:ResourceIdentifier": scope.cluster_arn}}
    statement = _allow("AllowZonalShiftStatusReadOnly", "arc-zonal-shift:GetManagedResource", "*")
    return [statement | {"Condition": condition}]


def _resource_discovery(scope: PolicyScope) -> list[Statement]:
    aws_parameters = f"arn:{scope.partition}:ssm:{scope.region}::parameter/aws/service/*"
    return [
        _allow("AllowRegionalReadActions", [f"ec2:Describe{noun}" for noun in _EC2_READS], "*")
        | {"Condition": {"StringEquals": {"aws:RequestedRegion": scope.region}}},
        _allow(
            "AllowSSMReadActions", "ssm:GetParameter", [aws_parameters, *scope.ssm_parameter_arns]
        ),
        _allow("AllowPricingReadActions", "pricing:GetProducts", "*"),
        _allow("AllowUnscopedInstanceProfileListAction", "iam:ListInstanceProfiles", "*"),
        _allow(
            "AllowInstanceProfileReadActions", "iam:GetInstanceProfile", scope.instance_profiles
        ),
    ]
