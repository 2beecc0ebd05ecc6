"""EC2 as a scenario says it answers: CreateFleet, override by override.

`aws.onCreateFleet` is a list of rules; for every override of a call the first rule whose `when`
fits decides. As EC2 does, the call takes the cheapest override that is not refused, and reports the
refusals on the way to it; only when all are refused there is no instance. An instance whose rule
says `joins: true` is a node before the next step, with the `allocatable` and `taints` of the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from nodewright_controller.api.labels import NODEPOOL, ON_DEMAND, SPOT
from nodewright_controller.api.node import Taint
from nodewright_controller.aws.fleet import FleetError, FleetInstance, FleetResult, offered
from nodewright_controller.aws.tags import from_list
from nodewright_controller.kernel.resources import Resources

Rule = Mapping[str, Any]
Override = Mapping[str, Any]

_AWS_KEYS: Final = frozenset({"onCreateFleet", "instances", "cachedDescribe"})
_RULE_KEYS: Final = frozenset(
    {"when", "error", "message", "result", "joins", "allocatable", "taints"}
)
_LAUNCHED: Final = "launched"


def _target(request: Mapping[str, Any], _: Override) -> str:
    return str(request["TargetCapacitySpecification"]["DefaultTargetCapacityType"])


def _pool(request: Mapping[str, Any], _: Override) -> str:
    return from_list(request["TagSpecifications"][0]["Tags"]).get(NODEPOOL, "")


def _field(name: str) -> Callable[[Mapping[str, Any], Override], str]:
    return lambda _, override: str(override[name])


_WHEN: Final[Mapping[str, Callable[[Mapping[str, Any], Override], str]]] = {
    "capacityType": _target,
    "nodePool": _pool,
    "zone": _field("AvailabilityZone"),
    "instanceType": _field("InstanceType"),
    "imageId": _field("ImageId"),
    "subnet": _field("SubnetId"),
    "subnetId": _field("SubnetId"),
    "subnetID": _field("SubnetId"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A node as it turns out to be."""

    allocatable: Mapping[str, str | int | float] | None
    """None: as the catalogue promises."""
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What EC2 says, and the node that comes of it, if one does soon."""

    result: FleetResult
    joined: Joined | None = None


def answer(aws: Mapping[str, Any], request: Mapping[str, Any], number: int) -> Answer:
    """Return what EC2 says to a request; `number` makes the id of an instance."""
    rules = [rule for rule in _rules(aws) if isinstance(rule, Mapping)]
    errors = []
    places = sorted(
        offered(request),
        key=lambda each: (each["Priority"], each["InstanceType"], each["AvailabilityZone"]),
    )
    for each in places:
        rule = next((rule for rule in rules if _fits(rule.get("when"), request, each)), {})
        if rule.get("error"):
            errors.append(_error(rule, each))
            continue
        instance = FleetInstance(
            instance_id=f"i-{number:017x}",
            instance_type=each["InstanceType"],
            zone=each["AvailabilityZone"],
            subnet_id=each["SubnetId"],
            image_id=each["ImageId"],
            capacity_type=SPOT if _target(request, each) == SPOT else ON_DEMAND,
        )
        return Answer(FleetResult(instance, tuple(errors)), _joined(rule))
    return Answer(FleetResult(None, tuple(errors)))


def _joined(rule: Rule) -> Joined | None:
    if rule.get("joins") is not True:
        return None
    allocatable, taints = rule.get("allocatable"), rule.get("taints")
    return Joined(
        allocatable=allocatable if isinstance(allocatable, Mapping) else None,
        taints=tuple(_taints(taints)),
    )


def _taints(given: Any) -> Iterator[Taint]:
    for entry in given if isinstance(given, list) else ():
        if isinstance(entry, Mapping):
            yield Taint(
                key=str(entry.get("key", "")),
                value=str(entry.get("value") or ""),
                effect=str(entry.get("effect", "NoSchedule")),
            )


def _error(rule: Rule, place: Override) -> FleetError:
    code = str(rule["error"])
    return FleetError(
        code,
        str(rule.get("message") or f"as the scenario says: {code}"),
        place["InstanceType"],
        place["AvailabilityZone"],
        place["SubnetId"],
    )


def _fits(when: Any, request: Mapping[str, Any], place: Override) -> bool:
    if not isinstance(when, Mapping):
        return True
    return all(
        key in _WHEN and _WHEN[key](request, place) in _words(value) for key, value in when.items()
    )


def _words(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _rules(aws: Mapping[str, Any]) -> list[Any]:
    found = aws.get("onCreateFleet")
    if isinstance(found, Mapping):
        return [found]
    return found if isinstance(found, list) else []


def unreadable(aws: Mapping[str, Any]) -> Iterator[str]:
    """Yield what of the answers nobody understands, one sentence each."""
    yield from _unknown("spec.aws", aws, _AWS_KEYS)
    for position, rule in enumerate(_rules(aws)):
        where = f"spec.aws.onCreateFleet[{position}]"
        if not isinstance(rule, Mapping):
            yield f"{where}: must be a map"
            continue
        yield from _unknown(where, rule, _RULE_KEYS)
        when = rule.get("when")
        if when is not None and not isinstance(when, Mapping):
            yield f"{where}.when: must be a map, so the answer fits every call"
        elif when:
            yield from _unknown(f"{where}.when", when, frozenset(_WHEN), "so it never fits")
        result = rule.get("result")
        try:
            Resources.parse(rule.get("allocatable") or {})
        except (ValueError, TypeError, AttributeError):
            yield f"{where}.allocatable: {rule['allocatable']!r} is no map of amounts"
        if result not in (None, _LAUNCHED):
            yield f"{where}.result: {result!r} is not known; there is {_LAUNCHED!r}, or an error"


def _unknown(
    where: str, found: Mapping[str, Any], known: frozenset[str], outcome: str = ""
) -> Iterator[str]:
    for key in sorted(set(map(str, found)) - known):
        yield f"{where}.{key}: is not known{f', {outcome}' if outcome else ''}"
