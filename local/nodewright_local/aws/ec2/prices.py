"""What an instance costs per hour.

On-demand prices are AWS's own (data/README.md). Spot prices are invented but stable: a fixed
fraction between 30 % and 45 % of on-demand for every (instance type, zone), drawn by a hash, so
that zones differ, runs agree, and no two machines argue about which type is the cheapest.
"""

import functools
import hashlib
import json
from importlib.resources import files

FALLBACK_REGION = "us-east-1"
_LOWEST_SPOT_SHARE = 0.30
_SPOT_SHARE_RANGE = 0.15


@functools.cache
def _table() -> dict[str, dict[str, float]]:
    text = files("nodewright_local.data").joinpath("ec2-on-demand-prices.json").read_text()
    regions: dict[str, dict[str, float]] = json.loads(text)["regions"]
    return regions


@functools.cache
def price_date() -> str:
    """The day of the price table, as YYYY-MM-DD."""
    text = files("nodewright_local.data").joinpath("ec2-on-demand-prices.json").read_text()
    date: str = json.loads(text)["date"]
    return date


def on_demand_prices(region: str) -> dict[str, float]:
    """Prices per hour by instance type; a region without a table is given us-east-1's."""
    return _table().get(region) or _table()[FALLBACK_REGION]


def currency(region: str) -> str:
    """The currency of a region's prices."""
    return "CNY" if region.startswith("cn-") else "USD"


def on_demand_price(region: str, instance_type: str) -> float | None:
    """Price per hour, None when AWS publishes none."""
    return on_demand_prices(region).get(instance_type)


def spot_price(region: str, zone: str, instance_type: str) -> float | None:
    """Invented spot price per hour in one zone; None for a type without an on-demand price."""
    full = on_demand_price(region, instance_type)
    if full is None:
        return None
    share = _LOWEST_SPOT_SHARE + _SPOT_SHARE_RANGE * _fraction(f"{instance_type}/{zone}")
    return round(full * share, 6)


def spot_pool_depth(zone: str, instance_type: str) -> int:
    """Invented depth of a spot pool, 1 (shallow) to 10 (deep); strategies that weigh capacity use it."""
    return 1 + int(10 * _fraction(f"depth/{instance_type}/{zone}"))


def _fraction(text: str) -> float:
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
