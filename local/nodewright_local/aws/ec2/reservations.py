"""On-demand capacity reservations, which moto lacks: made, shown, launched into, cancelled.

A reservation holds its instances back from nobody else here, since the laptop's EC2 has no end of
them; but it gives only as many as were reserved, and it gives those even when `/_nodewright/ice` has
drained the pool. Who takes part in one is read off the instances, so an instance that is gone frees
its place by itself. Capacity blocks are sold by offers that the laptop does not have.
"""

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2 import catalogue
from nodewright_local.aws.ec2.filters import filters_of, matches
from nodewright_local.aws.ec2.instances import InstanceRecord
from nodewright_local.aws.ec2.launch_spec import LaunchSpec, tags_by_resource
from nodewright_local.aws.ec2.paging import page
from nodewright_local.aws.errors import AwsError, dry_run
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World

_PER_PAGE = 1000
_TAKING = ("pending", "running", "shutting-down", "stopping")


@dataclass(slots=True, kw_only=True)
class Reservation:
    """One capacity reservation."""

    id: str
    region: str
    instance_type: str
    zone: str
    total: int
    match_criteria: str
    """`open` or `targeted`."""
    platform: str
    tenancy: str
    end: datetime | None
    created: datetime
    tags: dict[str, str] = field(default_factory=dict)
    cancelled: bool = False

    @property
    def state(self) -> str:
        """EC2's word for it."""
        if self.cancelled:
            return "cancelled"
        return "expired" if self.end is not None and self.end <= datetime.now(UTC) else "active"


def users_of(world: World, reservation: Reservation) -> list[InstanceRecord]:
    """The instances that take a place of a reservation."""
    return [
        record
        for record in world.instances.all(reservation.region)
        if record.capacity_reservation_id == reservation.id and record.state in _TAKING
    ]


def create_capacity_reservation(world: World, call: Call) -> dict[str, Any]:
    """Answer CreateCapacityReservation."""
    params = call.params
    made = _reservation(call)
    if params.get("DryRun"):
        raise dry_run()
    known = world.client_tokens.recall("CreateCapacityReservation", call.region, params)
    if known is not None:
        answer: dict[str, Any] = known
        return answer
    world.capacity_reservations[made.id] = made
    answer = {"CapacityReservation": _shown(world, made)}
    world.client_tokens.remember("CreateCapacityReservation", call.region, params, answer)
    return answer


def _reservation(call: Call) -> Reservation:
    params = call.params
    instance_type, zone = str(params["InstanceType"]), str(params.get("AvailabilityZone") or "")
    if not zone:
        raise AwsError(
            "MissingParameter", "The request must contain the parameter AvailabilityZone"
        )
    if zone not in catalogue.zones_by_type(call.region).get(instance_type, ()):
        raise AwsError(
            "Unsupported",
            f"The requested instance type {instance_type} is not supported in the Availability "
            f"Zone {zone}.",
        )
    count = int(params["InstanceCount"])
    if count < 1:
        raise AwsError("InvalidParameterValue", "InstanceCount must be at least 1")
    return Reservation(
        id=f"cr-{secrets.token_hex(8)}0",
        region=call.region,
        instance_type=instance_type,
        zone=zone,
        total=count,
        match_criteria=params.get("InstanceMatchCriteria") or "open",
        platform=params.get("InstancePlatform") or "Linux/UNIX",
        tenancy=params.get("Tenancy") or "default",
        end=_end(params),
        created=datetime.now(UTC).replace(microsecond=0),
        tags=tags_by_resource(params.get("TagSpecifications")).get("capacity-reservation", {}),
    )


def _end(params: dict[str, Any]) -> datetime | None:
    end: datetime | None = params.get("EndDate")
    if params.get("EndDateType") == "limited" and end is None:
        raise AwsError("MissingParameter", "EndDate is required when EndDateType is limited")
    # Instants of a request come without their zone; EC2's are UTC.
    return end.replace(tzinfo=UTC) if end is not None and end.tzinfo is None else end


def describe_capacity_reservations(world: World, call: Call) -> dict[str, Any]:
    """Answer DescribeCapacityReservations, by ids and filters."""
    params = call.params
    if params.get("DryRun"):
        raise dry_run()
    wanted = params.get("CapacityReservationIds")
    found = [_find(world, call.region, id_) for id_ in wanted] if wanted else _all(world, call)
    filters = filters_of(params)
    shown = [
        each for each in found if not filters or matches(filters, _attributes(each), each.tags)
    ]
    chosen, token = page(shown, params, limit=_PER_PAGE)
    return {
        "CapacityReservations": [_shown(world, each) for each in chosen],
        "NextToken": token,
    }


def _all(world: World, call: Call) -> list[Reservation]:
    return [each for each in world.capacity_reservations.values() if each.region == call.region]


def _find(world: World, region: str, reservation_id: str) -> Reservation:
    found = world.capacity_reservations.get(reservation_id)
    if found is None or found.region != region:
        raise AwsError(
            "InvalidCapacityReservationId.NotFound",
            f"The capacity reservation ID '{reservation_id}' does not exist",
        )
    return found


def _attributes(reservation: Reservation) -> dict[str, Any]:
    return {
        "availability-zone": reservation.zone,
        "end-date-type": "limited" if reservation.end else "unlimited",
        "instance-match-criteria": reservation.match_criteria,
        "instance-platform": reservation.platform,
        "instance-type": reservation.instance_type,
        "owner-id": moto_access.account(),
        "state": reservation.state,
        "tenancy": reservation.tenancy,
    }


def _shown(world: World, reservation: Reservation) -> dict[str, Any]:
    account = moto_access.account()
    arn = f"arn:aws:ec2:{reservation.region}:{account}:capacity-reservation/{reservation.id}"
    active = reservation.state == "active"
    taken = len(users_of(world, reservation))
    shown: dict[str, Any] = {
        "CapacityReservationId": reservation.id,
        "CapacityReservationArn": arn,
        "OwnerId": account,
        "InstanceType": reservation.instance_type,
        "InstancePlatform": reservation.platform,
        "AvailabilityZone": reservation.zone,
        "Tenancy": reservation.tenancy,
        "TotalInstanceCount": reservation.total if active else 0,
        "AvailableInstanceCount": max(0, reservation.total - taken) if active else 0,
        "EbsOptimized": False,
        "EphemeralStorage": False,
        "State": reservation.state,
        "StartDate": reservation.created,
        "EndDateType": "limited" if reservation.end else "unlimited",
        "InstanceMatchCriteria": reservation.match_criteria,
        "CreateDate": reservation.created,
        "ReservationType": "default",
        "Tags": [{"Key": key, "Value": value} for key, value in reservation.tags.items()],
    }
    return shown | ({"EndDate": reservation.end} if reservation.end else {})


def modify_capacity_reservation(world: World, call: Call) -> dict[str, Any]:
    """Answer ModifyCapacityReservation: count, end, and who may use it."""
    params = call.params
    found = _find(world, call.region, params["CapacityReservationId"])
    if params.get("DryRun"):
        raise dry_run()
    if params.get("InstanceCount") is not None:
        found.total = int(params["InstanceCount"])
    if params.get("InstanceMatchCriteria"):
        found.match_criteria = params["InstanceMatchCriteria"]
    if params.get("EndDateType") or params.get("EndDate"):
        found.end = None if params.get("EndDateType") == "unlimited" else _end(params)
    return {"Return": True}


def cancel_capacity_reservation(world: World, call: Call) -> dict[str, Any]:
    """Answer CancelCapacityReservation: its instances run on, outside of any reservation."""
    found = _find(world, call.region, call.params["CapacityReservationId"])
    if call.params.get("DryRun"):
        raise dry_run()
    for record in users_of(world, found):
        record.capacity_reservation_id = ""
    found.cancelled = True
    return {"Return": True}


def reservation_for(world: World, spec: LaunchSpec) -> Reservation | None:
    """The reservation that a launch takes a place of; None when it takes none.

    Raises AwsError when it asks for one that cannot give it a place.
    """
    asked = spec.options.get("CapacityReservationSpecification") or {}
    target = (asked.get("CapacityReservationTarget") or {}).get("CapacityReservationId")
    if target:
        return _targeted(world, spec, str(target))
    preference = asked.get("CapacityReservationPreference") or "open"
    if preference == "none" or spec.capacity_type == "spot":
        return None
    for found in world.capacity_reservations.values():
        if found.match_criteria == "open" and _suits(found, spec) and _has_room(world, found):
            return found
    if preference == "capacity-reservations-only":
        raise _used_up()
    return None


def _targeted(world: World, spec: LaunchSpec, target: str) -> Reservation:
    found = _find(world, spec.region, target)
    if found.state != "active":
        raise AwsError(
            "InvalidCapacityReservationState.Unavailable",
            f"The capacity reservation '{target}' is {found.state}",
        )
    if not _suits(found, spec):
        raise AwsError(
            "InvalidParameterValue",
            f"The instance does not match the capacity reservation '{target}', which is for "
            f"{found.instance_type} in {found.zone}",
        )
    if not _has_room(world, found):
        raise _used_up()
    return found


def _suits(reservation: Reservation, spec: LaunchSpec) -> bool:
    tenancy = (spec.options.get("Placement") or {}).get("Tenancy") or "default"
    return (
        reservation.state == "active"
        and (reservation.region, reservation.zone) == (spec.region, spec.zone)
        and reservation.instance_type == spec.instance_type
        and reservation.tenancy == tenancy
    )


def _has_room(world: World, reservation: Reservation) -> bool:
    return len(users_of(world, reservation)) < reservation.total


def _used_up() -> AwsError:
    return AwsError(
        "ReservationCapacityExceeded",
        "The requested capacity reservation has no available instance capacity.",
    )
