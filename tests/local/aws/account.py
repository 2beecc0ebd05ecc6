"""What tests of the stand-in share: clients, a network, a role, a launch template, and waiting."""

import base64
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import boto3
import requests
from botocore.config import Config
from nodewright_local.aws.server import AwsServer

REGION = "us-west-2"
ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
AL2023 = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/{}/{}/recommended/image_id"


def trust(*services: str) -> str:
    """A trust policy for AWS services."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": list(services)},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def eventually(claim: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Return the first truthy value of `claim`; fail when none comes in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = claim()
        if value:
            return value
        time.sleep(0.03)
    raise AssertionError(f"{claim} did not become true within {seconds} s")


class Account:
    """One AWS account on the stand-in."""

    def __init__(self, server: AwsServer) -> None:
        self.url = server.url
        self.ec2: Any = self.client("ec2")
        self.iam: Any = self.client("iam")
        self.eks: Any = self.client("eks")
        self.ssm: Any = self.client("ssm")
        self.sqs: Any = self.client("sqs")
        self.vpc_id = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnets = {
            zone: self.ec2.create_subnet(
                VpcId=self.vpc_id, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=zone
            )["Subnet"]["SubnetId"]
            for number, zone in enumerate(ZONES)
        }
        self.group = self.ec2.create_security_group(
            GroupName="nodes", Description="nodes", VpcId=self.vpc_id
        )["GroupId"]
        self.node_role = self.role("KarpenterNodeRole-demo", "ec2.amazonaws.com")
        self.iam.create_instance_profile(
            InstanceProfileName="nodes", Path="/karpenter/us-west-2/demo/uid/"
        )
        self.iam.add_role_to_instance_profile(
            InstanceProfileName="nodes", RoleName="KarpenterNodeRole-demo"
        )
        self.image = self.image_of("x86_64")
        self.template()

    def client(self, service: str, **credentials: str) -> Any:
        """A boto3 client; any keys will do."""
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", **credentials}
        session = boto3.session.Session()
        return session.client(
            service,  # type: ignore[call-overload]  # the name is not a literal here
            endpoint_url=self.url,
            region_name=REGION,
            config=Config(retries={"total_max_attempts": 1}),
            **keys,
        )

    def role(self, name: str, *services: str) -> str:
        """Create a role and return its ARN."""
        created = self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(*services))
        return str(created["Role"]["Arn"])

    def image_of(self, architecture: str, variant: str = "standard") -> str:
        """The newest AL2023 image."""
        name = AL2023.format(architecture, variant)
        return str(self.ssm.get_parameter(Name=name)["Parameter"]["Value"])

    def template(self, name: str = "nodes", **changes: Any) -> str:
        """Create a launch template as Karpenter would; `changes` replace parts of its data."""
        data: dict[str, Any] = {
            "ImageId": self.image,
            "UserData": base64.b64encode(b"join me").decode(),
            "IamInstanceProfile": {"Name": "nodes"},
            "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [self.group]}],
            "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
            "BlockDeviceMappings": [
                {
                    "DeviceName": "/dev/xvda",
                    "Ebs": {"VolumeSize": 30, "VolumeType": "gp3", "Encrypted": True},
                }
            ],
            "TagSpecifications": [
                {"ResourceType": "instance", "Tags": [{"Key": "from", "Value": "template"}]}
            ],
        }
        data |= changes
        kept = {key: value for key, value in data.items() if value is not None}
        self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=kept)
        return name

    def overrides(
        self, types: Iterable[str], zones: Iterable[str] = ZONES, **more: Any
    ) -> list[dict[str, Any]]:
        """Overrides for types x zones."""
        return [
            {"InstanceType": name, "SubnetId": self.subnets[zone], **more}
            for name in types
            for zone in zones
        ]

    def fleet(
        self,
        overrides: list[dict[str, Any]],
        *,
        target: int = 1,
        capacity_type: str = "on-demand",
        template: str = "nodes",
        **more: Any,
    ) -> dict[str, Any]:
        """Call CreateFleet of type instant."""
        answer: dict[str, Any] = self.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {
                        "LaunchTemplateName": template,
                        "Version": "$Latest",
                    },
                    "Overrides": overrides,
                }
            ],
            TargetCapacitySpecification={
                "TotalTargetCapacity": target,
                "DefaultTargetCapacityType": capacity_type,
            },
            **more,
        )
        return answer

    def launch(self, instance_type: str = "m5.large", **more: Any) -> str:
        """Launch one instance by a fleet and return its id."""
        answer = self.fleet(self.overrides([instance_type], ZONES[:1]), **more)
        return str(answer["Instances"][0]["InstanceIds"][0])

    def instance(self, instance_id: str) -> dict[str, Any]:
        """Describe one instance."""
        answer = self.ec2.describe_instances(InstanceIds=[instance_id])
        found: dict[str, Any] = answer["Reservations"][0]["Instances"][0]
        return found

    def state(self, instance_id: str) -> str:
        """The state of one instance."""
        return str(self.instance(instance_id)["State"]["Name"])

    def drain(self, *pools: dict[str, Any]) -> None:
        """Limit capacity pools."""
        self.control("PUT", "ice", {"pools": list(pools)})

    def control(self, method: str, path: str, document: Any = None, **headers: str) -> Any:
        """Call the control API and return its JSON; the status must be 200."""
        answer = self.control_response(method, path, document, **headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def control_response(
        self, method: str, path: str, document: Any = None, **headers: str
    ) -> requests.Response:
        """Call the control API."""
        return requests.request(
            method, f"{self.url}/_nodewright/{path}", json=document, headers=headers, timeout=10
        )

    def free_addresses(self, zone: str) -> int:
        """Free addresses of a zone's subnet, once instances of earlier tests have ended."""
        ending = [{"Name": "instance-state-name", "Values": ["shutting-down"]}]
        eventually(lambda: not self.ec2.describe_instances(Filters=ending)["Reservations"])
        answer = self.ec2.describe_subnets(SubnetIds=[self.subnets[zone]])
        return int(answer["Subnets"][0]["AvailableIpAddressCount"])


def error_codes(answer: dict[str, Any]) -> set[str]:
    """The distinct error codes of a CreateFleet answer."""
    return {error["ErrorCode"] for error in answer["Errors"]}
