"""Route tables, their routes, and which subnet uses which table."""

import zlib
from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, AwsError, tag_map
from nodewright_local.pulumi_aws.resources.ec2_base import Ec2Resource, first, tag_specifications
from nodewright_local.pulumi_aws.schema import (
    Resource,
    output,
    records,
    regional,
    tagged,
    text,
)
from nodewright_local.pulumi_aws.values import Values

_DESTINATIONS = {
    "destinationCidrBlock": "DestinationCidrBlock",
    "destinationIpv6CidrBlock": "DestinationIpv6CidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
}
_TARGETS = {
    "gatewayId": "GatewayId",
    "natGatewayId": "NatGatewayId",
    "egressOnlyGatewayId": "EgressOnlyInternetGatewayId",
    "networkInterfaceId": "NetworkInterfaceId",
    "transitGatewayId": "TransitGatewayId",
    "vpcEndpointId": "VpcEndpointId",
    "vpcPeeringConnectionId": "VpcPeeringConnectionId",
}
_INLINE_DESTINATIONS = {
    "cidrBlock": "DestinationCidrBlock",
    "ipv6CidrBlock": "DestinationIpv6CidrBlock",
    "destinationPrefixListId": "DestinationPrefixListId",
}


class RouteTable(Ec2Resource):
    """`aws.ec2.RouteTable`; the id is the route table id."""

    token = "aws:ec2/routeTable:RouteTable"
    properties = regional(
        tagged(
            {
                "vpcId": text(required=True, replaces=True),
                "routes": records(
                    {name: text() for name in (*_INLINE_DESTINATIONS, *_TARGETS)}, computed=True
                ),
                "arn": output(),
                "ownerId": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the table."""
        answer = aws.call(
            "ec2",
            "create_route_table",
            VpcId=inputs["vpcId"],
            TagSpecifications=tag_specifications("route-table", inputs),
        )
        return str(answer["RouteTable"]["RouteTableId"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Add the inline routes."""
        for route in inputs.get("routes") or []:
            aws.call("ec2", "create_route", RouteTableId=ident, **_inline(route))

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the table with every route that somebody created."""
        table = _table(aws, ident)
        if table is None:
            return None
        return {
            "vpcId": table["VpcId"],
            "routes": [_inline_route(route) for route in _created(table)],
            "tagsAll": tag_map(table.get("Tags")),
            "arn": aws.arn("ec2", f"route-table/{ident}"),
            "ownerId": table.get("OwnerId") or aws.account_id,
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Remove and add inline routes."""
        before, after = old.get("routes") or [], new.get("routes") or []
        for route in before:
            if route not in after:
                where = {k: v for k, v in _inline(route).items() if k.startswith("Destination")}
                aws.find("ec2", "delete_route", RouteTableId=ident, **where)
        for route in after:
            if route not in before:
                aws.call("ec2", "create_route", RouteTableId=ident, **_inline(route))

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Undo its associations and delete it."""
        table = _table(aws, ident)
        for association in (table or {}).get("Associations") or []:
            if not association.get("Main"):
                aws.find(
                    "ec2",
                    "disassociate_route_table",
                    AssociationId=association["RouteTableAssociationId"],
                )
        aws.persist(
            ("DependencyViolation",),
            lambda: aws.call("ec2", "delete_route_table", RouteTableId=ident),
        )


class Route(Resource):
    """`aws.ec2.Route`; the id is made of the table and the destination, as AWS has none."""

    token = "aws:ec2/route:Route"
    identity = ("routeTableId", *_DESTINATIONS)
    properties = regional(
        {
            "routeTableId": text(required=True, replaces=True),
            **{name: text(replaces=True) for name in _DESTINATIONS},
            **{name: text() for name in _TARGETS},
            "instanceId": output(),
            "instanceOwnerId": output(),
            "origin": output(),
            "state": output(),
        }
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the route, patient while a new gateway is not known everywhere yet."""
        table, request = inputs["routeTableId"], _route_request(inputs)
        aws.persist(
            ("InvalidNatGatewayID.NotFound", "InvalidGatewayID.NotFound"),
            lambda: aws.call("ec2", "create_route", RouteTableId=table, **request),
            timeout_seconds=30,
        )
        return _route_id(table, _destination(inputs))

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Find the route in its table by its destination."""
        table = _table(aws, known["routeTableId"])
        wanted = _destination(known)
        for route in (table or {}).get("Routes") or []:
            if wanted in (route.get(key) for key in _DESTINATIONS.values()):
                return {
                    "routeTableId": known["routeTableId"],
                    **{name: route.get(key) for name, key in _DESTINATIONS.items()},
                    **{name: route.get(key) for name, key in _TARGETS.items()},
                    "instanceId": route.get("InstanceId", ""),
                    "instanceOwnerId": route.get("InstanceOwnerId", ""),
                    "origin": route.get("Origin"),
                    "state": route.get("State"),
                }
        return None

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Point the destination at another target."""
        aws.call("ec2", "replace_route", RouteTableId=new["routeTableId"], **_route_request(new))

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete the route."""
        where = {
            key: state[name] for name, key in _DESTINATIONS.items() if state.get(name) is not None
        }
        aws.call("ec2", "delete_route", RouteTableId=state["routeTableId"], **where)

    @override
    def import_parts(self, aws: Aws, ident: str) -> tuple[str, Values]:
        """Take `ROUTETABLEID_DESTINATION`."""
        table, separator, destination = ident.partition("_")
        if not separator:
            raise AwsError(
                operation=f"import {self.token}",
                code="InvalidId",
                message=f"{ident!r} is not ROUTETABLEID_DESTINATION (rtb-1234_10.0.0.0/16)",
            )
        kind = "destinationCidrBlock"
        if destination.startswith("pl-"):
            kind = "destinationPrefixListId"
        elif ":" in destination:
            kind = "destinationIpv6CidrBlock"
        return _route_id(table, destination), {"routeTableId": table, kind: destination}


class RouteTableAssociation(Resource):
    """`aws.ec2.RouteTableAssociation`; the id is the association id of its creation.

    EC2 gives a new id when another table takes over, Pulumi keeps the old one; so the subnet in the
    state leads to the association when the id does not.
    """

    token = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    identity = ("subnetId", "gatewayId")
    properties = regional(
        {
            "routeTableId": text(required=True),
            "subnetId": text(replaces=True),
            "gatewayId": text(replaces=True),
        }
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Associate the table."""
        answer = aws.call(
            "ec2",
            "associate_route_table",
            RouteTableId=inputs["routeTableId"],
            SubnetId=inputs.get("subnetId"),
            GatewayId=inputs.get("gatewayId"),
        )
        return str(answer["AssociationId"])

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Find the association by id, else by its subnet or gateway."""
        association = self._find(aws, ident, known)
        if association is None:
            return None
        return {
            "routeTableId": association["RouteTableId"],
            "subnetId": association.get("SubnetId"),
            "gatewayId": association.get("GatewayId"),
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Let another table take over without a moment without one."""
        association = self._find(aws, ident, old)
        if association is None:
            raise AwsError(
                operation=f"update {self.token}",
                code="InvalidAssociationID.NotFound",
                message=f"{ident} does not exist any more; run a refresh",
            )
        aws.call(
            "ec2",
            "replace_route_table_association",
            AssociationId=association["RouteTableAssociationId"],
            RouteTableId=new["routeTableId"],
        )

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Undo the association."""
        association = self._find(aws, ident, state)
        if association is not None:
            aws.call(
                "ec2",
                "disassociate_route_table",
                AssociationId=association["RouteTableAssociationId"],
            )

    @override
    def import_parts(self, aws: Aws, ident: str) -> tuple[str, Values]:
        """Take `SUBNETID/ROUTETABLEID` or `GATEWAYID/ROUTETABLEID`."""
        target, separator, table = ident.partition("/")
        if not separator:
            return ident, {}
        kind = "subnetId" if target.startswith("subnet-") else "gatewayId"
        known = {kind: target, "routeTableId": table}
        association = self._find(aws, ident, known)
        return (association or {}).get("RouteTableAssociationId", ident), known

    def _find(self, aws: Aws, ident: str, known: Values) -> dict[str, Any] | None:
        filters = [
            ("association.route-table-association-id", ident),
            ("association.subnet-id", known.get("subnetId")),
            ("association.gateway-id", known.get("gatewayId")),
        ]
        for name, value in filters:
            if not value:
                continue
            tables = aws.call(
                "ec2", "describe_route_tables", Filters=[{"Name": name, "Values": [value]}]
            ).get("RouteTables", [])
            for association in (item for table in tables for item in table["Associations"]):
                if value in (
                    association.get("RouteTableAssociationId"),
                    association.get("SubnetId"),
                    association.get("GatewayId"),
                ):
                    return dict(association)
        return None


def _table(aws: Aws, ident: str) -> dict[str, Any] | None:
    return first(aws.find("ec2", "describe_route_tables", RouteTableIds=[ident]), "RouteTables")


def _created(table: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        route
        for route in table.get("Routes") or []
        if route.get("GatewayId") != "local" and route.get("Origin", "CreateRoute") == "CreateRoute"
    ]


def _inline(route: Values) -> dict[str, Any]:
    names = {**_INLINE_DESTINATIONS, **_TARGETS}
    return {names[name]: value for name, value in route.items() if value}


def _inline_route(route: dict[str, Any]) -> Values:
    names = {**_INLINE_DESTINATIONS, **_TARGETS}
    return {name: route[key] for name, key in names.items() if route.get(key)}


def _route_request(inputs: Values) -> dict[str, Any]:
    names = {**_DESTINATIONS, **_TARGETS}
    return {names[name]: value for name, value in inputs.items() if name in names and value}


def _destination(values: Values) -> str:
    for name in _DESTINATIONS:
        if values.get(name):
            return str(values[name])
    raise AwsError(
        operation="aws:ec2/route:Route",
        code="MissingDestination",
        message=f"a route needs one of {', '.join(_DESTINATIONS)}",
    )


def _route_id(table: str, destination: str) -> str:
    return f"r-{table}{zlib.crc32(destination.encode())}"


RESOURCES: tuple[Resource, ...] = (RouteTable(), Route(), RouteTableAssociation())
