"""Instances and their life.

moto's Instance carries interfaces, volumes, addresses and tags; an InstanceRecord beside it holds
what moto has no place for. States follow EC2's clock (pending, running, shutting-down, terminated,
then gone) and every change is published as an event.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.core.exceptions import ServiceException

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2.images import images
from nodewright_local.aws.ec2.launch_spec import LaunchSpec
from nodewright_local.aws.errors import AwsError
from nodewright_local.aws.events import (
    REBALANCE,
    SPOT_WARNING,
    STATE_CHANGE,
    instance_event,
)
from nodewright_local.aws.settings import Delays
from nodewright_local.aws.timeline import Timeline

STATE_CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}
ADDRESS_REST_SECONDS = 600.0
"""How long a private address rests before another instance may have it: a Node bears its name."""

Publish = Callable[[dict[str, Any]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Which call an instance came from."""

    launched_by: str
    """`fleet`, `run-instances` or `nodegroup`."""
    price: float | None
    """USD per hour at launch."""
    fleet_id: str | None = None
    considered_types: int = 1
    """Distinct instance types the call offered."""


@dataclass(slots=True, kw_only=True)
class Health:
    """What DescribeInstanceStatus says of an instance; tests make it worse."""

    system: str = "ok"
    instance: str = "ok"
    impaired_since: datetime | None = None
    events: tuple[dict[str, Any], ...] = ()


@dataclass(slots=True, kw_only=True)
class InstanceRecord:
    """One instance: moto's object and what stands beside it."""

    moto: Any
    spec: LaunchSpec
    origin: Origin
    launched_at: datetime
    reservation_id: str
    private_dns_name: str
    private_ip: str
    state: str = "pending"
    reason: str = ""
    reason_code: str = ""
    spot_request_id: str | None = None
    capacity_reservation_id: str = ""
    """The capacity reservation of which it takes a place, empty for none."""
    interfaces: tuple[Any, ...] = ()
    """moto's NetworkInterfaces beside their requests: (interface, request)."""
    health: Health = field(default_factory=Health)
    rendered: tuple[object, str] | None = None
    """Cached XML: what it was rendered from, and the text."""

    @property
    def instance_id(self) -> str:
        """The instance's id."""
        return str(self.moto.id)

    @property
    def live(self) -> bool:
        """Whether it is on its way to running, or runs."""
        return self.state in ("pending", "running")

    @property
    def tags(self) -> dict[str, str]:
        """Tags as they are now."""
        return dict(moto_access.ec2(self.spec.region).tags.get(self.instance_id, {}))


class Instances:
    """All instances of the account."""

    def __init__(self, delays: Delays, timeline: Timeline, publish: Publish) -> None:
        self._delays = delays
        self._timeline = timeline
        self._publish = publish
        self._records: dict[str, InstanceRecord] = {}

    def all(self, region: str | None = None) -> list[InstanceRecord]:
        """Every instance that EC2 still shows, in order of launch."""
        return [record for record in self._records.values() if region in (None, record.spec.region)]

    def find(self, instance_id: str) -> InstanceRecord | None:
        """One instance, None when EC2 does not (or no longer) know it."""
        return self._records.get(instance_id)

    def get(self, region: str, instance_ids: list[str]) -> list[InstanceRecord]:
        """The named instances, in the order named; InvalidInstanceID errors as in EC2."""
        for instance_id in instance_ids:
            if not instance_id.startswith("i-"):
                raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{instance_id}"')
        found = [self._records.get(instance_id) for instance_id in instance_ids]
        missing = [
            instance_id
            for instance_id, record in zip(instance_ids, found, strict=True)
            if record is None or record.spec.region != region
        ]
        if missing:
            noun, verb = ("IDs", "do") if len(missing) > 1 else ("ID", "does")
            raise AwsError(
                "InvalidInstanceID.NotFound",
                f"The instance {noun} '{', '.join(missing)}' {verb} not exist",
            )
        return [record for record in found if record is not None]

    def launch(self, spec: LaunchSpec, origin: Origin) -> InstanceRecord:
        """Bring one instance into being; it is pending, and running a little later."""
        record = _create(spec, origin)
        self._records[record.instance_id] = record
        self._set_state(record, "pending")
        self._timeline.after(
            self._delays.pending, lambda: self._advance(record, "pending", "running")
        )
        return record

    def terminate(
        self, record: InstanceRecord, *, code: str = "Client.UserInitiatedShutdown"
    ) -> str:
        """Begin the end of an instance and return the state it was in; again is harmless."""
        previous = record.state
        if previous in ("shutting-down", "terminated"):
            return previous
        by = "User initiated" if code.startswith("Client.") else "Server.SpotInstanceTermination"
        record.reason = f"{by} ({datetime.now(UTC):%Y-%m-%d %H:%M:%S} GMT)"
        record.reason_code = code
        self._set_state(record, "shutting-down")
        self._timeline.after(self._delays.shutting_down, lambda: self._end(record))
        return previous

    def stop(self, record: InstanceRecord) -> str:
        """Stop an on-demand instance and return the state it was in."""
        if record.spec.capacity_type == "spot":
            raise AwsError(
                "UnsupportedOperation",
                f"You can't stop the Spot Instance '{record.instance_id}' because it is "
                "associated with a one-time Spot Instance request.",
            )
        return self._change(record, "running", "stopping", "stopped")

    def start(self, record: InstanceRecord) -> str:
        """Start a stopped instance and return the state it was in."""
        return self._change(record, "stopped", "pending", "running")

    def interrupt(self, record: InstanceRecord, *, seconds: float, rebalance: bool) -> None:
        """Warn of a spot interruption and take the instance away `seconds` later."""
        region, instance_id = record.spec.region, record.instance_id
        if rebalance:
            self._publish(instance_event(region, instance_id, REBALANCE))
        self._publish(
            instance_event(region, instance_id, SPOT_WARNING, **{"instance-action": "terminate"})
        )
        self._timeline.after(
            seconds,
            lambda: self.terminate(record, code="Server.SpotInstanceTermination"),
        )

    def _change(self, record: InstanceRecord, source: str, passing: str, final: str) -> str:
        previous = record.state
        if previous in (final, passing):
            return previous
        if previous != source:
            raise AwsError(
                "IncorrectInstanceState",
                f"The instance '{record.instance_id}' is not in a state from which it can be "
                f"{final}.",
            )
        self._set_state(record, passing)
        self._timeline.after(self._delays.pending, lambda: self._advance(record, passing, final))
        return previous

    def _advance(self, record: InstanceRecord, source: str, target: str) -> None:
        if record.state == source:
            self._set_state(record, target)

    def _set_state(self, record: InstanceRecord, state: str) -> None:
        record.state = state
        record.moto._state.name = state
        record.moto._state.code = STATE_CODES[state]
        self._publish(
            instance_event(record.spec.region, record.instance_id, STATE_CHANGE, state=state)
        )

    def _end(self, record: InstanceRecord) -> None:
        backend = moto_access.ec2(record.spec.region)
        _release(record)
        self._set_state(record, "terminated")
        subnet, address = record.spec.subnet, record.private_ip
        # moto hands a freed address to the very next instance; EC2 practically never does.
        subnet._unused_ips.discard(address)
        self._timeline.after(ADDRESS_REST_SECONDS, lambda: subnet._unused_ips.add(address))

        def forget() -> None:
            self._records.pop(record.instance_id, None)
            backend.reservations.pop(record.reservation_id, None)
            backend.tags.pop(record.instance_id, None)

        self._timeline.after(self._delays.terminated_visible, forget)


def _create(spec: LaunchSpec, origin: Origin) -> InstanceRecord:
    backend = moto_access.ec2(spec.region)
    primary = spec.interfaces[0]
    public = primary.get("AssociatePublicIpAddress")
    reservation = backend.run_instances(
        spec.image["ImageId"],
        1,
        None,
        [],
        instance_type=spec.instance_type,
        is_instance_type_default=False,
        region_name=spec.region,
        subnet_id=spec.subnet.id,
        security_group_ids=list(spec.security_group_ids),
        associate_public_ip=spec.subnet.map_public_ip_on_launch if public is None else public,
        nics=[
            {
                "DeviceIndex": 0,
                "SubnetId": spec.subnet.id,
                "DeleteOnTermination": True,
                "Description": primary.get("Description"),
            }
        ],
        block_device_mappings=[],
        tags={"instance": _instance_tags(spec, origin)},
        lifecycle="spot" if spec.capacity_type == "spot" else None,
        key_name=spec.options.get("KeyName"),
        monitoring_state="enabled" if spec.monitoring else "disabled",
    )
    instance = reservation.instances[0]
    instance.user_data = spec.user_data or None
    instance.architecture = spec.image["Architecture"]
    instance.disable_api_termination = bool(spec.options.get("DisableApiTermination"))
    spot_request = f"sir-{secrets.token_hex(4)}" if spec.capacity_type == "spot" else None
    record = InstanceRecord(
        moto=instance,
        spec=spec,
        origin=origin,
        launched_at=datetime.now(UTC).replace(microsecond=0),
        reservation_id=reservation.id,
        private_dns_name=instance.private_dns_name,
        private_ip=instance.private_ip,
        spot_request_id=spot_request,
        interfaces=_attach_interfaces(spec, instance),
    )
    try:
        _attach_volumes(spec, instance)
    except ServiceException as error:
        # moto checks snapshots and volume types; the half-made instance must leave no trace.
        _release(record)
        backend.reservations.pop(reservation.id, None)
        backend.tags.pop(record.instance_id, None)
        raise AwsError(error.code, error.message) from error
    return record


def _instance_tags(spec: LaunchSpec, origin: Origin) -> dict[str, str]:
    tags = dict(spec.tags.get("instance", {}))
    if spec.template:
        tags["aws:ec2launchtemplate:id"] = spec.template[0]
        tags["aws:ec2launchtemplate:version"] = str(spec.template[1])
    if origin.fleet_id:
        tags["aws:ec2:fleet-id"] = origin.fleet_id
    return tags


def _attach_interfaces(spec: LaunchSpec, instance: Any) -> tuple[Any, ...]:
    backend = moto_access.ec2(spec.region)
    tags = spec.tags.get("network-interface", {})
    attached = [(instance.nics[0], spec.interfaces[0])]
    for number, request in enumerate(spec.interfaces[1:], start=1):
        interface = backend.create_network_interface(
            spec.subnet,
            spec.subnet.get_available_subnet_ip(instance=instance),
            group_ids=list(request.get("Groups") or spec.security_group_ids),
            delete_on_termination=True,
        )
        # moto keys interfaces by device index, which repeats over network cards.
        instance.attach_eni(interface, number)
        attached.append((interface, request))
    for interface, request in attached:
        interface.interface_type = _interface_type(request)
        interface.add_tags(tags)
    return tuple(attached)


def _interface_type(request: dict[str, Any]) -> str:
    return str(request.get("InterfaceType") or "interface")


def _attach_volumes(spec: LaunchSpec, instance: Any) -> None:
    backend = moto_access.ec2(spec.region)
    own_snapshots = {item["Ebs"].get("SnapshotId") for item in spec.image["BlockDeviceMappings"]}
    for device in spec.devices:
        ebs = device["Ebs"]
        snapshot = ebs.get("SnapshotId")
        volume = backend.create_volume(
            size=ebs.get("VolumeSize"),
            zone_name=spec.zone,
            snapshot_id=None if snapshot in own_snapshots else snapshot,
            encrypted=bool(ebs.get("Encrypted")),
            kms_key_id=ebs.get("KmsKeyId"),
            volume_type=ebs.get("VolumeType") or "gp3",
            iops=ebs.get("Iops"),
            throughput=ebs.get("Throughput"),
        )
        backend.attach_volume(
            volume.id, instance.id, device["DeviceName"], bool(ebs.get("DeleteOnTermination"))
        )
        volume.add_tags(spec.tags.get("volume", {}))


def _release(record: InstanceRecord) -> None:
    """Give volumes, interfaces and addresses back; the record keeps what it needs to be shown."""
    backend = moto_access.ec2(record.spec.region)
    for interface, _ in record.interfaces:
        if interface.id in backend.enis:
            interface.stop()
            interface.delete()
    record.moto.teardown_defaults()
    backend.iam_instance_profile_associations.pop(record.instance_id, None)


def image_family(record: InstanceRecord) -> tuple[str, str]:
    """The image's family and variant; `Custom` for an image that is not AWS's."""
    known = images(record.spec.region).get(record.spec.image["ImageId"])
    return (known.family, known.variant) if known else ("Custom", "standard")
