"""Launch templates, computed: which a launch needs, what is in each, and its name.

A template's name is the hash of its content, so equal needs share one and a change makes a new one.
Pure; existence in EC2 is the business of `launch_templates.py`.
Upstream: pkg/providers/launchtemplate, pkg/providers/amifamily/resolver.go.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from nodewright_controller.api.ec2nodeclass import (
    AMISelectorTerm,
    AMIStatus,
    EC2NodeClass,
    NetworkInterface,
)
from nodewright_controller.api.labels import SPOT
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.ami import image_for
from nodewright_controller.aws.block_devices import block_device_request
from nodewright_controller.aws.bootstrap import Bootstrap, node_labels, registration_taints
from nodewright_controller.aws.bottlerocket import knows_its_directories
from nodewright_controller.aws.capacity import EFA
from nodewright_controller.aws.families import TRAITS, Family, alias_of, family_of
from nodewright_controller.aws.filters import Candidate, Choice
from nodewright_controller.aws.kubelet import parse_kubelet
from nodewright_controller.aws.options import AwsOptions
from nodewright_controller.aws.reserved import Reservation, reservation_of
from nodewright_controller.aws.shape import EFA_ONLY, RAID0
from nodewright_controller.aws.tags import as_list, template_tags
from nodewright_controller.aws.user_data import encode, render_user_data
from nodewright_controller.constraints.instance_type import Offering
from nodewright_controller.kernel.resources import PODS

PREFIX: Final = "karpenter.k8s.aws"
_TENANCY: Final = "default"
_NO_IPV6_METADATA: Final = ("us-iso-east-1", "us-iso-west-1")
_NO_IPV6_METADATA_PREFIXES: Final = ("us-isob-", "us-isof-")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTemplate:
    """A template, and the candidates that are launched with it."""

    name: str
    image_id: str
    data: Mapping[str, Any]
    """`LaunchTemplateData` of CreateLaunchTemplate."""
    tags: Mapping[str, str]
    candidates: tuple[Candidate, ...]
    reservation: Reservation | None = None
    """The capacity reservation that its instances come from."""

    def create_request(self) -> dict[str, Any]:
        """Return the CreateLaunchTemplate request."""
        return {
            "LaunchTemplateName": self.name,
            "LaunchTemplateData": dict(self.data),
            "TagSpecifications": [{"ResourceType": "launch-template", "Tags": as_list(self.tags)}],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchInput:
    """What a launch is made from."""

    node_class: EC2NodeClass
    node_claim: NodeClaim
    choice: Choice
    options: AwsOptions
    tenancy: str = _TENANCY


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """What the candidates of one template have in common."""

    image_id: str
    pods: int
    efa: int
    """Interfaces that the instance gets for it; 0 without a need for EFA."""
    reservation: Reservation | None

    @property
    def order(self) -> tuple[str, int, int, str]:
        """By which templates are listed."""
        return (self.image_id, self.pods, self.efa, self.reservation.id if self.reservation else "")


def plan_templates(wanted: LaunchInput) -> tuple[LaunchTemplate, ...]:
    """Return the templates a launch needs: by image, pod count, EFA count, capacity reservation.

    Candidates that no image boots are left out.

    Raises:
        ValueError: the node class's user data, volumes or family are malformed.

    """
    groups: dict[_Group, list[Candidate]] = {}
    images: dict[str, AMIStatus] = {}
    needs_efa = bool((wanted.node_claim.spec.resources.requests or {}).get(EFA))
    for candidate in wanted.choice.candidates:
        image = image_for(candidate.instance_type, wanted.node_class.status.amis or ())
        if image is None:
            continue
        images[image.id] = image
        capacity = candidate.instance_type.capacity
        for reservation, part in _by_reservation(candidate):
            group = _Group(
                image_id=image.id,
                pods=capacity.get(PODS, 0),
                efa=capacity.get(EFA, 0) if needs_efa else 0,
                reservation=reservation,
            )
            groups.setdefault(group, []).append(part)
    return tuple(
        _template(wanted, images[group.image_id], group, tuple(groups[group]))
        for group in sorted(groups, key=lambda each: each.order)
    )


def _by_reservation(candidate: Candidate) -> Iterator[tuple[Reservation | None, Candidate]]:
    parts: dict[Reservation | None, list[Offering]] = {}
    for offering in candidate.offerings:
        parts.setdefault(reservation_of(offering), []).append(offering)
    for reservation, offerings in parts.items():
        yield reservation, Candidate(candidate.instance_type, tuple(offerings))


def _template(
    wanted: LaunchInput, image: AMIStatus, group: _Group, candidates: tuple[Candidate, ...]
) -> LaunchTemplate:
    data = _data(wanted, image, group)
    tags = template_tags(wanted.node_class, wanted.node_claim, wanted.options)
    return LaunchTemplate(
        name=template_name(data, tags),
        image_id=image.id,
        data=data,
        tags=tags,
        candidates=candidates,
        reservation=group.reservation,
    )


def template_name(data: Mapping[str, Any], tags: Mapping[str, str]) -> str:
    """Return the content-addressed name."""
    content = json.dumps([data, tags], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(content.encode()).digest()
    return f"{PREFIX}/{int.from_bytes(digest[:8], 'big')}"


def _data(wanted: LaunchInput, image: AMIStatus, group: _Group) -> dict[str, Any]:
    node_class, options = wanted.node_class, wanted.options
    spec, family = node_class.spec, family_of(node_class)
    mappings = spec.block_device_mappings or TRAITS[family].block_devices
    data: dict[str, Any] = {
        "IamInstanceProfile": {"Name": node_class.status.instance_profile},
        "Monitoring": {"Enabled": bool(spec.detailed_monitoring)},
        "UserData": encode(render_user_data(family, bootstrap_of(wanted, image, group.pods))),
        "ImageId": image.id,
        "MetadataOptions": metadata_options(node_class, options.region),
        "NetworkInterfaces": network_interfaces(node_class, options, group.efa),
        "TagSpecifications": _tag_specifications(wanted),
    }
    if mappings:
        data["BlockDeviceMappings"] = block_device_request(mappings)
    if spec.cpu_options is not None and spec.cpu_options.nested_virtualization:
        data["CpuOptions"] = {"NestedVirtualization": spec.cpu_options.nested_virtualization}
    if spec.enclave_options is not None:
        data["EnclaveOptions"] = {"Enabled": spec.enclave_options.enabled}
    if wanted.tenancy != _TENANCY:
        data["Placement"] = {"Tenancy": wanted.tenancy}
    return data | _capacity_data(options, group.reservation)


def _capacity_data(options: AwsOptions, reservation: Reservation | None) -> dict[str, Any]:
    if reservation is not None:
        return reservation.template_data()
    if not options.reserved_capacity:
        return {}
    # Without a reservation of our own, keep out of the account's open ones.
    return {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}


def _tag_specifications(wanted: LaunchInput) -> list[dict[str, Any]]:
    tags = as_list(template_tags(wanted.node_class, wanted.node_claim, wanted.options))
    kinds = ["network-interface"]
    if wanted.choice.capacity_type == SPOT:
        kinds.append("spot-instances-request")
    return [{"ResourceType": kind, "Tags": tags} for kind in kinds]


def bootstrap_of(wanted: LaunchInput, image: AMIStatus, pods: int) -> Bootstrap:
    """Return what nodes with this image and pod count are told at boot."""
    node_class, claim, options = wanted.node_class, wanted.node_claim, wanted.options
    return Bootstrap(
        cluster_name=options.cluster_name,
        endpoint=options.cluster_endpoint,
        ca_bundle=options.cluster_ca_bundle,
        service_cidr=options.service_cidr,
        dns_ip=options.dns_ip,
        labels=node_labels(claim.labels, wanted.choice.capacity_type),
        taints=registration_taints(claim.spec.taints, claim.spec.startup_taints),
        kubelet=parse_kubelet(node_class.spec.kubelet),
        max_pods=pods,
        custom=node_class.spec.user_data or "",
        raid0=node_class.spec.instance_store_policy == RAID0,
        binds_instance_storage=_binds_instance_storage(node_class, image),
    )


def _binds_instance_storage(node_class: EC2NodeClass, image: AMIStatus) -> bool:
    if family_of(node_class) is not Family.BOTTLEROCKET:
        return True
    alias = alias_of(node_class)
    if alias is not None:
        return knows_its_directories(alias.version)
    named = next((term.name for term in _terms(node_class) if term.name), "")
    return knows_its_directories(image.name or named)


def _terms(node_class: EC2NodeClass) -> Iterable[AMISelectorTerm]:
    return node_class.spec.ami_selector_terms


def metadata_options(node_class: EC2NodeClass, region: str) -> dict[str, Any]:
    """Return the instance metadata options."""
    wanted = node_class.spec.metadata_options
    options: dict[str, Any] = {
        "HttpEndpoint": wanted.http_endpoint,
        "HttpPutResponseHopLimit": wanted.http_put_response_hop_limit,
        "HttpTokens": wanted.http_tokens,
        "InstanceMetadataTags": "disabled",
    }
    if region not in _NO_IPV6_METADATA and not region.startswith(_NO_IPV6_METADATA_PREFIXES):
        options["HttpProtocolIpv6"] = wanted.http_protocol_ipv6
    return {key: value for key, value in options.items() if value is not None}


def network_interfaces(
    node_class: EC2NodeClass, options: AwsOptions, efa: int
) -> list[dict[str, Any]]:
    """Return the interfaces: the user's, else one per EFA device, else a single one."""
    listed = node_class.spec.network_interfaces
    if listed:
        return [_listed(node_class, options, nic) for nic in listed]
    count = max(efa, 1)
    interfaces = []
    for card in range(count):
        interface = _interface(node_class, options, first=card == 0)
        interface |= {"DeviceIndex": 0 if card == 0 else 1}
        if efa:
            interface |= {"NetworkCardIndex": card, "InterfaceType": "efa"}
        interfaces.append(interface)
    return interfaces


def _listed(node_class: EC2NodeClass, options: AwsOptions, nic: NetworkInterface) -> dict[str, Any]:
    first = nic.network_card_index == 0 and nic.device_index == 0
    if nic.interface_type == EFA_ONLY:
        interface = {"Groups": _groups(node_class)}
    else:
        interface = _interface(node_class, options, first=first)
    return interface | {
        "NetworkCardIndex": nic.network_card_index,
        "DeviceIndex": nic.device_index,
        "InterfaceType": nic.interface_type,
    }


def _groups(node_class: EC2NodeClass) -> list[str]:
    return sorted(group.id for group in node_class.status.security_groups or ())


def _interface(node_class: EC2NodeClass, options: AwsOptions, *, first: bool) -> dict[str, Any]:
    spec = node_class.spec
    interface: dict[str, Any] = {"Groups": _groups(node_class)}
    if spec.associate_public_ip_address is not None:
        interface["AssociatePublicIpAddress"] = spec.associate_public_ip_address
    if options.ipv6 and first:
        interface |= {"PrimaryIpv6": True, "Ipv6AddressCount": 1}
    if spec.ip_prefix_count is not None:
        interface["Ipv6PrefixCount" if options.ipv6 else "Ipv4PrefixCount"] = spec.ip_prefix_count
    tracking = spec.connection_tracking
    if tracking is not None:
        timeouts = {
            "TcpEstablishedTimeout": tracking.tcp_established_timeout,
            "UdpStreamTimeout": tracking.udp_stream_timeout,
            "UdpTimeout": tracking.udp_timeout,
        }
        interface["ConnectionTrackingSpecification"] = {
            key: value for key, value in timeouts.items() if value is not None
        }
    return interface
