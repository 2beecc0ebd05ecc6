"""VPC, subnet, internet gateway, and the tag on something that another owns."""

from typing import Any

from typing_extensions import override

from nodewright_local.pulumi_aws.aws import Aws, tag_list, tag_map
from nodewright_local.pulumi_aws.resources.ec2_base import Ec2Resource, first, tag_specifications
from nodewright_local.pulumi_aws.schema import Resource, flag, output, regional, tagged, text
from nodewright_local.pulumi_aws.values import Values

_IN_USE = ("DependencyViolation",)


class Vpc(Ec2Resource):
    """`aws.ec2.Vpc`; the id is the VPC id."""

    token = "aws:ec2/vpc:Vpc"
    properties = regional(
        tagged(
            {
                "cidrBlock": text(required=True, replaces=True),
                "enableDnsHostnames": flag(),
                "enableDnsSupport": flag(default=True),
                "instanceTenancy": text(
                    replaces=True, default="default", choices=("default", "dedicated")
                ),
                "arn": output(),
                "defaultNetworkAclId": output(),
                "defaultRouteTableId": output(),
                "defaultSecurityGroupId": output(),
                "dhcpOptionsId": output(),
                "mainRouteTableId": output(),
                "ownerId": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the VPC."""
        answer = aws.call(
            "ec2",
            "create_vpc",
            CidrBlock=inputs["cidrBlock"],
            InstanceTenancy=inputs["instanceTenancy"],
            TagSpecifications=tag_specifications("vpc", inputs),
        )
        return str(answer["Vpc"]["VpcId"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Wait until available and set the DNS attributes that are not AWS's default."""
        aws.wait(f"{ident} available", lambda: _vpc_state(aws, ident) == "available")
        if not inputs.get("enableDnsSupport", True):
            _vpc_attribute(aws, ident, "EnableDnsSupport", value=False)
        if inputs.get("enableDnsHostnames"):
            _vpc_attribute(aws, ident, "EnableDnsHostnames", value=True)

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the VPC and the ids of what it comes with."""
        vpc = first(aws.find("ec2", "describe_vpcs", VpcIds=[ident]), "Vpcs")
        if vpc is None:
            return None
        route_table = _of_vpc(
            aws, ident, "describe_route_tables", "RouteTables", "association.main", "true"
        )
        group = _of_vpc(
            aws, ident, "describe_security_groups", "SecurityGroups", "group-name", "default"
        )
        acl = _of_vpc(aws, ident, "describe_network_acls", "NetworkAcls", "default", "true")
        return {
            "cidrBlock": vpc["CidrBlock"],
            "instanceTenancy": vpc.get("InstanceTenancy", "default"),
            "enableDnsHostnames": _has_attribute(aws, ident, "EnableDnsHostnames"),
            "enableDnsSupport": _has_attribute(aws, ident, "EnableDnsSupport"),
            "tagsAll": tag_map(vpc.get("Tags")),
            "arn": aws.arn("ec2", f"vpc/{ident}"),
            "defaultNetworkAclId": acl.get("NetworkAclId"),
            "defaultRouteTableId": route_table.get("RouteTableId"),
            "mainRouteTableId": route_table.get("RouteTableId"),
            "defaultSecurityGroupId": group.get("GroupId"),
            "dhcpOptionsId": vpc.get("DhcpOptionsId"),
            "ownerId": vpc.get("OwnerId") or aws.account_id,
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Set the DNS attributes."""
        for name, attribute in (
            ("enableDnsSupport", "EnableDnsSupport"),
            ("enableDnsHostnames", "EnableDnsHostnames"),
        ):
            if name in changed:
                _vpc_attribute(aws, ident, attribute, value=bool(new.get(name)))

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete it, patient while its interfaces are being released."""
        aws.persist(_IN_USE, lambda: aws.call("ec2", "delete_vpc", VpcId=ident))


class Subnet(Ec2Resource):
    """`aws.ec2.Subnet`; the id is the subnet id."""

    token = "aws:ec2/subnet:Subnet"
    identity = ("vpcId", "cidrBlock")
    properties = regional(
        tagged(
            {
                "vpcId": text(required=True, replaces=True),
                "cidrBlock": text(required=True, replaces=True),
                "availabilityZone": text(replaces=True, computed=True),
                "availabilityZoneId": text(replaces=True, computed=True),
                "mapPublicIpOnLaunch": flag(),
                "enableResourceNameDnsARecordOnLaunch": flag(),
                "privateDnsHostnameTypeOnLaunch": text(
                    computed=True, choices=("ip-name", "resource-name")
                ),
                "arn": output(),
                "ownerId": output(),
            }
        )
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the subnet."""
        answer = aws.call(
            "ec2",
            "create_subnet",
            VpcId=inputs["vpcId"],
            CidrBlock=inputs["cidrBlock"],
            AvailabilityZone=inputs.get("availabilityZone"),
            AvailabilityZoneId=inputs.get("availabilityZoneId"),
            TagSpecifications=tag_specifications("subnet", inputs),
        )
        return str(answer["Subnet"]["SubnetId"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Wait until available and set its launch attributes."""
        aws.wait(f"{ident} available", lambda: _subnet_state(aws, ident) == "available")
        for name in ("mapPublicIpOnLaunch", "enableResourceNameDnsARecordOnLaunch"):
            if inputs.get(name):
                _set_subnet(aws, ident, name, inputs[name])
        if inputs.get("privateDnsHostnameTypeOnLaunch"):
            name = "privateDnsHostnameTypeOnLaunch"
            _set_subnet(aws, ident, name, inputs[name])

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the subnet."""
        subnet = first(aws.find("ec2", "describe_subnets", SubnetIds=[ident]), "Subnets")
        if subnet is None:
            return None
        dns = subnet.get("PrivateDnsNameOptionsOnLaunch") or {}
        return {
            "vpcId": subnet["VpcId"],
            "cidrBlock": subnet["CidrBlock"],
            "availabilityZone": subnet["AvailabilityZone"],
            "availabilityZoneId": subnet.get("AvailabilityZoneId"),
            "mapPublicIpOnLaunch": bool(subnet.get("MapPublicIpOnLaunch")),
            "enableResourceNameDnsARecordOnLaunch": bool(
                dns.get("EnableResourceNameDnsARecord", False)
            ),
            "privateDnsHostnameTypeOnLaunch": dns.get("HostnameType", "ip-name"),
            "tagsAll": tag_map(subnet.get("Tags")),
            "arn": subnet.get("SubnetArn") or aws.arn("ec2", f"subnet/{ident}"),
            "ownerId": subnet.get("OwnerId") or aws.account_id,
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Set the launch attributes."""
        for name in sorted(changed):
            _set_subnet(aws, ident, name, new.get(name, False))

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Delete it, patient while its interfaces are being released."""
        aws.persist(_IN_USE, lambda: aws.call("ec2", "delete_subnet", SubnetId=ident))


class InternetGateway(Ec2Resource):
    """`aws.ec2.InternetGateway`; the id is the gateway id."""

    token = "aws:ec2/internetGateway:InternetGateway"
    properties = regional(
        tagged({"vpcId": text(computed=True), "arn": output(), "ownerId": output()})
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Create the gateway."""
        answer = aws.call(
            "ec2",
            "create_internet_gateway",
            TagSpecifications=tag_specifications("internet-gateway", inputs),
        )
        return str(answer["InternetGateway"]["InternetGatewayId"])

    @override
    def settle(self, aws: Aws, ident: str, inputs: Values) -> None:
        """Attach it to its VPC."""
        if inputs.get("vpcId"):
            aws.call(
                "ec2", "attach_internet_gateway", InternetGatewayId=ident, VpcId=inputs["vpcId"]
            )

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the gateway and the VPC it is attached to."""
        gateway = first(
            aws.find("ec2", "describe_internet_gateways", InternetGatewayIds=[ident]),
            "InternetGateways",
        )
        if gateway is None:
            return None
        attached = [item["VpcId"] for item in gateway.get("Attachments") or []]
        return {
            "vpcId": attached[0] if attached else None,
            "tagsAll": tag_map(gateway.get("Tags")),
            "arn": aws.arn("ec2", f"internet-gateway/{ident}"),
            "ownerId": gateway.get("OwnerId") or aws.account_id,
        }

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Move it from one VPC to another."""
        self._detach(aws, ident, old.get("vpcId"))
        self.settle(aws, ident, new)

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Detach and delete it."""
        self._detach(aws, ident, state.get("vpcId"))
        aws.persist(
            _IN_USE, lambda: aws.call("ec2", "delete_internet_gateway", InternetGatewayId=ident)
        )

    def _detach(self, aws: Aws, ident: str, vpc_id: str | None) -> None:
        if vpc_id is None:
            return
        aws.persist(
            _IN_USE,
            lambda: _unless_detached(
                aws, "detach_internet_gateway", InternetGatewayId=ident, VpcId=vpc_id
            ),
        )


class Tag(Resource):
    """`aws.ec2.Tag`: one tag on a resource that this program does not own; id `resource,key`."""

    token = "aws:ec2/tag:Tag"
    identity = ("resourceId", "key")
    properties = regional(
        {
            "resourceId": text(required=True, replaces=True),
            "key": text(required=True, replaces=True),
            "value": text(required=True),
        }
    )

    @override
    def create(self, aws: Aws, inputs: Values) -> str:
        """Set the tag."""
        self._put(aws, inputs["resourceId"], inputs["key"], inputs["value"])
        return f"{inputs['resourceId']},{inputs['key']}"

    @override
    def read(self, aws: Aws, ident: str, known: Values) -> Values | None:
        """Read the tag."""
        resource_id, key = ident.split(",", 1)
        found = aws.pages(
            "ec2",
            "describe_tags",
            "Tags",
            Filters=[
                {"Name": "resource-id", "Values": [resource_id]},
                {"Name": "key", "Values": [key]},
            ],
        )
        if not found:
            return None
        return {"resourceId": resource_id, "key": key, "value": found[0].get("Value", "")}

    @override
    def update(
        self, aws: Aws, ident: str, old: Values, new: Values, changed: frozenset[str]
    ) -> None:
        """Set the new value."""
        self._put(aws, new["resourceId"], new["key"], new["value"])

    @override
    def delete(self, aws: Aws, ident: str, state: Values) -> None:
        """Remove the tag."""
        resource_id, key = ident.split(",", 1)
        aws.call("ec2", "delete_tags", Resources=[resource_id], Tags=[{"Key": key}])

    def _put(self, aws: Aws, resource_id: str, key: str, value: str) -> None:
        aws.call("ec2", "create_tags", Resources=[resource_id], Tags=tag_list({key: value}))


def _vpc_state(aws: Aws, ident: str) -> str:
    vpc = first(aws.call("ec2", "describe_vpcs", VpcIds=[ident]), "Vpcs")
    return str((vpc or {}).get("State"))


def _subnet_state(aws: Aws, ident: str) -> str:
    subnet = first(aws.call("ec2", "describe_subnets", SubnetIds=[ident]), "Subnets")
    return str((subnet or {}).get("State"))


def _vpc_attribute(aws: Aws, ident: str, attribute: str, *, value: bool) -> None:
    aws.call("ec2", "modify_vpc_attribute", VpcId=ident, **{attribute: {"Value": value}})


def _has_attribute(aws: Aws, ident: str, attribute: str) -> bool:
    name = attribute[0].lower() + attribute[1:]
    answer = aws.call("ec2", "describe_vpc_attribute", VpcId=ident, Attribute=name)
    return bool(answer[attribute]["Value"])


def _of_vpc(
    aws: Aws, vpc_id: str, operation: str, key: str, name: str, value: str
) -> dict[str, Any]:
    filters = [{"Name": "vpc-id", "Values": [vpc_id]}, {"Name": name, "Values": [value]}]
    return first(aws.call("ec2", operation, Filters=filters), key) or {}


def _set_subnet(aws: Aws, ident: str, name: str, value: Any) -> None:
    attribute = name[0].upper() + name[1:]
    shaped = {"Value": value} if isinstance(value, bool) else value
    aws.call("ec2", "modify_subnet_attribute", SubnetId=ident, **{attribute: shaped})


def _unless_detached(aws: Aws, operation: str, **parameters: Any) -> None:
    try:
        aws.find("ec2", operation, **parameters)
    except Exception as error:
        if getattr(error, "code", "") != "Gateway.NotAttached":
            raise


RESOURCES: tuple[Resource, ...] = (Vpc(), Subnet(), InternetGateway(), Tag())
