"""Prices as AWS tells them: the Pricing API's product list and the spot price history.

Pricing answers a list of JSON *strings*, one product each, in the shape of AWS's offer files.
"""

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from nodewright_local.aws.ec2 import catalogue
from nodewright_local.aws.ec2.filters import filters_of, matches
from nodewright_local.aws.ec2.paging import page
from nodewright_local.aws.ec2.prices import currency, on_demand_prices, price_date, spot_price
from nodewright_local.aws.ec2.xml import list_answer, list_items
from nodewright_local.aws.errors import AwsError, dry_run
from nodewright_local.aws.wire import Answer, Call

PRODUCTS_PER_PAGE = 100
SPOT_PRICES_PER_PAGE = 1000
_ON_DEMAND_TERM = "JRTCKXETXF"
_HOURLY_RATE = "6YS6EN2CT7"
_LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


def get_products(call: Call) -> dict[str, Any]:
    """Answer GetProducts for AmazonEC2: Linux on-demand prices, all filters of equal rank."""
    params = call.params
    if params.get("ServiceCode") != "AmazonEC2":
        raise AwsError(
            "NotFoundException",
            f"The laptop's price list knows AmazonEC2, not {params.get('ServiceCode')!r}",
        )
    wanted = {item["Field"]: item["Value"] for item in params.get("Filters") or ()}
    regions = [wanted["regionCode"]] if "regionCode" in wanted else [call.region]
    found = [
        text
        for region in regions
        for attributes, text in _products(region)
        if all(attributes.get(field) == value for field, value in wanted.items())
    ]
    chosen, token = page(found, params, limit=PRODUCTS_PER_PAGE)
    return {"FormatVersion": "aws_v1", "PriceList": list(chosen), "NextToken": token}


@functools.cache
def _products(region: str) -> tuple[tuple[Mapping[str, str], str], ...]:
    return tuple(_each_product(region))


def _each_product(region: str) -> Iterator[tuple[Mapping[str, str], str]]:
    offered = catalogue.zones_by_type(region)
    for name, price in sorted(on_demand_prices(region).items()):
        if name not in offered:
            continue
        attributes = _attributes(region, name)
        yield attributes, json.dumps(_product(region, name, price, attributes))


def _attributes(region: str, name: str) -> dict[str, str]:
    described = catalogue.instance_type(name) or {}
    metal = bool(described.get("BareMetal"))
    return {
        "productFamily": "Compute Instance (bare metal)" if metal else "Compute Instance",
        "ServiceCode": "AmazonEC2",
        "servicecode": "AmazonEC2",
        "servicename": "Amazon Elastic Compute Cloud",
        "regionCode": region,
        "locationType": "AWS Region",
        "instanceType": name,
        "instanceFamily": "General purpose",
        "currentGeneration": "Yes" if described.get("CurrentGeneration") else "No",
        "vcpu": str(described.get("VCpuInfo", {}).get("DefaultVCpus", "")),
        "memory": f"{described.get('MemoryInfo', {}).get('SizeInMiB', 0) / 1024:g} GiB",
        "operatingSystem": "Linux",
        "licenseModel": "No License required",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "tenancy": "Dedicated" if metal else "Shared",
        "marketoption": "OnDemand",
        "operation": "RunInstances",
        "usagetype": f"BoxUsage:{name}",
    }


def _product(region: str, name: str, price: float, attributes: Mapping[str, str]) -> dict[str, Any]:
    sku = hashlib.sha256(f"{region}/{name}".encode()).hexdigest()[:16].upper()
    term = f"{sku}.{_ON_DEMAND_TERM}"
    rate = f"{term}.{_HOURLY_RATE}"
    hidden = ("productFamily", "ServiceCode")
    dimension = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${price:g} per On Demand Linux {name} Instance Hour",
        "appliesTo": [],
        "rateCode": rate,
        "pricePerUnit": {currency(region): f"{price:.10f}"},
    }
    return {
        "product": {
            "productFamily": attributes["productFamily"],
            "attributes": {key: text for key, text in attributes.items() if key not in hidden},
            "sku": sku,
        },
        "serviceCode": "AmazonEC2",
        "terms": {
            "OnDemand": {
                term: {
                    "priceDimensions": {rate: dimension},
                    "sku": sku,
                    "effectiveDate": f"{price_date()}T00:00:00Z",
                    "offerTermCode": _ON_DEMAND_TERM,
                    "termAttributes": {},
                }
            }
        },
        "version": price_date().replace("-", ""),
        "publicationDate": f"{price_date()}T00:00:00Z",
    }


def describe_spot_price_history(call: Call) -> Answer:
    """Answer DescribeSpotPriceHistory: the current price of every Linux pool that has one.

    Both Linux product descriptions lead to the same records, as in an account without EC2-Classic.
    """
    params = call.params
    if params.get("DryRun"):
        raise dry_run()
    rows = list(_spot_rows(call.region, params))
    limit = max(SPOT_PRICES_PER_PAGE, int(params.get("MaxResults") or 0))
    chosen, token = page(rows, params, limit=limit)
    return list_answer("DescribeSpotPriceHistory", "spotPriceHistorySet", list_items(chosen), token)


def _spot_rows(region: str, params: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    filters = filters_of(params)
    by_filter = filters.pop("product-description", list(_LINUX))
    descriptions: list[str] = params.get("ProductDescriptions") or by_filter
    if not set(descriptions) & set(_LINUX):
        return
    types = set(params.get("InstanceTypes") or ())
    zone_wanted = params.get("AvailabilityZone")
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    timestamp = now.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    for name, zones in catalogue.zones_by_type(region).items():
        if (types and name not in types) or "spot" not in catalogue.usage_classes(name):
            continue
        for zone in zones:
            attributes = {"instance-type": name, "availability-zone": zone}
            if zone_wanted not in (None, zone) or not matches(filters, attributes):
                continue
            price = spot_price(region, zone, name)
            if price is not None:
                yield {
                    "instanceType": name,
                    "productDescription": _LINUX[0],
                    "spotPrice": f"{price:.6f}",
                    "timestamp": timestamp,
                    "availabilityZone": zone,
                }
