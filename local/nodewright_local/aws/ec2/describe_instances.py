"""DescribeInstances and DescribeInstanceStatus.

Each instance is rendered once and again only when something shown has changed, so that a listing
of hundreds costs little.
"""

from collections.abc import Iterable
from typing import Any

from nodewright_local.aws import moto_access
from nodewright_local.aws.ec2 import catalogue
from nodewright_local.aws.ec2.filters import Filters, filters_of, matches
from nodewright_local.aws.ec2.instances import STATE_CODES, InstanceRecord
from nodewright_local.aws.ec2.paging import page
from nodewright_local.aws.ec2.xml import list_answer, render_item
from nodewright_local.aws.errors import AwsError, dry_run
from nodewright_local.aws.wire import Answer, Call
from nodewright_local.aws.world import World

_PER_PAGE = 1000


def _reject_paging_by_id(params: dict[str, Any]) -> None:
    if params.get("InstanceIds") and params.get("MaxResults"):
        raise AwsError(
            "InvalidParameterCombination",
            "The parameter instancesSet cannot be used with the parameter maxResults",
        )


def describe_instances(world: World, call: Call) -> Answer:
    """Answer DescribeInstances: ids, filters, pages."""
    params = call.params
    if params.get("DryRun"):
        raise dry_run()
    _reject_paging_by_id(params)
    ids = params.get("InstanceIds")
    records = world.instances.get(call.region, ids) if ids else world.instances.all(call.region)
    filters = filters_of(params)
    shown = [record for record in records if _passes(record, filters)]
    chosen, token = page(shown, params, limit=_PER_PAGE)
    return list_answer(
        "DescribeInstances", "reservationSet", map(_reservation_fragment, chosen), token
    )


def _passes(record: InstanceRecord, filters: Filters) -> bool:
    return not filters or matches(filters, _attributes(record), record.tags)


def _reservation_fragment(record: InstanceRecord) -> str:
    tags = record.tags
    instance = record.moto
    key = (
        record.state,
        tuple(tags.items()),
        record.reason,
        record.capacity_reservation_id,
        tuple(group.id for group in instance.security_groups),
        instance.source_dest_check,
        tuple((device, item.volume_id) for device, item in instance.get_block_device_mapping),
    )
    if record.rendered is None or record.rendered[0] != key:
        reservation = {
            "Reservations": [
                {
                    "ReservationId": record.reservation_id,
                    "OwnerId": moto_access.account(),
                    "Groups": [],
                    "Instances": [show_instance(record)],
                }
            ]
        }
        text = render_item("DescribeInstances", reservation, "reservationSet")
        record.rendered = (key, text)
    return record.rendered[1]


def show_instance(record: InstanceRecord) -> dict[str, Any]:
    """One instance in the shape of DescribeInstances."""
    spec, instance = record.spec, record.moto
    described = catalogue.instance_type(spec.instance_type) or {}
    up = record.state not in ("shutting-down", "terminated")
    shown: dict[str, Any] = {
        "InstanceId": record.instance_id,
        "ImageId": spec.image["ImageId"],
        "InstanceType": spec.instance_type,
        "State": {"Name": record.state, "Code": STATE_CODES[record.state]},
        "StateTransitionReason": record.reason,
        "LaunchTime": record.launched_at,
        "AmiLaunchIndex": 0,
        "Architecture": spec.image["Architecture"],
        "Hypervisor": "xen",
        "VirtualizationType": "hvm",
        "EnaSupport": True,
        "EbsOptimized": bool(spec.options.get("EbsOptimized")),
        "RootDeviceName": spec.image["RootDeviceName"],
        "RootDeviceType": "ebs",
        "Monitoring": {"State": "enabled" if spec.monitoring else "disabled"},
        "Placement": _placement(record),
        "PrivateDnsName": record.private_dns_name if record.state != "terminated" else "",
        "PublicDnsName": (instance.public_dns_name or "") if up else "",
        "MetadataOptions": _metadata_options(spec.options.get("MetadataOptions") or {}),
        "CpuOptions": _cpu_options(described, spec.options.get("CpuOptions") or {}),
        "EnclaveOptions": {
            "Enabled": bool((spec.options.get("EnclaveOptions") or {}).get("Enabled"))
        },
        "HibernationOptions": {"Configured": False},
        "MaintenanceOptions": {"AutoRecovery": "default"},
        "CapacityReservationSpecification": _reservation_specification(record),
        "SourceDestCheck": bool(instance.source_dest_check),
        "PlatformDetails": spec.image.get("PlatformDetails"),
        "Platform": "Windows" if spec.image.get("Platform") == "windows" else None,
        "UsageOperation": "RunInstances",
        "Tags": [{"Key": key, "Value": value} for key, value in record.tags.items()],
        "BlockDeviceMappings": _volumes(record),
        "ClientToken": record.origin.fleet_id or "",
    }
    if record.capacity_reservation_id:
        shown["CapacityReservationId"] = record.capacity_reservation_id
    if spec.options.get("KeyName"):
        shown["KeyName"] = spec.options["KeyName"]
    if spec.profile is not None:
        shown["IamInstanceProfile"] = {"Arn": spec.profile.arn, "Id": spec.profile.id}
    if spec.capacity_type == "spot":
        shown["InstanceLifecycle"] = "spot"
        shown["SpotInstanceRequestId"] = record.spot_request_id
    if record.reason_code:
        shown["StateReason"] = {"Code": record.reason_code, "Message": record.reason}
    if record.state != "terminated":
        shown |= _network(record)
    return {key: value for key, value in shown.items() if value is not None}


def _placement(record: InstanceRecord) -> dict[str, Any]:
    wanted = record.spec.options.get("Placement") or {}
    return {
        "AvailabilityZone": record.spec.zone,
        "AvailabilityZoneId": record.spec.subnet.availability_zone_id,
        "GroupName": wanted.get("GroupName") or "",
        "Tenancy": wanted.get("Tenancy") or "default",
        **({"GroupId": wanted["GroupId"]} if wanted.get("GroupId") else {}),
        **({"PartitionNumber": wanted["PartitionNumber"]} if wanted.get("PartitionNumber") else {}),
    }


def _reservation_specification(record: InstanceRecord) -> dict[str, Any]:
    asked = dict(record.spec.options.get("CapacityReservationSpecification") or {})
    return asked or {"CapacityReservationPreference": "open"}


def _metadata_options(wanted: dict[str, Any]) -> dict[str, Any]:
    # AWS's current node images ask for IMDSv2 only, so that is what an unset option means.
    return {
        "State": "applied",
        "HttpTokens": wanted.get("HttpTokens") or "required",
        "HttpPutResponseHopLimit": wanted.get("HttpPutResponseHopLimit") or 2,
        "HttpEndpoint": wanted.get("HttpEndpoint") or "enabled",
        "HttpProtocolIpv6": wanted.get("HttpProtocolIpv6") or "disabled",
        "InstanceMetadataTags": wanted.get("InstanceMetadataTags") or "disabled",
    }


def _cpu_options(described: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    cpu = described.get("VCpuInfo", {})
    return {
        "CoreCount": wanted.get("CoreCount") or cpu.get("DefaultCores"),
        "ThreadsPerCore": wanted.get("ThreadsPerCore") or cpu.get("DefaultThreadsPerCore"),
        **{key: wanted[key] for key in ("AmdSevSnp", "NestedVirtualization") if wanted.get(key)},
    }


def _volumes(record: InstanceRecord) -> list[dict[str, Any]]:
    return [
        {
            "DeviceName": device,
            "Ebs": {
                "VolumeId": mapping.volume_id,
                "Status": "attached",
                "AttachTime": record.launched_at,
                "DeleteOnTermination": bool(mapping.delete_on_termination),
            },
        }
        for device, mapping in record.moto.get_block_device_mapping
    ]


def _groups(record: InstanceRecord) -> list[dict[str, str]]:
    return [{"GroupId": group.id, "GroupName": group.name} for group in record.moto.security_groups]


def _network(record: InstanceRecord) -> dict[str, Any]:
    shown = {
        "PrivateIpAddress": record.private_ip,
        "SubnetId": record.spec.subnet.id,
        "VpcId": record.spec.subnet.vpc_id,
        "SecurityGroups": _groups(record),
        "NetworkInterfaces": [
            _interface(record, interface, request) for interface, request in record.interfaces
        ],
    }
    if record.moto.public_ip:
        shown["PublicIpAddress"] = record.moto.public_ip
    return shown


def _interface(record: InstanceRecord, interface: Any, request: dict[str, Any]) -> dict[str, Any]:
    address = interface.private_ip_address
    return {
        "NetworkInterfaceId": interface.id,
        "InterfaceType": interface.interface_type,
        "Description": request.get("Description") or "",
        "MacAddress": interface.mac_address,
        "OwnerId": moto_access.account(),
        "PrivateIpAddress": address,
        "PrivateIpAddresses": [{"Primary": True, "PrivateIpAddress": address}],
        "Ipv6Addresses": [],
        "SourceDestCheck": True,
        "Status": "in-use",
        "SubnetId": record.spec.subnet.id,
        "VpcId": record.spec.subnet.vpc_id,
        "Groups": _groups(record),
        "Attachment": {
            "AttachmentId": interface.attachment_id,
            "AttachTime": record.launched_at,
            "DeleteOnTermination": True,
            "DeviceIndex": request.get("DeviceIndex") or 0,
            "NetworkCardIndex": request.get("NetworkCardIndex") or 0,
            "Status": "attached",
        },
    }


def _attributes(record: InstanceRecord) -> dict[str, Any]:
    """Filter names of DescribeInstances that are answered here."""
    spec = record.spec
    profile = spec.profile
    groups = record.moto.security_groups
    return {
        "instance-id": record.instance_id,
        "capacity-reservation-id": record.capacity_reservation_id or None,
        "instance-state-name": record.state,
        "instance-state-code": STATE_CODES[record.state],
        "instance-type": spec.instance_type,
        "instance-lifecycle": "spot" if spec.capacity_type == "spot" else None,
        "spot-instance-request-id": record.spot_request_id,
        "image-id": spec.image["ImageId"],
        "architecture": spec.image["Architecture"],
        "availability-zone": spec.zone,
        "subnet-id": spec.subnet.id,
        "vpc-id": spec.subnet.vpc_id,
        "network-interface.subnet-id": spec.subnet.id,
        "network-interface.vpc-id": spec.subnet.vpc_id,
        "private-dns-name": record.private_dns_name,
        "private-ip-address": record.private_ip,
        "network-interface.addresses.private-ip-address": record.private_ip,
        "dns-name": record.moto.public_dns_name,
        "ip-address": record.moto.public_ip,
        "iam-instance-profile.arn": profile.arn if profile else None,
        "iam-instance-profile.id": profile.id if profile else None,
        "iam-instance-profile.name": profile.name if profile else None,
        "instance.group-id": [group.id for group in groups],
        "instance.group-name": [group.name for group in groups],
        "network-interface.group-id": [group.id for group in groups],
        "key-name": spec.options.get("KeyName"),
        "launch-time": record.launched_at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "owner-id": moto_access.account(),
        "reservation-id": record.reservation_id,
        "root-device-name": spec.image["RootDeviceName"],
        "tenancy": (spec.options.get("Placement") or {}).get("Tenancy") or "default",
        "placement-group-name": (spec.options.get("Placement") or {}).get("GroupName"),
        "platform-details": spec.image.get("PlatformDetails"),
        "virtualization-type": "hvm",
    }


def describe_instance_status(world: World, call: Call) -> dict[str, Any]:
    """Answer DescribeInstanceStatus; running instances only unless IncludeAllInstances."""
    params = call.params
    if params.get("DryRun"):
        raise dry_run()
    _reject_paging_by_id(params)
    ids = params.get("InstanceIds")
    records: Iterable[InstanceRecord] = (
        world.instances.get(call.region, ids) if ids else world.instances.all(call.region)
    )
    filters = filters_of(params)
    shown = [
        record
        for record in records
        if (params.get("IncludeAllInstances") or record.state == "running")
        and _passes_status(record, filters)
    ]
    chosen, token = page(shown, params, limit=_PER_PAGE)
    return {"InstanceStatuses": [_status(record) for record in chosen], "NextToken": token}


def _passes_status(record: InstanceRecord, filters: Filters) -> bool:
    health = record.health
    attributes = {
        "availability-zone": record.spec.zone,
        "instance-state-name": record.state,
        "instance-state-code": STATE_CODES[record.state],
        "instance-status.status": health.instance,
        "system-status.status": health.system,
        "event.code": [event["Code"] for event in health.events],
    }
    return not filters or matches(filters, attributes, record.tags)


def _status(record: InstanceRecord) -> dict[str, Any]:
    def summary(status: str) -> dict[str, Any]:
        if record.state != "running":
            return {"Status": "not-applicable"}
        detail: dict[str, Any] = {
            "Name": "reachability",
            "Status": "passed" if status == "ok" else "failed",
        }
        if status != "ok":
            detail["ImpairedSince"] = record.health.impaired_since
        return {"Status": status, "Details": [detail]}

    return {
        "InstanceId": record.instance_id,
        "AvailabilityZone": record.spec.zone,
        "InstanceState": {"Name": record.state, "Code": STATE_CODES[record.state]},
        "InstanceStatus": summary(record.health.instance),
        "SystemStatus": summary(record.health.system),
        "Events": list(record.health.events),
    }
