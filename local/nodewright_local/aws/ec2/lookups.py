"""Finding what a launch request names, with EC2's own errors when it is not there."""

from collections.abc import Mapping, Sequence
from typing import Any

from moto.ec2.exceptions import EC2ClientError

from nodewright_local.aws import moto_access
from nodewright_local.aws.errors import AwsError


def find_subnet(region: str, subnet_id: str) -> Any:
    """Return moto's Subnet; InvalidSubnetID.NotFound if there is none."""
    try:
        return moto_access.ec2(region).get_subnet(subnet_id)
    except EC2ClientError as error:
        raise AwsError(
            "InvalidSubnetID.NotFound", f"The subnet ID '{subnet_id}' does not exist"
        ) from error


def find_template_version(region: str, reference: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return moto's LaunchTemplate and LaunchTemplateVersion that a specification names."""
    backend = moto_access.ec2(region)
    template_id = reference.get("LaunchTemplateId")
    name = reference.get("LaunchTemplateName")
    if not template_id and not name:
        raise AwsError(
            "MissingParameter",
            "You must specify either the launch template ID or the launch template name",
        )
    if template_id:
        template = backend.launch_templates.get(template_id)
        missing = AwsError(
            "InvalidLaunchTemplateId.NotFound",
            f"The specified launch template, with template ID {template_id}, does not exist.",
        )
    else:
        found = backend.launch_template_name_to_ids.get(name)
        template = backend.launch_templates.get(found)
        missing = AwsError(
            "InvalidLaunchTemplateName.NotFoundException",
            f"The specified launch template, with template name {name}, does not exist.",
        )
    if template is None:
        raise missing
    return template, _version(template, str(reference.get("Version") or "$Default"))


def _version(template: Any, wanted: str) -> Any:
    if wanted == "$Latest":
        return template.latest_version()
    if wanted == "$Default":
        return template.default_version()
    for version in template.versions:
        if str(version.number) == wanted:
            return version
    raise AwsError(
        "InvalidLaunchTemplateId.VersionNotFound",
        f"Could not find the specified version {wanted} for the launch template with ID "
        f"{template.id}.",
    )


def find_profile(reference: Mapping[str, Any] | None) -> Any:
    """Return moto's InstanceProfile, None when none is asked for.

    InvalidParameterValue when it does not exist or carries no role.
    """
    name = (reference or {}).get("Name")
    arn = (reference or {}).get("Arn")
    if not name and not arn:
        return None
    for profile in list(moto_access.iam().instance_profiles.values()):
        if (name and profile.name == name) or (arn and profile.arn == arn):
            if not profile.roles:
                raise AwsError(
                    "InvalidParameterValue",
                    f'IAM Instance Profile "{profile.arn}" has no associated IAM Roles',
                )
            return profile
    field, word = ("name", "name") if name else ("arn", "ARN")
    raise AwsError(
        "InvalidParameterValue",
        f"Value ({name or arn}) for parameter iamInstanceProfile.{field} is invalid. "
        f"Invalid IAM Instance Profile {word}",
    )


def find_security_groups(
    region: str,
    merged: Mapping[str, Any],
    interfaces: Sequence[Mapping[str, Any]],
    subnet: Any,
) -> tuple[str, ...]:
    """Resolve the groups of the first interface to ids; the VPC's default group if none is named."""
    backend = moto_access.ec2(region)
    wanted = [
        *(interfaces[0].get("Groups") or ()),
        *(merged.get("SecurityGroupIds") or ()),
    ]
    names = merged.get("SecurityGroups") or ()
    groups = [_group(backend.get_security_group_from_id(group_id), group_id) for group_id in wanted]
    groups += [
        _group(backend.get_security_group_from_name(name, subnet.vpc_id), name) for name in names
    ]
    if not groups:
        groups = [backend.get_security_group_from_name("default", subnet.vpc_id)]
    for group in groups:
        if group.vpc_id != subnet.vpc_id:
            raise AwsError(
                "InvalidParameter",
                f"Security group {group.id} and subnet {subnet.id} belong to different networks.",
            )
    return tuple(dict.fromkeys(group.id for group in groups))


def _group(found: Any, wanted: str) -> Any:
    if found is None:
        raise AwsError("InvalidGroup.NotFound", f"The security group '{wanted}' does not exist")
    return found
