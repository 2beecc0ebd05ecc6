"""What a launch would buy for a claim, and what the claim looks like once it has been bought."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from nodewright_controller.api import labels
from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.meta import Condition, ObjectMeta
from nodewright_controller.api.node import Node, NodeSpec, NodeStatus
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.ami import image_for
from nodewright_controller.aws.filters import Candidate, Choice, NoChoice, choose
from nodewright_controller.aws.fleet import FleetInstance
from nodewright_controller.aws.offerings import RESERVATION_LABELS
from nodewright_controller.constraints.instance_type import InstanceType, Offering
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scenario.canned import Joined
from nodewright_controller.scenario.session import Session


@dataclass(frozen=True, slots=True)
class Purchase:
    """An instance type, bought in one way."""

    instance_type: InstanceType
    offering: Offering


def choice_for(session: Session, claim: NodeClaim) -> Choice | NoChoice:
    """Return what a launch of the claim would offer to EC2 now."""
    node_class = session.node_class_of(claim)
    if node_class is None:
        return NoChoice(f"EC2NodeClass {claim.spec.node_class_ref.name} does not exist")
    try:
        asked = Requirements.of_entries(claim.spec.requirements)
        types = _bootable(session.types_of(claim), node_class)
    except ValueError as error:
        return NoChoice(str(error))
    return choose(types, asked, Resources.parse(claim.spec.resources.requests))


def _bootable(
    types: tuple[InstanceType, ...], node_class: EC2NodeClass
) -> tuple[InstanceType, ...]:
    amis = node_class.status.amis
    if amis is None:
        return types
    return tuple(found for found in types if image_for(found, amis) is not None)


def cheapest(choice: Choice) -> Purchase:
    """Return the cheapest of what is offered; ties go to the type, then the zone, by name."""
    best: Candidate = min(
        choice.candidates, key=lambda found: (found.usd_per_hour, found.instance_type.name)
    )
    return Purchase(best.instance_type, best.offerings[0])


def purchase_of(choice: Choice, instance: FleetInstance) -> Purchase:
    """Return what of a choice EC2 took."""
    for candidate in choice.candidates:
        for offering in candidate.offerings:
            if (candidate.instance_type.name, offering.zone) == (
                instance.instance_type,
                instance.zone,
            ):
                return Purchase(candidate.instance_type, offering)
    return cheapest(choice)


def bought(
    session: Session, claim: NodeClaim, purchase: Purchase, instance: FleetInstance
) -> NodeClaim:
    """Return the claim as it is after the launch: labels, provider id, amounts."""
    instance_type, offering = purchase.instance_type, purchase.offering
    known = instance_type.requirements.without(*RESERVATION_LABELS).labels()
    known |= offering.requirements.labels()
    status = structs.replace(
        claim.status,
        provider_id=f"aws:///{offering.zone}/{instance.instance_id}",
        image_id=instance.image_id,
        capacity={**instance_type.capacity.format()},
        allocatable={**instance_type.allocatable.format()},
        conditions=[
            *(c for c in claim.status.conditions or () if c.type != "Launched"),
            Condition(type="Launched", status="True", reason="Launched"),
        ],
    )
    decided = {key: value for key, value in known.items() if value}
    metadata = structs.replace(claim.metadata, labels={**claim.labels, **decided})
    reservation = decided.get(labels.CAPACITY_RESERVATION_ID)
    if reservation:
        session.reserved[reservation] = session.reserved.get(reservation, 0) + 1
    return structs.replace(claim, metadata=metadata, status=status)


def joined(claim: NodeClaim, as_what: Joined) -> tuple[NodeClaim, Node]:
    """Return a launched claim and its node, once it is registered, initialized and ready."""
    up = {labels.REGISTERED: "true", labels.INITIALIZED: "true"}
    status = claim.status
    allocatable = as_what.allocatable or status.allocatable or {}
    node = Node(
        metadata=ObjectMeta(
            name=claim.name,
            uid=f"Node/{claim.name}",
            labels={**claim.labels, **up, labels.HOSTNAME: claim.name},
            creation_timestamp=claim.metadata.creation_timestamp,
        ),
        spec=NodeSpec(provider_id=status.provider_id, taints=list(as_what.taints)),
        status=NodeStatus(
            capacity={**(status.capacity or {})},
            allocatable={**(status.allocatable or {}), **allocatable},
            conditions=[Condition(type="Ready", status="True")],
        ),
    )
    conditions = [
        *(status.conditions or ()),
        Condition(type="Registered", status="True"),
        Condition(type="Initialized", status="True"),
    ]
    metadata = structs.replace(claim.metadata, labels={**claim.labels, **up})
    done = structs.replace(status, node_name=node.name, conditions=conditions)
    return structs.replace(claim, metadata=metadata, status=done), node
