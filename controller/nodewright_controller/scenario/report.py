"""What happened, in the words of the vocabulary: plain values that print as JSON, and as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nodewright_controller.aws.fleet import offered_subnets
from nodewright_controller.kernel.timing import format_duration
from nodewright_controller.scenario.matching import bare
from nodewright_controller.scenario.outcome import ClaimView, LaunchPass, Outcome, Round
from nodewright_controller.scenario.runner import missing_step_text


def as_words(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as JSON values; keys that no step filled are left out."""
    found: dict[str, Any] = {"name": outcome.name}
    if outcome.rounds:
        found |= _rounds(outcome)
    if outcome.launches:
        found |= _launches(outcome.launches)
    if outcome.validation:
        found["validation"] = {n: list(p) or "ok" for n, p in outcome.validation.items()}
    if outcome.allowed:
        found["allowedDisruptions"] = outcome.allowed
    for key, texts in (("warnings", outcome.warnings), ("lint", outcome.lint)):
        if texts:
            found[key] = list(texts)
    if outcome.missing_steps:
        found["missing"] = [missing_step_text(name) for name in outcome.missing_steps]
    return found


def _launches(launches: Sequence[LaunchPass]) -> dict[str, Any]:
    fleets = [fleet for each in launches for fleet in each.fleets]
    last = launches[-1]
    span = format_duration(last.retry_after) if last.retry_after else ""
    found: dict[str, Any] = {
        "createFleetCalls": len(fleets),
        "nodeClaimsLaunched": [name for each in launches for name in each.launched],
        "unavailableSubnets": sorted(last.full_subnets),
        "zoneStillAvailable": sorted(last.open_zones),
        "offeringUnavailable": [
            {"instanceType": name, "zone": zone, "capacityType": kind, "for": span}
            for name, zone, kind in sorted(last.unavailable)
        ],
        "launches": [launch_words(each) for each in launches],
    }
    if fleets:
        found["createFleetSubnets"] = sorted(
            {subnet for fleet in fleets for subnet in offered_subnets(fleet.request)}
        )
    return found


def _rounds(outcome: Outcome) -> dict[str, Any]:
    first, last = outcome.rounds[0], outcome.rounds[-1]
    kinds = sorted({one.kind for one in last.pending})
    return {
        **({"pendingError": kinds[0]} if len(kinds) == 1 else {}),
        "newNodeClaims": [_claim(claim) for claim in first.claims],
        "newNodeClaimCount": len(first.claims),
        "zoneCounts": {
            "sorted": sorted(Counter(c.zone for c in first.claims).values(), reverse=True)
        },
        "nominations": {node: _names(pods) for node, pods in first.nominations.items()},
        "pending": [bare(one.pod) for one in last.pending],
        "pendingCount": len(last.pending),
        "pendingErrors": {bare(one.pod): one.kind for one in last.pending},
        "errors": {bare(one.pod): one.text for one in last.pending},
        "events": {bare(one.pod): one.event for one in last.pending},
        "afterRounds": {
            str(number): _round(each) for number, each in enumerate(outcome.rounds, start=1)
        },
    }


def _round(each: Round) -> dict[str, Any]:
    return {
        "newNodeClaims": [_claim(claim) for claim in each.claims],
        "nominations": {node: _names(pods) for node, pods in each.nominations.items()},
        "pending": [bare(one.pod) for one in each.pending],
        "totalNodeClaims": each.total_node_claims,
    }


def _claim(claim: ClaimView) -> dict[str, Any]:
    return {
        "name": claim.name,
        "nodePool": claim.node_pool,
        "instanceType": claim.instance_type,
        "zone": claim.zone,
        "capacityType": claim.capacity_type,
        "price": claim.usd_per_hour,
        "pods": _names(claim.pods),
        "labels": dict(sorted(claim.labels.items())),
        "daemonOverhead": claim.daemon_overhead.format(),
        "allocatable": claim.allocatable.format(),
        "instanceTypes": list(claim.instance_types),
        "offerings": [list(key) for key in sorted(claim.offered)],
    }


def launch_words(each: LaunchPass) -> dict[str, Any]:
    """Return a launch step as JSON values."""
    return {
        "launched": list(each.launched),
        "failed": list(each.failed),
        "createFleet": [
            {
                "nodeClaim": fleet.node_claim,
                "imageIds": list(fleet.images),
                "tags": dict(fleet.tags),
                "error": fleet.error,
                "request": fleet.request,
            }
            for fleet in each.fleets
        ],
        "events": [list(event) for event in each.events],
    }


def _names(pods: Iterable[str]) -> list[str]:
    return [bare(pod) for pod in pods]


def as_lines(outcome: Outcome) -> Iterator[str]:
    """Yield the outcome for a person to read."""
    yield outcome.name
    for number, each in enumerate(outcome.rounds, start=1):
        yield f"round {number}: {_count(len(each.claims), 'new claim')}, {_total(each)}"
        yield from (f"  {line}" for line in _round_lines(each))
    for each_launch in outcome.launches:
        yield from _launch_lines(each_launch)
    for name, problems in outcome.validation.items():
        yield f"{name}: {'; '.join(problems) or 'ok'}"
    yield from _budget_lines(outcome)
    yield from (f"warning: {text}" for text in outcome.warnings)
    yield from (f"hint: {text}" for text in outcome.lint)
    yield from (missing_step_text(name) for name in outcome.missing_steps)


def _round_lines(each: Round) -> Iterator[str]:
    for claim in each.claims:
        where = f"{claim.instance_type} {claim.capacity_type} {claim.zone}"
        price = f"${claim.usd_per_hour:.4f}/h"
        yield f"{claim.name}: {where} {price} for {_some(claim.pods)}"
    for node, pods in each.nominations.items():
        yield f"{node}: takes {_some(pods)}"
    yield from (one.text for one in each.pending)


def _launch_lines(each: LaunchPass) -> Iterator[str]:
    yield f"launch: {_count(len(each.fleets), 'CreateFleet call')}"
    for fleet in each.fleets:
        yield f"  {fleet.node_claim}: {fleet.error or 'launched'}"
    if each.full_subnets:
        yield f"  without free addresses: {', '.join(sorted(each.full_subnets))}"
    if each.unavailable and each.retry_after:
        listed = ", ".join("/".join(key) for key in sorted(each.unavailable))
        yield f"  not tried again for {format_duration(each.retry_after)}: {listed}"


def _budget_lines(outcome: Outcome) -> Iterator[str]:
    for pool, by_instant in outcome.allowed.items():
        for at, counts in by_instant.items():
            listed = ", ".join(f"{reason} {count}" for reason, count in counts.items())
            yield f"{pool} at {at}: {listed}"


def _total(each: Round) -> str:
    return f"{each.total_node_claims} in all, {_count(len(each.pending), 'pod')} pending"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _some(pods: tuple[str, ...], shown: int = 6) -> str:
    names = _names(pods)
    more = f", +{len(names) - shown}" if len(names) > shown else ""
    return f"{', '.join(names[:shown])}{more}"
