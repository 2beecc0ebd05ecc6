"""Security groups with their inline rules."""

from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, tag_map
from nodewright_local.pulumi_aws.resources.ec2_base import Ec2Resource, first, tag_specifications
from nodewright_local.pulumi_aws.resources.ec2_permissions import (
    Entry,
    canonical_rules,
    entries_of_permissions,
    entries_of_rules,
    rules_of_entries,
)
from nodewright_local.pulumi_aws.schema import (
    AutoName,
    Property,
    Resource,
    Shape,
    flag,
    number,
    output,
    regional,
    tagged,
    text,
    texts,
)
from nodewright_local.pulumi_aws.values import Values

_RULE = {
    "protocol": text(required=True),
    "fromPort": number(required=True),
    "toPort": number(required=True),
    "cidrBlocks": texts(),
    "ipv6CidrBlocks": texts(),
    "prefixListIds": texts(),
    "securityGroups": texts(),
    "self": flag(),
    "description": text(),
}
_RULES = Property(shape=Shape.SET, fields=_RULE, computed=True, canonical=canonical_rules)
_CALLS = {
    "ingress": (
        "IpPermissions",
        "authorize_security_group_ingress",
        "revoke_security_group_ingress",
    ),
    "egress": (
        "IpPermissionsEgress",
        "authorize_security_group_egress",
        "revoke_security_group_egress",
    ),
}


class SecurityGroup(Ec2Resource):
    """`aws.ec2.SecurityGroup`; the id is the group id.

    EC2 gives a new group a rule that lets everything out. It is removed: what the program does not
    write is not allowed.
    """

    token = "aws:ec2/securityGroup:SecurityGroup"
    identity = ("name", "vpcId")
    autoname = AutoName(max_length=255)
    properties = regional(
        tagged(
            {
                "name": text(replaces=True, computed=True),
                "namePrefix": text(replaces=True, write_only=True),
                "description": text(replaces=True, default="Managed by Pulumi"),
                "vpcId": text(replaces=True, computed=True),
                "ingress": _RULES,
                "egress": _RULES,
                "revokeRulesOnDelete": flag(write_only=True),
                "arn": output(),
                "ownerId": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the group."""
        answer = aws.call(
            "ec2",
            "create_security_group",
            GroupName=inputs["name"],
            Description=inputs["description"],
            VpcId=inputs.get("vpcId"),
            TagSpecifications=tag_specifications("security-group", inputs),
        )
        return str(answer["GroupId"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Replace EC2's own rules by the program's."""
        for direction in _CALLS:
            self._make_rules(aws, ident, direction, inputs.get(direction))

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the group with all its rules, whoever made them."""
        group = _group(aws, ident)
        if group is None:
            return None
        return {
            "name": group["GroupName"],
            "description": group.get("Description"),
            "vpcId": group.get("VpcId"),
            "ingress": rules_of_entries(entries_of_permissions(group.get("IpPermissions")), ident),
            "egress": rules_of_entries(
                entries_of_permissions(group.get("IpPermissionsEgress")), ident
            ),
            "tagsAll": tag_map(group.get("Tags")),
            "arn": aws.arn("ec2", f"security-group/{ident}"),
            "ownerId": group.get("OwnerId") or aws.account_id,
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Remove and add rules."""
        for direction in sorted(changed & set(_CALLS)):
            self._make_rules(aws, ident, direction, new.get(direction))

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete it, patient while interfaces and other groups still refer to it."""
        if state.get("revokeRulesOnDelete"):
            for direction in _CALLS:
                self._make_rules(aws, ident, direction, [])
        aws.persist(
            ("DependencyViolation", "InvalidGroup.InUse"),
            lambda: aws.call("ec2", "delete_security_group", GroupId=ident),
        )

    def _make_rules(self, aws: Aws, ident: str, direction: str, rules: list[Values] | None) -> None:
        key, authorize, revoke = _CALLS[direction]
        live = entries_of_permissions((_group(aws, ident) or {}).get(key))
        wanted = entries_of_rules(rules, ident)
        if gone := _permissions(live - wanted):
            aws.call("ec2", revoke, GroupId=ident, IpPermissions=gone)
        if added := _permissions(wanted - live):
            aws.call("ec2", authorize, GroupId=ident, IpPermissions=added)


def _permissions(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [entry.permission() for entry in sorted(entries)]


def _group(aws: Aws, ident: str) -> dict[str, Any] | None:
    return first(aws.find("ec2", "describe_security_groups", GroupIds=[ident]), "SecurityGroups")


RESOURCES: tuple[Resource, ...] = (SecurityGroup(),)
