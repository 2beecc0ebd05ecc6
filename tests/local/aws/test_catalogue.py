"""The catalogue, prices and images that a provisioner reads at start."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from nodewright_local.aws.ec2 import catalogue
from nodewright_local.aws.ec2.images import images, parameters
from nodewright_local.aws.ec2.prices import on_demand_price, on_demand_prices, spot_price

from tests.local.aws.account import REGION, Account

FILTERS = [
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
]


def listing(client: Any, operation: str, key: str, **params: Any) -> list[Any]:
    """Everything that a paginated call lists."""
    pages = client.get_paginator(operation).paginate(**params)
    return [item for page in pages for item in page[key]]


@pytest.fixture(scope="module")
def types(account: Account) -> dict[str, dict[str, Any]]:
    found = listing(account.ec2, "describe_instance_types", "InstanceTypes", Filters=FILTERS)
    return {item["InstanceType"]: item for item in found}


def test_every_type_is_listed_and_rendered_only_once(
    account: Account, types: dict[str, dict[str, Any]]
) -> None:
    rendered = catalogue._type_fragment.cache_info().misses

    again = listing(account.ec2, "describe_instance_types", "InstanceTypes", Filters=FILTERS)

    assert len(again) == len(types) > 1300
    assert catalogue._type_fragment.cache_info().misses == rendered


def test_types_carry_what_a_scheduler_needs(types: dict[str, dict[str, Any]]) -> None:
    for name, described in types.items():
        assert described["VCpuInfo"]["DefaultVCpus"] > 0, name
        assert described["MemoryInfo"]["SizeInMiB"] > 0, name
        network = described["NetworkInfo"]
        assert network["Ipv4AddressesPerInterface"] > 0, name
        assert network["NetworkCards"][0]["MaximumNetworkInterfaces"] > 0, name
        assert described["ProcessorInfo"]["Manufacturer"], name
        assert described["SupportedUsageClasses"], name
        assert "BareMetal" in described, name
        assert described["EbsInfo"]["MaximumEbsAttachments"] > 0, name
        assert described["EbsInfo"]["AttachmentLimitType"] in ("shared", "dedicated"), name
    assert types["g5.xlarge"]["GpuInfo"]["Gpus"][0]["Manufacturer"] == "NVIDIA"
    assert types["inf2.xlarge"]["NeuronInfo"]["NeuronDevices"][0]["Count"] == 1
    assert types["m5d.large"]["InstanceStorageInfo"]["TotalSizeInGB"] == 75
    assert types["m5.metal"]["BareMetal"] is True


def test_a_type_filter_takes_wildcards_and_an_unknown_type_is_an_error(account: Account) -> None:
    found = account.ec2.describe_instance_types(
        Filters=[{"Name": "instance-type", "Values": ["m5.*"]}]
    )["InstanceTypes"]

    assert {"m5.large", "m5.metal"} <= {item["InstanceType"] for item in found}
    assert all(item["InstanceType"].startswith("m5.") for item in found)
    with pytest.raises(ClientError, match="InvalidInstanceType"):
        account.ec2.describe_instance_types(InstanceTypes=["m99.large"])


def test_a_dry_run_of_the_catalogue_says_so(account: Account) -> None:
    with pytest.raises(ClientError, match="DryRunOperation"):
        account.ec2.describe_instance_types(DryRun=True)


def test_offerings_name_zones(account: Account, types: dict[str, dict[str, Any]]) -> None:
    found = listing(
        account.ec2,
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
    )

    assert {item["Location"] for item in found} == {f"us-west-2{zone}" for zone in "abcd"}
    assert set(types) <= {item["InstanceType"] for item in found}
    one = listing(
        account.ec2,
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": ["m4.large"]}],
    )
    assert [item["Location"] for item in one] == ["us-west-2a", "us-west-2b", "us-west-2c"]


def products(account: Account, **fields: str) -> list[dict[str, Any]]:
    """Products with these attributes, decoded."""
    wanted = {
        "regionCode": REGION,
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        **fields,
    }
    texts = listing(
        account.client("pricing"),
        "get_products",
        "PriceList",
        ServiceCode="AmazonEC2",
        Filters=[
            {"Type": "TERM_MATCH", "Field": field, "Value": value}
            for field, value in wanted.items()
        ],
    )
    return [json.loads(text) for text in texts]


def hourly(product: dict[str, Any]) -> float:
    """The price in a product, dug out as a client does."""
    (term,) = product["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    assert dimension["unit"] == "Hrs"
    return float(dimension["pricePerUnit"]["USD"])


def test_shared_and_bare_metal_prices_are_separate(account: Account) -> None:
    shared = {
        item["product"]["attributes"]["instanceType"]: hourly(item)
        for item in products(account, tenancy="Shared", productFamily="Compute Instance")
    }
    metal = products(account, tenancy="Dedicated", productFamily="Compute Instance (bare metal)")

    assert shared["m5.large"] == on_demand_price(REGION, "m5.large") == 0.096
    assert len(shared) > 1000
    assert metal
    assert all(".metal" in item["product"]["attributes"]["instanceType"] for item in metal)
    assert products(account, operatingSystem="Windows") == []


def test_spot_prices_lie_below_on_demand_and_differ_by_zone(account: Account) -> None:
    rows = listing(
        account.ec2,
        "describe_spot_price_history",
        "SpotPriceHistory",
        ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
    )

    priced = on_demand_prices(REGION)
    m5 = {
        r["AvailabilityZone"]: float(r["SpotPrice"])
        for r in rows
        if r["InstanceType"] == "m5.large"
    }
    assert len(rows) > 4000
    assert all(
        0.3 <= float(row["SpotPrice"]) / priced[row["InstanceType"]] <= 0.45001 for row in rows
    )
    assert len(set(m5.values())) == 4
    assert m5["us-west-2a"] == spot_price(REGION, "us-west-2a", "m5.large")


def test_a_type_without_a_known_price_has_none(types: dict[str, dict[str, Any]]) -> None:
    unpriced = sorted(set(types) - set(on_demand_prices(REGION)))

    assert all(spot_price(REGION, "us-west-2a", name) is None for name in unpriced)


@pytest.mark.parametrize(
    ("parameter", "name"),
    [
        (
            "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id",
            "amazon-eks-node-al2023-x86_64-standard-1.36-v20261120",
        ),
        (
            "/aws/service/eks/optimized-ami/1.26/amazon-linux-2023/arm64/nvidia/"
            "amazon-eks-node-al2023-arm64-nvidia-1.26-v20261016/image_id",
            "amazon-eks-node-al2023-arm64-nvidia-1.26-v20261016",
        ),
        ("/aws/service/bottlerocket/aws-k8s-1.36/arm64/1.60.0/image_id", "v1.60.0"),
        ("/aws/service/bottlerocket/aws-k8s-1.37-nvidia/x86_64/latest/image_id", "v1.61.0"),
    ],
)
def test_a_parameter_and_its_image_agree(account: Account, parameter: str, name: str) -> None:
    image_id = account.ssm.get_parameter(Name=parameter)["Parameter"]["Value"]

    (image,) = account.ec2.describe_images(ImageIds=[image_id])["Images"]

    assert name in image["Name"]
    assert image["State"] == "available"
    assert image["ImageOwnerAlias"] == "amazon"
    assert image["Architecture"] == ("arm64" if "arm64" in parameter else "x86_64")
    assert image["DeprecationTime"] > image["CreationDate"]


def test_neuron_images_exist_for_x86_64_only(account: Account) -> None:
    with pytest.raises(ClientError, match="ParameterNotFound"):
        account.image_of("arm64", "neuron")

    assert account.image_of("x86_64", "neuron").startswith("ami-")


def test_every_parameter_names_an_image_with_an_id_of_its_own() -> None:
    known = images(REGION)

    assert {image.image_id for image in parameters(REGION).values()} <= set(known)
    assert len({image.name for image in known.values()}) == len(known)
    assert known.keys() != images("eu-central-1").keys()


def test_parameters_by_path_and_by_list(account: Account) -> None:
    by_path = listing(
        account.ssm,
        "get_parameters_by_path",
        "Parameters",
        Path="/aws/service/bottlerocket/aws-k8s-1.36/x86_64",
        Recursive=True,
    )
    several = account.ssm.get_parameters(Names=[by_path[0]["Name"], "/aws/service/eks/nothing"])

    assert "1.60.0" in {item["Name"].split("/")[-2] for item in by_path}
    assert several["Parameters"][0]["Value"] == by_path[0]["Value"]
    assert several["InvalidParameters"] == ["/aws/service/eks/nothing"]


def test_own_parameters_and_images_stand_beside_those_of_aws(account: Account) -> None:
    image_id = account.ec2.register_image(Name="golden", Architecture="arm64")["ImageId"]
    account.ec2.create_tags(Resources=[image_id], Tags=[{"Key": "team", "Value": "a"}])
    account.ssm.put_parameter(Name="/golden/image", Value=image_id, Type="String")

    by_tag = account.ec2.describe_images(Filters=[{"Name": "tag:team", "Values": ["a"]}])
    own = account.ec2.describe_images(Owners=["self"])

    assert [image["ImageId"] for image in by_tag["Images"]] == [image_id]
    assert [image["Name"] for image in own["Images"]] == ["golden"]
    assert account.ssm.get_parameter(Name="/golden/image")["Parameter"]["Value"] == image_id


def test_images_are_found_by_name_and_owner(account: Account) -> None:
    found = account.ec2.describe_images(
        Owners=["amazon"],
        Filters=[
            {"Name": "name", "Values": ["amazon-eks-node-al2023-*-standard-1.36-*"]},
            {"Name": "architecture", "Values": ["arm64"]},
        ],
    )["Images"]

    assert len(found) == 3
    with pytest.raises(ClientError, match=r"InvalidAMIID\.NotFound"):
        account.ec2.describe_images(ImageIds=["ami-0123456789abcdef0"])
