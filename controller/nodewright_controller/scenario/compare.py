"""An expected outcome against what happened, key by key.

Every key that the expected block names must hold; what it does not name is free. A key that is not
in the vocabulary is a difference of its own, so that no misspelt expectation ever passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from nodewright_controller.scenario import compare_launch as launches
from nodewright_controller.scenario import compare_rounds as rounds
from nodewright_controller.scenario import compare_texts as texts
from nodewright_controller.scenario.outcome import Outcome
from nodewright_controller.scenario.runner import missing_step_text
from nodewright_controller.scenario.view import NoSuchRound, View

Handler = Callable[[Any, View], Iterator[str]]

HANDLERS: Final[Mapping[str, Handler]] = {
    "newNodeClaims": rounds.new_node_claims,
    "newNodeClaimCount": rounds.new_node_claim_count,
    "zoneCounts": rounds.zone_counts,
    "nominations": rounds.nominations,
    "pending": rounds.pending,
    "pendingCount": rounds.pending_count,
    "pendingError": rounds.pending_error,
    "pendingErrors": rounds.pending_errors,
    "totalNodeClaims": rounds.total_node_claims,
    "errorMustMention": texts.error_must_mention,
    "eventMustMention": texts.event_must_mention,
    "event": texts.event,
    "errors": texts.errors,
    "events": texts.events,
    "name": texts.name,
    "warnings": texts.warnings,
    "lint": texts.lint,
    "validation": texts.validation,
    "invalid": texts.invalid,
    "allowedDisruptions": texts.allowed_disruptions,
    "launchTypeCount": launches.launch_type_count,
    "cheapest": launches.cheapest,
    "excluded": launches.excluded,
    "createFleet": launches.create_fleet,
    "createFleetTags": launches.create_fleet_tags,
    "createFleetCallsAtMost": launches.create_fleet_calls_at_most,
    "createFleetSubnets": launches.create_fleet_subnets,
    "launches": launches.launches,
    "createFleetCalls": launches.create_fleet_calls,
    "unavailableSubnets": launches.unavailable_subnets,
    "zoneStillAvailable": launches.zone_still_available,
    "nodeClaimsLaunched": launches.node_claims_launched,
    "offeringUnavailable": launches.offering_unavailable,
    "retrySpotAfter": launches.retry_spot_after,
    "failed": launches.failed,
    "error": launches.error,
}
LATER: Final = frozenset(
    {
        "action",
        "remove",
        "removeOneOf",
        "never",
        "launch",
        "hourlySaving",
        "disrupted",
        "blocked",
        "replacementFirst",
        "forcedDeadlineAfter",
        "drift",
        "consolidation",
        "timeline",
        "describeInstances",
        "messagesDeleted",
        "evicted",
        "evictionBlockedByPDB",
        "nodeClaimsDeleted",
        "drifted",
        "annotations",
    }
)
"""Keys of the vocabulary that belong to steps which the runner cannot take yet."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A key of the expected outcome that does not hold."""

    key: str
    text: str

    @override
    def __str__(self) -> str:
        """Return `key: what differs`."""
        return f"{self.key}: {self.text}"


def differences(expected: Mapping[str, Any], outcome: Outcome) -> tuple[Difference, ...]:
    """Return everything that differs, in the order of the expected block."""
    if outcome.missing_steps:
        return tuple(Difference("run", missing_step_text(name)) for name in outcome.missing_steps)
    return tuple(_block(expected, View(outcome), ""))


def _block(expected: Mapping[str, Any], view: View, prefix: str) -> Iterator[Difference]:
    for name, value in expected.items():
        key = str(name)
        shown = f"{prefix}{key}"
        nested = _nested(key, value, view)
        if nested is not None:
            for label, block, part in nested:
                yield from _block(block, part, f"{prefix}{label}.")
            continue
        handler = HANDLERS.get(key)
        if key == "newNodeClaims" and "newNodeClaimCount" in expected:
            handler = rounds.some_new_node_claims
        if handler is None:
            yield Difference(shown, _unhandled(key))
            continue
        yield from _checked(shown, handler, value, view)


def _unhandled(key: str) -> str:
    if key == "afterRounds" or (key.startswith("round") and key[5:].isdigit()):
        return "must be a map of outcomes (afterRounds: by the number of the round)"
    return "belongs to a step that is not there yet" if key in LATER else "is not a known key"


def _checked(shown: str, handler: Handler, value: Any, view: View) -> Iterator[Difference]:
    try:
        for text in handler(value, view):
            yield Difference(shown, text)
    except NoSuchRound as error:
        yield Difference(shown, str(error))
    except (TypeError, ValueError, KeyError, IndexError) as error:
        yield Difference(shown, f"the expectation cannot be read: {error}")


def _nested(key: str, value: Any, view: View) -> list[tuple[str, Mapping[str, Any], View]] | None:
    """Return the blocks inside a key that looks at another moment, or None if it does not."""
    if key == "afterRounds" and isinstance(value, Mapping):
        if not all(str(n).isdigit() and isinstance(block, Mapping) for n, block in value.items()):
            return None
        return [
            (f"afterRounds.{number}", block, view.after_round(int(number)))
            for number, block in value.items()
        ]
    if key.startswith("round") and key[5:].isdigit() and isinstance(value, Mapping):
        return [(key, value, view.after_round(int(key[5:])))]
    return None
