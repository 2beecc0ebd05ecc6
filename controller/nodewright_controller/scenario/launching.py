"""The step `launch`: CreateFleet as the controller would send it, answered as the scenario says.

What EC2 refuses is remembered as the controller remembers it. A claim for which nothing can be had
goes, and its pods are looked at again in the next round; one that EC2 refuses for another reason
stays and is tried again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nodewright_controller.api.ec2nodeclass import EC2NodeClass
from nodewright_controller.api.labels import RESERVED
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.error_codes import is_out_of_capacity
from nodewright_controller.aws.filters import Choice, NoChoice
from nodewright_controller.aws.fleet import FleetInstance, FleetResult, client_token, fleet_request
from nodewright_controller.aws.launch_template import LaunchInput, plan_templates
from nodewright_controller.aws.launcher import fewest_pods, tenancy_of
from nodewright_controller.aws.refusals import remember_refusals
from nodewright_controller.aws.subnets import Subnet, subnet_per_zone
from nodewright_controller.aws.tags import from_list
from nodewright_controller.aws.unavailable import TIME_TO_LIVE
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.scenario.buying import (
    bought,
    cheapest,
    choice_for,
    joined,
    purchase_of,
)
from nodewright_controller.scenario.canned import answer
from nodewright_controller.scenario.outcome import Fleet, LaunchPass, OfferingKey
from nodewright_controller.scenario.readiness import node_class_problem
from nodewright_controller.scenario.session import Session

_MANY_ADDRESSES = 251


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """What came of one claim."""

    claim: NodeClaim | None
    """As it is afterwards; None: it is gone."""
    fleet: Fleet | None = None
    because: str = ""
    """Why there is no instance."""

    @property
    def launched(self) -> bool:
        return not self.because


def launch(session: Session) -> None:
    """Launch every claim that has no instance yet."""
    session.outcome.launches.append(_launch_all(session))
    session.tried.update(session.unlaunched)


def launch_quietly(session: Session) -> None:
    """Launch what was asked for, as the controller does between two rounds.

    What a launch step has tried in vain is left for the next one.
    """
    found = _launch_all(session, without=session.tried)
    session.outcome.warnings.extend(f"{text} (between two rounds)" for _, text in found.events)


def _launch_all(session: Session, without: Collection[str] = ()) -> LaunchPass:
    fleets: list[Fleet] = []
    launched: list[str] = []
    failed: list[str] = []
    events: list[tuple[str, str]] = []
    for name, claim in list(session.unlaunched.items()):
        if name in without:
            continue
        tried = _launch_one(session, claim)
        if tried.fleet is not None:
            fleets.append(tried.fleet)
        if tried.launched:
            launched.append(name)
        else:
            failed.append(name)
            reason = "LaunchFailed" if tried.claim else "InsufficientCapacityError"
            events.append((reason, f"NodeClaim {name} failed to launch: {tried.because}"))
        if tried.launched or tried.claim is None:
            del session.unlaunched[name]
        if tried.claim is None:
            session.cluster.remove_node_claim(name)
        else:
            session.cluster.apply_node_claim(tried.claim)
    unavailable, full = frozenset(_unavailable(session)), frozenset(_full_subnets(session))
    return LaunchPass(
        fleets=tuple(fleets),
        launched=tuple(launched),
        failed=tuple(failed),
        events=tuple(events),
        unavailable=unavailable,
        full_subnets=full,
        open_zones=frozenset(_open_zones(session)),
        retry_after=TIME_TO_LIVE if unavailable or full else None,
    )


def _launch_one(session: Session, claim: NodeClaim) -> _Tried:
    choice = choice_for(session, claim)
    node_class = session.node_class_of(claim)
    if isinstance(choice, NoChoice) or node_class is None:
        because = choice.because if isinstance(choice, NoChoice) else "it has no EC2NodeClass"
        return _Tried(claim=None, because=because)
    if choice.capacity_type == RESERVED:
        return _reserved(session, claim, choice)
    wanted = LaunchInput(
        node_class=node_class,
        node_claim=claim,
        choice=choice,
        options=session.options.aws,
        tenancy=tenancy_of(Requirements.of_entries(claim.spec.requirements)),
    )
    try:
        templates = plan_templates(wanted)
    except ValueError as error:
        return _Tried(claim=claim, because=f"EC2NodeClass {node_class.name}: {error}")
    subnets = _subnets(session, node_class, choice)
    request = fleet_request(wanted, templates, subnets, client_token(claim.uid, 0))
    if not request["LaunchTemplateConfigs"]:
        return _Tried(claim=None, because="no subnet with free addresses is in a zone it may use")
    session.made += 1
    said = answer(session.world.scenario.aws, request, session.made)
    result = said.result
    remember_refusals(result, request, session.shortages)
    fleet = Fleet(
        node_claim=claim.name,
        request=request,
        images=tuple(sorted({template.image_id for template in templates})),
        tags=from_list(request["TagSpecifications"][0]["Tags"]),
        error="" if result.instance is not None else _code(result),
    )
    if result.instance is None:
        stays = any(not is_out_of_capacity(error.code) for error in result.errors)
        return _Tried(claim=claim if stays else None, fleet=fleet, because=_said(result))
    taken = session.addresses
    subnet = result.instance.subnet_id
    taken[subnet] = taken.get(subnet, 0) + fewest_pods(templates)
    bought_claim = bought(session, claim, purchase_of(choice, result.instance), result.instance)
    if said.joined is not None:
        bought_claim, node = joined(bought_claim, said.joined)
        session.cluster.apply_node(node)
    return _Tried(claim=bought_claim, fleet=fleet)


def _reserved(session: Session, claim: NodeClaim, choice: Choice) -> _Tried:
    """Take an instance of a reservation: it is there, so EC2 has nothing to answer."""
    session.made += 1
    purchase = cheapest(choice)
    instance = FleetInstance(
        instance_id=f"i-{session.made:017x}",
        instance_type=purchase.instance_type.name,
        zone=purchase.offering.zone,
        subnet_id="",
        image_id="",
        capacity_type=RESERVED,
    )
    return _Tried(claim=bought(session, claim, purchase, instance))


def _subnets(session: Session, node_class: EC2NodeClass, choice: Choice) -> dict[str, Subnet]:
    """Return the subnet of each zone; a world that names none has one in every zone."""
    stated = session.world.free_addresses
    known = [
        Subnet(
            id=found.id,
            zone=found.zone,
            zone_id=found.zone_id,
            free_ips=stated.get(found.id, _MANY_ADDRESSES),
        )
        for found in node_class.status.subnets or ()
        if not session.shortages.is_subnet_full(found.id)
    ]
    if node_class.status.subnets is None:
        zones = {each.zone for found in choice.candidates for each in found.offerings}
        known = [
            Subnet(id=f"subnet-{zone}", zone=zone, zone_id="", free_ips=_MANY_ADDRESSES)
            for zone in sorted(zones)
        ]
    return subnet_per_zone(known, session.addresses)


def _code(result: FleetResult) -> str:
    """Return the foremost code: what is no shortage says more than what is one."""
    codes = [error.code for error in result.errors]
    return next((code for code in codes if not is_out_of_capacity(code)), codes[0] if codes else "")


def _said(result: FleetResult) -> str:
    return "; ".join(dict.fromkeys(f"{error.code}: {error.message}" for error in result.errors))


# What is left afterwards.


def _unavailable(session: Session) -> Iterator[OfferingKey]:
    for entry in session.world.catalog:
        for sold in entry.sold:
            if session.shortages.is_unavailable(entry.name, sold.zone, sold.capacity_type):
                yield entry.name, sold.zone, sold.capacity_type


def _full_subnets(session: Session) -> Iterator[str]:
    for node_class in session.world.node_classes:
        for found in node_class.status.subnets or ():
            if session.shortages.is_subnet_full(found.id):
                yield found.id


def _open_zones(session: Session) -> Iterator[str]:
    """Yield every zone in which some node class can still launch something."""
    for node_class in session.world.node_classes:
        if node_class_problem(node_class):
            continue
        for found in session.machines(node_class):
            yield from (each.zone for each in found.offerings if each.available)
