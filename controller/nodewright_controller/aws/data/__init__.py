"""Tables of AWS facts that no API call answers, or that must be there before one does.

Each file names its source inside: `on_demand_prices.json` (Linux, per hour, by region),
`network_bandwidth.json` (baseline Mbit/s by instance type), `branch_interfaces.json`
(branch network interfaces of the types that can trunk).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, cast

FALLBACK_REGION = "us-east-1"


def _read(name: str) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", json.loads(files(__name__).joinpath(name).read_bytes()))


@functools.cache
def network_bandwidth_mbps() -> Mapping[str, int]:
    """Return the baseline network bandwidth by instance type, in Mbit/s."""
    return cast("Mapping[str, int]", _read("network_bandwidth.json")["mbps"])


@functools.cache
def branch_interfaces() -> Mapping[str, int]:
    """Return how many branch interfaces (security groups for pods) a type can have."""
    return cast("Mapping[str, int]", _read("branch_interfaces.json")["branch_interfaces"])


@functools.cache
def on_demand_prices(region: str) -> Mapping[str, float]:
    """Return on-demand prices per hour by instance type; an unknown region gets us-east-1's."""
    regions = _read("on_demand_prices.json")["regions"]
    return cast("Mapping[str, float]", regions.get(region, regions[FALLBACK_REGION]))
