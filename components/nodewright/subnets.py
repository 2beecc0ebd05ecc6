"""Cuts a VPC's address range into one private and one public subnet per zone.

Pure: no resource is made here. The range is cut into equal slots, at least four: a private subnet
takes a whole slot, because pods live there and each takes an address; the last slot is cut into
eight for the public subnets, which only hold load balancers and NAT gateways. Zones take slots in
the order given, so a zone appended later leaves the existing subnets where they are.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

SMALLEST_SUBNET = 28
"""The longest prefix AWS allows for a subnet."""
LARGEST_VPC = 16
"""The shortest prefix AWS allows for a VPC."""
MOST_ZONES = 7
"""Private slots in the eight-slot layout; no AWS region has more zones."""
_PUBLIC_PARTS_BITS = 3

# Zones where EKS can't place control plane interfaces, by the account-independent zone id.
# Source: Amazon EKS user guide, "VPC and subnet considerations", subnet requirements.
_ZONES_WITHOUT_EKS = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetPlan:
    """One subnet to create."""

    zone: str
    """Availability zone name, such as `us-west-2a`."""
    public: bool
    """Whether it routes to the internet gateway."""
    cidr_block: str


class SubnetPlanError(ValueError):
    """The subnets can't be planned; `about` is `cidr_block` or `zones`."""

    def __init__(self, about: str, problem: str, remedy: str) -> None:
        super().__init__(f"{about} {problem}; {remedy}")
        self.about = about
        self.problem = problem
        self.remedy = remedy


def plan_subnets(cidr: str, zones: Sequence[str]) -> tuple[SubnetPlan, ...]:
    """Return a private and a public subnet for each zone, private ones first, in zone order.

    Raises `SubnetPlanError` for a range that isn't a /16 to /28 network in canonical form, that is
    too small for the zones, or for zones that are absent, doubled, or more than seven.
    """
    network = _network(cidr)
    slot_bits = _slot_bits(zones)
    public_prefix = network.prefixlen + slot_bits + _PUBLIC_PARTS_BITS
    if public_prefix > SMALLEST_SUBNET:
        widest = SMALLEST_SUBNET - slot_bits - _PUBLIC_PARTS_BITS
        raise SubnetPlanError(
            "cidr_block",
            f"{cidr} is too small for {len(zones)} zones: its public subnets would be "
            f"/{public_prefix} and AWS allows /{SMALLEST_SUBNET}",
            f"use a range of /{widest} or wider",
        )
    slots = list(network.subnets(prefixlen_diff=slot_bits))
    public_blocks = slots[-1].subnets(prefixlen_diff=_PUBLIC_PARTS_BITS)
    private = (
        SubnetPlan(zone=zone, public=False, cidr_block=str(block))
        for zone, block in zip(zones, slots, strict=False)
    )
    public = (
        SubnetPlan(zone=zone, public=True, cidr_block=str(block))
        for zone, block in zip(zones, public_blocks, strict=False)
    )
    return (*private, *public)


def usable_zones(region: str, names: Sequence[str], zone_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the region's ordinary zones in which EKS works, sorted by name.

    Local and Wavelength Zones (`us-west-2-lax-1a`) appear among the available ones once an account
    has opted in, but can't hold an EKS control plane.
    """
    pairs = zip(names, zone_ids, strict=True)
    return tuple(
        sorted(
            name
            for name, zone_id in pairs
            if name[:-1] == region and zone_id not in _ZONES_WITHOUT_EKS
        )
    )


def _network(cidr: str) -> ipaddress.IPv4Network:
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        raise SubnetPlanError(
            "cidr_block", f"{cidr!r} is no IPv4 network ({error})", "write it like 10.0.0.0/16"
        ) from error
    if network.prefixlen < LARGEST_VPC:
        raise SubnetPlanError(
            "cidr_block", f"{cidr} is wider than AWS allows", f"use a /{LARGEST_VPC} or narrower"
        )
    return network


def _slot_bits(zones: Sequence[str]) -> int:
    if not zones:
        raise SubnetPlanError("zones", "is empty", "name at least one zone")
    if len(set(zones)) != len(zones):
        raise SubnetPlanError(
            "zones", f"names a zone twice: {', '.join(zones)}", "name each of them once"
        )
    if len(zones) > MOST_ZONES:
        raise SubnetPlanError("zones", f"names {len(zones)} zones", f"name at most {MOST_ZONES}")
    return 2 if len(zones) <= 3 else 3
