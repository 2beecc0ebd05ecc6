"""Launch templates and CreateFleet requests, as EC2 gets them."""

from __future__ import annotations

import base64
from typing import Any

from nodewright_controller.api.ec2nodeclass import (
    BlockDevice,
    BlockDeviceMapping,
    ConnectionTracking,
    CPUOptions,
    EnclaveOptions,
    MetadataOptions,
    NetworkInterface,
)
from nodewright_controller.aws.block_devices import block_device_request
from nodewright_controller.aws.filters import Choice, choose
from nodewright_controller.aws.fleet import client_token, fleet_request, parse_fleet
from nodewright_controller.aws.launch_template import (
    LaunchInput,
    LaunchTemplate,
    metadata_options,
    network_interfaces,
    plan_templates,
)
from nodewright_controller.aws.provider import claim_requirements
from nodewright_controller.aws.subnets import Subnet
from nodewright_controller.kernel.resources import Resources

from tests import golden
from tests.aws.world import ON_DEMAND, SPOT, X86, World, node_claim, node_class, options

SUBNETS = {
    zone: Subnet(id=f"subnet-{zone[-1]}", zone=zone, zone_id="", free_ips=10)
    for zone in ("us-west-2a", "us-west-2b")
}


async def launch_input(requires: dict[str, list[str]], **spec: Any) -> LaunchInput:
    world = World(node_classes={"default": node_class(**spec)})
    await world.provider.catalog.ensure_loaded()
    claim = node_claim(requires=requires)
    types = world.provider.catalog.types_for(world.node_classes["default"])
    choice = choose(
        types, claim_requirements(claim), Resources.parse({"cpu": "1", "memory": "1Gi"})
    )
    assert isinstance(choice, Choice)
    return LaunchInput(
        node_class=world.node_classes["default"],
        node_claim=claim,
        choice=choice,
        options=options(),
    )


def readable(template: LaunchTemplate) -> dict[str, Any]:
    request = template.create_request()
    data = dict(request["LaunchTemplateData"])
    data["UserData"] = base64.b64decode(data["UserData"]).decode().split("\n")
    return request | {"LaunchTemplateData": data}


async def test_a_launch_template_of_the_walkthrough() -> None:
    wanted = await launch_input(X86 | ON_DEMAND | {"karpenter.k8s.aws/instance-category": ["m"]})

    templates = plan_templates(wanted)

    golden.check_json("launch_template.json", readable(templates[0]))


async def test_a_fleet_request_of_the_walkthrough() -> None:
    wanted = await launch_input(X86 | ON_DEMAND)

    request = fleet_request(wanted, plan_templates(wanted), SUBNETS, client_token("uid", 0))

    golden.check_json("fleet_request.json", request)


async def test_types_with_equal_images_and_pod_counts_share_a_template() -> None:
    wanted = await launch_input(
        {"node.kubernetes.io/instance-type": ["t3.small", "t3a.small", "m5.large"]} | ON_DEMAND
    )

    templates = plan_templates(wanted)

    shared = {
        tuple(sorted(found.instance_type.name for found in each.candidates)) for each in templates
    }
    assert ("m5.large",) in shared
    assert sum(len(names) for names in shared) == 3


async def test_a_template_is_named_by_its_content() -> None:
    requires = X86 | ON_DEMAND
    one = plan_templates(await launch_input(requires))
    same = plan_templates(await launch_input(requires))
    other = plan_templates(await launch_input(requires, detailed_monitoring=True))

    assert [each.name for each in one] == [each.name for each in same]
    assert not {each.name for each in one} & {each.name for each in other}
    assert all(each.name.startswith("karpenter.k8s.aws/") for each in one)


async def test_spot_requests_ask_for_price_and_capacity_and_tag_the_spot_request() -> None:
    wanted = await launch_input(X86 | SPOT)
    templates = plan_templates(wanted)

    request = fleet_request(wanted, templates, SUBNETS, "token")

    assert request["SpotOptions"] == {"AllocationStrategy": "price-capacity-optimized"}
    assert request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "spot"
    kinds = [each["ResourceType"] for each in templates[0].data["TagSpecifications"]]
    assert kinds == ["network-interface", "spot-instances-request"]


async def test_zones_without_a_subnet_are_not_offered() -> None:
    wanted = await launch_input(X86 | ON_DEMAND)

    request = fleet_request(wanted, plan_templates(wanted), SUBNETS, "token")

    zones = {
        each["AvailabilityZone"]
        for config in request["LaunchTemplateConfigs"]
        for each in config["Overrides"]
    }
    assert zones == {"us-west-2a", "us-west-2b"}


async def test_the_context_goes_along_unless_min_values_were_relaxed() -> None:
    wanted = await launch_input(X86 | ON_DEMAND, context="abc")
    templates = plan_templates(wanted)

    assert fleet_request(wanted, templates, SUBNETS, "t")["Context"] == "abc"
    wanted.node_claim.metadata.annotations = {"karpenter.sh/nodeclaim-min-values-relaxed": "true"}
    assert "Context" not in fleet_request(wanted, templates, SUBNETS, "t")


def test_a_client_token_fits_into_ec2s_limit() -> None:
    token = client_token("3c5b1bd8-52f5-4b0c-8f5b-3f5f5c5e5a5d", 12)

    assert token == "3c5b1bd8-52f5-4b0c-8f5b-3f5f5c5e5a5d-12"
    assert len(client_token("u" * 80, 3)) <= 64


async def test_a_fleet_answer_is_read_with_its_errors() -> None:
    wanted = await launch_input(X86 | SPOT)
    request = fleet_request(wanted, plan_templates(wanted), SUBNETS, "t")
    override = {"InstanceType": "t3a.small", "SubnetId": "subnet-a"}
    answer = {
        "Errors": [
            {
                "ErrorCode": "InsufficientInstanceCapacity",
                "ErrorMessage": "none left",
                "LaunchTemplateAndOverrides": {
                    "Overrides": {"InstanceType": "t3.small", "AvailabilityZone": "us-west-2b"}
                },
            }
        ],
        "Instances": [
            {
                "InstanceIds": ["i-1"],
                "InstanceType": "t3a.small",
                "Lifecycle": "spot",
                "LaunchTemplateAndOverrides": {"Overrides": override},
            }
        ],
    }

    result = parse_fleet(answer, request)

    assert result.instance is not None
    assert result.instance.zone == "us-west-2a"
    assert result.instance.image_id == "ami-x86"
    assert result.instance.capacity_type == "spot"
    assert result.out_of_capacity
    assert [error.zone for error in result.errors] == ["us-west-2b"]


def test_metadata_options_leave_ipv6_out_where_it_is_unknown() -> None:
    made = node_class(metadata_options=MetadataOptions(http_put_response_hop_limit=2))

    assert metadata_options(made, "us-west-2") == {
        "HttpEndpoint": "enabled",
        "HttpProtocolIpv6": "disabled",
        "HttpPutResponseHopLimit": 2,
        "HttpTokens": "required",
        "InstanceMetadataTags": "disabled",
    }
    assert "HttpProtocolIpv6" not in metadata_options(made, "us-iso-east-1")


def test_network_interfaces_as_the_node_class_wants_them() -> None:
    plain = node_class(associate_public_ip_address=False, ip_prefix_count=2)
    tracked = node_class(connection_tracking=ConnectionTracking(udp_timeout=30))
    listed = node_class(
        associate_public_ip_address=True,
        network_interfaces=[
            NetworkInterface(),
            NetworkInterface(network_card_index=1, interface_type="efa-only"),
        ],
    )

    assert network_interfaces(plain, options(), 0) == [
        {
            "DeviceIndex": 0,
            "Groups": ["sg-1"],
            "AssociatePublicIpAddress": False,
            "Ipv4PrefixCount": 2,
        }
    ]
    (one,) = network_interfaces(tracked, options(), 0)
    assert one["ConnectionTrackingSpecification"] == {"UdpTimeout": 30}
    assert [
        (each["InterfaceType"], "AssociatePublicIpAddress" in each)
        for each in network_interfaces(listed, options(), 0)
    ] == [("interface", True), ("efa-only", False)]
    assert [
        (each["NetworkCardIndex"], each["DeviceIndex"], each["InterfaceType"])
        for each in network_interfaces(node_class(), options(), 3)
    ] == [(0, 0, "efa"), (1, 1, "efa"), (2, 1, "efa")]


def test_an_ipv6_cluster_gives_the_first_interface_an_address() -> None:
    (interface,) = network_interfaces(node_class(), options(dns_ip="fd00::a"), 0)

    assert interface["PrimaryIpv6"] is True
    assert interface["Ipv6AddressCount"] == 1


async def test_cpu_and_enclave_options_and_tenancy_reach_the_template() -> None:
    wanted = await launch_input(
        {"node.kubernetes.io/instance-type": ["m5.xlarge"]} | ON_DEMAND,
        enclave_options=EnclaveOptions(enabled=True),
    )
    wanted.node_class.spec.cpu_options = CPUOptions(nested_virtualization="enabled")

    (template,) = plan_templates(wanted)

    assert template.data["EnclaveOptions"] == {"Enabled": True}
    assert template.data["CpuOptions"] == {"NestedVirtualization": "enabled"}
    assert "Placement" not in template.data


def test_volume_sizes_round_up_to_gibibytes() -> None:
    (request,) = block_device_request(
        [
            BlockDeviceMapping(
                device_name="/dev/xvda",
                root_volume=True,
                ebs=BlockDevice(volume_size="20G", iops=3000, delete_on_termination=False),
            )
        ]
    )

    assert request == {
        "DeviceName": "/dev/xvda",
        "Ebs": {"VolumeSize": 19, "Iops": 3000, "DeleteOnTermination": False},
    }
