"""Who may enter an EKS cluster: access entries and the policies associated with them."""

from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, AwsError
from nodewright_local.pulumi_aws.resources.eks_base import EksResource
from nodewright_local.pulumi_aws.resources.iam_roles import iso
from nodewright_local.pulumi_aws.schema import (
    Resource,
    output,
    record,
    regional,
    tagged,
    text,
    texts,
)
from nodewright_local.pulumi_aws.values import Values

_TYPES = ("STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX")


class AccessEntry(EksResource):
    """`aws.eks.AccessEntry`; the id is `cluster:principal ARN`."""

    token = "aws:eks/accessEntry:AccessEntry"
    arn_property = "accessEntryArn"
    identity = ("clusterName", "principalArn")
    properties = regional(
        tagged(
            {
                "clusterName": text(required=True, replaces=True),
                "principalArn": text(required=True, replaces=True),
                "kubernetesGroups": texts(computed=True),
                "type": text(replaces=True, default="STANDARD", choices=_TYPES),
                "userName": text(computed=True),
                "accessEntryArn": output(),
                "createdAt": output(),
                "modifiedAt": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the entry."""
        aws.call(
            "eks",
            "create_access_entry",
            clusterName=inputs["clusterName"],
            principalArn=inputs["principalArn"],
            kubernetesGroups=inputs.get("kubernetesGroups"),
            type=inputs["type"],
            username=inputs.get("userName"),
            tags=inputs.get("tags") or None,
        )
        return f"{inputs['clusterName']}:{inputs['principalArn']}"

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the entry."""
        cluster, principal = ident.split(":", 1)
        answer = aws.find(
            "eks", "describe_access_entry", clusterName=cluster, principalArn=principal
        )
        if answer is None:
            return None
        entry = answer["accessEntry"]
        return {
            "clusterName": cluster,
            "principalArn": entry["principalArn"],
            "kubernetesGroups": entry.get("kubernetesGroups") or [],
            "type": entry.get("type", "STANDARD"),
            "userName": entry.get("username"),
            "tagsAll": entry.get("tags") or {},
            "accessEntryArn": entry.get("accessEntryArn"),
            "createdAt": iso(entry.get("createdAt")),
            "modifiedAt": iso(entry.get("modifiedAt")),
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Change groups and user name."""
        cluster, principal = ident.split(":", 1)
        aws.call(
            "eks",
            "update_access_entry",
            clusterName=cluster,
            principalArn=principal,
            kubernetesGroups=new.get("kubernetesGroups") or [],
            username=new.get("userName"),
        )

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete the entry."""
        cluster, principal = ident.split(":", 1)
        aws.call("eks", "delete_access_entry", clusterName=cluster, principalArn=principal)


class AccessPolicyAssociation(Resource):
    """`aws.eks.AccessPolicyAssociation`; the id is `cluster#principal ARN#policy ARN`."""

    token = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
    identity = ("clusterName", "principalArn", "policyArn")
    properties = regional(
        {
            "clusterName": text(required=True, replaces=True),
            "principalArn": text(required=True, replaces=True),
            "policyArn": text(required=True, replaces=True),
            "accessScope": record(
                {
                    "type": text(required=True, choices=("cluster", "namespace")),
                    "namespaces": texts(),
                },
                required=True,
                replaces=True,
            ),
            "associatedAt": output(),
            "modifiedAt": output(),
        }
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Associate the policy, patient while a new entry is not known everywhere yet."""
        aws.persist(
            ("ResourceNotFoundException",),
            lambda: aws.call(
                "eks",
                "associate_access_policy",
                clusterName=inputs["clusterName"],
                principalArn=inputs["principalArn"],
                policyArn=inputs["policyArn"],
                accessScope=inputs["accessScope"],
            ),
            timeout_seconds=10,
        )
        return "#".join(inputs[name] for name in self.identity)

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Look for the policy among those of the entry."""
        cluster, principal, policy = ident.split("#", 2)
        for item in self._associated(aws, cluster, principal):
            if item["policyArn"] == policy:
                return {
                    "clusterName": cluster,
                    "principalArn": principal,
                    "policyArn": policy,
                    "accessScope": item.get("accessScope"),
                    "associatedAt": iso(item.get("associatedAt")),
                    "modifiedAt": iso(item.get("modifiedAt")),
                }
        return None

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Take the policy away."""
        cluster, principal, policy = ident.split("#", 2)
        aws.call(
            "eks",
            "disassociate_access_policy",
            clusterName=cluster,
            principalArn=principal,
            policyArn=policy,
        )

    def _associated(self, aws: Aws, cluster: str, principal: str) -> list[dict[str, Any]]:
        try:
            return aws.pages(
                "eks",
                "list_associated_access_policies",
                "associatedAccessPolicies",
                clusterName=cluster,
                principalArn=principal,
            )
        except AwsError as error:
            if error.is_absent:
                return []
            raise


RESOURCES: tuple[Resource, ...] = (AccessEntry(), AccessPolicyAssociation())
