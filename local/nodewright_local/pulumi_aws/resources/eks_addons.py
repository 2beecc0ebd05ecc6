"""EKS add-ons and pod identity associations."""

from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws
from nodewright_local.pulumi_aws.resources.eks_base import EksResource, wait_active, wait_gone
from nodewright_local.pulumi_aws.resources.iam_roles import iso
from nodewright_local.pulumi_aws.schema import (
    Resource,
    flag,
    json_text,
    output,
    policy,
    records,
    regional,
    tagged,
    text,
)
from nodewright_local.pulumi_aws.values import Values

_WAIT_SECONDS = 20 * 60.0
_CONFLICTS = ("NONE", "OVERWRITE", "PRESERVE")


class Addon(EksResource):
    """`aws.eks.Addon`; the id is `cluster:add-on`."""

    token = "aws:eks/addon:Addon"
    identity = ("clusterName", "addonName")
    properties = regional(
        tagged(
            {
                "clusterName": text(required=True, replaces=True),
                "addonName": text(required=True, replaces=True),
                "addonVersion": text(computed=True),
                "configurationValues": json_text(computed=True),
                "podIdentityAssociations": records(
                    {"roleArn": text(required=True), "serviceAccount": text(required=True)},
                    write_only=True,
                ),
                "preserve": flag(write_only=True),
                "resolveConflictsOnCreate": text(write_only=True, choices=("NONE", "OVERWRITE")),
                "resolveConflictsOnUpdate": text(write_only=True, choices=_CONFLICTS),
                "serviceAccountRoleArn": text(),
                "arn": output(),
                "createdAt": output(),
                "modifiedAt": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Install the add-on."""
        cluster, name = inputs["clusterName"], inputs["addonName"]
        aws.call(
            "eks",
            "create_addon",
            clusterName=cluster,
            addonName=name,
            addonVersion=inputs.get("addonVersion"),
            configurationValues=inputs.get("configurationValues"),
            podIdentityAssociations=inputs.get("podIdentityAssociations"),
            resolveConflicts=inputs.get("resolveConflictsOnCreate"),
            serviceAccountRoleArn=inputs.get("serviceAccountRoleArn"),
            tags=inputs.get("tags") or None,
        )
        return f"{cluster}:{name}"

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Wait until it works."""
        self._wait(aws, ident)

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the add-on."""
        addon = _find_addon(aws, ident)
        if addon is None:
            return None
        cluster, name = ident.split(":", 1)
        return {
            "clusterName": cluster,
            "addonName": name,
            "addonVersion": addon.get("addonVersion"),
            "configurationValues": addon.get("configurationValues") or "",
            "serviceAccountRoleArn": addon.get("serviceAccountRoleArn"),
            "tagsAll": addon.get("tags") or {},
            "arn": addon.get("addonArn"),
            "createdAt": iso(addon.get("createdAt")),
            "modifiedAt": iso(addon.get("modifiedAt")),
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Apply version, configuration or role; the settings of ours alone need no call."""
        if not changed - {"preserve", "resolveConflictsOnCreate", "resolveConflictsOnUpdate"}:
            return
        cluster, name = ident.split(":", 1)
        associations = new.get("podIdentityAssociations")
        aws.call(
            "eks",
            "update_addon",
            clusterName=cluster,
            addonName=name,
            addonVersion=new.get("addonVersion"),
            configurationValues=new.get("configurationValues"),
            podIdentityAssociations=(associations or [])
            if "podIdentityAssociations" in changed
            else None,
            resolveConflicts=new.get("resolveConflictsOnUpdate"),
            serviceAccountRoleArn=new.get("serviceAccountRoleArn"),
        )
        self._wait(aws, ident)

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Remove it and wait."""
        cluster, name = ident.split(":", 1)
        preserve = state.get("preserve") or None
        aws.call("eks", "delete_addon", clusterName=cluster, addonName=name, preserve=preserve)
        wait_gone(
            aws, f"add-on {ident}", lambda: _find_addon(aws, ident), timeout_seconds=_WAIT_SECONDS
        )

    def _wait(self, aws: Aws, ident: str) -> None:
        wait_active(
            aws, f"add-on {ident}", lambda: _find_addon(aws, ident), timeout_seconds=_WAIT_SECONDS
        )


class PodIdentityAssociation(EksResource):
    """`aws.eks.PodIdentityAssociation`; the id is the association id."""

    token = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
    arn_property = "associationArn"
    identity = ("clusterName", "namespace", "serviceAccount")
    properties = regional(
        tagged(
            {
                "clusterName": text(required=True, replaces=True),
                "namespace": text(required=True, replaces=True),
                "serviceAccount": text(required=True, replaces=True),
                "roleArn": text(required=True),
                "disableSessionTags": flag(),
                "policy": policy(),
                "targetRoleArn": text(),
                "associationArn": output(),
                "associationId": output(),
                "externalId": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the association."""
        answer = aws.call(
            "eks",
            "create_pod_identity_association",
            clusterName=inputs["clusterName"],
            namespace=inputs["namespace"],
            serviceAccount=inputs["serviceAccount"],
            roleArn=inputs["roleArn"],
            disableSessionTags=inputs.get("disableSessionTags") or None,
            policy=inputs.get("policy"),
            targetRoleArn=inputs.get("targetRoleArn"),
            tags=inputs.get("tags") or None,
        )
        return str(answer["association"]["associationId"])

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the association."""
        answer = aws.find(
            "eks",
            "describe_pod_identity_association",
            clusterName=known["clusterName"],
            associationId=ident,
        )
        if answer is None:
            return None
        found = answer["association"]
        return {
            "clusterName": found["clusterName"],
            "namespace": found["namespace"],
            "serviceAccount": found["serviceAccount"],
            "roleArn": found["roleArn"],
            "disableSessionTags": bool(found.get("disableSessionTags")),
            "policy": found.get("policy"),
            "targetRoleArn": found.get("targetRoleArn"),
            "tagsAll": found.get("tags") or {},
            "associationArn": found.get("associationArn"),
            "associationId": ident,
            "externalId": found.get("externalId"),
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Change the role and how it is assumed."""
        aws.call(
            "eks",
            "update_pod_identity_association",
            clusterName=new["clusterName"],
            associationId=ident,
            roleArn=new["roleArn"],
            disableSessionTags=bool(new.get("disableSessionTags"))
            if "disableSessionTags" in changed
            else None,
            policy=new.get("policy"),
            targetRoleArn=new.get("targetRoleArn"),
        )

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete the association."""
        aws.call(
            "eks",
            "delete_pod_identity_association",
            clusterName=state["clusterName"],
            associationId=ident,
        )

    @override
    def import_parts(self, aws: Aws, ident: str) -> tuple[str, Values]:
        """Take `CLUSTER,ASSOCIATIONID`."""
        cluster, _, association = ident.partition(",")
        return association or ident, {"clusterName": cluster}


def _find_addon(aws: Aws, ident: str) -> dict[str, Any] | None:
    cluster, name = ident.split(":", 1)
    answer = aws.find("eks", "describe_addon", clusterName=cluster, addonName=name)
    return None if answer is None else dict(answer["addon"])


RESOURCES: tuple[Resource, ...] = (Addon(), PodIdentityAssociation())
