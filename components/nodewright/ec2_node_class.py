"""EC2NodeClass: image, network, disks and identity of the instances behind nodes."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_kubernetes as k8s

from nodewright.manifests import merge, to_manifest
from nodewright.node_class_rules import check_node_class
from nodewright.node_pool_rules import OBJECT_NAME
from nodewright.ordering import after
from nodewright.validation import Check

API_VERSION = "karpenter.k8s.aws/v1"


class SubnetSelectorTermArgs(TypedDict):
    """Subnets, by tags or id; terms are alternatives."""

    tags: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Tags that all must be there; `*` stands for any value."""
    id: NotRequired[pulumi.Input[str]]
    """Id of the subnet."""


class SecurityGroupSelectorTermArgs(TypedDict):
    """Security groups, by tags, id or name; terms are alternatives."""

    tags: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Tags that all must be there; `*` stands for any value."""
    id: NotRequired[pulumi.Input[str]]
    """Id of the group."""
    name: NotRequired[pulumi.Input[str]]
    """Name of the group, not its `Name` tag."""


class AmiSelectorTermArgs(TypedDict):
    """Images; terms are alternatives, an alias stands alone."""

    alias: NotRequired[pulumi.Input[str]]
    """Family and version of an EKS image, such as `al2023@latest`."""
    tags: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Tags that all must be there."""
    id: NotRequired[pulumi.Input[str]]
    """Id of the image."""
    name: NotRequired[pulumi.Input[str]]
    """Name of the image, with wildcards."""
    owner: NotRequired[pulumi.Input[str]]
    """Account id, `self` or `amazon`."""
    ssm_parameter: NotRequired[pulumi.Input[str]]
    """SSM parameter that holds the id."""


class CapacityReservationSelectorTermArgs(TypedDict):
    """Capacity reservations; terms are alternatives."""

    tags: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Tags that all must be there."""
    id: NotRequired[pulumi.Input[str]]
    """Id of the reservation."""
    owner_id: NotRequired[pulumi.Input[str]]
    """Account that owns the reservation."""
    instance_match_criteria: NotRequired[pulumi.Input[str]]
    """`open` or `targeted`."""


class PlacementGroupSelectorArgs(TypedDict):
    """The placement group of the instances, by one of the two."""

    name: NotRequired[pulumi.Input[str]]
    """Name of the group."""
    id: NotRequired[pulumi.Input[str]]
    """Id of the group."""


class EbsArgs(TypedDict):
    """One EBS volume."""

    volume_size: NotRequired[pulumi.Input[str]]
    """Size, such as `100Gi`."""
    volume_type: NotRequired[pulumi.Input[str]]
    """`gp3`, `gp2`, `io1`, `io2`, `st1`, `sc1` or `standard`."""
    iops: NotRequired[int]
    """Provisioned operations a second."""
    throughput: NotRequired[int]
    """Throughput in MiB a second."""
    encrypted: NotRequired[bool]
    """Whether the volume is encrypted."""
    kms_key_id: NotRequired[pulumi.Input[str]]
    """Key that encrypts it."""
    snapshot_id: NotRequired[pulumi.Input[str]]
    """Snapshot it starts from."""
    delete_on_termination: NotRequired[bool]
    """Whether it goes with the instance."""
    volume_initialization_rate: NotRequired[int]
    """MiB a second at which a snapshot is loaded, from 100 to 300."""


class BlockDeviceMappingArgs(TypedDict):
    """One disk of the instance."""

    device_name: NotRequired[pulumi.Input[str]]
    """Device, such as `/dev/xvda`."""
    root_volume: NotRequired[bool]
    """Whether pods' storage is counted from this one."""
    ebs: NotRequired[EbsArgs]
    """The volume."""


class NetworkInterfaceArgs(TypedDict):
    """One network interface of the instance."""

    network_card_index: int
    """Card."""
    device_index: int
    """Device on the card."""
    interface_type: str
    """`interface` or `efa-only`."""


class MetadataOptionsArgs(TypedDict):
    """Access to instance metadata."""

    http_endpoint: NotRequired[str]
    """`enabled` (default) or `disabled`."""
    http_protocol_ipv6: NotRequired[str]
    """`enabled` or `disabled` (default)."""
    http_put_response_hop_limit: NotRequired[int]
    """Hops a token may travel. Default 1, so that pods don't reach it."""
    http_tokens: NotRequired[str]
    """`required` (default) or `optional`."""


class ConnectionTrackingArgs(TypedDict):
    """Timeouts of tracked connections, in seconds; Nitro instances only."""

    tcp_established_timeout: NotRequired[int]
    """From 60 to 432000."""
    udp_stream_timeout: NotRequired[int]
    """From 60 to 180."""
    udp_timeout: NotRequired[int]
    """From 30 to 60."""


class CpuOptionsArgs(TypedDict):
    """Processor options."""

    nested_virtualization: NotRequired[str]
    """`enabled` or `disabled`."""


class EnclaveOptionsArgs(TypedDict):
    """Nitro Enclaves."""

    enabled: NotRequired[bool]
    """Whether instances may run enclaves."""


class EC2NodeClassArgs(TypedDict):
    """Arguments of EC2NodeClass."""

    name: NotRequired[str]
    """Name in Kubernetes. Default: the resource's name."""
    subnet_selector_terms: Sequence[SubnetSelectorTermArgs]
    """Subnets in which instances start."""
    security_group_selector_terms: Sequence[SecurityGroupSelectorTermArgs]
    """Security groups of the instances."""
    ami_selector_terms: Sequence[AmiSelectorTermArgs]
    """Images of the instances."""
    ami_family: NotRequired[pulumi.Input[str]]
    """`AL2023`, `AL2`, `Bottlerocket`, `Windows2019`, `Windows2022`, `Windows2025` or `Custom`;
    an alias implies it."""
    role: NotRequired[pulumi.Input[str]]
    """Role of the nodes; the controller makes the instance profile. Or give `instance_profile`."""
    instance_profile: NotRequired[pulumi.Input[str]]
    """Existing instance profile. Or give `role`."""
    user_data: NotRequired[pulumi.Input[str]]
    """Added to the user data, in the form of the image family."""
    tags: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Tags of instances, volumes, interfaces and launch templates."""
    kubelet: NotRequired[Mapping[str, Any]]
    """Kubelet settings under the kubelet's own names, such as `maxPods`."""
    block_device_mappings: NotRequired[Sequence[BlockDeviceMappingArgs]]
    """Disks. Default: those of the image family."""
    instance_store_policy: NotRequired[str]
    """`RAID0` to use instance storage for pods."""
    associate_public_ip_address: NotRequired[bool]
    """Whether instances get public addresses. Default: as the subnet says."""
    ip_prefix_count: NotRequired[int]
    """Address prefixes on the first interface."""
    network_interfaces: NotRequired[Sequence[NetworkInterfaceArgs]]
    """Interfaces at launch."""
    detailed_monitoring: NotRequired[bool]
    """Whether EC2 reports metrics every minute. Default false."""
    metadata_options: NotRequired[MetadataOptionsArgs]
    """Access to instance metadata."""
    connection_tracking: NotRequired[ConnectionTrackingArgs]
    """Timeouts of tracked connections."""
    capacity_reservation_selector_terms: NotRequired[Sequence[CapacityReservationSelectorTermArgs]]
    """Capacity reservations to use."""
    placement_group_selector: NotRequired[PlacementGroupSelectorArgs]
    """Placement group of the instances."""
    context: NotRequired[pulumi.Input[str]]
    """Passed to EC2 with each fleet request."""
    cpu_options: NotRequired[CpuOptionsArgs]
    """Processor options."""
    enclave_options: NotRequired[EnclaveOptionsArgs]
    """Nitro Enclaves."""
    spec_overrides: NotRequired[Mapping[str, Any]]
    """Laid over the spec last, under the API's own names."""


class EC2NodeClass(pulumi.ComponentResource):
    """An EC2NodeClass in the API `karpenter.k8s.aws/v1`."""

    class_name: pulumi.Output[str]
    """Name in Kubernetes; whoever uses it waits for the class."""

    def __init__(
        self, name: str, args: EC2NodeClassArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        check_args(name, args)
        super().__init__("nodewright:index:EC2NodeClass", name, None, opts)
        resource = k8s.apiextensions.CustomResource(
            f"{name}-class",
            api_version=API_VERSION,
            kind="EC2NodeClass",
            metadata={"name": args.get("name", name)},
            spec=ec2_node_class_spec(args),
            opts=pulumi.ResourceOptions(
                parent=self,
                # A class goes when the last NodeClaim that uses it is gone.
                custom_timeouts=pulumi.CustomTimeouts(delete="30m"),
            ),
        )
        self.class_name = after(pulumi.Output.from_input(args.get("name", name)), [resource])
        self.register_outputs({"className": self.class_name})


def ec2_node_class_spec(args: EC2NodeClassArgs) -> dict[str, Any]:
    """Return the EC2NodeClass's spec under the API's names."""
    fields = {key: value for key, value in args.items() if key not in ("name", "spec_overrides")}
    spec: dict[str, Any] = to_manifest(fields)
    return merge(spec, args.get("spec_overrides", {}))


def check_args(name: str, args: EC2NodeClassArgs) -> None:
    """Raise `InvalidArgumentError` for arguments that can't work; makes nothing."""
    check = Check("EC2NodeClass", name)
    check.known_fields(args, EC2NodeClassArgs)
    check.required(
        args,
        ["subnet_selector_terms", "security_group_selector_terms", "ami_selector_terms"],
    )
    check.matches("name", args.get("name", name), OBJECT_NAME, "default")
    check_node_class(check, args)
