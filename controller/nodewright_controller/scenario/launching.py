"""The step `launch`: CreateFleet as the controller would send it, answered as the scenario says.

`aws.onCreateFleet` is a list of answers; the first whose `when` fits the request counts, and a
request that none fits is launched. What EC2 refuses is remembered as unavailable, the claim goes,
and its pods are looked at again in the next round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.error_codes import SPOT_ROLE_DENIED, is_out_of_capacity
from nodewright_controller.aws.filters import Choice, NoChoice
from nodewright_controller.aws.fleet import client_token, fleet_request
from nodewright_controller.aws.launch_template import LaunchInput, plan_templates
from nodewright_controller.aws.launcher import tenancy_of
from nodewright_controller.aws.subnets import Subnet, subnet_per_zone
from nodewright_controller.aws.tags import from_list
from nodewright_controller.aws.unavailable import TIME_TO_LIVE
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.scenario.buying import bought, cheapest, choice_for
from nodewright_controller.scenario.outcome import Fleet, LaunchPass, OfferingKey
from nodewright_controller.scenario.session import Session

_LAUNCHED = "launched"
_MANY_ADDRESSES = 251


def launch(session: Session) -> None:
    """Launch every claim that has no instance yet."""
    fleets: list[Fleet] = []
    launched: list[str] = []
    failed: list[str] = []
    unavailable: set[OfferingKey] = set()
    for name, claim in list(session.unlaunched.items()):
        choice = choice_for(session, claim)
        fleet = None
        if isinstance(choice, NoChoice):
            session.outcome.warnings.append(f"NodeClaim {name} was not launched: {choice.because}")
        else:
            fleet = _send(session, claim, choice)
        del session.unlaunched[name]
        if fleet is None or fleet.error:
            failed.append(name)
            session.cluster.remove_node_claim(name)
        elif not isinstance(choice, NoChoice):
            launched.append(name)
            session.cluster.apply_node_claim(bought(session, claim, cheapest(choice)))
        if fleet is not None:
            fleets.append(fleet)
            unavailable.update(_remember(session, fleet))
    session.outcome.launches.append(
        LaunchPass(
            fleets=tuple(fleets),
            launched=tuple(launched),
            failed=tuple(failed),
            unavailable=frozenset(unavailable),
            retry_after=TIME_TO_LIVE if unavailable else None,
        )
    )


def _send(session: Session, claim: NodeClaim, choice: Choice) -> Fleet | None:
    node_class = session.node_class_of(claim)
    if node_class is None:
        return None
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
        session.outcome.warnings.append(f"NodeClaim {claim.name} was not launched: {error}")
        return None
    addresses = session.world.free_addresses
    subnets = [
        Subnet(
            id=found.id,
            zone=found.zone,
            zone_id=found.zone_id,
            free_ips=addresses.get(found.id, _MANY_ADDRESSES),
        )
        for found in node_class.status.subnets or ()
    ]
    request = fleet_request(
        wanted, templates, subnet_per_zone(subnets, {}), client_token(claim.uid, 0)
    )
    specification = request["TagSpecifications"][0]
    return Fleet(
        node_claim=claim.name,
        request=request,
        images=tuple(sorted({template.image_id for template in templates})),
        tags=from_list(specification["Tags"]),
        error=_answer(session.world.scenario.aws, request),
    )


def _answer(canned: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    """Return the error code of the first canned answer that fits; empty for a launch."""
    answers = canned.get("onCreateFleet")
    for answer in answers if isinstance(answers, list) else ():
        if isinstance(answer, Mapping) and _fits(answer.get("when"), request):
            return str(answer.get("error") or "")
    return ""


def _fits(when: Any, request: Mapping[str, Any]) -> bool:
    if not isinstance(when, Mapping):
        return True
    capacity_type = request["TargetCapacitySpecification"]["DefaultTargetCapacityType"]
    places = [each for config in request["LaunchTemplateConfigs"] for each in config["Overrides"]]
    wanted = {
        "capacityType": {capacity_type},
        "zone": {each["AvailabilityZone"] for each in places},
        "instanceType": {each["InstanceType"] for each in places},
    }
    return all(value in wanted.get(key, ()) for key, value in when.items())


def _remember(session: Session, fleet: Fleet) -> Iterator[OfferingKey]:
    """Mark what a failed call offered, and yield it."""
    if not is_out_of_capacity(fleet.error):
        return
    target = fleet.request["TargetCapacitySpecification"]["DefaultTargetCapacityType"]
    if fleet.error == SPOT_ROLE_DENIED:
        session.shortages.mark_capacity_type(target)
    for config in fleet.request["LaunchTemplateConfigs"]:
        for each in config["Overrides"]:
            key = (each["InstanceType"], each["AvailabilityZone"], target)
            session.shortages.mark(*key)
            yield key
