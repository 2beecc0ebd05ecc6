"""Where an EKS cluster's own pods run: managed node groups and Fargate profiles."""

from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws
from nodewright_local.pulumi_aws.resources.eks_base import EksResource, wait_active, wait_gone
from nodewright_local.pulumi_aws.schema import (
    AutoName,
    Property,
    Resource,
    Shape,
    flag,
    mapping,
    number,
    output,
    record,
    records,
    regional,
    tagged,
    text,
    texts,
)
from nodewright_local.pulumi_aws.values import Values

_MINUTES = 60.0
_EFFECTS = ("NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE")
_SCALING = {name: number(required=True) for name in ("desiredSize", "maxSize", "minSize")}
_UPDATE = {
    "maxUnavailable": number(),
    "maxUnavailablePercentage": number(),
    "updateStrategy": text(computed=True),
}
_TAINT = {
    "key": text(required=True),
    "value": text(),
    "effect": text(required=True, choices=_EFFECTS),
}
_LAUNCH_TEMPLATE = {
    "id": text(computed=True, replaces=True),
    "name": text(computed=True, replaces=True),
    "version": text(required=True),
}
_REMOTE_ACCESS = {"ec2SshKey": text(), "sourceSecurityGroupIds": texts()}


class NodeGroup(EksResource):
    """`aws.eks.NodeGroup`; the id is `cluster:name`."""

    token = "aws:eks/nodeGroup:NodeGroup"
    identity = ("clusterName", "nodeGroupName")
    autoname = AutoName(property="nodeGroupName", max_length=63)
    properties = regional(
        tagged(
            {
                "clusterName": text(required=True, replaces=True),
                "nodeGroupName": text(replaces=True, computed=True),
                "nodeGroupNamePrefix": text(replaces=True, write_only=True),
                "nodeRoleArn": text(required=True, replaces=True),
                "subnetIds": texts(required=True, replaces=True),
                "scalingConfig": record(_SCALING, required=True),
                "updateConfig": record(_UPDATE, computed=True),
                "instanceTypes": Property(shape=Shape.LIST, replaces=True, computed=True),
                "amiType": text(replaces=True, computed=True),
                "capacityType": text(
                    replaces=True,
                    computed=True,
                    choices=("ON_DEMAND", "SPOT", "CAPACITY_BLOCK"),
                ),
                "diskSize": number(replaces=True, computed=True),
                "labels": mapping(),
                "taints": records(_TAINT),
                "launchTemplate": record(_LAUNCH_TEMPLATE),
                "remoteAccess": record(_REMOTE_ACCESS, replaces=True),
                "nodeRepairConfig": record({"enabled": flag()}, computed=True),
                "version": text(computed=True),
                "releaseVersion": text(computed=True),
                "forceUpdateVersion": flag(write_only=True),
                "arn": output(),
                "resources": output(Shape.LIST),
                "status": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Ask for the node group."""
        cluster, name = inputs["clusterName"], inputs["nodeGroupName"]
        aws.call(
            "eks",
            "create_nodegroup",
            clusterName=cluster,
            nodegroupName=name,
            nodeRole=inputs["nodeRoleArn"],
            subnets=inputs["subnetIds"],
            scalingConfig=inputs["scalingConfig"],
            updateConfig=inputs.get("updateConfig"),
            instanceTypes=inputs.get("instanceTypes"),
            amiType=inputs.get("amiType"),
            capacityType=inputs.get("capacityType"),
            diskSize=inputs.get("diskSize"),
            labels=inputs.get("labels") or None,
            taints=inputs.get("taints") or None,
            launchTemplate=inputs.get("launchTemplate"),
            remoteAccess=_remote_access(inputs.get("remoteAccess")),
            nodeRepairConfig=inputs.get("nodeRepairConfig"),
            version=inputs.get("version"),
            releaseVersion=inputs.get("releaseVersion"),
            tags=inputs.get("tags") or None,
        )
        return f"{cluster}:{name}"

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Wait until its nodes have joined."""
        _wait_group(aws, ident)

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the node group."""
        group = _find_group(aws, ident)
        if group is None:
            return None
        template = group.get("launchTemplate")
        return {
            "clusterName": group["clusterName"],
            "nodeGroupName": group["nodegroupName"],
            "nodeRoleArn": group["nodeRole"],
            "subnetIds": group.get("subnets") or [],
            "scalingConfig": group.get("scalingConfig"),
            "updateConfig": group.get("updateConfig"),
            "instanceTypes": group.get("instanceTypes") or [],
            "amiType": group.get("amiType"),
            "capacityType": group.get("capacityType"),
            "diskSize": group.get("diskSize") or known.get("diskSize"),
            "labels": group.get("labels") or {},
            "taints": group.get("taints") or [],
            "launchTemplate": template and {key: template.get(key) for key in _LAUNCH_TEMPLATE},
            "remoteAccess": _known_remote_access(group.get("remoteAccess")),
            "nodeRepairConfig": group.get("nodeRepairConfig"),
            "version": group.get("version"),
            "releaseVersion": group.get("releaseVersion"),
            "tagsAll": group.get("tags") or {},
            "arn": group["nodegroupArn"],
            "resources": _resources(group.get("resources") or {}),
            "status": group.get("status"),
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Change the configuration first, then the version of nodes, waiting for each."""
        cluster, name = ident.split(":", 1)
        where = {"clusterName": cluster, "nodegroupName": name}
        if changed & {"labels", "taints", "scalingConfig", "updateConfig", "nodeRepairConfig"}:
            aws.call("eks", "update_nodegroup_config", **where, **_config_update(old, new, changed))
            _wait_group(aws, ident)
        if versions := changed & {"version", "releaseVersion", "launchTemplate"}:
            request = {key: new[key] for key in sorted(versions) if new.get(key) is not None}
            force = new.get("forceUpdateVersion") or None
            aws.call("eks", "update_nodegroup_version", **where, **request, force=force)
            _wait_group(aws, ident)

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete it and wait until its instances are gone."""
        cluster, name = ident.split(":", 1)
        aws.persist(
            ("ResourceInUseException",),
            lambda: aws.call("eks", "delete_nodegroup", clusterName=cluster, nodegroupName=name),
        )
        wait_gone(aws, f"node group {ident}", lambda: _find_group(aws, ident), timeout_seconds=3600)


class FargateProfile(EksResource):
    """`aws.eks.FargateProfile`; the id is `cluster:name`. Only its tags can change in place."""

    token = "aws:eks/fargateProfile:FargateProfile"
    identity = ("clusterName", "fargateProfileName")
    autoname = AutoName(property="fargateProfileName", max_length=100)
    properties = regional(
        tagged(
            {
                "clusterName": text(required=True, replaces=True),
                "fargateProfileName": text(replaces=True, computed=True),
                "podExecutionRoleArn": text(required=True, replaces=True),
                "subnetIds": texts(replaces=True, computed=True),
                "selectors": records(
                    {"namespace": text(required=True), "labels": mapping()},
                    required=True,
                    replaces=True,
                ),
                "arn": output(),
                "status": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Ask for the profile; EKS takes one at a time for each cluster."""
        cluster, name = inputs["clusterName"], inputs["fargateProfileName"]
        aws.persist(
            ("ResourceInUseException",),
            lambda: aws.call(
                "eks",
                "create_fargate_profile",
                clusterName=cluster,
                fargateProfileName=name,
                podExecutionRoleArn=inputs["podExecutionRoleArn"],
                subnets=inputs.get("subnetIds"),
                selectors=inputs["selectors"],
                tags=inputs.get("tags") or None,
            ),
        )
        return f"{cluster}:{name}"

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Wait until active."""
        wait_active(
            aws,
            f"Fargate profile {ident}",
            lambda: _find_profile(aws, ident),
            timeout_seconds=10 * _MINUTES,
        )

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the profile."""
        profile = _find_profile(aws, ident)
        if profile is None:
            return None
        return {
            "clusterName": profile["clusterName"],
            "fargateProfileName": profile["fargateProfileName"],
            "podExecutionRoleArn": profile["podExecutionRoleArn"],
            "subnetIds": profile.get("subnets") or [],
            "selectors": profile.get("selectors") or [],
            "tagsAll": profile.get("tags") or {},
            "arn": profile["fargateProfileArn"],
            "status": profile.get("status"),
        }

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete it and wait."""
        cluster, name = ident.split(":", 1)
        aws.persist(
            ("ResourceInUseException",),
            lambda: aws.call(
                "eks", "delete_fargate_profile", clusterName=cluster, fargateProfileName=name
            ),
        )
        wait_gone(
            aws,
            f"Fargate profile {ident}",
            lambda: _find_profile(aws, ident),
            timeout_seconds=10 * _MINUTES,
        )


def _find_group(aws: Aws, ident: str) -> dict[str, Any] | None:
    cluster, name = ident.split(":", 1)
    answer = aws.find("eks", "describe_nodegroup", clusterName=cluster, nodegroupName=name)
    return None if answer is None else dict(answer["nodegroup"])


def _find_profile(aws: Aws, ident: str) -> dict[str, Any] | None:
    cluster, name = ident.split(":", 1)
    answer = aws.find(
        "eks", "describe_fargate_profile", clusterName=cluster, fargateProfileName=name
    )
    return None if answer is None else dict(answer["fargateProfile"])


def _wait_group(aws: Aws, ident: str) -> None:
    wait_active(
        aws, f"node group {ident}", lambda: _find_group(aws, ident), timeout_seconds=60 * _MINUTES
    )


def _config_update(old: Values, new: Values, changed: frozenset[str]) -> dict[str, Any]:
    request: dict[str, Any] = {
        name: new[name]
        for name in ("scalingConfig", "updateConfig", "nodeRepairConfig")
        if name in changed and new.get(name) is not None
    }
    if "labels" in changed:
        before, after = old.get("labels") or {}, new.get("labels") or {}
        request["labels"] = {
            "addOrUpdateLabels": {k: v for k, v in after.items() if before.get(k) != v},
            "removeLabels": sorted(set(before) - set(after)),
        }
    if "taints" in changed:
        old_taints, new_taints = old.get("taints") or [], new.get("taints") or []
        kept = {(taint["key"], taint["effect"]) for taint in new_taints}
        request["taints"] = {
            "addOrUpdateTaints": [taint for taint in new_taints if taint not in old_taints],
            "removeTaints": [
                taint for taint in old_taints if (taint["key"], taint["effect"]) not in kept
            ],
        }
    return request


def _remote_access(access: Values | None) -> dict[str, Any] | None:
    if not access:
        return None
    names = {"ec2SshKey": "ec2SshKey", "sourceSecurityGroupIds": "sourceSecurityGroups"}
    return {names[name]: value for name, value in access.items() if value is not None}


def _known_remote_access(access: dict[str, Any] | None) -> Values | None:
    if not access:
        return None
    return {
        "ec2SshKey": access.get("ec2SshKey"),
        "sourceSecurityGroupIds": access.get("sourceSecurityGroups"),
    }


def _resources(found: dict[str, Any]) -> list[Values]:
    groups = [{"name": item["name"]} for item in found.get("autoScalingGroups") or []]
    return [
        {
            "autoscalingGroups": groups,
            "remoteAccessSecurityGroupId": found.get("remoteAccessSecurityGroup") or "",
        }
    ]


RESOURCES: tuple[Resource, ...] = (NodeGroup(), FargateProfile())
