"""Elastic IP addresses and NAT gateways."""

from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, AwsError, tag_map
from nodewright_local.pulumi_aws.resources.ec2_base import Ec2Resource, first, tag_specifications
from nodewright_local.pulumi_aws.schema import Resource, output, regional, tagged, text
from nodewright_local.pulumi_aws.values import Values


class Eip(Ec2Resource):
    """`aws.ec2.Eip`; the id is the allocation id."""

    token = "aws:ec2/eip:Eip"
    properties = regional(
        tagged(
            {
                "domain": text(replaces=True, computed=True, choices=("vpc",)),
                "instance": text(computed=True),
                "networkInterface": text(computed=True),
                "networkBorderGroup": text(replaces=True, computed=True),
                "allocationId": output(),
                "arn": output(),
                "associationId": output(),
                "privateIp": output(),
                "publicDns": output(),
                "publicIp": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Allocate the address."""
        answer = aws.call(
            "ec2",
            "allocate_address",
            Domain="vpc",
            NetworkBorderGroup=inputs.get("networkBorderGroup"),
            TagSpecifications=tag_specifications("elastic-ip", inputs),
        )
        return str(answer["AllocationId"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Associate it when the program says with what."""
        if inputs.get("instance") or inputs.get("networkInterface"):
            aws.call(
                "ec2",
                "associate_address",
                AllocationId=ident,
                InstanceId=inputs.get("instance"),
                NetworkInterfaceId=inputs.get("networkInterface"),
            )

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the address."""
        address = first(aws.find("ec2", "describe_addresses", AllocationIds=[ident]), "Addresses")
        if address is None:
            return None
        host = address["PublicIp"].replace(".", "-")
        return {
            "domain": address.get("Domain", "vpc"),
            "instance": address.get("InstanceId") or "",
            "networkInterface": address.get("NetworkInterfaceId") or "",
            "networkBorderGroup": address.get("NetworkBorderGroup") or aws.region,
            "tagsAll": tag_map(address.get("Tags")),
            "allocationId": ident,
            "arn": aws.arn("ec2", f"elastic-ip/{ident}"),
            "associationId": address.get("AssociationId") or "",
            "privateIp": address.get("PrivateIpAddress") or "",
            "publicDns": f"ec2-{host}.{aws.region}.compute.amazonaws.com",
            "publicIp": address["PublicIp"],
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Move the association."""
        if old.get("associationId"):
            aws.find("ec2", "disassociate_address", AssociationId=old["associationId"])
        self.settle(aws, ident, new)

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Release it, patient while a NAT gateway lets go of it."""
        aws.persist(
            ("InvalidIPAddress.InUse", "AuthFailure"),
            lambda: aws.call("ec2", "release_address", AllocationId=ident),
            timeout_seconds=120,
        )


class NatGateway(Ec2Resource):
    """`aws.ec2.NatGateway`; the id is the gateway id."""

    token = "aws:ec2/natGateway:NatGateway"
    identity = ("allocationId",)
    properties = regional(
        tagged(
            {
                "subnetId": text(required=True, replaces=True),
                "allocationId": text(replaces=True),
                "connectivityType": text(
                    replaces=True, default="public", choices=("public", "private")
                ),
                "privateIp": text(replaces=True, computed=True),
                "associationId": output(),
                "networkInterfaceId": output(),
                "publicIp": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the gateway."""
        answer = aws.call(
            "ec2",
            "create_nat_gateway",
            SubnetId=inputs["subnetId"],
            AllocationId=inputs.get("allocationId"),
            ConnectivityType=inputs["connectivityType"],
            PrivateIpAddress=inputs.get("privateIp"),
            TagSpecifications=tag_specifications("natgateway", inputs),
        )
        return str(answer["NatGateway"]["NatGatewayId"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Wait until available; a failed gateway says why."""
        aws.wait(f"{ident} available", lambda: _nat_available(aws, ident))

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the gateway; a deleted one that EC2 still lists is gone."""
        gateway = _nat(aws, ident)
        if gateway is None or gateway.get("State") in ("deleting", "deleted"):
            return None
        address: dict[str, Any] = next(iter(gateway.get("NatGatewayAddresses") or []), {})
        return {
            "subnetId": gateway["SubnetId"],
            "allocationId": address.get("AllocationId"),
            "connectivityType": gateway.get("ConnectivityType", "public"),
            "privateIp": address.get("PrivateIp"),
            "tagsAll": tag_map(gateway.get("Tags")),
            "associationId": address.get("AssociationId"),
            "networkInterfaceId": address.get("NetworkInterfaceId"),
            "publicIp": address.get("PublicIp"),
        }

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete it and wait: until then its address and its subnet cannot go."""
        aws.call("ec2", "delete_nat_gateway", NatGatewayId=ident)
        aws.wait(
            f"{ident} deleted",
            lambda: (_nat(aws, ident) or {}).get("State", "deleted") == "deleted",
        )


def _nat(aws: Aws, ident: str) -> dict[str, Any] | None:
    return first(aws.find("ec2", "describe_nat_gateways", NatGatewayIds=[ident]), "NatGateways")


def _nat_available(aws: Aws, ident: str) -> bool:
    gateway = _nat(aws, ident) or {}
    if gateway.get("State") == "failed":
        raise AwsError(
            operation="ec2 CreateNatGateway",
            code=str(gateway.get("FailureCode", "Failed")),
            message=f"{ident}: {gateway.get('FailureMessage', 'no reason given')}",
        )
    return gateway.get("State") == "available"


RESOURCES: tuple[Resource, ...] = (Eip(), NatGateway())
