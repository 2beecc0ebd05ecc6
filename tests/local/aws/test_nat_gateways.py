"""What a NAT gateway takes with it when it goes."""

from tests.local.aws.account import Account


def test_a_deleted_nat_gateway_leaves_no_network_interface(account: Account) -> None:
    ec2 = account.ec2
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    before = {item["NetworkInterfaceId"] for item in interfaces(account)}
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    gateway = ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address)["NatGateway"]
    assert {item["NetworkInterfaceId"] for item in interfaces(account)} > before

    ec2.delete_nat_gateway(NatGatewayId=gateway["NatGatewayId"])

    assert {item["NetworkInterfaceId"] for item in interfaces(account)} == before
    ec2.release_address(AllocationId=address)


def interfaces(account: Account) -> list[dict[str, object]]:
    found: list[dict[str, object]] = account.ec2.describe_network_interfaces()["NetworkInterfaces"]
    return found
