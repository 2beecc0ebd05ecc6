"""Checks of what reaches EC2: CreateFleet calls, their tags, and what is out of stock afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from nodewright_controller.api.labels import SPOT
from nodewright_controller.aws.fleet import offered, offered_subnets, offered_types
from nodewright_controller.kernel.timing import format_duration, parse_duration
from nodewright_controller.scenario.matching import whole_number
from nodewright_controller.scenario.outcome import Fleet
from nodewright_controller.scenario.report import launch_words
from nodewright_controller.scenario.view import NoSuchRound, View

_OFFERING: Final = ("instanceType", "zone", "capacityType")


def _fleets(view: View) -> list[Fleet]:
    return [fleet for each in view.launches for fleet in each.fleets]


def create_fleet(value: Any, view: View) -> Iterator[str]:
    """There was a call, and all calls are like this; `never…` says what none of them offers."""
    fleets = _fleets(view)
    if not fleets:
        yield "EC2 was never called"
    for key, wanted in dict(value).items():
        words, name = set(_words(wanted)), str(key)
        never = name.startswith("never")
        look = _OFFERED.get(f"{name[5:6].lower()}{name[6:]}" if never else name)
        if look is None:
            yield f"{key} is not a known key"
            continue
        have = {str(found) for fleet in fleets for found in look(fleet)}
        if never:
            if have & words:
                yield f"{key}: {_some(have & words)} is offered"
        elif have != words:
            yield f"{key} is {_some(have)}, not {_some(words)}"


def _places(field: str) -> Callable[[Fleet], Iterable[str]]:
    return lambda fleet: (each[field] for each in offered(fleet.request))


def launch_type_count(value: Any, view: View) -> Iterator[str]:
    """Each launch lets EC2 choose from so many types."""
    for name, types in _launched_from(view):
        if len(types) != whole_number(value):
            yield f"{name}: {len(types)}, not {value}"


def cheapest(value: Any, view: View) -> Iterator[str]:
    """Among what each launch offers, this type is the cheapest."""
    for claim in view.first.claims:
        if claim.instance_type != str(value):
            yield f"{claim.name}: {claim.instance_type}, not {value}"
    if not view.first.claims:
        yield "there is no claim"


def excluded(value: Any, view: View) -> Iterator[str]:
    """No launch offers these types."""
    for name, types in _launched_from(view):
        if types & set(_words(value)):
            yield f"{name}: {_some(types & set(_words(value)))} is offered"


def _launched_from(view: View) -> list[tuple[str, frozenset[str]]]:
    """Return each claim of the round with the types that a launch of it offers."""
    claims = view.first.claims
    if not claims:
        raise NoSuchRound("there is no claim, so nothing is launched")
    return [(claim.name, frozenset(key[0] for key in claim.offered)) for claim in claims]


def _target(fleet: Fleet) -> str:
    return str(fleet.request["TargetCapacitySpecification"]["DefaultTargetCapacityType"])


_OFFERED: Final[Mapping[str, Callable[[Fleet], Iterable[str]]]] = {
    "imageId": lambda fleet: fleet.images,
    "imageIds": lambda fleet: fleet.images,
    "instanceTypes": lambda fleet: offered_types(fleet.request),
    "capacityType": lambda fleet: (_target(fleet),),
    "zones": _places("AvailabilityZone"),
    "subnets": _places("SubnetId"),
}


def create_fleet_tags(value: Any, view: View) -> Iterator[str]:
    """Every call has the required tags, and none of the forbidden ones."""
    fleets = _fleets(view)
    if not fleets:
        yield "EC2 was never called"
    unknown = sorted(set(value) - {"required", "forbidden"})
    if unknown:
        yield f"{', '.join(unknown)} is not a known key"
    required, forbidden = value.get("required") or (), value.get("forbidden") or ()
    for fleet in fleets:
        for key in required:
            wanted = required[key] if isinstance(required, Mapping) else None
            if key not in fleet.tags or (wanted is not None and fleet.tags[key] != str(wanted)):
                yield f"{fleet.node_claim}: tag {key} is {fleet.tags.get(key, 'not there')}"
        for key in forbidden:
            if key in fleet.tags:
                yield f"{fleet.node_claim}: tag {key} is there"


def create_fleet_calls_at_most(value: Any, view: View) -> Iterator[str]:
    """EC2 was called no more often than this."""
    calls = len(_fleets(view))
    if calls > whole_number(value):
        yield f"{calls} calls, more than {value}"


def create_fleet_calls(value: Any, view: View) -> Iterator[str]:
    """EC2 was called just so often."""
    calls = len(_fleets(view))
    if calls != whole_number(value):
        yield f"{calls} calls, not {value}"


def create_fleet_subnets(value: Any, view: View) -> Iterator[str]:
    """Exactly these subnets were offered; or, as a map, some were and others were not."""
    found = {subnet for fleet in _fleets(view) for subnet in offered_subnets(fleet.request)}
    if not isinstance(value, Mapping):
        if found != set(_words(value)):
            yield f"{_some(found)}, not {_some(_words(value))}"
        return
    for key, subnets in value.items():
        words = set(_words(subnets))
        if str(key).startswith("round") and str(key)[5:].isdigit():
            part = create_fleet_subnets(subnets, view.after_round(int(str(key)[5:])))
            yield from (f"{key}: {text}" for text in part)
        elif key == "required":
            if words - found:
                yield f"{_some(words - found)} not offered"
        elif key in ("forbidden", "never"):
            if words & found:
                yield f"{_some(words & found)} is offered"
        else:
            yield f"{key} is not a known key"


def unavailable_subnets(value: Any, view: View) -> Iterator[str]:
    """Exactly these subnets are marked as full in the end."""
    found = view.launches[-1].full_subnets
    if found != set(_words(value)):
        yield f"{_some(found)}, not {_some(_words(value))}"


def zone_still_available(value: Any, view: View) -> Iterator[str]:
    """Something can still be launched in these zones; as a map, zone to whether it can."""
    found = view.launches[-1].open_zones
    if isinstance(value, bool):
        tried = {
            each["AvailabilityZone"] for fleet in _fleets(view) for each in offered(fleet.request)
        }
        wanted = dict.fromkeys(sorted(tried), value)
    elif isinstance(value, Mapping):
        wanted = {str(zone): bool(still) for zone, still in value.items()}
    else:
        wanted = dict.fromkeys(_words(value), True)
    for zone, still in wanted.items():
        if (zone in found) != still:
            yield f"{zone} is {'not ' if still else ''}available (there is {_some(found)})"


def node_claims_launched(value: Any, view: View) -> Iterator[str]:
    """So many claims, or these ones, have an instance now."""
    launched = [name for each in view.launches for name in each.launched]
    if isinstance(value, int) or str(value).isdigit():
        if len(launched) != whole_number(value):
            yield f"{len(launched)}, not {value}"
    elif set(launched) != set(_words(value)):
        yield f"{_some(launched)}, not {_some(_words(value))}"


def offering_unavailable(value: Any, view: View) -> Iterator[str]:
    """Each of these offerings is marked as out of stock, for so long."""
    for entry in value if isinstance(value, list) else [value]:
        unknown = sorted(set(entry) - {*_OFFERING, "for"})
        if unknown:
            yield f"{', '.join(unknown)} is not a known key"
        key = tuple(str(entry[part]) for part in _OFFERING)
        marked = [each for each in view.launches if key in each.unavailable]
        if not marked:
            yield f"{'/'.join(key)} is not marked"
        elif "for" in entry:
            yield from _span(f"{'/'.join(key)} is marked for", entry["for"], marked[-1].retry_after)


def retry_spot_after(value: Any, view: View) -> Iterator[str]:
    """Spot is tried again after so long."""
    marked = [
        each for each in view.launches if any(target == SPOT for *_, target in each.unavailable)
    ]
    if not marked:
        yield "spot was never marked as unavailable"
    else:
        yield from _span("spot is tried again after", value, marked[-1].retry_after)


def failed(value: Any, view: View) -> Iterator[str]:
    """So many claims of the round could not be launched."""
    count = sum(len(each.failed) for each in view.launches)
    if count != whole_number(value):
        yield f"{count}, not {value}"


def error(value: Any, view: View) -> Iterator[str]:
    """EC2 answered with this error code."""
    codes = {fleet.error for fleet in _fleets(view) if fleet.error}
    if str(value) not in codes:
        yield f"{_some(codes)}, not {value}"


def _span(what: str, wanted: Any, have: timedelta | None) -> Iterator[str]:
    if have != parse_duration(str(wanted)):
        yield f"{what} {format_duration(have) if have else 'no time'}, not {wanted}"


def _words(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _some(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def launches(value: Any, view: View) -> Iterator[str]:
    """The launch steps came out just like this, in the keys that are named."""
    found = [launch_words(each) for each in view.launches]
    if len(value) != len(found):
        yield f"{len(found)} steps, not {len(value)}"
        return
    for position, (wanted, have) in enumerate(zip(value, found, strict=True)):
        for key, words in dict(wanted).items():
            if have.get(key) != words:
                yield f"[{position}].{key} is {have.get(key, 'not a known key')}, not {words}"
