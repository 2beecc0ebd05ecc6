"""EC2NodeClass (`karpenter.k8s.aws/v1`): how a node is launched on EC2.

Upstream (AWS provider): pkg/apis/v1/ec2nodeclass.go.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from nodewright_controller.api.labels import AWS_GROUP
from nodewright_controller.api.meta import Condition, Kind, KubeObject, Struct
from nodewright_controller.api.nodepool import NodeSelectorRequirementWithMinValues


class SubnetSelectorTerm(Struct):
    """Selects subnets by id, or by tags."""

    tags: dict[str, str] | None = None
    id: str = ""


class SecurityGroupSelectorTerm(Struct):
    """Selects security groups by id, by name, or by tags."""

    tags: dict[str, str] | None = None
    id: str = ""
    name: str = ""


class AMISelectorTerm(Struct):
    """Selects images by alias, id, name, tags or SSM parameter."""

    alias: str = ""
    tags: dict[str, str] | None = None
    id: str = ""
    name: str = ""
    owner: str = ""
    ssm_parameter: str = ""


class CapacityReservationSelectorTerm(Struct):
    """Selects capacity reservations."""

    tags: dict[str, str] | None = None
    id: str = ""
    owner_id: str = msgspec.field(default="", name="ownerID")
    instance_match_criteria: str = ""


class PlacementGroupSelector(Struct):
    """Selects the placement group."""

    name: str = ""
    id: str = ""


class BlockDevice(Struct):
    """An EBS volume."""

    delete_on_termination: bool | None = None
    encrypted: bool | None = None
    iops: int | None = None
    kms_key_id: str | None = msgspec.field(default=None, name="kmsKeyID")
    snapshot_id: str | None = msgspec.field(default=None, name="snapshotID")
    throughput: int | None = None
    volume_initialization_rate: int | None = None
    volume_size: str | None = None
    volume_type: str | None = None


class BlockDeviceMapping(Struct):
    """A device name and its volume."""

    device_name: str | None = None
    root_volume: bool = False
    ebs: BlockDevice | None = None


class NetworkInterface(Struct):
    """An extra network interface."""

    network_card_index: int = 0
    device_index: int = 0
    interface_type: str = "interface"


class MetadataOptions(Struct):
    """The instance metadata service."""

    http_endpoint: str | None = "enabled"
    http_protocol_ipv6: str | None = msgspec.field(default="disabled", name="httpProtocolIPv6")
    http_put_response_hop_limit: int | None = 1
    http_tokens: str | None = "required"


class ConnectionTracking(Struct):
    """Idle timeouts of tracked connections, in seconds."""

    tcp_established_timeout: int | None = None
    udp_stream_timeout: int | None = None
    udp_timeout: int | None = None


class CPUOptions(Struct):
    """CPU features."""

    nested_virtualization: str | None = None


class EnclaveOptions(Struct):
    """Nitro Enclaves."""

    enabled: bool = False


class EC2NodeClassSpec(Struct):
    """How to launch."""

    subnet_selector_terms: list[SubnetSelectorTerm] = msgspec.field(default_factory=list)
    security_group_selector_terms: list[SecurityGroupSelectorTerm] = msgspec.field(
        default_factory=list
    )
    capacity_reservation_selector_terms: list[CapacityReservationSelectorTerm] | None = None
    placement_group_selector: PlacementGroupSelector | None = None
    associate_public_ip_address: bool | None = msgspec.field(
        default=None, name="associatePublicIPAddress"
    )
    ip_prefix_count: int | None = None
    ami_selector_terms: list[AMISelectorTerm] = msgspec.field(default_factory=list)
    ami_family: str | None = None
    user_data: str | None = None
    role: str | None = None
    instance_profile: str | None = None
    tags: dict[str, str] | None = None
    kubelet: dict[str, Any] | None = None
    block_device_mappings: list[BlockDeviceMapping] | None = None
    instance_store_policy: str | None = None
    network_interfaces: list[NetworkInterface] | None = None
    detailed_monitoring: bool | None = None
    metadata_options: MetadataOptions = msgspec.field(default_factory=MetadataOptions)
    connection_tracking: ConnectionTracking | None = None
    context: str | None = None
    cpu_options: CPUOptions | None = None
    enclave_options: EnclaveOptions | None = None


class SubnetStatus(Struct):
    """A subnet that was found."""

    id: str = ""
    zone: str = ""
    zone_id: str = msgspec.field(default="", name="zoneID")


class SecurityGroupStatus(Struct):
    """A security group that was found."""

    id: str = ""
    name: str = ""


class AMIStatus(Struct):
    """An image that was found, and the nodes it is for."""

    id: str = ""
    name: str = ""
    deprecated: bool = False
    requirements: list[NodeSelectorRequirementWithMinValues] = msgspec.field(default_factory=list)


class EC2NodeClassStatus(Struct):
    """What the selectors found."""

    subnets: list[SubnetStatus] | None = None
    security_groups: list[SecurityGroupStatus] | None = None
    amis: list[AMIStatus] | None = None
    instance_profile: str = ""
    conditions: list[Condition] | None = None


class EC2NodeClass(KubeObject):
    """An EC2NodeClass."""

    KIND: ClassVar[Kind] = Kind(AWS_GROUP, "v1", "EC2NodeClass", "ec2nodeclasses")

    spec: EC2NodeClassSpec = msgspec.field(default_factory=EC2NodeClassSpec)
    status: EC2NodeClassStatus = msgspec.field(default_factory=EC2NodeClassStatus)
