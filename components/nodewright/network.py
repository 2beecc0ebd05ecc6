"""Network: the VPC in which a cluster and its nodes live."""

from collections.abc import Iterable, Sequence
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from nodewright import subnets
from nodewright.ordering import after
from nodewright.subnets import SubnetPlan, SubnetPlanError, plan_subnets
from nodewright.validation import Check, check_cluster_name

DISCOVERY_TAG = "karpenter.sh/discovery"
DEFAULT_CIDR = "10.0.0.0/16"
DEFAULT_ZONE_COUNT = 3
NAT_MODES = ("single", "per-zone", "none")
GATEWAY_SERVICES = ("s3", "dynamodb")


class NetworkArgs(TypedDict):
    """Arguments of Network."""

    cluster_name: str
    """Cluster that will use this network; its private subnets carry `karpenter.sh/discovery` with
    this value."""
    cidr_block: NotRequired[str]
    """IPv4 range of the VPC, from /16 to /23. Default `10.0.0.0/16`."""
    zones: NotRequired[Sequence[str]]
    """Availability zones by name. Append new ones at the end: the order decides the ranges."""
    zone_count: NotRequired[int]
    """How many zones to take, in alphabetical order, when `zones` is not given. Default 3."""
    nat: NotRequired[str]
    """How private subnets reach the internet: `single` (one NAT gateway, the default), `per-zone`
    (one in each zone, so that losing a zone cuts off no other) or `none`."""
    vpc_endpoints: NotRequired[Sequence[str]]
    """AWS services to reach without the internet, by short name. A cluster without NAT needs `s3`,
    `ecr.api`, `ecr.dkr`, `sts`, `ec2`, `sqs`, `ssm`, `eks` and `eks-auth`."""


class Network(pulumi.ComponentResource):
    """A VPC with a public and a private subnet in each zone, tagged for balancers and nodes."""

    vpc_id: pulumi.Output[str]
    """Id of the VPC."""
    cidr_block: pulumi.Output[str]
    """IPv4 range of the VPC."""
    zones: pulumi.Output[Sequence[str]]
    """Zones in use, in the order of the subnets."""
    public_subnet_ids: pulumi.Output[Sequence[str]]
    """Public subnets, one per zone; whoever uses them waits for their route to the internet."""
    private_subnet_ids: pulumi.Output[Sequence[str]]
    """Private subnets, one per zone; whoever uses them waits for their routes and endpoints."""
    nat_public_ips: pulumi.Output[Sequence[str]]
    """Addresses from which traffic of private subnets reaches the internet; empty without NAT."""

    def __init__(
        self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check = _check(name, args)
        super().__init__("nodewright:index:Network", name, None, opts)
        self._name = name
        self._child = pulumi.ResourceOptions(parent=self)
        cluster_name = args["cluster_name"]
        cidr_block = args.get("cidr_block", DEFAULT_CIDR)
        zones = self._zones(check, args)
        plans = plan_subnets(cidr_block, zones)

        self._vpc = aws.ec2.Vpc(
            f"{name}-vpc",
            cidr_block=cidr_block,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags={"Name": cluster_name},
            opts=self._child,
        )
        made = {(plan.public, plan.zone): self._subnet(plan, cluster_name) for plan in plans}
        public = {zone: made[True, zone] for zone in zones}
        private = {zone: made[False, zone] for zone in zones}
        public_routes, public_table = self._route_public(public)
        gateways, addresses = self._nat_gateways(args.get("nat", "single"), public, public_routes)
        private_routes, private_tables = self._route_private(private, gateways)
        endpoints = self._endpoints(
            args.get("vpc_endpoints", []), private, [public_table, *private_tables]
        )

        self.vpc_id = self._vpc.id
        self.cidr_block = self._vpc.cidr_block
        self.zones = pulumi.Output.from_input(list(zones))
        self.public_subnet_ids = _ids(public.values(), public_routes)
        self.private_subnet_ids = _ids(private.values(), [*private_routes, *endpoints])
        self.nat_public_ips = pulumi.Output.all(*(eip.public_ip for eip in addresses))
        self.register_outputs(
            {
                "vpcId": self.vpc_id,
                "cidrBlock": self.cidr_block,
                "zones": self.zones,
                "publicSubnetIds": self.public_subnet_ids,
                "privateSubnetIds": self.private_subnet_ids,
                "natPublicIps": self.nat_public_ips,
            }
        )

    def _zones(self, check: Check, args: NetworkArgs) -> tuple[str, ...]:
        given = args.get("zones")
        if given:
            return tuple(given)
        wanted = int(args.get("zone_count", DEFAULT_ZONE_COUNT))
        invoke = pulumi.InvokeOptions(parent=self)
        found = aws.get_availability_zones(state="available", opts=invoke)
        region = aws.get_region(opts=invoke).region
        usable = subnets.usable_zones(region, found.names, found.zone_ids)
        if len(usable) < wanted:
            raise check.refuse(
                "zone_count",
                f"is {wanted} but {region} offers {len(usable)}: {', '.join(usable) or 'none'}",
                "ask for fewer zones or name them in zones",
            )
        return usable[:wanted]

    def _subnet(self, plan: SubnetPlan, cluster_name: str) -> aws.ec2.Subnet:
        kind = "public" if plan.public else "private"
        role = (
            {"kubernetes.io/role/elb": "1"}
            if plan.public
            else {"kubernetes.io/role/internal-elb": "1", DISCOVERY_TAG: cluster_name}
        )
        return aws.ec2.Subnet(
            f"{self._name}-{kind}-{plan.zone}",
            vpc_id=self._vpc.id,
            availability_zone=plan.zone,
            cidr_block=plan.cidr_block,
            map_public_ip_on_launch=False,
            tags={"Name": f"{cluster_name}-{kind}-{plan.zone}", **role},
            opts=self._child,
        )

    def _route_public(
        self, public: dict[str, aws.ec2.Subnet]
    ) -> tuple[list[pulumi.Resource], aws.ec2.RouteTable]:
        gateway = aws.ec2.InternetGateway(
            f"{self._name}-internet", vpc_id=self._vpc.id, opts=self._child
        )
        table = aws.ec2.RouteTable(f"{self._name}-public", vpc_id=self._vpc.id, opts=self._child)
        route = aws.ec2.Route(
            f"{self._name}-public-internet",
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.id,
            opts=self._child,
        )
        joins = [self._join("public", zone, subnet, table) for zone, subnet in public.items()]
        return [route, *joins], table

    def _nat_gateways(
        self, mode: str, public: dict[str, aws.ec2.Subnet], routes: list[pulumi.Resource]
    ) -> tuple[dict[str, aws.ec2.NatGateway], list[aws.ec2.Eip]]:
        """Make the gateways, and say which one each zone uses."""
        zones = list(public)
        homes = {"none": [], "single": zones[:1], "per-zone": zones}[mode]
        addresses: list[aws.ec2.Eip] = []
        gateways: dict[str, aws.ec2.NatGateway] = {}
        for zone in homes:
            address = aws.ec2.Eip(f"{self._name}-nat-{zone}", domain="vpc", opts=self._child)
            addresses.append(address)
            gateways[zone] = aws.ec2.NatGateway(
                f"{self._name}-nat-{zone}",
                subnet_id=public[zone].id,
                allocation_id=address.id,
                # A gateway without a way out fails; the order also holds when destroying.
                opts=pulumi.ResourceOptions(parent=self, depends_on=routes),
            )
        if mode == "single":
            return dict.fromkeys(zones, gateways[zones[0]]), addresses
        return gateways, addresses

    def _route_private(
        self, private: dict[str, aws.ec2.Subnet], gateways: dict[str, aws.ec2.NatGateway]
    ) -> tuple[list[pulumi.Resource], list[aws.ec2.RouteTable]]:
        # One table per zone even with a single gateway, so that going to one gateway per zone
        # later changes a route and moves no subnet.
        waits: list[pulumi.Resource] = []
        tables: list[aws.ec2.RouteTable] = []
        for zone, subnet in private.items():
            table = aws.ec2.RouteTable(
                f"{self._name}-private-{zone}", vpc_id=self._vpc.id, opts=self._child
            )
            tables.append(table)
            waits.append(self._join("private", zone, subnet, table))
            if zone in gateways:
                waits.append(
                    aws.ec2.Route(
                        f"{self._name}-private-{zone}-internet",
                        route_table_id=table.id,
                        destination_cidr_block="0.0.0.0/0",
                        nat_gateway_id=gateways[zone].id,
                        opts=self._child,
                    )
                )
        return waits, tables

    def _join(
        self, kind: str, zone: str, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable
    ) -> aws.ec2.RouteTableAssociation:
        return aws.ec2.RouteTableAssociation(
            f"{self._name}-{kind}-{zone}",
            subnet_id=subnet.id,
            route_table_id=table.id,
            opts=self._child,
        )

    def _endpoints(
        self,
        services: Sequence[str],
        private: dict[str, aws.ec2.Subnet],
        tables: list[aws.ec2.RouteTable],
    ) -> list[pulumi.Resource]:
        if not services:
            return []
        region = aws.get_region(opts=pulumi.InvokeOptions(parent=self)).region
        interfaces = [service for service in services if service not in GATEWAY_SERVICES]
        group_ids = [self._endpoint_group().id] if interfaces else []
        made: list[pulumi.Resource] = []
        for service in services:
            gateway = service in GATEWAY_SERVICES
            made.append(
                aws.ec2.VpcEndpoint(
                    f"{self._name}-{service.replace('.', '-')}",
                    vpc_id=self._vpc.id,
                    service_name=f"com.amazonaws.{region}.{service}",
                    vpc_endpoint_type="Gateway" if gateway else "Interface",
                    route_table_ids=[table.id for table in tables] if gateway else None,
                    subnet_ids=None if gateway else [subnet.id for subnet in private.values()],
                    security_group_ids=None if gateway else group_ids,
                    private_dns_enabled=None if gateway else True,
                    opts=self._child,
                )
            )
        return made

    def _endpoint_group(self) -> aws.ec2.SecurityGroup:
        group = aws.ec2.SecurityGroup(
            f"{self._name}-endpoints",
            description="AWS services reached from inside the VPC",
            vpc_id=self._vpc.id,
            opts=self._child,
        )
        aws.vpc.SecurityGroupIngressRule(
            f"{self._name}-endpoints-https",
            security_group_id=group.id,
            description="HTTPS from the VPC",
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            cidr_ipv4=self._vpc.cidr_block,
            opts=self._child,
        )
        return group


def _ids(
    made: Iterable[aws.ec2.Subnet], waits: Sequence[pulumi.Resource]
) -> pulumi.Output[Sequence[str]]:
    return after(pulumi.Output.all(*(subnet.id for subnet in made)), waits)


def _check(name: str, args: NetworkArgs) -> Check:
    check = Check("Network", name)
    check.known_fields(args, NetworkArgs)
    check.required(args, ["cluster_name"])
    check_cluster_name(check, args["cluster_name"])
    check.one_of("nat", args.get("nat"), NAT_MODES)
    zones = args.get("zones")
    count = args.get("zone_count", DEFAULT_ZONE_COUNT)
    if zones is not None and "zone_count" in args:
        raise check.refuse("zone_count", "is given beside zones", "keep one of the two")
    check.between("zone_count", count, 1, subnets.MOST_ZONES)
    check.unique("vpc_endpoints", args.get("vpc_endpoints", []))
    try:
        stand_ins = [f"zone-{number}" for number in range(int(count))]
        plan_subnets(args.get("cidr_block", DEFAULT_CIDR), stand_ins if zones is None else zones)
    except SubnetPlanError as error:
        raise check.refuse(error.about, error.problem, error.remedy) from error
    return check
