"""AWS in memory, at the level of the SDK: exactly the calls that `clients.py` names.

EC2 keeps instances, fleets by client token and launch templates by name. `stock` says what is sold
out, `lose_answers` lets the next calls take effect without being answered, `refuse` makes calls fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from moto.ec2.models.instance_types import INSTANCE_TYPES
from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.error_codes import DRY_RUN, UNREACHABLE, AwsError

T = TypeVar("T")
Json = dict[str, Any]
REGION = "us-west-2"
ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
ZONE_IDS = {"us-west-2a": "usw2-az2", "us-west-2b": "usw2-az1", "us-west-2c": "usw2-az3"}
SOME_TYPES = (
    "a1.large",
    "c6g.xlarge",
    "g4dn.xlarge",
    "inf2.xlarge",
    "m5.large",
    "m5.metal",
    "m5.xlarge",
    "m6g.large",
    "p5.48xlarge",
    "t3.micro",
    "t3.small",
    "t3a.small",
)


def describe(name: str) -> Json:
    """Return what EC2 says about a type."""
    described: Json = INSTANCE_TYPES[name]
    return described


class Inline:
    """Runs blocking calls at once: fakes do not block."""

    async def run(self, function: Callable[[], T]) -> T:
        return function()


def matches(tags: Mapping[str, str], filters: list[Json], **fields: str) -> bool:
    """Whether a thing with these tags and fields passes EC2 filters."""
    for each in filters:
        name, values = each["Name"], each["Values"]
        if name == "tag-key":
            passes = any(value in tags for value in values)
        elif name.startswith("tag:"):
            passes = tags.get(name.removeprefix("tag:")) in values
        else:
            passes = fields[name] in values
        if not passes:
            return False
    return True


def tags_of(request: Json, kind: str) -> dict[str, str]:
    """Return the tags a request gives to a kind of resource."""
    return {
        tag["Key"]: tag["Value"]
        for each in request.get("TagSpecifications", ())
        if each["ResourceType"] == kind
        for tag in each["Tags"]
    }


class Calls:
    """Counts calls, refuses them, or loses their answers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Json]] = []
        self.refuse: dict[str, AwsError] = {}
        self.lose_answers: dict[str, int] = {}

    def requests(self, operation: str) -> list[Json]:
        return [request for name, request in self.calls if name == operation]

    def _called(self, operation: str, request: Json) -> None:
        self.calls.append((operation, request))
        if operation in self.refuse:
            raise self.refuse[operation]

    def _answer(self, operation: str, answer: T) -> T:
        if self.lose_answers.get(operation, 0):
            self.lose_answers[operation] -= 1
            raise AwsError(UNREACHABLE, "read timeout", operation)
        return answer


class FakeEc2(Calls):
    """EC2 with three subnets, one security group and a dozen types."""

    def __init__(self, now: Callable[[], datetime], types: tuple[str, ...] = SOME_TYPES) -> None:
        super().__init__()
        self._now = now
        self._ids = itertools.count(1)
        self.types = [describe(name) for name in types]
        self.subnets = [
            {
                "SubnetId": f"subnet-{zone[-1]}",
                "AvailabilityZone": zone,
                "AvailabilityZoneId": ZONE_IDS[zone],
                "AvailableIpAddressCount": 100 + index,
                "Tags": [{"Key": "karpenter.sh/discovery", "Value": "demo"}],
            }
            for index, zone in enumerate(ZONES)
        ]
        self.groups = [
            {
                "GroupId": "sg-1",
                "GroupName": "nodes",
                "Tags": [{"Key": "karpenter.sh/discovery", "Value": "demo"}],
            }
        ]
        self.images: list[Json] = [
            image("ami-x86", "x86_64"),
            image("ami-arm", "arm64"),
            image("ami-gpu", "x86_64"),
        ]
        self.instances: dict[str, Json] = {}
        self.fleets: dict[str, tuple[Json, Json]] = {}
        self.templates: dict[str, Json] = {}
        self.sold_out: set[tuple[str, str]] = set()
        """(type, zone); "*" stands for any."""
        self.full_subnets: set[str] = set()
        self.reservations: dict[str, Json] = {}
        """Capacity reservations by id; `reserve` adds one."""
        self.reservation_errors: dict[str, str] = {}
        """Reservation to the code that a launch into it gets."""
        self.spot_prices: list[Json] = []

    def describe_instance_types(self, **request: Any) -> Json:
        self._called("describe_instance_types", request)
        first = int(request.get("NextToken") or 0)
        page = self.types[first : first + 5]
        more = first + 5 < len(self.types)
        return {"InstanceTypes": page} | ({"NextToken": str(first + 5)} if more else {})

    def describe_instance_type_offerings(self, **request: Any) -> Json:
        self._called("describe_instance_type_offerings", request)
        return {
            "InstanceTypeOfferings": [
                {"InstanceType": each["InstanceType"], "Location": zone}
                for each in self.types
                for zone in ZONES
            ]
        }

    def describe_subnets(self, **request: Any) -> Json:
        self._called("describe_subnets", request)
        return {"Subnets": _selected(self.subnets, request, {"subnet-id": "SubnetId"})}

    def describe_security_groups(self, **request: Any) -> Json:
        self._called("describe_security_groups", request)
        names = {"group-id": "GroupId", "group-name": "GroupName"}
        return {"SecurityGroups": _selected(self.groups, request, names)}

    def describe_images(self, **request: Any) -> Json:
        self._called("describe_images", request)
        names = {"image-id": "ImageId", "name": "Name", "state": "State"}
        return {"Images": _selected(self.images, request, names)}

    def describe_spot_price_history(self, **request: Any) -> Json:
        self._called("describe_spot_price_history", request)
        return {"SpotPriceHistory": self.spot_prices}

    def describe_instances(self, **request: Any) -> Json:
        self._called("describe_instances", request)
        found = [
            instance
            for instance in self.instances.values()
            if matches(
                {tag["Key"]: tag["Value"] for tag in instance["Tags"]},
                request.get("Filters", []),
                **{
                    "instance-id": instance["InstanceId"],
                    "instance-state-name": instance["State"]["Name"],
                },
            )
        ]
        return {"Reservations": [{"Instances": found}]}

    def reserve(self, id_: str, instance_type: str, zone: str, count: int, **more: Any) -> Json:
        """Add a capacity reservation."""
        made: Json = {
            "CapacityReservationId": id_,
            "OwnerId": "123456789012",
            "InstanceType": instance_type,
            "AvailabilityZone": zone,
            "AvailableInstanceCount": count,
            "InstanceMatchCriteria": "targeted",
            "ReservationType": "default",
            "State": "active",
            "Tags": [{"Key": "karpenter.sh/discovery", "Value": "demo"}],
        } | more
        self.reservations[id_] = made
        return made

    def describe_capacity_reservations(self, **request: Any) -> Json:
        self._called("describe_capacity_reservations", request)
        wanted = request.get("CapacityReservationIds")
        for id_ in wanted or ():
            if id_ not in self.reservations:
                raise AwsError("InvalidCapacityReservationId.NotFound", id_)
        names = {
            "state": "State",
            "owner-id": "OwnerId",
            "instance-match-criteria": "InstanceMatchCriteria",
        }
        found = _selected(list(self.reservations.values()), request, names)
        kept = [each for each in found if not wanted or each["CapacityReservationId"] in wanted]
        return {"CapacityReservations": [dict(each) for each in kept]}

    def terminate_instances(self, **request: Any) -> Json:
        self._called("terminate_instances", request)
        for instance_id in request["InstanceIds"]:
            if instance_id not in self.instances:
                raise AwsError("InvalidInstanceID.NotFound", instance_id)
        for instance_id in request["InstanceIds"]:
            self.instances[instance_id]["State"]["Name"] = "shutting-down"
        return self._answer("terminate_instances", {})

    def create_fleet(self, **request: Any) -> Json:
        self._called("create_fleet", request)
        if request.get("DryRun"):
            raise AwsError(DRY_RUN, "would have succeeded")
        token = request["ClientToken"]
        if token in self.fleets:
            before, answer = self.fleets[token]
            if before != request:
                raise AwsError("IdempotentParameterMismatch", token)
            return self._answer("create_fleet", answer)
        answer = self._launch(request)
        self.fleets[token] = (request, answer)
        return self._answer("create_fleet", answer)

    def _launch(self, request: Json) -> Json:
        errors: list[Json] = []
        choices = [
            (override, config["LaunchTemplateSpecification"]["LaunchTemplateName"])
            for config in request["LaunchTemplateConfigs"]
            for override in config["Overrides"]
        ]
        for override, template in sorted(choices, key=lambda choice: choice[0]["Priority"]):
            if template not in self.templates:
                errors.append(_fleet_error("InvalidLaunchTemplateName.NotFoundException", override))
            elif override["SubnetId"] in self.full_subnets:
                errors.append(_fleet_error("InsufficientFreeAddressesInSubnet", override))
            elif code := self._reservation_error(template, override):
                errors.append(_fleet_error(code, override))
            elif not self._target(template) and self._sold_out(override):
                errors.append(_fleet_error("InsufficientInstanceCapacity", override))
            else:
                started = self._start(request, override, self._target(template))
                return {"Instances": [started], "Errors": errors}
        return {"Instances": [], "Errors": errors}

    def _target(self, template: str) -> str:
        """Return the reservation that a template launches into, empty for none."""
        data = self.templates[template]["LaunchTemplateData"]
        wanted = data.get("CapacityReservationSpecification", {})
        return str(wanted.get("CapacityReservationTarget", {}).get("CapacityReservationId", ""))

    def _reservation_error(self, template: str, override: Json) -> str:
        id_ = self._target(template)
        if not id_:
            return ""
        if id_ in self.reservation_errors:
            return self.reservation_errors[id_]
        found = self.reservations[id_]
        place = (found["InstanceType"], found["AvailabilityZone"])
        if place != (override["InstanceType"], override["AvailabilityZone"]):
            return "InvalidParameterValue"
        return "" if found["AvailableInstanceCount"] > 0 else "ReservationCapacityExceeded"

    def _sold_out(self, override: Json) -> bool:
        type_, zone = override["InstanceType"], override["AvailabilityZone"]
        return bool({(type_, zone), ("*", zone), (type_, "*"), ("*", "*")} & self.sold_out)

    def _start(self, request: Json, override: Json, reservation: str) -> Json:
        instance_id = f"i-{next(self._ids):017x}"
        spot = request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "spot"
        tags = tags_of(request, "instance")
        self.instances[instance_id] = {
            "InstanceId": instance_id,
            "InstanceType": override["InstanceType"],
            "ImageId": override["ImageId"],
            "Placement": {"AvailabilityZone": override["AvailabilityZone"]},
            "SubnetId": override["SubnetId"],
            "SecurityGroups": [{"GroupId": "sg-1"}],
            "State": {"Name": "pending"},
            "LaunchTime": self._now(),
            "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        } | ({"InstanceLifecycle": "spot"} if spot else {})
        if reservation:
            self.reservations[reservation]["AvailableInstanceCount"] -= 1
            self.instances[instance_id]["CapacityReservationId"] = reservation
        return {
            "InstanceIds": [instance_id],
            "InstanceType": override["InstanceType"],
            "Lifecycle": "spot" if spot else "on-demand",
            "LaunchTemplateAndOverrides": {"Overrides": override},
        }

    def run_instances(self, **request: Any) -> Json:
        self._called("run_instances", request)
        raise AwsError(DRY_RUN, "would have succeeded")

    def create_tags(self, **request: Any) -> Json:
        self._called("create_tags", request)
        for instance_id in request["Resources"]:
            self.instances[instance_id]["Tags"].extend(request["Tags"])
        return {}

    def create_launch_template(self, **request: Any) -> Json:
        self._called("create_launch_template", request)
        name = request["LaunchTemplateName"]
        if name in self.templates:
            raise AwsError("InvalidLaunchTemplateName.AlreadyExistsException", name)
        self.templates[name] = request
        return self._answer("create_launch_template", {})

    def describe_launch_templates(self, **request: Any) -> Json:
        self._called("describe_launch_templates", request)
        return {
            "LaunchTemplates": [
                {"LaunchTemplateName": name}
                for name, made in self.templates.items()
                if matches(tags_of(made, "launch-template"), request.get("Filters", []))
            ]
        }

    def delete_launch_template(self, **request: Any) -> Json:
        self._called("delete_launch_template", request)
        if self.templates.pop(request["LaunchTemplateName"], None) is None:
            raise AwsError("InvalidLaunchTemplateName.NotFoundException", "gone")
        return {}


def image(image_id: str, architecture: str, **more: Any) -> Json:
    """Return an image as DescribeImages does."""
    return {
        "ImageId": image_id,
        "Name": image_id,
        "Architecture": architecture,
        "State": "available",
        "CreationDate": "2026-01-01T00:00:00.000Z",
        "Tags": [],
    } | more


def _fleet_error(code: str, override: Json) -> Json:
    return {
        "ErrorCode": code,
        "ErrorMessage": f"{code} for {override['InstanceType']}",
        "LaunchTemplateAndOverrides": {"Overrides": override},
    }


def _selected(things: list[Json], request: Json, names: Mapping[str, str]) -> list[Json]:
    return [
        thing
        for thing in things
        if matches(
            {tag["Key"]: tag["Value"] for tag in thing["Tags"]},
            request.get("Filters", []),
            **{name: thing[field] for name, field in names.items()},
        )
    ]


class FakeSsm(Calls):
    """Parameters by name."""

    def __init__(self) -> None:
        super().__init__()
        root = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023"
        self.parameters = {
            f"{root}/x86_64/standard/recommended/image_id": "ami-x86",
            f"{root}/arm64/standard/recommended/image_id": "ami-arm",
            f"{root}/x86_64/nvidia/recommended/image_id": "ami-gpu",
        }

    def get_parameter(self, **request: Any) -> Json:
        self._called("get_parameter", request)
        name = request["Name"]
        if name not in self.parameters:
            raise AwsError("ParameterNotFound", name)
        return {"Parameter": {"Value": self.parameters[name]}}


class FakeIam(Calls):
    """Instance profiles by name."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._now = now
        self.profiles: dict[str, Json] = {}

    def get_instance_profile(self, **request: Any) -> Json:
        self._called("get_instance_profile", request)
        return {"InstanceProfile": self._profile(request)}

    def _profile(self, request: Json) -> Json:
        name = request["InstanceProfileName"]
        if name not in self.profiles:
            raise AwsError("NoSuchEntity", name)
        return self.profiles[name]

    def create_instance_profile(self, **request: Any) -> Json:
        self._called("create_instance_profile", request)
        name = request["InstanceProfileName"]
        if name in self.profiles:
            raise AwsError("EntityAlreadyExists", name)
        self.profiles[name] = request | {"Roles": [], "CreateDate": self._now()}
        return self._answer("create_instance_profile", {"InstanceProfile": self.profiles[name]})

    def add_role_to_instance_profile(self, **request: Any) -> Json:
        self._called("add_role_to_instance_profile", request)
        profile = self._profile(request)
        if profile["Roles"]:
            raise AwsError("LimitExceeded", "one role per profile")
        profile["Roles"] = [{"RoleName": request["RoleName"]}]
        return self._answer("add_role_to_instance_profile", {})

    def remove_role_from_instance_profile(self, **request: Any) -> Json:
        self._called("remove_role_from_instance_profile", request)
        self._profile(request)["Roles"] = []
        return {}

    def delete_instance_profile(self, **request: Any) -> Json:
        self._called("delete_instance_profile", request)
        self._profile(request)
        del self.profiles[request["InstanceProfileName"]]
        return {}

    def list_instance_profiles(self, **request: Any) -> Json:
        self._called("list_instance_profiles", request)
        found = [
            profile
            for profile in self.profiles.values()
            if profile["Path"].startswith(request["PathPrefix"])
        ]
        return {"InstanceProfiles": found}


class FakeSqs(Calls):
    """One queue."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Json] = []
        self.exists = True

    def get_queue_url(self, **request: Any) -> Json:
        self._called("get_queue_url", request)
        if not self.exists:
            raise AwsError("AWS.SimpleQueueService.NonExistentQueue", request["QueueName"])
        return {"QueueUrl": f"https://sqs/{request['QueueName']}"}

    def receive_message(self, **request: Any) -> Json:
        self._called("receive_message", request)
        return {"Messages": list(self.messages)} if self.messages else {}

    def delete_message(self, **request: Any) -> Json:
        self._called("delete_message", request)
        handle = request["ReceiptHandle"]
        self.messages = [each for each in self.messages if each["ReceiptHandle"] != handle]
        return {}


class FakeEks(Calls):
    """One cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster: Json = {
            "name": "demo",
            "version": "1.36",
            "endpoint": "https://demo.eks",
            "certificateAuthority": {"data": "Q0E="},
            "kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16"},
        }

    def describe_cluster(self, **request: Any) -> Json:
        self._called("describe_cluster", request)
        if request["name"] != self.cluster["name"]:
            raise AwsError("ResourceNotFoundException", request["name"])
        return {"cluster": self.cluster}


class FakePricing(Calls):
    """A price list."""

    def __init__(self) -> None:
        super().__init__()
        self.products: dict[str, list[str]] = {}

    def get_products(self, **request: Any) -> Json:
        self._called("get_products", request)
        wanted = {each["Field"]: each["Value"] for each in request["Filters"]}
        return {"PriceList": self.products.get(wanted["tenancy"], [])}


@dataclass
class FakeAws:
    """All services of one account and region."""

    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    types: tuple[str, ...] = SOME_TYPES
    ec2: FakeEc2 = field(init=False)
    ssm: FakeSsm = field(default_factory=FakeSsm)
    iam: FakeIam = field(init=False)
    sqs: FakeSqs = field(default_factory=FakeSqs)
    eks: FakeEks = field(default_factory=FakeEks)
    pricing: FakePricing = field(default_factory=FakePricing)

    def __post_init__(self) -> None:
        self.ec2 = FakeEc2(self.now, self.types)
        self.iam = FakeIam(self.now)

    def clients(self) -> AwsClients:
        return AwsClients(
            region=REGION,
            ec2=self.ec2,
            ssm=self.ssm,
            pricing=self.pricing,
            eks=self.eks,
            iam=self.iam,
            sqs=self.sqs,
            workers=Inline(),
        )
