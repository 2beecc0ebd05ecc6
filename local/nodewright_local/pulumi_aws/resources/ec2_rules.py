"""Single security group rules: the current pair of types, and the older combined one."""

import zlib
from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, AwsError, tag_map
from nodewright_local.pulumi_aws.resources.ec2_base import Ec2Resource, first, tag_specifications
from nodewright_local.pulumi_aws.resources.ec2_permissions import (
    Entry,
    entries_of_permissions,
    entries_of_rule,
    protocol_name,
    rules_of_entries,
)
from nodewright_local.pulumi_aws.schema import (
    Resource,
    flag,
    number,
    output,
    regional,
    tagged,
    text,
    texts,
)
from nodewright_local.pulumi_aws.values import Values

_SOURCES = {
    "cidrIpv4": ("IpRanges", "CidrIp"),
    "cidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
    "prefixListId": ("PrefixListIds", "PrefixListId"),
    "referencedSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
}
_RULE_PROPERTIES = regional(
    tagged(
        {
            "securityGroupId": text(required=True, replaces=True),
            "ipProtocol": text(required=True, canonical=protocol_name),
            "fromPort": number(),
            "toPort": number(),
            "cidrIpv4": text(),
            "cidrIpv6": text(),
            "prefixListId": text(),
            "referencedSecurityGroupId": text(),
            "description": text(),
            "arn": output(),
            "securityGroupRuleId": output(),
        }
    )
)


class _SecurityGroupRule(Ec2Resource):
    """What the ingress and the egress type share; the id is the rule id."""

    direction: str
    properties = _RULE_PROPERTIES

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Authorize one rule."""
        container, key, source = _one_source(self.token, inputs)
        item = {key: source}
        if inputs.get("description"):
            item["Description"] = inputs["description"]
        permission: dict[str, Any] = {
            "IpProtocol": protocol_name(inputs["ipProtocol"]),
            container: [item],
        }
        permission |= _ports(inputs)
        answer = aws.call(
            "ec2",
            f"authorize_security_group_{self.direction}",
            GroupId=inputs["securityGroupId"],
            IpPermissions=[permission],
            TagSpecifications=tag_specifications("security-group-rule", inputs),
        )
        return str(answer["SecurityGroupRules"][0]["SecurityGroupRuleId"])

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the rule by its id."""
        rule = first(
            aws.find("ec2", "describe_security_group_rules", SecurityGroupRuleIds=[ident]),
            "SecurityGroupRules",
        )
        if rule is None:
            return None
        protocol = protocol_name(rule["IpProtocol"])
        everything = protocol == "-1"
        return {
            "securityGroupId": rule["GroupId"],
            "ipProtocol": protocol,
            "fromPort": None if everything else rule.get("FromPort"),
            "toPort": None if everything else rule.get("ToPort"),
            "cidrIpv4": rule.get("CidrIpv4"),
            "cidrIpv6": rule.get("CidrIpv6"),
            "prefixListId": rule.get("PrefixListId"),
            "referencedSecurityGroupId": (rule.get("ReferencedGroupInfo") or {}).get("GroupId"),
            "description": rule.get("Description") or _pair_description(aws, rule),
            "tagsAll": tag_map(rule.get("Tags")),
            "arn": aws.arn("ec2", f"security-group-rule/{ident}"),
            "securityGroupRuleId": ident,
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Change the rule under the same id."""
        _, key, source = _one_source(self.token, new)
        wire = {"CidrIp": "CidrIpv4", "GroupId": "ReferencedGroupId"}.get(key, key)
        rule = {
            "IpProtocol": protocol_name(new["ipProtocol"]),
            wire: source,
            "Description": new.get("description") or "",
            "FromPort": -1,  # what EC2 takes for "all ports"; a rule with ports overrides it
            "ToPort": -1,
            **_ports(new),
        }
        aws.call(
            "ec2",
            "modify_security_group_rules",
            GroupId=new["securityGroupId"],
            SecurityGroupRules=[{"SecurityGroupRuleId": ident, "SecurityGroupRule": rule}],
        )

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Revoke the rule."""
        aws.call(
            "ec2",
            f"revoke_security_group_{self.direction}",
            GroupId=state["securityGroupId"],
            SecurityGroupRuleIds=[ident],
        )


class SecurityGroupIngressRule(_SecurityGroupRule):
    """`aws.vpc.SecurityGroupIngressRule`."""

    token = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
    direction = "ingress"


class SecurityGroupEgressRule(_SecurityGroupRule):
    """`aws.vpc.SecurityGroupEgressRule`."""

    token = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
    direction = "egress"


class SecurityGroupRule(Resource):
    """`aws.ec2.SecurityGroupRule`: one permission with several sources; the id is a hash of it."""

    token = "aws:ec2/securityGroupRule:SecurityGroupRule"
    identity = (
        "type",
        "protocol",
        "fromPort",
        "toPort",
        "securityGroupId",
        "cidrBlocks",
        "ipv6CidrBlocks",
        "prefixListIds",
        "sourceSecurityGroupId",
        "self",
    )
    properties = regional(
        {
            "type": text(required=True, replaces=True, choices=("ingress", "egress")),
            "protocol": text(required=True, replaces=True, canonical=protocol_name),
            "fromPort": number(required=True, replaces=True),
            "toPort": number(required=True, replaces=True),
            "securityGroupId": text(required=True, replaces=True),
            "cidrBlocks": texts(replaces=True),
            "ipv6CidrBlocks": texts(replaces=True),
            "prefixListIds": texts(replaces=True),
            "sourceSecurityGroupId": text(replaces=True, computed=True),
            "self": flag(replaces=True),
            "description": text(),
            "securityGroupRuleId": output(),
        }
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Authorize all sources in one call."""
        group_id = inputs["securityGroupId"]
        entries = entries_of_rule(inputs, group_id)
        if not entries:
            raise AwsError(
                operation=self.token,
                code="MissingSource",
                message="set cidrBlocks, ipv6CidrBlocks, prefixListIds, self or "
                "sourceSecurityGroupId",
            )
        aws.call(
            "ec2",
            f"authorize_security_group_{inputs['type']}",
            GroupId=group_id,
            IpPermissions=[entry.permission() for entry in entries],
        )
        text_of = f"{group_id} {inputs['type']} {sorted(entries)}"
        return f"sgrule-{zlib.crc32(text_of.encode())}"

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Look for all its sources in the group; gone when none is left."""
        live = self._live(aws, known)
        wanted = entries_of_rule(known, known["securityGroupId"])
        described = {_bare(entry): entry for entry in live}
        present = [described[_bare(entry)] for entry in wanted if _bare(entry) in described]
        if not present:
            return None
        group_id = known["securityGroupId"]
        rules = rules_of_entries(present, group_id)
        rule = rules[0]
        source = known.get("sourceSecurityGroupId")
        return {
            **{name: known.get(name) for name in ("type", "protocol", "securityGroupId")},
            "fromPort": known["fromPort"] if rule["protocol"] == "-1" else rule["fromPort"],
            "toPort": known["toPort"] if rule["protocol"] == "-1" else rule["toPort"],
            **{
                kind: [entry.source for entry in present if entry.kind == kind]
                for kind in ("cidrBlocks", "ipv6CidrBlocks", "prefixListIds")
            },
            "sourceSecurityGroupId": source
            if source in {entry.source for entry in present}
            else None,
            "self": bool(known.get("self")) and group_id in {entry.source for entry in present},
            "description": next(
                (item["description"] for item in rules if item["description"]), None
            ),
            "securityGroupRuleId": self._rule_id(aws, known) if len(wanted) == 1 else "",
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Change the description, the only thing that can change in place."""
        entries = entries_of_rule(new, new["securityGroupId"])
        aws.call(
            "ec2",
            f"update_security_group_rule_descriptions_{new['type']}",
            GroupId=new["securityGroupId"],
            IpPermissions=[entry.permission() for entry in entries],
        )

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Revoke what is left of it."""
        wanted = {_bare(entry) for entry in entries_of_rule(state, state["securityGroupId"])}
        present = [entry for entry in self._live(aws, state) if _bare(entry) in wanted]
        if present:
            aws.call(
                "ec2",
                f"revoke_security_group_{state['type']}",
                GroupId=state["securityGroupId"],
                IpPermissions=[entry.permission() for entry in present],
            )

    def _live(self, aws: Aws, known: Values) -> set[Entry]:
        group = first(
            aws.find("ec2", "describe_security_groups", GroupIds=[known["securityGroupId"]]),
            "SecurityGroups",
        )
        key = "IpPermissions" if known["type"] == "ingress" else "IpPermissionsEgress"
        return entries_of_permissions((group or {}).get(key))

    def _rule_id(self, aws: Aws, known: Values) -> str:
        wanted = entries_of_rule(known, known["securityGroupId"])[0]
        rules = aws.pages(
            "ec2",
            "describe_security_group_rules",
            "SecurityGroupRules",
            Filters=[{"Name": "group-id", "Values": [known["securityGroupId"]]}],
        )
        for rule in rules:
            if _source_of(rule) == wanted.source and _matches(rule, wanted, known["type"]):
                return str(rule["SecurityGroupRuleId"])
        return ""


def _pair_description(aws: Aws, rule: dict[str, Any]) -> str | None:
    """Find the description of a rule about a group where the rule itself does not tell it.

    EC2 tells it in both places, moto (5.2) in the group's permissions only.
    """
    source = (rule.get("ReferencedGroupInfo") or {}).get("GroupId")
    if source is None:
        return None
    group = first(
        aws.find("ec2", "describe_security_groups", GroupIds=[rule["GroupId"]]), "SecurityGroups"
    )
    key = "IpPermissionsEgress" if rule.get("IsEgress") else "IpPermissions"
    for entry in entries_of_permissions((group or {}).get(key)):
        same_ports = entry.protocol == "-1" or (entry.from_port, entry.to_port) == (
            rule.get("FromPort"),
            rule.get("ToPort"),
        )
        same_protocol = entry.protocol == protocol_name(rule["IpProtocol"])
        if entry.source == source and same_protocol and same_ports:
            return entry.description or None
    return None


def _matches(rule: dict[str, Any], entry: Entry, direction: str) -> bool:
    ports = entry.protocol == "-1" or (
        rule.get("FromPort") == entry.from_port and rule.get("ToPort") == entry.to_port
    )
    return (
        bool(rule.get("IsEgress")) == (direction == "egress")
        and protocol_name(rule["IpProtocol"]) == entry.protocol
        and ports
    )


def _source_of(rule: dict[str, Any]) -> str | None:
    group = (rule.get("ReferencedGroupInfo") or {}).get("GroupId")
    return rule.get("CidrIpv4") or rule.get("CidrIpv6") or rule.get("PrefixListId") or group


def _bare(entry: Entry) -> tuple[str, int, int, str, str]:
    return (entry.protocol, entry.from_port, entry.to_port, entry.kind, entry.source)


def _one_source(token: str, inputs: Values) -> tuple[str, str, str]:
    given = [name for name in _SOURCES if inputs.get(name)]
    if len(given) != 1:
        raise AwsError(
            operation=token,
            code="OneSource",
            message=f"exactly one of {', '.join(_SOURCES)} must be set, got {given or 'none'}",
        )
    container, key = _SOURCES[given[0]]
    return container, key, str(inputs[given[0]])


def _ports(inputs: Values) -> dict[str, int]:
    ports = {"FromPort": inputs.get("fromPort"), "ToPort": inputs.get("toPort")}
    return {name: int(value) for name, value in ports.items() if value is not None}


RESOURCES: tuple[Resource, ...] = (
    SecurityGroupIngressRule(),
    SecurityGroupEgressRule(),
    SecurityGroupRule(),
)
