"""What there is in an AWS account, kind by kind, so that one can prove that nothing is left.

A fresh account is not empty (a default VPC, service-linked roles), so leftovers are what is there
now and was not there before.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import boto3

Read = Callable[["Clients"], Iterable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The ids of everything, by kind."""

    ids: Mapping[str, frozenset[str]]

    def beyond(self, before: "Inventory") -> dict[str, frozenset[str]]:
        """Return what is here and was not there before; kinds without any are left out."""
        more = {kind: found - before.ids.get(kind, frozenset()) for kind, found in self.ids.items()}
        return {kind: found for kind, found in more.items() if found}


class Clients:
    """boto3 clients of one account and region."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Take endpoint, keys and region from an environment, not from this process's own."""
        self._session = boto3.Session(
            aws_access_key_id=environ["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
            region_name=environ["AWS_REGION"],
        )
        self._endpoint = environ["AWS_ENDPOINT_URL"]
        self._made: dict[str, Any] = {}

    def __getitem__(self, service: str) -> Any:
        if service not in self._made:
            make: Any = self._session.client  # its overloads know services by literal name only
            self._made[service] = make(service, endpoint_url=self._endpoint)
        return self._made[service]

    def pages(self, service: str, operation: str, key: str, **request: Any) -> Iterable[Any]:
        """Yield the items of every page."""
        for page in self[service].get_paginator(operation).paginate(**request):
            yield from page.get(key, ())


def take_inventory(clients: Clients) -> Inventory:
    """Ask AWS for everything that the stack or the controller could have made."""
    return Inventory(ids={kind: frozenset(read(clients)) for kind, read in KINDS.items()})


def _ec2(operation: str, key: str, name: str, **request: Any) -> Read:
    def read(clients: Clients) -> Iterable[str]:
        return [str(item[name]) for item in clients.pages("ec2", operation, key, **request)]

    return read


def _instances(clients: Clients) -> Iterable[str]:
    for reservation in clients.pages("ec2", "describe_instances", "Reservations"):
        for instance in reservation["Instances"]:
            if instance["State"]["Name"] != "terminated":
                yield instance["InstanceId"]


def _nat_gateways(clients: Clients) -> Iterable[str]:
    for gateway in clients.pages("ec2", "describe_nat_gateways", "NatGateways"):
        if gateway["State"] != "deleted":
            yield gateway["NatGatewayId"]


def _addresses(clients: Clients) -> Iterable[str]:
    return [item["AllocationId"] for item in clients["ec2"].describe_addresses()["Addresses"]]


def _policies(clients: Clients) -> Iterable[str]:
    found = clients.pages("iam", "list_policies", "Policies", Scope="Local")
    return [item["PolicyName"] for item in found]


def _queues(clients: Clients) -> Iterable[str]:
    found = clients.pages("sqs", "list_queues", "QueueUrls")
    return [str(url).rsplit("/", 1)[-1] for url in found]


def _rules(clients: Clients) -> Iterable[str]:
    return [item["Name"] for item in clients.pages("events", "list_rules", "Rules")]


def _log_groups(clients: Clients) -> Iterable[str]:
    found = clients.pages("logs", "describe_log_groups", "logGroups")
    return [item["logGroupName"] for item in found]


def _clusters(clients: Clients) -> Iterable[str]:
    return [str(name) for name in clients.pages("eks", "list_clusters", "clusters")]


def _iam(operation: str, key: str, name: str) -> Read:
    def read(clients: Clients) -> Iterable[str]:
        return [str(item[name]) for item in clients.pages("iam", operation, key)]

    return read


KINDS: Final[Mapping[str, Read]] = {
    "EC2 instances": _instances,
    "launch templates": _ec2("describe_launch_templates", "LaunchTemplates", "LaunchTemplateName"),
    "volumes": _ec2("describe_volumes", "Volumes", "VolumeId"),
    "network interfaces": _ec2(
        "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"
    ),
    "instance profiles": _iam("list_instance_profiles", "InstanceProfiles", "InstanceProfileName"),
    "roles": _iam("list_roles", "Roles", "RoleName"),
    "policies": _policies,
    "queues": _queues,
    "event rules": _rules,
    "EKS clusters": _clusters,
    "log groups": _log_groups,
    "NAT gateways": _nat_gateways,
    "Elastic IPs": _addresses,
    "security groups": _ec2("describe_security_groups", "SecurityGroups", "GroupId"),
    "subnets": _ec2("describe_subnets", "Subnets", "SubnetId"),
    "route tables": _ec2("describe_route_tables", "RouteTables", "RouteTableId"),
    "internet gateways": _ec2(
        "describe_internet_gateways", "InternetGateways", "InternetGatewayId"
    ),
    "VPC endpoints": _ec2("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    "VPCs": _ec2("describe_vpcs", "Vpcs", "VpcId"),
}
"""Kind, in plain words, to how its ids are read."""
