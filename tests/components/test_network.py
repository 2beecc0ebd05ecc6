"""What a Network consists of, and in which order."""

from typing import Any

import pytest
from nodewright.cluster import Cluster
from nodewright.network import Network
from nodewright.validation import InvalidArgumentError

from tests.components import arguments
from tests.components.conftest import Build
from tests.components.recorder import Recorder, value

SUBNET = "aws:ec2/subnet:Subnet"
NAT = "aws:ec2/natGateway:NatGateway"
ROUTE = "aws:ec2/route:Route"


def test_the_first_three_ordinary_zones_are_taken(engine: Recorder, build: Build) -> None:
    network = build(lambda: Network("net", arguments.network()))

    assert value(network.zones) == ["us-west-2a", "us-west-2b", "us-west-2c"]
    assert len(engine.of_type(SUBNET)) == 6


def test_private_subnets_are_tagged_for_discovery_and_internal_balancers(
    engine: Recorder, build: Build
) -> None:
    build(lambda: Network("net", arguments.network()))

    private = engine.named(SUBNET, "net-private-us-west-2a")
    public = engine.named(SUBNET, "net-public-us-west-2a")
    assert private.inputs["tags"] == {
        "Name": "demo-private-us-west-2a",
        "karpenter.sh/discovery": "demo",
        "kubernetes.io/role/internal-elb": "1",
    }
    assert public.inputs["tags"] == {
        "Name": "demo-public-us-west-2a",
        "kubernetes.io/role/elb": "1",
    }


def test_pods_can_resolve_names_in_the_vpc(engine: Recorder, build: Build) -> None:
    build(lambda: Network("net", arguments.network()))

    vpc = engine.only("aws:ec2/vpc:Vpc")
    assert vpc.inputs["enableDnsSupport"]
    assert vpc.inputs["enableDnsHostnames"]


@pytest.mark.parametrize(
    ("mode", "gateways", "routes"), [("none", 0, 1), ("single", 1, 4), ("per-zone", 3, 4)]
)
def test_nat_mode_decides_the_number_of_gateways(
    engine: Recorder, build: Build, mode: str, gateways: int, routes: int
) -> None:
    network = build(lambda: Network("net", arguments.network(nat=mode)))

    assert gateways == len(engine.of_type(NAT))
    assert gateways == len(value(network.nat_public_ips))
    assert routes == len(engine.of_type(ROUTE))


def test_with_a_gateway_per_zone_each_zone_routes_to_its_own(
    engine: Recorder, build: Build
) -> None:
    build(lambda: Network("net", arguments.network(nat="per-zone")))

    for zone in ("us-west-2a", "us-west-2b", "us-west-2c"):
        route = engine.named(ROUTE, f"net-private-{zone}-internet")
        assert f"net-nat-{zone}-id" == route.inputs["natGatewayId"]


def test_whoever_uses_private_subnets_waits_for_their_routes(
    engine: Recorder, build: Build
) -> None:
    def program() -> None:
        network = Network("net", arguments.network())
        Cluster(
            "cluster",
            arguments.cluster(private_subnet_ids=network.private_subnet_ids, vpc_id=network.vpc_id),
        )

    build(program)
    nodes = engine.only("aws:eks/nodeGroup:NodeGroup")
    for zone in ("us-west-2a", "us-west-2b", "us-west-2c"):
        assert engine.comes_after(nodes, engine.named(ROUTE, f"net-private-{zone}-internet"))
    assert engine.comes_after(nodes, engine.only(NAT))


def test_endpoints_are_gateways_where_aws_has_them(engine: Recorder, build: Build) -> None:
    build(lambda: Network("net", arguments.network(vpc_endpoints=["s3", "ecr.api"])))

    s3 = engine.named("aws:ec2/vpcEndpoint:VpcEndpoint", "net-s3").inputs
    ecr = engine.named("aws:ec2/vpcEndpoint:VpcEndpoint", "net-ecr-api").inputs
    assert (s3["vpcEndpointType"], len(s3["routeTableIds"])) == ("Gateway", 4)
    assert (ecr["vpcEndpointType"], ecr["privateDnsEnabled"]) == ("Interface", True)
    assert ecr["serviceName"] == "com.amazonaws.us-west-2.ecr.api"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"cluster_name": "-bad"}, "cluster_name is '-bad'; write it like platform-dev"),
        (
            {"cluster_name": "c" * 47},
            "cluster_name .* 47 characters, 46 are allowed; choose a shorter",
        ),
        ({"nat": "two"}, "nat is 'two'; use one of: single, per-zone, none"),
        ({"cidr_block": "10.0.0.0/8"}, "cidr_block 10.0.0.0/8 is wider than AWS allows"),
        ({"cidr_block": "10.0.0.0/24"}, "cidr_block 10.0.0.0/24 is too small for 3 zones"),
        ({"zones": []}, "zones is empty; name at least one zone"),
        ({"zones": ["a"], "zone_count": 2}, "zone_count is given beside zones"),
        ({"zone_count": 0}, "zone_count is 0; use a number from 1 to 7"),
        ({"nats": "single"}, "nats is not an argument; use one of: cidr_block"),
        ({"vpc_endpoints": ["s3", "s3"]}, "vpc_endpoints names 's3' twice"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_made(
    engine: Recorder, build: Build, args: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"Network 'net': {message}"):
        build(lambda: Network("net", arguments.network(**args)))
    assert engine.resources == []


def test_more_zones_than_the_region_has_are_refused(engine: Recorder, build: Build) -> None:
    with pytest.raises(
        InvalidArgumentError, match="zone_count is 5 but us-west-2 offers 4: us-west-2a"
    ):
        build(lambda: Network("net", arguments.network(zone_count=5)))
