"""Checks of what reaches EC2: CreateFleet calls, their tags, and what is out of stock afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from nodewright_controller.api.labels import SPOT
from nodewright_controller.aws.fleet import offered_subnets, offered_types
from nodewright_controller.kernel.timing import format_duration, parse_duration
from nodewright_controller.scenario.outcome import Fleet
from nodewright_controller.scenario.view import View


def _fleets(view: View) -> list[Fleet]:
    return [fleet for each in view.launches for fleet in each.fleets]


def create_fleet(value: Any, view: View) -> Iterator[str]:
    """There was a call, and all calls are like this."""
    fleets = _fleets(view)
    if not fleets:
        yield "EC2 was never called"
    types = {name for fleet in fleets for name in offered_types(fleet.request)}
    have = {
        "imageId": {image for fleet in fleets for image in fleet.images},
        "instanceTypes": types,
        "capacityType": {_target(fleet) for fleet in fleets},
    }
    for key, wanted in dict(value).items():
        words = set(_words(wanted))
        if key == "neverInstanceTypes":
            if types & words:
                yield f"neverInstanceTypes: {_some(types & words)} is offered"
        elif key not in have:
            yield f"{key} is not a known key"
        elif have[key] != words:
            yield f"{key} is {_some(have[key])}, not {_some(words)}"


def _target(fleet: Fleet) -> str:
    return str(fleet.request["TargetCapacitySpecification"]["DefaultTargetCapacityType"])


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
    if calls > value:
        yield f"{calls} calls, more than {value}"


def create_fleet_subnets(value: Any, view: View) -> Iterator[str]:
    """Exactly these subnets were offered."""
    found = {subnet for fleet in _fleets(view) for subnet in offered_subnets(fleet.request)}
    if found != set(_words(value)):
        yield f"{_some(found)}, not {_some(_words(value))}"


def node_claims_launched(value: Any, view: View) -> Iterator[str]:
    """So many claims, or these ones, have an instance now."""
    launched = [name for each in view.launches for name in each.launched]
    if isinstance(value, int):
        if len(launched) != value:
            yield f"{len(launched)}, not {value}"
    elif set(launched) != set(_words(value)):
        yield f"{_some(launched)}, not {_some(_words(value))}"


def offering_unavailable(value: Any, view: View) -> Iterator[str]:
    """Each of these offerings is marked as out of stock, for so long."""
    for entry in value:
        key = tuple(str(entry[part]) for part in ("instanceType", "zone", "capacityType"))
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
    if count != value:
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
