"""The controller's permissions and who may take its role."""

import json
from typing import Any

import pytest
from nodewright.controller_policies import PolicyScope, controller_policies, policy_names
from nodewright.iam_documents import (
    MANAGED_POLICY_LIMIT,
    PolicyTooLargeError,
    pod_identity_trust,
    render,
    service_account_trust,
)
from nodewright.interruption_events import RULES, queue_policy

from tests import golden

# Statement ids of Karpenter's own policies.
UPSTREAM_SIDS = {
    "AllowScopedEC2InstanceAccessActions",
    "AllowScopedEC2LaunchTemplateAccessActions",
    "AllowScopedEC2InstanceActionsWithTags",
    "AllowScopedResourceCreationTagging",
    "AllowScopedResourceTagging",
    "AllowScopedDeletion",
    "AllowPassingInstanceRole",
    "AllowScopedInstanceProfileCreationActions",
    "AllowScopedInstanceProfileTagActions",
    "AllowScopedInstanceProfileActions",
    "AllowAPIServerEndpointDiscovery",
    "AllowInterruptionQueueActions",
    "AllowZonalShiftStatusReadOnly",
    "AllowRegionalReadActions",
    "AllowSSMReadActions",
    "AllowPricingReadActions",
    "AllowUnscopedInstanceProfileListAction",
    "AllowInstanceProfileReadActions",
}
READ_ONLY = ("ec2:Describe", "iam:Get", "iam:List", "ssm:Get", "pricing:Get", "eks:Describe")


def scope(**more: Any) -> PolicyScope:
    values: dict[str, Any] = {
        "partition": "aws",
        "region": "us-west-2",
        "account_id": "123456789012",
        "cluster_name": "demo",
        "node_role_arn": "arn:aws:iam::123456789012:role/KarpenterNodeRole-demo",
        "queue_arn": "arn:aws:sqs:us-west-2:123456789012:demo",
    }
    return PolicyScope(**{**values, **more})


def statements(policies: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {s["Sid"]: s for policy in policies.values() for s in policy["Statement"]}


def test_the_controllers_policies_are_as_reviewed() -> None:
    golden.check_json("components/controller-policies.json", controller_policies(scope()))


def test_the_policies_carry_karpenters_statement_ids() -> None:
    assert set(statements(controller_policies(scope()))) == UPSTREAM_SIDS


def test_names_are_known_before_any_arn_is() -> None:
    statement = {"Sid": "Mine", "Effect": "Allow", "Action": "kms:Decrypt", "Resource": "*"}

    assert policy_names(extra=False) == tuple(controller_policies(scope()))
    assert policy_names(extra=True) == tuple(controller_policies(scope(), [statement]))


def test_the_longest_cluster_name_still_fits_iams_limit() -> None:
    longest = scope(
        partition="aws-us-gov",
        region="ap-southeast-2",
        cluster_name="c" * 46,
        node_role_arn=f"arn:aws-us-gov:iam::123456789012:role/KarpenterNodeRole-{'c' * 46}",
    )

    for name, policy in controller_policies(longest).items():
        assert len(render(policy, name)) <= MANAGED_POLICY_LIMIT


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_every_arn_is_of_the_clusters_partition(partition: str) -> None:
    text = json.dumps(
        controller_policies(
            scope(
                partition=partition,
                node_role_arn=f"arn:{partition}:iam::123456789012:role/nodes",
                queue_arn=f"arn:{partition}:sqs:us-west-2:123456789012:demo",
            )
        )
    )

    assert text.count("arn:") == text.count(f"arn:{partition}:")


def test_whatever_changes_something_is_bound_to_a_condition_or_one_resource() -> None:
    for sid, statement in statements(controller_policies(scope())).items():
        actions = statement["Action"]
        listed = [actions] if isinstance(actions, str) else actions
        if all(action.startswith(READ_ONLY) for action in listed):
            continue
        resources = statement["Resource"]
        one_resource = isinstance(resources, str) and "*" not in resources

        # Reading the images and subnets that a launch names needs no tag of this cluster.
        assert "Condition" in statement or one_resource or sid.endswith("InstanceAccessActions")


def test_extra_parameters_widen_only_the_parameter_statement() -> None:
    arn = "arn:aws:ssm:us-west-2:123456789012:parameter/images/mine"
    wide = statements(controller_policies(scope(ssm_parameter_arns=(arn,))))
    narrow = statements(controller_policies(scope()))

    assert [sid for sid in wide if wide[sid] != narrow[sid]] == ["AllowSSMReadActions"]
    assert arn in wide["AllowSSMReadActions"]["Resource"]


def test_a_policy_beyond_iams_limit_is_refused_by_name() -> None:
    statement = {"Sid": "Mine", "Effect": "Allow", "Action": "s3:*", "Resource": ["x" * 7000]}
    policies = controller_policies(scope(), [statement])

    with pytest.raises(PolicyTooLargeError, match=r"extra has .* characters and IAM takes 6144"):
        render(policies["extra"], "extra")


def test_trust_policies_are_as_reviewed() -> None:
    golden.check_json(
        "components/trust-policies.json",
        {
            "pod-identity": pod_identity_trust(),
            "irsa": service_account_trust(
                "arn:aws:iam::123456789012:oidc-provider/oidc.eks.example/id/ABC",
                "https://oidc.eks.example/id/ABC",
                "karpenter",
                "karpenter",
            ),
        },
    )


def test_the_queue_takes_events_from_aws_and_nothing_without_tls() -> None:
    golden.check_json(
        "components/queue-policy.json", queue_policy("arn:aws:sqs:us-west-2:123456789012:demo")
    )


def test_the_five_events_of_karpenter_are_listened_to() -> None:
    assert {
        ("aws.health", "AWS Health Event"),
        ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
        ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
        ("aws.ec2", "EC2 Instance State-change Notification"),
        ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
    } == {(rule.source, rule.detail_type) for rule in RULES}
