"""Checks of provisioning: claims, nominations, and the pods that stay pending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from nodewright_controller.scenario.matching import (
    bare,
    expected_total,
    missing_pods,
    pods_differ,
    unmatched,
    whole_number,
)
from nodewright_controller.scenario.outcome import ClaimView, Refused
from nodewright_controller.scenario.view import View


def new_node_claims(value: Any, view: View) -> Iterator[str]:
    """Every entry has a claim of its own, and there are no other claims."""
    yield from some_new_node_claims(value, view)
    entries = [value] if isinstance(value, Mapping) else value or []
    claims, wanted = view.first.claims, expected_total(entries)
    if len(claims) != wanted:
        made = "; ".join(describe(claim) for claim in claims) or "none"
        yield f"{len(claims)} claims instead of {wanted}: {made}"


def some_new_node_claims(value: Any, view: View) -> Iterator[str]:
    """Every entry has a claim of its own; how many there are is said elsewhere."""
    entries = [value] if isinstance(value, Mapping) else value or []
    if not isinstance(entries, list):
        raise TypeError("newNodeClaims must be a list")
    yield from unmatched(entries, view.first.claims)


def describe(claim: ClaimView) -> str:
    """Return a claim in a few words."""
    pods = ", ".join(bare(pod) for pod in claim.pods[:4])
    more = f", +{len(claim.pods) - 4}" if len(claim.pods) > 4 else ""
    where = f"{claim.instance_type} {claim.capacity_type} {claim.zone}"
    return f"{claim.node_pool} {where} for {pods}{more}"


def new_node_claim_count(value: Any, view: View) -> Iterator[str]:
    """The number of claims of the round."""
    have = len(view.first.claims)
    if have != whole_number(value):
        yield f"{have}, not {value}"


def zone_counts(value: Any, view: View) -> Iterator[str]:
    """How evenly the round spread: claims per zone, or the pods planned onto them."""
    claims = Counter(claim.zone for claim in view.first.claims)
    pods = view.first.zones_of_pods
    for key, wanted in dict(value).items():
        if key == "sorted":
            have = [sorted(counts.values(), reverse=True) for counts in (claims, pods)]
            if sorted(map(whole_number, wanted), reverse=True) not in have:
                yield f"sorted is {have[0]} (of pods: {have[1]}), not {wanted}"
        elif whole_number(wanted) not in (claims.get(key, 0), pods.get(key, 0)):
            yield f"{key} is {claims.get(key, 0)}, not {wanted}"


def total_node_claims(value: Any, view: View) -> Iterator[str]:
    """How many claims there are after the round."""
    have = view.last.total_node_claims
    if have != whole_number(value):
        yield f"{have}, not {value}"


def nominations(value: Any, view: View) -> Iterator[str]:
    """Exactly these pods go to these nodes; a node may be named by its claim."""
    planned = view.first.nominations
    wanted = dict(value or {})
    for name, pods in wanted.items():
        have = planned.get(str(name)) or planned.get(view.first.aliases.get(str(name), ""), ())
        found = _pods_problem(pods, have)
        if found:
            yield f"{name}: {found}"
    if not wanted and planned:
        yield f"there are some: {', '.join(planned)}"


def _pods_problem(wanted: Any, have: tuple[str, ...]) -> str:
    if isinstance(wanted, int):
        return "" if len(have) == wanted else f"{len(have)} pods, not {wanted}"
    if isinstance(wanted, Mapping):
        unknown = sorted(set(wanted) - {"podsAnyOf", "podCount"})
        if unknown:
            return f"{', '.join(unknown)} is not a known key"
        any_of = wanted.get("podsAnyOf", ())
        count = wanted.get("podCount", len(have))
        strangers = [pod for pod in have if missing_pods([bare(pod)], [str(p) for p in any_of])]
        if strangers:
            return f"also {', '.join(bare(pod) for pod in strangers)}"
        return "" if len(have) == count else f"{len(have)} pods, not {count}"
    return pods_differ(wanted or [], have)


def pending(value: Any, view: View) -> Iterator[str]:
    """Exactly these pods stay without a place."""
    left = view.last.pending
    found = pods_differ(value or [], [one.pod for one in left])
    if found:
        reasons = "; ".join(one.text for one in left[:3])
        yield f"{found}{f' ({reasons})' if reasons else ''}"


def pending_count(value: Any, view: View) -> Iterator[str]:
    """How many pods stay without a place."""
    left = view.last.pending
    if len(left) != whole_number(value):
        yield f"{len(left)}, not {value}{_names(left)}"


def pending_error(value: Any, view: View) -> Iterator[str]:
    """Every pod that is left is left for this cause."""
    left = view.last.pending
    if not left:
        yield f"no pod is pending, so none is for {value}"
    for one in left:
        yield from _cause(one, value)


def pending_errors(value: Any, view: View) -> Iterator[str]:
    """These pods are left, each for its cause."""
    left = {one.pod: one for one in view.last.pending}
    by_name = {bare(key): one for key, one in left.items()} | left
    for pod, kind in dict(value).items():
        found = by_name.get(str(pod))
        if found is None:
            yield f"{pod} is not pending"
        else:
            yield from _cause(found, kind)


def _cause(refused: Refused, kind: Any) -> Iterator[str]:
    if str(kind) not in refused.kinds:
        yield f"{bare(refused.pod)} is for {refused.kind}, not {kind} ({refused.text})"


def _names(left: tuple[Refused, ...]) -> str:
    return f" ({', '.join(bare(one.pod) for one in left)})" if left else ""
