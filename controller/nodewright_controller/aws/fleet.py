"""The CreateFleet call: its request, and what its answer means. Pure.

A fleet is `instant` and buys exactly one instance for exactly one NodeClaim. Its ClientToken comes
from the claim, and the claim's name is on the instance from the start: asking twice yields the
same instance, and an instance whose launch was never answered can be found again. Upstream joins
equal requests into one call; here no two requests are equal, which is the price of that safety.
Upstream: pkg/providers/instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from nodewright_controller.api.labels import MIN_VALUES_RELAXED, ON_DEMAND, SPOT
from nodewright_controller.aws.error_codes import is_out_of_capacity
from nodewright_controller.aws.filters import Choice
from nodewright_controller.aws.launch_template import LaunchInput, LaunchTemplate
from nodewright_controller.aws.reserved import Reservation, reservation_of
from nodewright_controller.aws.subnets import Subnet
from nodewright_controller.aws.tags import as_list, launch_tags

_TAGGED: Final = ("instance", "volume", "fleet")
_TARGET: Final = {SPOT: "spot", ON_DEMAND: "on-demand"}


@dataclass(frozen=True, slots=True)
class FleetError:
    """Why one override did not yield an instance."""

    code: str
    message: str
    instance_type: str
    zone: str
    subnet_id: str


@dataclass(frozen=True, slots=True)
class FleetInstance:
    """What a fleet bought."""

    instance_id: str
    instance_type: str
    zone: str
    subnet_id: str
    image_id: str
    capacity_type: str
    reservation_id: str = ""
    """The capacity reservation it came from, if from any."""


@dataclass(frozen=True, slots=True)
class FleetResult:
    """The answer: at most one instance, and the errors on the way to it."""

    instance: FleetInstance | None
    errors: tuple[FleetError, ...]

    @property
    def out_of_capacity(self) -> bool:
        """Whether there are errors and every one means that stock ran out."""
        return bool(self.errors) and all(is_out_of_capacity(error.code) for error in self.errors)


def client_token(node_claim_uid: str, attempt: int) -> str:
    """Return the idempotency token of a claim's nth attempt; at most 64 characters."""
    return f"{node_claim_uid}-{attempt}"[:64]


def overrides(template: LaunchTemplate, subnets: Mapping[str, Subnet]) -> list[dict[str, Any]]:
    """Return type by zone of a template where there is a subnet, cheapest first."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for candidate in template.candidates:
        for offering in candidate.offerings:
            subnet = subnets.get(offering.zone)
            key = (candidate.instance_type.name, offering.zone)
            if subnet is None or key in found:
                continue
            found[key] = {
                "InstanceType": key[0],
                "SubnetId": subnet.id,
                "ImageId": template.image_id,
                "AvailabilityZone": offering.zone,
                "Priority": offering.usd_per_hour,
            }
    return sorted(
        found.values(),
        key=lambda each: (each["Priority"], each["InstanceType"], each["AvailabilityZone"]),
    )


def fleet_request(
    wanted: LaunchInput,
    templates: Iterable[LaunchTemplate],
    subnets: Mapping[str, Subnet],
    token: str,
) -> dict[str, Any]:
    """Return the CreateFleet request; no template configuration means nothing can be bought."""
    configs = []
    for template in templates:
        choices = overrides(template, subnets)
        if choices:
            specification = {"LaunchTemplateName": template.name, "Version": "$Latest"}
            configs.append({"LaunchTemplateSpecification": specification, "Overrides": choices})
    tags = as_list(launch_tags(wanted.node_class, wanted.node_claim, wanted.options))
    request: dict[str, Any] = {
        "Type": "instant",
        "ClientToken": token,
        "LaunchTemplateConfigs": configs,
        "TargetCapacitySpecification": {
            "DefaultTargetCapacityType": _target(wanted.choice),
            "TotalTargetCapacity": 1,
        },
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags} for kind in _TAGGED],
    }
    request |= _fleet_options(wanted.choice)
    context = wanted.node_class.spec.context
    if context and wanted.node_claim.annotations.get(MIN_VALUES_RELAXED) != "true":
        request["Context"] = context
    return request


def _reservation(choice: Choice) -> Reservation | None:
    """Return one of the reservations that a choice buys from: all of them are of one kind."""
    return reservation_of(choice.candidates[0].offerings[0]) if choice.candidates else None


def _target(choice: Choice) -> str:
    reservation = _reservation(choice)
    return reservation.target if reservation else _TARGET[choice.capacity_type]


def _fleet_options(choice: Choice) -> dict[str, Any]:
    reservation, strategy = _reservation(choice), _strategy(choice)
    if reservation is not None:
        return reservation.fleet_options(strategy)
    key = "SpotOptions" if choice.capacity_type == SPOT else "OnDemandOptions"
    return {key: {"AllocationStrategy": strategy}}


def _strategy(choice: Choice) -> str:
    """Return how EC2 chooses; it knows only list prices, so overlaid ones go by our priorities."""
    overlaid = any(
        offering.price_overlaid for found in choice.candidates for offering in found.offerings
    )
    if choice.capacity_type == SPOT:
        return "capacity-optimized-prioritized" if overlaid else "price-capacity-optimized"
    return "prioritized" if overlaid else "lowest-price"


def offered(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every override of a request: type, zone, subnet and image that EC2 may choose."""
    for config in request["LaunchTemplateConfigs"]:
        yield from config["Overrides"]


def offered_types(request: Mapping[str, Any]) -> frozenset[str]:
    """Return the instance types a request lets EC2 choose from."""
    return frozenset(each["InstanceType"] for each in offered(request))


def offered_subnets(request: Mapping[str, Any]) -> frozenset[str]:
    """Return the subnets a request lets EC2 choose from."""
    return frozenset(each["SubnetId"] for each in offered(request))


def parse_fleet(answer: Mapping[str, Any], request: Mapping[str, Any]) -> FleetResult:
    """Read the answer to a request."""
    by_place = {(each["InstanceType"], each["SubnetId"]): each for each in offered(request)}
    errors = tuple(_error(raw) for raw in answer.get("Errors") or ())
    for raw in answer.get("Instances") or ():
        for instance_id in raw.get("InstanceIds") or ():
            return FleetResult(_instance(raw, instance_id, by_place), errors)
    return FleetResult(None, errors)


def _override(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = raw.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    return found


def _error(raw: Mapping[str, Any]) -> FleetError:
    override = _override(raw)
    return FleetError(
        raw.get("ErrorCode", ""),
        raw.get("ErrorMessage", ""),
        override.get("InstanceType", ""),
        override.get("AvailabilityZone", ""),
        override.get("SubnetId", ""),
    )


def _instance(
    raw: Mapping[str, Any],
    instance_id: str,
    by_place: Mapping[tuple[str, str], Mapping[str, Any]],
) -> FleetInstance:
    override = _override(raw)
    instance_type = raw.get("InstanceType") or override.get("InstanceType", "")
    subnet_id = override.get("SubnetId", "")
    asked = by_place.get((instance_type, subnet_id), {})
    lifecycle = raw.get("Lifecycle", "on-demand")
    return FleetInstance(
        instance_id=instance_id,
        instance_type=instance_type,
        zone=override.get("AvailabilityZone") or asked.get("AvailabilityZone", ""),
        subnet_id=subnet_id,
        image_id=override.get("ImageId") or asked.get("ImageId", ""),
        capacity_type=SPOT if lifecycle == "spot" else ON_DEMAND,
    )
