"""Security group permissions, taken apart to single sources and put together again.

EC2 merges and reorders permissions as it likes. Both what a program wrote and what EC2 tells are
therefore compared as sets of single (protocol, ports, source) entries.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nodewright_local.pulumi_aws.values import Values

_NUMBERS = {"1": "icmp", "6": "tcp", "17": "udp", "58": "icmpv6", "all": "-1"}
_SOURCES = {
    "cidrBlocks": ("IpRanges", "CidrIp"),
    "ipv6CidrBlocks": ("Ipv6Ranges", "CidrIpv6"),
    "prefixListIds": ("PrefixListIds", "PrefixListId"),
    "securityGroups": ("UserIdGroupPairs", "GroupId"),
}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Entry:
    """One source allowed to reach one range of ports."""

    protocol: str
    from_port: int
    to_port: int
    kind: str
    """Name of the property that lists such sources: cidrBlocks, securityGroups, …"""
    source: str
    description: str = ""

    def permission(self) -> dict[str, Any]:
        """Return the entry as an IpPermissions element."""
        container, key = _SOURCES[self.kind]
        item = {key: self.source}
        if self.description:
            item["Description"] = self.description
        ports = (
            {} if self.protocol == "-1" else {"FromPort": self.from_port, "ToPort": self.to_port}
        )
        return {"IpProtocol": self.protocol, **ports, container: [item]}


def protocol_name(protocol: object) -> str:
    """Return the protocol as EC2 tells it back."""
    lowered = str(protocol).lower()
    return _NUMBERS.get(lowered, lowered)


def entries_of_rule(rule: Values, group_id: str) -> list[Entry]:
    """Return the entries of one rule object of a program; `self` means the group itself."""
    protocol = protocol_name(rule.get("protocol"))
    everything = protocol == "-1"
    sources = [(kind, item) for kind in _SOURCES for item in rule.get(kind) or []]
    if rule.get("sourceSecurityGroupId"):
        sources.append(("securityGroups", rule["sourceSecurityGroupId"]))
    if rule.get("self"):
        sources.append(("securityGroups", group_id))
    return [
        Entry(
            protocol=protocol,
            from_port=-1 if everything else int(rule.get("fromPort") or 0),
            to_port=-1 if everything else int(rule.get("toPort") or 0),
            kind=kind,
            source=str(source),
            description=str(rule.get("description") or ""),
        )
        for kind, source in sources
    ]


def entries_of_rules(rules: Iterable[Values] | None, group_id: str) -> set[Entry]:
    """Return the entries of an inline `ingress` or `egress` list."""
    return {entry for rule in rules or () for entry in entries_of_rule(rule, group_id)}


def entries_of_permissions(permissions: Iterable[dict[str, Any]] | None) -> set[Entry]:
    """Return the entries of IpPermissions or IpPermissionsEgress."""
    result = set()
    for permission in permissions or ():
        protocol = protocol_name(permission["IpProtocol"])
        everything = protocol == "-1"
        for kind, (container, key) in _SOURCES.items():
            for item in permission.get(container) or []:
                result.add(
                    Entry(
                        protocol=protocol,
                        from_port=-1 if everything else int(permission.get("FromPort", -1)),
                        to_port=-1 if everything else int(permission.get("ToPort", -1)),
                        kind=kind,
                        source=str(item.get(key)),
                        description=str(item.get("Description") or ""),
                    )
                )
    return result


def rules_of_entries(entries: Iterable[Entry], group_id: str) -> list[Values]:
    """Return entries as rule objects, merged by ports and description, in a stable order."""
    merged: dict[tuple[str, int, int, str], Values] = {}
    for entry in sorted(entries):
        everything = entry.protocol == "-1"
        key = (entry.protocol, entry.from_port, entry.to_port, entry.description)
        rule = merged.setdefault(
            key,
            {
                "protocol": entry.protocol,
                "fromPort": 0 if everything else entry.from_port,
                "toPort": 0 if everything else entry.to_port,
                "description": entry.description,
                "self": False,
            },
        )
        if entry.kind == "securityGroups" and entry.source == group_id:
            rule["self"] = True
        else:
            rule.setdefault(entry.kind, []).append(entry.source)
    return list(merged.values())


def canonical_rules(rules: Any) -> object:
    """Return an inline rule list in comparable form; the group itself stays `self`."""
    return sorted(
        (
            [
                entry.protocol,
                entry.from_port,
                entry.to_port,
                entry.kind,
                entry.source,
                entry.description,
            ]
            for entry in entries_of_rules(rules, "self")
        ),
        key=str,
    )
