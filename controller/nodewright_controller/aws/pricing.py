"""What instances cost per hour: a built-in table at first, live prices as soon as there are any.

A failed refresh keeps what was known. Until spot prices were read once, spot counts as dear as
on-demand; afterwards a zone without a spot price has none. Upstream: pkg/providers/pricing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import structlog

from nodewright_controller.api.labels import ON_DEMAND, SPOT
from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.data import on_demand_prices
from nodewright_controller.aws.error_codes import AwsError
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.kernel.timing import format_instant
from nodewright_controller.ports.clock import Clock

log = structlog.get_logger(__name__)

_SPOT_PRODUCTS: Final = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]
_SPOT_PAGE: Final = 2000
_PRODUCT_PAGE: Final = 100


class Pricing:
    """Prices by instance type, zone and capacity type."""

    def __init__(self, clients: AwsClients, options: AwsOptions, clock: Clock) -> None:
        self._clients = clients
        self._options = options
        self._clock = clock
        self._on_demand: Mapping[str, float] = on_demand_prices(options.region)
        self._spot: Mapping[tuple[str, str], float] | None = None
        self._unlisted: Mapping[str, float] = {}
        self.version = 0
        """Changes whenever a price may have."""

    def usd_per_hour(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        """Return the price, or None when there is none."""
        listed = self._listed(instance_type, zone, capacity_type)
        return self._unlisted.get(instance_type) if listed is None else listed

    def _listed(self, instance_type: str, zone: str, capacity_type: str) -> float | None:
        if capacity_type == SPOT and self._spot is not None:
            return self._spot.get((instance_type, zone))
        if capacity_type in (SPOT, ON_DEMAND):
            return self._on_demand.get(instance_type)
        return None

    def price_unlisted(self, prices: Mapping[str, float]) -> None:
        """Use these prices, by instance type, where AWS names none."""
        if prices != self._unlisted:
            self._unlisted = dict(prices)
            self.version += 1

    def on_demand(self, instance_type: str) -> float | None:
        """Return the on-demand price, or None when there is none."""
        return self._on_demand.get(instance_type)

    async def refresh(self) -> None:
        """Read all prices anew; each half that fails keeps its old prices and is logged."""
        for name, outcome in zip(
            ("spot", "on-demand"),
            await asyncio.gather(
                self.refresh_spot(), self.refresh_on_demand(), return_exceptions=True
            ),
            strict=True,
        ):
            if isinstance(outcome, AwsError):
                log.warning("kept old prices", kind=name, error=str(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome

    async def refresh_spot(self) -> None:
        """Read the current spot price of every type in every zone. Raises AwsError."""
        pages = await self._clients.pages(
            self._clients.ec2.describe_spot_price_history,
            StartTime=format_instant(self._clock.now()),
            ProductDescriptions=_SPOT_PRODUCTS,
            MaxResults=_SPOT_PAGE,
        )
        found = parse_spot_prices(entry for page in pages for entry in page["SpotPriceHistory"])
        if found:
            self._replace(spot=found)

    async def refresh_on_demand(self) -> None:
        """Read the on-demand prices of shared machines and of bare metal. Raises AwsError."""
        if self._options.isolated_vpc or self._options.region.startswith("us-gov-"):
            return
        shared, metal = await asyncio.gather(
            self._products("Shared", "Compute Instance"),
            self._products("Dedicated", "Compute Instance (bare metal)"),
        )
        if not shared or not metal:
            raise AwsError("IncompletePrices", "the price list lacks a whole kind of instances")
        self._replace(on_demand={**metal, **shared})

    async def _products(self, tenancy: str, product_family: str) -> dict[str, float]:
        wanted = {
            "regionCode": self._options.region,
            "preInstalledSw": "NA",
            "operatingSystem": "Linux",
            "capacitystatus": "Used",
            "marketoption": "OnDemand",
            "tenancy": tenancy,
            "productFamily": product_family,
        }
        pages = await self._clients.pages(
            self._clients.pricing.get_products,
            ServiceCode="AmazonEC2",
            Filters=[
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in wanted.items()
            ],
            MaxResults=_PRODUCT_PAGE,
        )
        currency = "CNY" if self._options.partition == "aws-cn" else "USD"
        listed = (entry for page in pages for entry in page["PriceList"])
        return dict(parse_products(listed, currency))

    def _replace(
        self,
        spot: Mapping[tuple[str, str], float] | None = None,
        on_demand: Mapping[str, float] | None = None,
    ) -> None:
        new_spot = self._spot if spot is None else spot
        new_on_demand = self._on_demand if on_demand is None else on_demand
        if new_spot != self._spot or new_on_demand != self._on_demand:
            self._spot, self._on_demand = new_spot, new_on_demand
            self.version += 1


def parse_spot_prices(entries: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Return the newest price by (instance type, zone)."""
    newest: dict[tuple[str, str], tuple[str, float]] = {}
    for entry in entries:
        key = (entry["InstanceType"], entry["AvailabilityZone"])
        stamp = str(entry.get("Timestamp", ""))
        if key not in newest or stamp > newest[key][0]:
            newest[key] = (stamp, float(entry["SpotPrice"]))
    return {key: price for key, (_, price) in newest.items()}


def parse_products(entries: Iterable[str], currency: str) -> Iterator[tuple[str, float]]:
    """Yield (instance type, price per hour) of the entries that have a price above zero."""
    for text in entries:
        entry = json.loads(text)
        name = entry.get("product", {}).get("attributes", {}).get("instanceType")
        for term in entry.get("terms", {}).get("OnDemand", {}).values():
            for dimension in term.get("priceDimensions", {}).values():
                price = float(dimension.get("pricePerUnit", {}).get(currency, 0))
                if name and price > 0:
                    yield name, price
