"""CreateFleet, type `instant`: one call, many capacity pools, instances or reasons at once.

Each override is a pool. Valid ones are ordered by the allocation strategy and drawn from until
the target is met; those that fail on the way, and all invalid ones if the target is missed, come
back as errors with EC2's codes.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from nodewright_local.aws.ec2.allocation import Candidate, order
from nodewright_local.aws.ec2.instances import InstanceRecord, Origin
from nodewright_local.aws.ec2.launch_spec import (
    LaunchSpec,
    overlay,
    resolve,
    tags_by_resource,
    template_of,
)
from nodewright_local.aws.ec2.launching import hourly_price, launch_one
from nodewright_local.aws.ec2.prices import spot_pool_depth
from nodewright_local.aws.errors import AwsError, dry_run
from nodewright_local.aws.wire import Call
from nodewright_local.aws.world import World

_OVERRIDE_KEYS = ("InstanceType", "SubnetId", "AvailabilityZone", "ImageId", "Placement")
_DEFAULT_STRATEGY = {"spot": "lowest-price", "on-demand": "lowest-price"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A candidate with the instance it would become."""

    candidate: Candidate
    spec: LaunchSpec


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a fleet has come to."""

    launched: list[tuple[Pool, list[InstanceRecord]]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    fulfilled: float = 0.0

    def records(self) -> list[InstanceRecord]:
        """All instances, in order of launch per pool."""
        return [record for _, records in self.launched for record in records]

    def add(self, pool: Pool, record: InstanceRecord) -> None:
        """Count one instance of a pool."""
        self.fulfilled += pool.candidate.weight
        for known, records in self.launched:
            if known is pool:
                records.append(record)
                return
        self.launched.append((pool, [record]))


def create_fleet(world: World, call: Call) -> dict[str, Any]:
    """Answer CreateFleet."""
    params = call.params
    _check(params)
    configs = [
        (config, template_of(call.region, config.get("LaunchTemplateSpecification")))
        for config in params["LaunchTemplateConfigs"]
    ]
    if params.get("DryRun"):
        raise dry_run()
    known = world.client_tokens.recall("CreateFleet", call.region, params)
    if known is not None:
        answer: dict[str, Any] = known
        return answer
    fleet_id = f"fleet-{secrets.token_hex(4)}-{secrets.token_hex(2)}-{secrets.token_hex(6)}"
    outcomes = [
        _fulfil(world, call, configs, capacity_type, target, fleet_id)
        for capacity_type, target in _targets(params["TargetCapacitySpecification"])
    ]
    answer = _answer(fleet_id, outcomes)
    _remember(world, call, fleet_id, outcomes, answer)
    return answer


def _check(params: Mapping[str, Any]) -> None:
    if not params.get("LaunchTemplateConfigs"):
        raise AwsError(
            "MissingParameter", "The request must contain the parameter LaunchTemplateConfigs"
        )
    kind = params.get("Type") or "maintain"
    if kind != "instant":
        raise AwsError(
            "Unsupported",
            f"The laptop's EC2 creates fleets of type instant; this call asks for {kind}",
        )
    if (params.get("TargetCapacitySpecification") or {}).get("TotalTargetCapacity") is None:
        raise AwsError(
            "MissingParameter",
            "The request must contain the parameter TargetCapacitySpecification."
            "TotalTargetCapacity",
        )


def _targets(specification: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Split the target into capacity types; the default type takes what the others leave."""
    wanted = {
        "on-demand": float(specification.get("OnDemandTargetCapacity") or 0),
        "spot": float(specification.get("SpotTargetCapacity") or 0),
    }
    default = specification.get("DefaultTargetCapacityType") or "on-demand"
    if default not in wanted:
        raise AwsError(
            "Unsupported", f"The laptop's EC2 has no {default} capacity; use spot or on-demand"
        )
    wanted[default] += float(specification["TotalTargetCapacity"]) - sum(wanted.values())
    return [(kind, target) for kind, target in wanted.items() if target > 0]


def _options(params: Mapping[str, Any], capacity_type: str) -> dict[str, Any]:
    key = "SpotOptions" if capacity_type == "spot" else "OnDemandOptions"
    return dict(params.get(key) or {})


def _strategy(options: Mapping[str, Any], capacity_type: str) -> str:
    """The strategy in the API's spelling; the spot names also exist in camel case."""
    name = options.get("AllocationStrategy") or _DEFAULT_STRATEGY[capacity_type]
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)


def _fulfil(
    world: World,
    call: Call,
    configs: list[tuple[dict[str, Any], Any]],
    capacity_type: str,
    target: float,
    fleet_id: str,
) -> Outcome:
    pools, invalid = _pools(call, configs, capacity_type)
    options = _options(call.params, capacity_type)
    strategy = _strategy(options, capacity_type)
    try:
        ordered = order([pool.candidate for pool in pools], strategy, spot=capacity_type == "spot")
    except KeyError as error:
        raise AwsError(
            "InvalidParameterValue", f"Invalid allocation strategy '{strategy}'"
        ) from error
    by_index = {pool.candidate.index: pool for pool in pools}
    outcome = Outcome()
    considered = {pool.spec.instance_type for pool in pools}
    _draw(
        world,
        [by_index[candidate.index] for candidate in ordered],
        outcome,
        target=target,
        width=_width(options, strategy, len(ordered)),
        fleet=(fleet_id, len(considered)),
    )
    minimum = options.get("MinTargetCapacity")
    if minimum and outcome.fulfilled < minimum:
        for record in outcome.records():
            world.instances.terminate(record)
        outcome.launched.clear()
    if outcome.fulfilled < target:
        outcome.errors = [*outcome.errors, *invalid]
    return outcome


def _width(options: Mapping[str, Any], strategy: str, pools: int) -> int:
    """How many pools a strategy draws from side by side."""
    if strategy == "diversified":
        return max(pools, 1)
    if strategy == "lowest-price":
        return int(options.get("InstancePoolsToUseCount") or 1)
    return 1


def _draw(
    world: World,
    ordered: list[Pool],
    outcome: Outcome,
    *,
    target: float,
    width: int,
    fleet: tuple[str, int],
) -> None:
    active, waiting = ordered[:width], ordered[width:]
    while active and outcome.fulfilled < target:
        for pool in list(active):
            if outcome.fulfilled >= target:
                break
            origin = Origin(
                launched_by="fleet",
                price=pool.candidate.price,
                fleet_id=fleet[0],
                considered_types=fleet[1],
            )
            try:
                record = launch_one(world, pool.spec, origin)
            except AwsError as error:
                outcome.errors.append(_error(pool.candidate, pool.spec.template, error))
                active.remove(pool)
                if waiting:
                    active.append(waiting.pop(0))
            else:
                outcome.add(pool, record)


def _pools(
    call: Call, configs: list[tuple[dict[str, Any], Any]], capacity_type: str
) -> tuple[list[Pool], list[dict[str, Any]]]:
    pools: list[Pool] = []
    invalid: list[dict[str, Any]] = []
    index = 0
    for config_index, (config, template) in enumerate(configs):
        base = overlay(template[1].data if template else {}, _fleet_request(call, capacity_type))
        for override in config.get("Overrides") or [{}]:
            candidate = _candidate(index, config_index, override, capacity_type)
            index += 1
            try:
                pools.append(_pool(call.region, base, candidate, template))
            except AwsError as error:
                reference = (template[0].id, template[1].number) if template else None
                invalid.append(_error(candidate, reference, error))
    return pools, invalid


def _fleet_request(call: Call, capacity_type: str) -> dict[str, Any]:
    """What a fleet adds to its templates: tags, and the market."""
    request: dict[str, Any] = {"TagSpecifications": call.params.get("TagSpecifications")}
    if capacity_type == "spot":
        request["InstanceMarketOptions"] = {"MarketType": "spot"}
    return request


def _candidate(
    index: int, config_index: int, override: dict[str, Any], capacity_type: str
) -> Candidate:
    priority = override.get("Priority")
    return Candidate(
        index=index,
        instance_type=override.get("InstanceType") or "",
        zone=override.get("AvailabilityZone") or "",
        capacity_type=capacity_type,
        price=None,
        depth=0,
        priority=None if priority is None else float(priority),
        weight=float(override.get("WeightedCapacity") or 1),
        config_index=config_index,
        override=override,
    )


def _pool(
    region: str, base: Mapping[str, Any], candidate: Candidate, template: tuple[Any, Any] | None
) -> Pool:
    override = candidate.override
    if override.get("InstanceRequirements"):
        raise AwsError(
            "Unsupported",
            "The laptop's EC2 chooses no types by InstanceRequirements; name InstanceType",
        )
    request = {key: override[key] for key in _OVERRIDE_KEYS if override.get(key)}
    if override.get("BlockDeviceMappings"):
        request["BlockDeviceMappings"] = override["BlockDeviceMappings"]
    merged = {**base, **request}
    if request.get("SubnetId") and "AvailabilityZone" not in request:
        merged.pop("AvailabilityZone", None)
    spec = resolve(region, merged, template=template)
    price = hourly_price(region, spec.zone, spec.instance_type, spec.capacity_type)
    _check_max_price(override, spec, price)
    return Pool(
        candidate=Candidate(
            index=candidate.index,
            instance_type=spec.instance_type,
            zone=spec.zone,
            capacity_type=spec.capacity_type,
            price=price,
            depth=spot_pool_depth(spec.zone, spec.instance_type),
            priority=candidate.priority,
            weight=candidate.weight,
            config_index=candidate.config_index,
            override=override,
        ),
        spec=spec,
    )


def _check_max_price(override: Mapping[str, Any], spec: LaunchSpec, price: float | None) -> None:
    limit = override.get("MaxPrice")
    if limit and spec.capacity_type == "spot" and price is not None and float(limit) < price:
        raise AwsError(
            "SpotMaxPriceTooLow",
            f"Your Spot request price of {limit} is lower than the minimum required Spot request "
            f"fulfillment price of {price}.",
        )


def _shown_template(
    template: tuple[str, int] | None, override: Mapping[str, Any]
) -> dict[str, Any]:
    shown: dict[str, Any] = {"Overrides": {k: v for k, v in override.items() if v is not None}}
    if template:
        shown["LaunchTemplateSpecification"] = {
            "LaunchTemplateId": template[0],
            "Version": str(template[1]),
        }
    return shown


def _error(
    candidate: Candidate, template: tuple[str, int] | None, error: AwsError
) -> dict[str, Any]:
    override = {**candidate.override}
    if candidate.zone:
        override["AvailabilityZone"] = candidate.zone
    return {
        "LaunchTemplateAndOverrides": _shown_template(template, override),
        "Lifecycle": candidate.capacity_type,
        "ErrorCode": error.code,
        "ErrorMessage": error.message,
    }


def _answer(fleet_id: str, outcomes: list[Outcome]) -> dict[str, Any]:
    return {
        "FleetId": fleet_id,
        "Errors": [error for outcome in outcomes for error in outcome.errors],
        "Instances": [
            {
                "LaunchTemplateAndOverrides": _shown_template(
                    pool.spec.template,
                    {**pool.candidate.override, "AvailabilityZone": pool.spec.zone},
                ),
                "Lifecycle": pool.spec.capacity_type,
                "InstanceIds": [record.instance_id for record in records],
                "InstanceType": pool.spec.instance_type,
            }
            for outcome in outcomes
            for pool, records in outcome.launched
        ],
    }


def _remember(
    world: World, call: Call, fleet_id: str, outcomes: list[Outcome], answer: dict[str, Any]
) -> None:
    world.client_tokens.remember("CreateFleet", call.region, call.params, answer)
    fleet_tags = tags_by_resource(call.params.get("TagSpecifications")).get("fleet", {})
    world.fleets[fleet_id] = {
        "FleetId": fleet_id,
        "FleetState": "active",
        "ActivityStatus": "fulfilled",
        "CreateTime": datetime.now(UTC),
        "Type": "instant",
        "ClientToken": call.params.get("ClientToken"),
        "TargetCapacitySpecification": call.params["TargetCapacitySpecification"],
        "FulfilledCapacity": sum(outcome.fulfilled for outcome in outcomes),
        "Errors": answer["Errors"],
        "Instances": answer["Instances"],
        "Tags": [{"Key": key, "Value": value} for key, value in fleet_tags.items()],
    }


def describe_fleets(world: World, call: Call) -> dict[str, Any]:
    """Answer DescribeFleets; like EC2, instant fleets show only when named."""
    wanted = call.params.get("FleetIds") or []
    missing = [fleet_id for fleet_id in wanted if fleet_id not in world.fleets]
    if missing:
        raise AwsError("InvalidFleetId.NotFound", f"The fleet ID '{missing[0]}' does not exist")
    return {"Fleets": [world.fleets[fleet_id] for fleet_id in wanted]}


def delete_fleets(world: World, call: Call) -> dict[str, Any]:
    """Answer DeleteFleets; an instant fleet goes together with its instances."""
    deleted, failed = [], []
    for fleet_id in call.params.get("FleetIds") or []:
        if world.fleets.pop(fleet_id, None) is None:
            message = f"The fleet ID '{fleet_id}' does not exist"
            failed.append(
                {"FleetId": fleet_id, "Error": {"Code": "fleetIdDoesNotExist", "Message": message}}
            )
            continue
        for record in world.instances.all(call.region):
            if record.origin.fleet_id == fleet_id:
                world.instances.terminate(record)
        deleted.append(
            {
                "FleetId": fleet_id,
                "CurrentFleetState": "deleted_terminating",
                "PreviousFleetState": "active",
            }
        )
    return {"SuccessfulFleetDeletions": deleted, "UnsuccessfulFleetDeletions": failed}
