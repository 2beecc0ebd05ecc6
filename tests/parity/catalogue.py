"""Real EC2 instance types, as the controller's own translation sees them.

Descriptions and zones are moto's copy of AWS's answers, on-demand prices come from the controller's
price table. Spot prices are invented, steadily: 28-55 % of on-demand, by type and zone.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from moto.ec2.models.instance_types import INSTANCE_TYPES
from nodewright_controller.api import labels
from nodewright_controller.api.ec2nodeclass import EC2NodeClass, SubnetStatus
from nodewright_controller.aws.ami import NVIDIA, STANDARD, Image, status_of
from nodewright_controller.aws.data import on_demand_prices
from nodewright_controller.aws.families import Family
from nodewright_controller.aws.instance_type_info import parse_instance_type
from nodewright_controller.aws.instance_types import describe, offer, resolve
from nodewright_controller.aws.offerings import Market
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.shape import NodeShape, shape_of
from nodewright_controller.constraints.instance_type import InstanceType

REGION: Final = "us-west-2"
ZONES: Final = ("us-west-2a", "us-west-2b", "us-west-2c")
FAMILIES: Final = (
    *("m5", "m5a", "m6i", "m6a", "m6g", "m7i", "m7a", "m7g"),
    *("c5", "c6i", "c6a", "c6g", "c7g", "r5", "r6i", "r6g", "r7g"),
    *("t3", "t4g", "i3", "i4i", "g4dn", "g5"),
)
SIZES: Final = ("medium", "large", "xlarge", "2xlarge", "4xlarge", "8xlarge")
_MADE: Final = datetime(2026, 1, 1, tzinfo=UTC)


class _Prices:
    def usd_per_hour(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        price = on_demand_prices(REGION).get(instance_type)
        if price is None or capacity_type == labels.ON_DEMAND:
            return price
        share = 0.28 + zlib.crc32(f"{instance_type} {zone}".encode()) % 2700 / 10_000
        return round(price * share, 4)


class _Plenty:
    def until(self, instance_type: str, zone: str, capacity_type: str) -> None:
        del instance_type, zone, capacity_type


def _shape() -> NodeShape:
    node_class = EC2NodeClass()
    node_class.spec.ami_family = "AL2023"
    node_class.status.subnets = [
        SubnetStatus(id=f"subnet-{zone[-1]}", zone=zone, zone_id=f"usw2-az{number}")
        for number, zone in enumerate(ZONES, 1)
    ]
    node_class.status.amis = [
        status_of(
            Image(f"ami-{architecture}", "al2023", _MADE, architecture, deprecated=False),
            variant,
            Family.AL2023,
        )
        for architecture in ("amd64", "arm64")
        for variant in (STANDARD, NVIDIA)
    ]
    return shape_of(node_class, AwsOptions(cluster_name="parity", region=REGION))


@functools.cache
def every_type() -> tuple[InstanceType, ...]:
    """Return all types that the machine's copy of EC2 sells and the controller can use, by name."""
    shape = _shape()
    market = Market(all_zones=ZONES, zone_ids=shape.zones, prices=_Prices(), shortages=_Plenty())
    found = []
    for name in sorted(INSTANCE_TYPES):
        info = parse_instance_type(INSTANCE_TYPES[name])
        if not info.architectures:
            continue
        bare = resolve(info, describe(info), ZONES, shape)
        made = replace(bare, offerings=offer(bare, info, ZONES, shape, market))
        if any(one.available for one in made.offerings):
            found.append(made)
    return tuple(found)


def some_types(families: Iterable[str] = FAMILIES) -> tuple[InstanceType, ...]:
    """Return the ordinary sizes of some families, by name."""
    wanted = {f"{family}.{size}" for family in families for size in SIZES}
    return tuple(one for one in every_type() if one.name in wanted)
