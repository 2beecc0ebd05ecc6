"""One launch: from a NodeClaim to exactly one instance, whatever answers are lost on the way.

The rules that keep a claim from getting two instances:
- the ClientToken comes from the claim's UID, and a call that was not answered is sent again
  unchanged with the same token, to which EC2 gives the same answer;
- only an answer without an instance moves on to a new token;
- a claim that may have been launched by somebody else (an earlier process, an earlier leader) is
  looked for by its tag before anything is bought.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import structlog

from nodewright_controller.api.labels import INSTANCE_TENANCY, RESERVED
from nodewright_controller.api.nodeclaim import NodeClaim
from nodewright_controller.aws.capacity_reservations import CapacityReservations
from nodewright_controller.aws.clients import AwsClients
from nodewright_controller.aws.error_codes import (
    TEMPLATE_NOT_FOUND,
    TOKEN_REUSED,
    AwsError,
    is_out_of_capacity,
    launch_failure_reason,
)
from nodewright_controller.aws.fleet import (
    FleetError,
    FleetInstance,
    FleetResult,
    client_token,
    fleet_request,
    offered_subnets,
    offered_types,
    parse_fleet,
)
from nodewright_controller.aws.instances import Instances
from nodewright_controller.aws.launch_template import LaunchInput, LaunchTemplate, plan_templates
from nodewright_controller.aws.launch_templates import LaunchTemplates
from nodewright_controller.aws.metrics import LAUNCH_FAILURES
from nodewright_controller.aws.offered import offered, refused
from nodewright_controller.aws.refusals import remember_refusals
from nodewright_controller.aws.reserved_launch import Places, ReservedLaunches, reserved_places
from nodewright_controller.aws.subnets import Subnets
from nodewright_controller.aws.unavailable import UnavailableOfferings
from nodewright_controller.constraints.requirements import Requirements
from nodewright_controller.kernel.resources import PODS
from nodewright_controller.ports.clock import Clock
from nodewright_controller.ports.cloud import CloudInstance
from nodewright_controller.ports.errors import CreateFailed, InsufficientCapacity
from nodewright_controller.scheduling.decision import Offer
from nodewright_controller.scheduling.type_plan import Shortage

log = structlog.get_logger(__name__)

SURELY_NEW: Final = timedelta(seconds=10)
"""A claim younger than this was not seen by an earlier leader: its lease alone lasts longer."""
_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Bought:
    """An instance, and how many types EC2 could choose from to make it."""

    instance: FleetInstance
    considered_types: int
    """0 when an earlier process asked, and nobody knows any more."""
    offers: tuple[Offer, ...] = ()
    """What EC2 could choose from, cheapest first."""
    shortages: tuple[Shortage, ...] = ()
    """What of it EC2 said to be out of stock."""


@dataclass(slots=True)
class _Attempt:
    """Where a claim's launch stands in this process."""

    number: int = 0
    unanswered: dict[str, Any] | None = None
    """The request that may have taken effect."""
    looked_for: bool = False
    """Whether it is certain that no earlier process launched for the claim."""
    reserved: Places = field(default_factory=dict)
    """What the latest request buys from capacity reservations."""


class Launcher:
    """Buys instances."""

    def __init__(  # noqa: PLR0913 - the parts that a launch touches
        self,
        clients: AwsClients,
        clock: Clock,
        *,
        instances: Instances,
        templates: LaunchTemplates,
        subnets: Subnets,
        unavailable: UnavailableOfferings,
        reservations: CapacityReservations,
    ) -> None:
        self._clients = clients
        self._clock = clock
        self._instances = instances
        self._templates = templates
        self._subnets = subnets
        self._unavailable = unavailable
        self._reserved = ReservedLaunches(reservations, unavailable)
        self._attempts: OrderedDict[str, _Attempt] = OrderedDict()

    async def launch(self, claim: NodeClaim, plan: Callable[[], LaunchInput]) -> Bought:
        """Return the instance of a claim: adopted if there is one already, else bought.

        `plan` says what to buy; it is asked only if something must be bought.

        Raises:
            InsufficientCapacity: everything that was offered is out of stock.
            CreateFailed: EC2 refused for another reason, or did not answer.

        """
        attempt = self._attempt(claim)
        try:
            existing = await self._existing(claim, attempt)
            if existing is not None:
                asked = attempt.unanswered
                attempt.unanswered = None
                if asked is None:
                    return Bought(existing, 0)
                return Bought(
                    existing, len(offered_types(asked)), offered(asked, existing.capacity_type)
                )
            return await self._buy(claim, attempt, plan)
        except AwsError as error:
            reason = launch_failure_reason(error.code, error.message)
            raise CreateFailed(reason, str(error)) from error

    def _attempt(self, claim: NodeClaim) -> _Attempt:
        attempt = self._attempts.setdefault(claim.uid, _Attempt())
        self._attempts.move_to_end(claim.uid)
        while len(self._attempts) > _REMEMBERED:
            self._attempts.popitem(last=False)
        return attempt

    async def _existing(self, claim: NodeClaim, attempt: _Attempt) -> FleetInstance | None:
        if attempt.unanswered is None and (attempt.looked_for or self._is_new(claim)):
            attempt.looked_for = True
            return None
        found = await self._instances.of_claim(claim.name)
        if found is None:
            attempt.looked_for = True
            return None
        log.info("adopted instance", nodeclaim=claim.name, instance=found.instance_id)
        return as_bought(found)

    def _is_new(self, claim: NodeClaim) -> bool:
        created = claim.metadata.creation_timestamp
        return created is not None and self._clock.now() - created < SURELY_NEW

    async def _buy(
        self, claim: NodeClaim, attempt: _Attempt, plan: Callable[[], LaunchInput]
    ) -> Bought:
        request = attempt.unanswered
        templates: tuple[LaunchTemplate, ...] = ()
        if request is None:
            wanted = plan()
            templates = plan_or_refuse(wanted)
            request = await self._request(wanted, templates, attempt.number)
            attempt.reserved = reserved_places(templates)
        taken = offered_subnets(request)
        addresses = fewest_pods(templates)
        self._subnets.deduct(taken, addresses)
        result: FleetResult | None = None
        try:
            result = await self._send(claim, attempt, request, templates)
        finally:
            used = subnets_used(result)
            self._subnets.give_back(taken - used, addresses)
        _count_failures(result, request)
        if attempt.reserved:
            result = self._reserved.settle(result, attempt.reserved)
        else:
            remember_refusals(result, request, self._unavailable)
        if result.instance is None:
            raise _failure(result)
        kind = RESERVED if attempt.reserved else result.instance.capacity_type
        offers = offered(request, kind)
        short = refused(result, offers, self._unavailable)
        return Bought(result.instance, len(offered_types(request)), offers, short)

    async def _request(
        self, wanted: LaunchInput, templates: tuple[LaunchTemplate, ...], number: int
    ) -> dict[str, Any]:
        subnet_ids = [
            subnet.id
            for subnet in wanted.node_class.status.subnets or ()
            if not self._unavailable.is_subnet_full(subnet.id)
        ]
        per_zone = await self._subnets.for_launch(subnet_ids)
        token = client_token(wanted.node_claim.uid, number)
        request = fleet_request(wanted, templates, per_zone, token)
        if not request["LaunchTemplateConfigs"]:
            raise InsufficientCapacity(
                "no subnet of the node class with free addresses is in a zone with an offering"
            )
        await self._templates.ensure(templates)
        return request

    async def _send(
        self,
        claim: NodeClaim,
        attempt: _Attempt,
        request: dict[str, Any],
        templates: tuple[LaunchTemplate, ...],
    ) -> FleetResult:
        result = await self._send_once(claim, attempt, request)
        missing = [e for e in result.errors if e.code == TEMPLATE_NOT_FOUND]
        if result.instance is None and missing and templates:
            # Somebody deleted the template between our look and the launch: make it, once more.
            self._templates.forget(template.name for template in templates)
            await self._templates.ensure(templates)
            again = {**request, "ClientToken": client_token(claim.uid, attempt.number)}
            result = await self._send_once(claim, attempt, again)
        return result

    async def _send_once(
        self, claim: NodeClaim, attempt: _Attempt, request: dict[str, Any]
    ) -> FleetResult:
        attempt.unanswered = request
        try:
            answer = await self._clients.call(self._clients.ec2.create_fleet, **request)
        except AwsError as error:
            if error.unclear:
                raise
            attempt.unanswered = None
            if error.code == TOKEN_REUSED:
                return await self._someone_elses(claim, attempt, error)
            attempt.number += 1
            return FleetResult(None, (FleetError(error.code, error.message, "", "", ""),))
        attempt.unanswered = None
        result = parse_fleet(answer, request)
        if result.instance is None:
            attempt.number += 1
        return result

    async def _someone_elses(
        self, claim: NodeClaim, attempt: _Attempt, error: AwsError
    ) -> FleetResult:
        """An earlier process used this token for another request: find what it bought."""
        found = await self._instances.of_claim(claim.name)
        if found is not None:
            return FleetResult(as_bought(found), ())
        if attempt.looked_for and not self._is_new(claim):
            attempt.number += 1  # it bought nothing; the next call may use a token of its own
        attempt.looked_for = False
        raise CreateFailed("LaunchFailed", str(error)) from error


def plan_or_refuse(wanted: LaunchInput) -> tuple[LaunchTemplate, ...]:
    """Return the templates of a launch.

    Raises:
        InsufficientCapacity: no image boots any of the types.
        CreateFailed: the node class cannot be turned into a template.

    """
    try:
        templates = plan_templates(wanted)
    except ValueError as error:
        name = wanted.node_class.name
        raise CreateFailed("LaunchTemplateInvalid", f"EC2NodeClass {name}: {error}") from error
    if not templates:
        raise InsufficientCapacity("no image of the node class boots any type that fits")
    return templates


def subnets_used(result: FleetResult | None) -> frozenset[str]:
    """Return the subnets in which an answer has an instance."""
    if result is None or result.instance is None:
        return frozenset()
    return frozenset({result.instance.subnet_id})


def _count_failures(result: FleetResult, request: Mapping[str, Any]) -> None:
    target = request["TargetCapacitySpecification"]["DefaultTargetCapacityType"]
    for error in result.errors:
        reason = launch_failure_reason(error.code, error.message)
        LAUNCH_FAILURES.labels(error.zone, "", target, reason).inc()


def fewest_pods(templates: tuple[LaunchTemplate, ...]) -> int:
    """Return the addresses that a launch will take at least: one for each pod of its node."""
    pods = [
        candidate.instance_type.capacity.get(PODS, 0)
        for template in templates
        for candidate in template.candidates
    ]
    return min(pods, default=0)


def _failure(result: FleetResult) -> InsufficientCapacity | CreateFailed:
    codes = sorted({error.code for error in result.errors})
    if result.out_of_capacity or not result.errors:
        return InsufficientCapacity(f"EC2 has none of the offered instances: {', '.join(codes)}")
    first = next(error for error in result.errors if not is_out_of_capacity(error.code))
    messages = "; ".join(sorted({f"{e.code}: {e.message}" for e in result.errors}))
    return CreateFailed(launch_failure_reason(first.code, first.message), messages)


def as_bought(instance: CloudInstance) -> FleetInstance:
    """Return an instance that exists already as a fleet would have answered it."""
    return FleetInstance(
        instance_id=instance.instance_id,
        instance_type=instance.instance_type,
        zone=instance.zone,
        subnet_id=instance.subnet_id,
        image_id=instance.image_id,
        capacity_type=instance.capacity_type,
        reservation_id=instance.capacity_reservation_id,
    )


def tenancy_of(asked: Requirements) -> str:
    """Return the tenancy to launch with: the default one where it is allowed."""
    return "default" if asked.of(INSTANCE_TENANCY).has("default") else "dedicated"
