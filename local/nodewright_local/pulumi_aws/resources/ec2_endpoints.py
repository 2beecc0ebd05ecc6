"""VPC endpoints, of the gateway and of the interface kind."""

from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, AwsError, tag_map
from nodewright_local.pulumi_aws.resources.ec2_base import Ec2Resource, first, tag_specifications
from nodewright_local.pulumi_aws.schema import (
    Resource,
    Shape,
    flag,
    output,
    policy,
    regional,
    tagged,
    text,
    texts,
)
from nodewright_local.pulumi_aws.values import Values

_MEMBERS = {
    "routeTableIds": ("AddRouteTableIds", "RemoveRouteTableIds"),
    "subnetIds": ("AddSubnetIds", "RemoveSubnetIds"),
    "securityGroupIds": ("AddSecurityGroupIds", "RemoveSecurityGroupIds"),
}


class VpcEndpoint(Ec2Resource):
    """`aws.ec2.VpcEndpoint`; the id is the endpoint id."""

    token = "aws:ec2/vpcEndpoint:VpcEndpoint"
    properties = regional(
        tagged(
            {
                "vpcId": text(required=True, replaces=True),
                "serviceName": text(required=True, replaces=True),
                "vpcEndpointType": text(
                    replaces=True, default="Gateway", choices=("Gateway", "Interface")
                ),
                "routeTableIds": texts(computed=True),
                "subnetIds": texts(computed=True),
                "securityGroupIds": texts(computed=True),
                "privateDnsEnabled": flag(computed=True),
                "policy": policy(computed=True),
                "arn": output(),
                "dnsEntries": output(Shape.LIST),
                "networkInterfaceIds": output(Shape.LIST),
                "ownerId": output(),
                "prefixListId": output(),
                "requesterManaged": output(Shape.FLAG),
                "state": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the endpoint."""
        answer = aws.call(
            "ec2",
            "create_vpc_endpoint",
            VpcId=inputs["vpcId"],
            ServiceName=inputs["serviceName"],
            VpcEndpointType=inputs["vpcEndpointType"],
            RouteTableIds=inputs.get("routeTableIds"),
            SubnetIds=inputs.get("subnetIds"),
            SecurityGroupIds=inputs.get("securityGroupIds"),
            PrivateDnsEnabled=inputs.get("privateDnsEnabled"),
            PolicyDocument=inputs.get("policy"),
            TagSpecifications=tag_specifications("vpc-endpoint", inputs),
        )
        return str(answer["VpcEndpoint"]["VpcEndpointId"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Wait until available."""
        aws.wait(f"{ident} available", lambda: _available(aws, ident))

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the endpoint; a deleted one that EC2 still lists is gone."""
        endpoint = _endpoint(aws, ident)
        if endpoint is None or str(endpoint.get("State")).lower() in ("deleting", "deleted"):
            return None
        return {
            "vpcId": endpoint["VpcId"],
            "serviceName": endpoint["ServiceName"],
            "vpcEndpointType": endpoint.get("VpcEndpointType", "Gateway"),
            "routeTableIds": endpoint.get("RouteTableIds") or [],
            "subnetIds": endpoint.get("SubnetIds") or [],
            "securityGroupIds": [item["GroupId"] for item in endpoint.get("Groups") or []],
            "privateDnsEnabled": bool(endpoint.get("PrivateDnsEnabled")),
            "policy": endpoint.get("PolicyDocument"),
            "tagsAll": tag_map(endpoint.get("Tags")),
            "arn": aws.arn("ec2", f"vpc-endpoint/{ident}"),
            "dnsEntries": [
                {"dnsName": item.get("DnsName"), "hostedZoneId": item.get("HostedZoneId")}
                for item in endpoint.get("DnsEntries") or []
            ],
            "networkInterfaceIds": endpoint.get("NetworkInterfaceIds") or [],
            "ownerId": endpoint.get("OwnerId") or aws.account_id,
            "prefixListId": _prefix_list(aws, endpoint["ServiceName"]),
            "requesterManaged": bool(endpoint.get("RequesterManaged")),
            "state": endpoint.get("State"),
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Add and remove members, set the policy and private DNS."""
        request: dict[str, Any] = {}
        for name in changed & set(_MEMBERS):
            add, remove = _MEMBERS[name]
            before, after = set(old.get(name) or []), set(new.get(name) or [])
            request[add] = sorted(after - before) or None
            request[remove] = sorted(before - after) or None
        if "policy" in changed:
            request["PolicyDocument"] = new.get("policy")
        if "privateDnsEnabled" in changed:
            request["PrivateDnsEnabled"] = new.get("privateDnsEnabled")
        aws.call("ec2", "modify_vpc_endpoint", VpcEndpointId=ident, **request)

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete it and wait until its interfaces are gone."""
        answer = aws.call("ec2", "delete_vpc_endpoints", VpcEndpointIds=[ident])
        for failed in answer.get("Unsuccessful") or []:
            detail = failed.get("Error") or {}
            raise AwsError(
                operation="ec2 DeleteVpcEndpoints",
                code=str(detail.get("Code")),
                message=str(detail.get("Message")),
            )
        aws.wait(f"{ident} deleted", lambda: self.read(aws, ident, state) is None)


def _endpoint(aws: Aws, ident: str) -> dict[str, Any] | None:
    return first(aws.find("ec2", "describe_vpc_endpoints", VpcEndpointIds=[ident]), "VpcEndpoints")


def _available(aws: Aws, ident: str) -> bool:
    state = str((_endpoint(aws, ident) or {}).get("State")).lower()
    if state in ("failed", "rejected"):
        raise AwsError(operation="ec2 CreateVpcEndpoint", code=state, message=f"{ident} is {state}")
    return state == "available"


def _prefix_list(aws: Aws, service_name: str) -> str | None:
    filters = [{"Name": "prefix-list-name", "Values": [service_name]}]
    found = first(aws.call("ec2", "describe_managed_prefix_lists", Filters=filters), "PrefixLists")
    return str(found["PrefixListId"]) if found else None


RESOURCES: tuple[Resource, ...] = (VpcEndpoint(),)
