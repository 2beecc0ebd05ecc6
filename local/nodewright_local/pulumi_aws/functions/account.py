"""Where we are: partition, account, region, zones."""

from collections.abc import Mapping
from typing import ClassVar

from botocore.loaders import Loader
from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, AwsError
from nodewright_local.pulumi_aws.functions.base import Function, Result
from nodewright_local.pulumi_aws.schema import Property, flag, records, text, texts
from nodewright_local.pulumi_aws.values import Values

_DNS_SUFFIX = {"aws-cn": "amazonaws.com.cn"}
_REGION = {"region": text()}


class GetPartition(Function):
    """`aws.get_partition`."""

    token = "aws:index/getPartition:getPartition"
    inputs: ClassVar[Mapping[str, Property]] = {"id": text()}

    @override
    def call(self, aws: Aws, args: Values) -> Result:
        """Return the partition of the provider's region."""
        suffix = _dns_suffix(aws)
        return Result(
            values={
                "id": aws.partition,
                "partition": aws.partition,
                "dnsSuffix": suffix,
                "reverseDnsPrefix": ".".join(reversed(suffix.split("."))),
            }
        )


class GetCallerIdentity(Function):
    """`aws.get_caller_identity`."""

    token = "aws:index/getCallerIdentity:getCallerIdentity"
    inputs: ClassVar[Mapping[str, Property]] = {"id": text()}

    @override
    def call(self, aws: Aws, args: Values) -> Result:
        """Ask STS who we are."""
        answer = aws.call("sts", "get_caller_identity")
        return Result(
            values={
                "id": answer["Account"],
                "accountId": answer["Account"],
                "arn": answer["Arn"],
                "userId": answer["UserId"],
            }
        )


class GetRegion(Function):
    """`aws.get_region`."""

    token = "aws:index/getRegion:getRegion"
    inputs: ClassVar[Mapping[str, Property]] = {
        "id": text(),
        "endpoint": text(),
        "name": text(),
        **_REGION,
    }

    @override
    def call(self, aws: Aws, args: Values) -> Result:
        """Return the region asked for, else the provider's."""
        region = args.get("region") or args.get("name") or aws.region
        data = Loader().load_data("endpoints")
        known = {
            name: str(entry.get("description", name))
            for partition in data["partitions"]
            for name, entry in partition["regions"].items()
        }
        if region not in known:
            raise AwsError(
                operation=self.token, code="UnknownRegion", message=f"{region!r} is no AWS region"
            )
        return Result(
            values={
                "id": region,
                "name": region,
                "region": region,
                "description": known[region],
                "endpoint": f"ec2.{region}.{_dns_suffix(aws)}",
            }
        )


class GetAvailabilityZones(Function):
    """`aws.get_availability_zones`."""

    token = "aws:index/getAvailabilityZones:getAvailabilityZones"
    inputs: ClassVar[Mapping[str, Property]] = {
        "allAvailabilityZones": flag(),
        "excludeNames": texts(),
        "excludeZoneIds": texts(),
        "filters": records({"name": text(required=True), "values": texts(required=True)}),
        "state": text(choices=("available", "information", "impaired", "unavailable")),
        **_REGION,
    }

    @override
    def call(self, aws: Aws, args: Values) -> Result:
        """List the zones, sorted by name; the zone ids are in the same order."""
        filters = [
            {"Name": item["name"], "Values": item["values"]} for item in args.get("filters") or []
        ]
        if args.get("state"):
            filters.append({"Name": "state", "Values": [args["state"]]})
        answer = aws.call(
            "ec2",
            "describe_availability_zones",
            Filters=filters or None,
            AllAvailabilityZones=args.get("allAvailabilityZones") or None,
        )
        excluded = {*(args.get("excludeNames") or []), *(args.get("excludeZoneIds") or [])}
        zones = sorted(
            (
                zone
                for zone in answer["AvailabilityZones"]
                if excluded.isdisjoint({zone["ZoneName"], zone.get("ZoneId")})
            ),
            key=lambda zone: str(zone["ZoneName"]),
        )
        return Result(
            values={
                **args,
                "id": aws.region,
                "region": aws.region,
                "names": [zone["ZoneName"] for zone in zones],
                "zoneIds": [zone.get("ZoneId") for zone in zones],
                "groupNames": sorted({zone.get("GroupName") or aws.region for zone in zones}),
            }
        )


def _dns_suffix(aws: Aws) -> str:
    return _DNS_SUFFIX.get(aws.partition, "amazonaws.com")


FUNCTIONS: tuple[Function, ...] = (
    GetPartition(),
    GetCallerIdentity(),
    GetRegion(),
    GetAvailabilityZones(),
)
