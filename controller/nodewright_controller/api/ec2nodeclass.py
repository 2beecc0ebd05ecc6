"""EC2NodeClass (`karpenter.k8s.aws/v1`): how a node is launched on EC2.

The sentences and limits here become the CRD (`crds`). What selectors find, and whether the kubelet
section makes sense for an image family, is decided by the AWS edge.
Upstream (AWS provider): pkg/apis/v1/ec2nodeclass.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import msgspec

from nodewright_controller.api.labels import AWS_GROUP
from nodewright_controller.api.meta import Condition, Kind, KubeObject, Struct
from nodewright_controller.api.nodepool import NodeSelectorRequirementWithMinValues
from nodewright_controller.api.schema import Rule, doc

AMI_FAMILIES: Final = [
    "AL2",
    "AL2023",
    "Bottlerocket",
    "Custom",
    "Windows2019",
    "Windows2022",
    "Windows2025",
]

TagValue: TypeAlias = Annotated[str, doc("", maxLength=256)]

_NO_EMPTY_TAGS: Final = Rule(
    rule="self.all(k, k != '' && self[k] != '')",
    message="empty tag keys or values aren't supported",
)

VOLUME_SIZE: Final = (
    r"^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi"
    r"|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G"
    r"|([1-9]|[1-4][0-9]|5[0-8])Ti"
    r"|([1-9]|[1-5][0-9]|6[0-4])T)$"
)


def tag_selector(what: str) -> msgspec.Meta:
    """Describe the `tags` of a selector term."""
    return doc(
        f"{what} that have all these tags are meant; the value * stands for any value.",
        maxProperties=20,
        rules=(_NO_EMPTY_TAGS,),
    )


def _at_least_one(*fields: str) -> Rule:
    return Rule(
        rule=" || ".join(f"has(self.{field})" for field in fields),
        message=f"expected at least one, got none, {list(fields)}",
    )


def _alone(field: str, *others: str, because: str = "") -> Rule:
    clauses = " || ".join(f"has(self.{other})" for other in others)
    return Rule(
        rule=f"!has(self.{field}) || !({clauses})",
        message=because
        or f"'{field}' is mutually exclusive, cannot be set with a combination of {list(others)}",
    )


class SubnetSelectorTerm(Struct):
    """Selects subnets by id, or by tags."""

    RULES: ClassVar[tuple[Rule, ...]] = (_at_least_one("tags", "id"), _alone("id", "tags"))

    tags: Annotated[dict[str, TagValue] | None, tag_selector("Subnets")] = None
    id: Annotated[str, doc("The subnet with this id.", pattern="subnet-[0-9a-z]+")] = ""


class SecurityGroupSelectorTerm(Struct):
    """Selects security groups by id, by name, or by tags."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _at_least_one("tags", "id", "name"),
        _alone("id", "tags", "name"),
        _alone("name", "tags", "id"),
    )

    tags: Annotated[dict[str, TagValue] | None, tag_selector("Security groups")] = None
    id: Annotated[str, doc("The security group with this id.", pattern="sg-[0-9a-z]+")] = ""
    name: Annotated[str, doc("Security groups of this name (the group name, not the tag).")] = ""


_ALIAS_FAMILIES: Final = "al2|al2023|bottlerocket|windows2019|windows2022|windows2025"


class AMISelectorTerm(Struct):
    """Selects images by alias, id, name, tags or SSM parameter."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _at_least_one("tags", "id", "name", "alias", "ssmParameter"),
        _alone("id", "alias", "tags", "name", "owner"),
        _alone("alias", "id", "tags", "name", "owner"),
    )

    alias: Annotated[
        str,
        doc(
            """Images that AWS publishes, as family@version: al2023@latest, al2023@v20260501,
            bottlerocket@1.60.0. Families: al2, al2023, bottlerocket, windows2019, windows2022,
            windows2025 (these three only @latest). An alias stands alone.""",
            maxLength=30,
            rules=(
                Rule(
                    rule="self.matches('^[a-zA-Z0-9]+@.+$')",
                    message="'alias' is improperly formatted, must match the format 'family@version'",
                ),
                Rule(
                    rule=f"!self.contains('@') || self.matches('^({_ALIAS_FAMILIES})@')",
                    message=(
                        "family is not supported, must be one of the following: "
                        f"{_ALIAS_FAMILIES.replace('|', ', ')}"
                    ),
                ),
                Rule(
                    rule="!self.startsWith('windows') || self.endsWith('@latest')",
                    message="windows families may only specify version 'latest'",
                ),
            ),
        ),
    ] = ""
    tags: Annotated[dict[str, TagValue] | None, tag_selector("Images")] = None
    id: Annotated[str, doc("The image with this id.", pattern="ami-[0-9a-z]+")] = ""
    name: Annotated[
        str, doc("Images of this name; without an owner those of this account and of Amazon.")
    ] = ""
    owner: Annotated[str, doc("Owner of the images: an account id, self or amazon.")] = ""
    ssm_parameter: Annotated[
        str, doc("Name or ARN of an SSM parameter whose value is an image id.")
    ] = ""


class CapacityReservationSelectorTerm(Struct):
    """Selects capacity reservations."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _at_least_one("tags", "id", "instanceMatchCriteria"),
        _alone("id", "tags", "ownerID", "instanceMatchCriteria"),
    )

    tags: Annotated[dict[str, TagValue] | None, tag_selector("Reservations")] = None
    id: Annotated[str, doc("The reservation with this id.", pattern="^cr-[0-9a-z]+$")] = ""
    owner_id: Annotated[str, doc("Reservations of this account.", pattern="^[0-9]{12}$")] = (
        msgspec.field(default="", name="ownerID")
    )
    instance_match_criteria: Annotated[
        str,
        doc(
            "Reservations that take any matching instance (open), or only targeted ones.",
            enum=["open", "targeted"],
        ),
    ] = ""


class PlacementGroupSelector(Struct):
    """Selects the placement group."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="has(self.name) != has(self.id)",
            message="expected exactly one of ['name', 'id'] to be set",
        ),
    )

    name: Annotated[str, doc("The placement group of this name.", minLength=1)] = ""
    id: Annotated[str, doc("The placement group with this id.", pattern="^pg-[0-9a-z]+$")] = ""


class BlockDevice(Struct):
    """An EBS volume."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            rule="has(self.snapshotID) || has(self.volumeSize)",
            message="snapshotID or volumeSize must be defined",
        ),
        Rule(
            rule=(
                "!has(self.volumeInitializationRate) || "
                "(has(self.snapshotID) && self.snapshotID != '')"
            ),
            message="snapshotID must be set when volumeInitializationRate is set",
        ),
    )

    delete_on_termination: Annotated[
        bool | None, doc("Whether the volume goes with its instance.")
    ] = None
    encrypted: Annotated[bool | None, doc("Whether the volume is encrypted.")] = None
    iops: Annotated[int | None, doc("I/O operations per second (io1, io2, gp3).")] = None
    kms_key_id: Annotated[
        str | None, doc("The KMS key that encrypts the volume: id, alias or ARN.")
    ] = msgspec.field(default=None, name="kmsKeyID")
    snapshot_id: Annotated[str | None, doc("The snapshot that the volume starts from.")] = (
        msgspec.field(default=None, name="snapshotID")
    )
    throughput: Annotated[int | None, doc("MiB per second (gp3).")] = None
    volume_initialization_rate: Annotated[
        int | None,
        doc(
            "MiB per second at which the snapshot's blocks are fetched ahead of their use.",
            format="int32",
            minimum=100,
            maximum=300,
        ),
    ] = None
    volume_size: Annotated[
        str | None,
        doc("Size of the volume in G, Gi, T or Ti, such as 100Gi.", pattern=VOLUME_SIZE),
    ] = None
    volume_type: Annotated[
        str | None,
        doc(
            "Type of the volume.",
            enum=["gp2", "gp3", "io1", "io2", "sc1", "st1", "standard"],
        ),
    ] = None


class BlockDeviceMapping(Struct):
    """A device name and its volume."""

    device_name: Annotated[str | None, doc("The device as the image sees it: /dev/xvda.")] = None
    root_volume: Annotated[
        bool,
        doc("Whether this is the volume that the kubelet keeps its data on; at most one is."),
    ] = False
    ebs: Annotated[BlockDevice | None, doc("The EBS volume.")] = None


class NetworkInterface(Struct):
    """An extra network interface."""

    network_card_index: Annotated[
        int,
        doc("The network card that it sits on.", format="int32", minimum=0, required=True),
    ] = 0
    device_index: Annotated[
        int,
        doc("Its place on that card.", format="int32", minimum=0, required=True),
    ] = 0
    interface_type: Annotated[
        str,
        doc(
            "An ordinary interface, or one for EFA traffic alone.",
            required=True,
            enum=["efa-only", "interface"],
        ),
    ] = "interface"


class MetadataOptions(Struct):
    """The instance metadata service."""

    http_endpoint: Annotated[
        str | None,
        doc("Whether instances can reach it.", default="enabled", enum=["disabled", "enabled"]),
    ] = "enabled"
    http_protocol_ipv6: Annotated[
        str | None,
        doc("Whether it answers on IPv6.", default="disabled", enum=["disabled", "enabled"]),
    ] = msgspec.field(default="disabled", name="httpProtocolIPv6")
    http_put_response_hop_limit: Annotated[
        int | None,
        doc(
            "How many network hops a token may travel; 1 keeps pods without host network out.",
            default=1,
            minimum=1,
            maximum=64,
        ),
    ] = 1
    http_tokens: Annotated[
        str | None,
        doc(
            "Whether requests must carry a session token (IMDSv2).",
            default="required",
            enum=["optional", "required"],
        ),
    ] = "required"


class ConnectionTracking(Struct):
    """Idle timeouts of tracked connections, in seconds."""

    tcp_established_timeout: Annotated[
        int | None,
        doc("For established TCP connections.", format="int32", minimum=60, maximum=432000),
    ] = None
    udp_stream_timeout: Annotated[
        int | None,
        doc("For UDP flows with traffic both ways.", format="int32", minimum=60, maximum=180),
    ] = None
    udp_timeout: Annotated[
        int | None,
        doc("For UDP flows with traffic one way.", format="int32", minimum=30, maximum=60),
    ] = None


class CPUOptions(Struct):
    """CPU features."""

    nested_virtualization: Annotated[
        str | None,
        doc(
            "enabled: only instance types that can run virtual machines inside, with it on.",
            enum=["disabled", "enabled"],
        ),
    ] = None


class EnclaveOptions(Struct):
    """Nitro Enclaves."""

    enabled: Annotated[
        bool, doc("true: only instance types with Nitro Enclaves, with them on.", required=True)
    ] = False


RESERVED_TAGS: Final = (
    "eks:eks-cluster-name",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
)


def resource_tags(reserved: tuple[str, ...] = RESERVED_TAGS) -> msgspec.Meta:
    """Describe the `tags` of everything that is launched, without the ones we set ourselves."""
    own = tuple(
        Rule(
            rule=f"self.all(x, x != '{key}')",
            message=f"tag contains a restricted tag matching {key}",
        )
        for key in reserved
    )
    return doc(
        """Tags of everything that is launched: instances, volumes, network interfaces, launch
        templates. Name may be overridden; tags that name the cluster and the owner may not.""",
        maxProperties=50,
        rules=(
            Rule(
                rule="self.all(x, x != '')",
                message="empty tag keys aren't supported",
            ),
            Rule(
                rule="self.all(x, !x.startsWith('kubernetes.io/cluster'))",
                message="tag contains a restricted tag matching kubernetes.io/cluster/",
            ),
            *own,
        ),
    )


BLOCK_DEVICES: Final = doc(
    "Volumes of the instance; given here, they replace the family's defaults entirely.",
    maxItems=50,
    rules=(
        Rule(
            rule="self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
            message="must have only one blockDeviceMappings with rootVolume",
        ),
    ),
)

ONE_IDENTITY: Final = Rule(
    rule="has(self.role) != has(self.instanceProfile)",
    message="must specify exactly one of ['role', 'instanceProfile']",
    field_path=".role",
)

ROLE: Final = doc(
    """Name of the IAM role of the nodes; an instance profile is made for it. Exactly one of role
    and instanceProfile is given.""",
    minLength=1,
)
INSTANCE_PROFILE: Final = doc(
    "Name of an instance profile that you keep yourself, instead of a role.", minLength=1
)
SUBNETS: Final = doc(
    "Where instances are launched: all subnets that any of the terms selects.",
    required=True,
    minItems=1,
    maxItems=30,
)
SECURITY_GROUPS: Final = doc(
    "The security groups of the nodes: all that any of the terms selects.",
    required=True,
    minItems=1,
    maxItems=30,
)
USER_DATA: Final = doc(
    """Text that the node runs or reads when it starts, merged with what makes it join; its format
    is the image family's: MIME or shell, NodeConfig YAML, TOML, PowerShell."""
)


class EC2NodeClassSpec(Struct):
    """How to launch."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        ONE_IDENTITY,
        Rule(
            rule="has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
            message="must specify amiFamily if amiSelectorTerms does not contain an alias",
            field_path=".amiSelectorTerms",
        ),
        Rule(
            rule=(
                "!has(self.amiFamily) || self.amiFamily == 'Custom' || "
                "self.amiSelectorTerms.all(x, !has(x.alias) || "
                "x.alias.startsWith(self.amiFamily.lowerAscii() + '@'))"
            ),
            message=(
                "if set, amiFamily must match the family of the alias in amiSelectorTerms, "
                "or be Custom"
            ),
            field_path=".amiFamily",
        ),
    )

    subnet_selector_terms: Annotated[list[SubnetSelectorTerm], SUBNETS] = msgspec.field(
        default_factory=list
    )
    security_group_selector_terms: Annotated[list[SecurityGroupSelectorTerm], SECURITY_GROUPS] = (
        msgspec.field(default_factory=list)
    )
    capacity_reservation_selector_terms: Annotated[
        list[CapacityReservationSelectorTerm] | None,
        doc(
            "Capacity reservations that may be used: all that any of the terms selects.",
            maxItems=30,
        ),
    ] = None
    placement_group_selector: Annotated[
        PlacementGroupSelector | None, doc("The placement group that instances go into.")
    ] = None
    associate_public_ip_address: Annotated[
        bool | None,
        doc("Whether instances get a public IPv4 address; left out, the subnet decides."),
    ] = msgspec.field(default=None, name="associatePublicIPAddress")
    ip_prefix_count: Annotated[
        int | None,
        doc(
            "How many address prefixes the primary network interface gets.",
            format="int32",
            minimum=0,
        ),
    ] = None
    ami_selector_terms: Annotated[
        list[AMISelectorTerm],
        doc(
            """Which images nodes start from: all that any of the terms selects; for each
            architecture and accelerator the newest is used. An alias is the only term.""",
            required=True,
            minItems=1,
            maxItems=30,
            rules=(
                Rule(
                    rule="!self.exists(x, has(x.alias)) || self.size() == 1",
                    message="'alias' is mutually exclusive, cannot be set with other terms",
                ),
            ),
        ),
    ] = msgspec.field(default_factory=list)
    ami_family: Annotated[
        str | None,
        doc(
            """The image family: it decides user data, volumes and defaults. Left out, it is that of
            the alias. Custom: your user data makes the node join.""",
            enum=AMI_FAMILIES,
            maxLength=20,
        ),
    ] = None
    user_data: Annotated[str | None, USER_DATA] = None
    role: Annotated[str | None, ROLE] = None
    instance_profile: Annotated[str | None, INSTANCE_PROFILE] = None
    tags: Annotated[dict[str, str] | None, resource_tags()] = None
    kubelet: Annotated[
        dict[str, Any] | None,
        doc(
            """Settings of the kubelet, as in KubeletConfiguration: maxPods, podsPerCore,
            clusterDNS, systemReserved, kubeReserved, evictionHard, evictionSoft,
            evictionSoftGracePeriod, evictionMaxPodGracePeriod, imageGCHighThresholdPercent,
            imageGCLowThresholdPercent, cpuCFSQuota; on AL2023 any other field too.""",
        ),
    ] = None
    block_device_mappings: Annotated[list[BlockDeviceMapping] | None, BLOCK_DEVICES] = None
    instance_store_policy: Annotated[
        str | None,
        doc("RAID0: local disks become one volume for pods and container images.", enum=["RAID0"]),
    ] = None
    network_interfaces: Annotated[
        list[NetworkInterface] | None,
        doc(
            """Network interfaces of the instance. Given at all, the primary one (card 0, device 0,
            type interface) must be among them.""",
            maxItems=150,
            rules=(
                Rule(
                    rule=(
                        "self.size() == 0 || self.exists(x, x.networkCardIndex == 0 && "
                        "x.deviceIndex == 0 && x.interfaceType == 'interface')"
                    ),
                    message=(
                        "must contain the primary interface: networkCardIndex 0, deviceIndex 0, "
                        "interfaceType 'interface'"
                    ),
                ),
                Rule(
                    rule=(
                        "self.all(x, x.interfaceType != 'efa-only' || self.exists_one(y, "
                        "y.interfaceType == 'efa-only' && "
                        "y.networkCardIndex == x.networkCardIndex))"
                    ),
                    message="only one 'efa-only' interface is allowed per network card",
                ),
            ),
            **{
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["networkCardIndex", "deviceIndex"],
            },
        ),
    ] = None
    detailed_monitoring: Annotated[
        bool | None, doc("Whether EC2 reports metrics every minute instead of every five.")
    ] = None
    metadata_options: Annotated[
        MetadataOptions,
        doc(
            "How instances reach their metadata service.",
            default={
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 1,
                "httpTokens": "required",
            },
        ),
    ] = msgspec.field(default_factory=MetadataOptions)
    connection_tracking: Annotated[
        ConnectionTracking | None,
        doc(
            "When idle connections are forgotten, in seconds; needs Nitro instances.",
            minProperties=1,
        ),
    ] = None
    context: Annotated[str | None, doc("The Context of the EC2 CreateFleet call.")] = None
    cpu_options: Annotated[CPUOptions | None, doc("CPU features of the instance.")] = None
    enclave_options: Annotated[EnclaveOptions | None, doc("Nitro Enclaves.")] = None


# What we write ourselves needs no rules, and a list without a limit could not afford them.
_PLAIN_REQUIREMENT: Final = {
    "type": "object",
    "required": ["key", "operator"],
    "properties": {
        "key": {"type": "string", "description": "The label that the requirement is about."},
        "operator": {"type": "string", "description": "How the label relates to the values."},
        "values": {
            "type": "array",
            "description": "The values that the operator works on.",
            "items": {"type": "string"},
        },
        "minValues": {
            "type": "integer",
            "format": "int64",
            "description": "How many different values a launch must cover.",
        },
    },
}


class SubnetStatus(Struct):
    """A subnet that was found."""

    id: Annotated[str, doc("Its id.", required=True)] = ""
    zone: Annotated[str, doc("Its availability zone: us-west-2a.", required=True)] = ""
    zone_id: Annotated[str, doc("The zone's id, equal in all accounts: usw2-az1.")] = msgspec.field(
        default="", name="zoneID"
    )


class SecurityGroupStatus(Struct):
    """A security group that was found."""

    id: Annotated[str, doc("Its id.", required=True)] = ""
    name: Annotated[str, doc("Its name.")] = ""


class CapacityReservationStatus(Struct):
    """A capacity reservation that was found."""

    availability_zone: Annotated[str, doc("Its zone.", required=True)] = ""
    end_time: Annotated[datetime | None, doc("When it ends; left out, it does not.")] = None
    id: Annotated[str, doc("Its id.", required=True, pattern="^cr-[0-9a-z]+$")] = ""
    instance_match_criteria: Annotated[
        str,
        doc("Which instances use it.", required=True, enum=["open", "targeted"]),
    ] = ""
    instance_type: Annotated[str, doc("The instance type that is reserved.", required=True)] = ""
    owner_id: Annotated[
        str, doc("The account that owns it.", required=True, pattern="^[0-9]{12}$")
    ] = msgspec.field(default="", name="ownerID")
    reservation_type: Annotated[
        str,
        doc(
            "An ordinary reservation, or a capacity block that ends at a set time.",
            default="default",
            enum=["capacity-block", "default"],
        ),
    ] = "default"
    interruptible: Annotated[bool, doc("Whether its instances can be reclaimed.")] = False
    state: Annotated[
        str,
        doc("Whether it is about to end.", default="active", enum=["active", "expiring"]),
    ] = "active"


class AMIStatus(Struct):
    """An image that was found, and the nodes it is for."""

    id: Annotated[str, doc("Its id.", required=True)] = ""
    name: Annotated[str, doc("Its name.")] = ""
    deprecated: Annotated[bool, doc("Whether its owner deprecated it.")] = False
    requirements: Annotated[
        list[NodeSelectorRequirementWithMinValues],
        doc("Which instance types it is for.", required=True, items=_PLAIN_REQUIREMENT),
    ] = msgspec.field(default_factory=list)


class EC2NodeClassStatus(Struct):
    """What the selectors found."""

    subnets: Annotated[list[SubnetStatus] | None, doc("Subnets, roomiest first.")] = None
    security_groups: Annotated[list[SecurityGroupStatus] | None, doc("Security groups, by id.")] = (
        None
    )
    capacity_reservations: Annotated[
        list[CapacityReservationStatus] | None, doc("Capacity reservations, by id.")
    ] = None
    amis: Annotated[list[AMIStatus] | None, doc("Images, newest first.")] = None
    instance_profile: Annotated[str, doc("The instance profile that instances get.")] = ""
    conditions: Annotated[
        list[Condition] | None,
        doc(
            """Ready, and what it depends on: SubnetsReady, SecurityGroupsReady, AMIsReady,
            InstanceProfileReady, ValidationSucceeded and others.""",
        ),
    ] = None


class EC2NodeClass(KubeObject):
    """An EC2NodeClass says how nodes are launched on EC2: image, network, role, volumes."""

    KIND: ClassVar[Kind] = Kind(AWS_GROUP, "v1", "EC2NodeClass", "ec2nodeclasses")

    spec: Annotated[
        EC2NodeClassSpec,
        doc("How nodes are launched: image, network, role, volumes.", required=True),
    ] = msgspec.field(default_factory=EC2NodeClassSpec)
    status: Annotated[EC2NodeClassStatus, doc("What the selectors found.")] = msgspec.field(
        default_factory=EC2NodeClassStatus
    )
