"""Expected outcomes against what happened: what matches, what differs, and what is not known."""

from __future__ import annotations

from typing import Any

import pytest
from nodewright_controller.kernel.resources import Resources
from nodewright_controller.scenario.compare import HANDLERS, LATER, differences
from nodewright_controller.scenario.matching import unmatched
from nodewright_controller.scenario.meaning import mentions, says
from nodewright_controller.scenario.outcome import ClaimView, Outcome, Refused, Round

VOCABULARY = frozenset(
    """newNodeClaims newNodeClaimCount zoneCounts nominations pending pendingCount pendingError
    pendingErrors errorMustMention eventMustMention warnings lint event action remove removeOneOf
    never launch launchTypeCount cheapest excluded hourlySaving disrupted blocked replacementFirst
    forcedDeadlineAfter allowedDisruptions timeline createFleet createFleetTags
    createFleetCallsAtMost createFleetSubnets unavailableSubnets zoneStillAvailable
    nodeClaimsLaunched offeringUnavailable retrySpotAfter describeInstances messagesDeleted evicted
    evictionBlockedByPDB nodeClaimsDeleted drifted annotations validation invalid""".split()  # noqa: SIM905
)


def claim(name: str = "apps-1", **changes: Any) -> ClaimView:
    fields: dict[str, Any] = {
        "name": name,
        "node_pool": "apps",
        "pods": ("shop/a", "shop/b"),
        "instance_type": "m9.large",
        "zone": "eu-test-1a",
        "capacity_type": "on-demand",
        "usd_per_hour": 0.1,
        "instance_types": ("m9.large",),
        "labels": {"team": "a"},
        "daemon_overhead": Resources.parse({"cpu": "100m"}),
        "allocatable": Resources.parse({"cpu": "1900m"}),
        "offered": frozenset({("m9.large", "eu-test-1a", "on-demand")}),
    }
    return ClaimView(**(fields | changes))


def outcome(*claims: ClaimView, pending: tuple[Refused, ...] = ()) -> Outcome:
    zones: dict[str, int] = {}
    for found in claims:
        zones[found.zone] = zones.get(found.zone, 0) + len(found.pods)
    one = Round(
        claims=claims,
        nominations={"n1": ("shop/x",)},
        aliases={"n1-claim": "n1"},
        pending=pending,
        zones_of_pods=zones,
        total_node_claims=len(claims),
    )
    return Outcome(name="case", rounds=[one])


def refused(pod: str = "shop/late", kind: str = "nodepool-limit") -> Refused:
    text = f"pod/{pod} starved: pool apps: limit cpu 18 leaves 0  [P301]"
    return Refused(pod=pod, kind=kind, kinds=frozenset({kind}), text=text, event=f"Failed: {text}")


def test_every_word_of_the_vocabulary_is_known() -> None:
    assert set(HANDLERS) | LATER >= VOCABULARY
    assert not set(HANDLERS) & LATER


def test_an_unknown_key_is_a_difference_that_names_it() -> None:
    found = differences({"newNodeClaim": []}, outcome())

    assert [str(one) for one in found] == ["newNodeClaim: is not a known key"]


def test_a_key_of_a_later_step_is_a_difference() -> None:
    found = differences({"hourlySaving": 0.1}, outcome())

    assert "a step that is not there yet" in str(found[0])


@pytest.mark.parametrize(
    "entry",
    [
        {"nodePool": "apps", "pods": ["a"], "instanceType": "m9.large"},
        {"podsExactly": ["b", "shop/a"], "podCount": 2},
        {"podsAnyOf": ["a", "b", "c"], "podCount": 2},
        {"zone": "eu-test-1a", "capacityType": "on-demand", "price": 0.1},
        {"labels": {"team": "a"}, "daemonOverhead": {"cpu": "0.1"}},
        {"allocatable": {"cpu": "1.9", "memory": "0"}},
        {"notOffering": ["m9.large", "eu-test-1a", "spot"]},
    ],
)
def test_a_claim_meets_an_entry(entry: dict[str, Any]) -> None:
    assert list(unmatched([entry], [claim()])) == []


@pytest.mark.parametrize(
    ("entry", "says_so"),
    [
        ({"nodePool": "web"}, "nodePool is apps, not web"),
        ({"pods": ["c"]}, "pods: without c"),
        ({"podsExactly": ["a"]}, "podsExactly: also b"),
        ({"podsAnyOf": ["a"], "podCount": 2}, "podsAnyOf: also b"),
        ({"podsAnyOf": ["c"]}, "none of them is on it"),
        ({"podCount": 1}, "podCount is 2, not 1"),
        ({"labels": {"team": "b"}}, "team is a, not b"),
        ({"daemonOverhead": {"cpu": "200m"}}, "cpu 100m, not 200m"),
        ({"price": 0.2}, "price is 0.1, not 0.2"),
        ({"notOffering": ["m9.large", "eu-test-1a", "on-demand"]}, "is offered"),
        ({"size": "large"}, "unknown keys: size"),
    ],
)
def test_a_claim_misses_an_entry(entry: dict[str, Any], says_so: str) -> None:
    assert says_so in "; ".join(unmatched([entry], [claim()]))


def test_entries_find_claims_in_whatever_order_they_stand() -> None:
    wide, narrow = claim("apps-1"), claim("apps-2", zone="eu-test-1b")

    assert list(unmatched([{"nodePool": "apps"}, {"zone": "eu-test-1a"}], [wide, narrow])) == []
    assert list(unmatched([{"nodePool": "apps", "count": 2}], [wide, narrow])) == []
    assert list(unmatched([{"zone": "eu-test-1b", "count": 2}], [wide, narrow])) != []


def test_claims_beyond_the_list_are_a_difference() -> None:
    found = differences({"newNodeClaims": [{"nodePool": "apps"}]}, outcome(claim(), claim("b")))

    assert "2 claims instead of 1" in str(found[0])
    assert differences({"newNodeClaims": []}, outcome(claim())) != ()


def test_a_count_beside_the_list_says_how_many_claims_there_are() -> None:
    some = {"newNodeClaims": [{"nodePool": "apps"}], "newNodeClaimCount": 2}

    assert differences(some, outcome(claim(), claim("b"))) == ()
    assert differences(some, outcome(claim())) != ()


def test_pending_pods_and_their_causes_are_exact() -> None:
    happened = outcome(pending=(refused(),))

    assert differences({"pending": ["late"], "pendingError": "nodepool-limit"}, happened) == ()
    assert differences({"pendingErrors": {"late": "nodepool-limit"}}, happened) == ()
    assert differences({"pending": []}, happened) != ()
    assert differences({"pendingError": "no-image"}, happened) != ()
    assert differences({"pendingError": "no-image"}, outcome()) != ()


def test_nominations_may_name_the_claim_of_a_node() -> None:
    assert differences({"nominations": {"n1": ["x"]}}, outcome()) == ()
    assert differences({"nominations": {"n1-claim": ["x"]}}, outcome()) == ()
    assert differences({"nominations": {"n2": ["x"]}}, outcome()) != ()
    assert differences({"nominations": {}}, outcome()) != ()


def test_a_round_that_was_never_taken_is_a_difference() -> None:
    found = differences({"afterRounds": {"3": {"totalNodeClaims": 0}}}, outcome())

    assert "no provisioning round 3" in str(found[0])


@pytest.mark.parametrize("block", [{"2": 1}, {"second": {"totalNodeClaims": 1}}, 3])
def test_rounds_that_cannot_be_read_never_pass(block: Any) -> None:
    assert "must be a map of outcomes" in str(differences({"afterRounds": block}, outcome())[0])


def test_a_count_that_is_none_never_passes() -> None:
    (found,) = differences({"newNodeClaims": [{"count": "some"}]}, outcome(claim()))

    assert "cannot be read: 'some' is no count" in str(found)


def test_a_name_may_be_one_of_several() -> None:
    assert differences({"newNodeClaims": [{"zone": ["eu-test-1a", "x"]}]}, outcome(claim())) == ()
    assert differences({"newNodeClaims": [{"zone": ["y", "x"]}]}, outcome(claim())) != ()


def test_words_are_looked_for_in_what_is_shown() -> None:
    happened = outcome(pending=(refused(),))

    assert differences({"errorMustMention": ["apps", "CPU", "18"]}, happened) == ()
    assert differences({"eventMustMention": ["Failed"]}, happened) == ()
    assert differences({"errorMustMention": ["8"]}, happened) != ()


def test_a_number_stands_by_itself() -> None:
    assert mentions("limit cpu 8 leaves 0", "8")
    assert not mentions("limit cpu 18 leaves 0", "8")
    assert not mentions("1.8 cpu", "8")


@pytest.mark.parametrize(
    ("text", "meaning", "same"),
    [
        ("NodePool typo: zone z1 matches no subnet of c", "NodePool typo: zone z1 has no subnet", True),
        ("NodePool good: zone z1 matches no subnet of c", "NodePool typo: zone z1 has no subnet", False),
        ("NodePool typo: zone z1 matches no subnet of c", "NodePool typo: zone z2 has no subnet", False),
        ("gap: reasons Drifted have no budget", "gap: reasons Empty have no budget", False),
    ],
)  # fmt: skip
def test_names_must_be_the_same_and_most_words(text: str, meaning: str, same: bool) -> None:
    assert says(text, meaning) is same
